"""Loops to work-groups and items: the fastest axis along memory, and no group larger than the machine takes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from polytc.machine import DEVICES, GENERIC_GPU
from polytc.poly import nest
from polytc.rewrite.gpu import division, local_tiles
from polytc.schedule.facts.fusion_groups import partition
from polytc.schedule.gpu import strategy
from polytc.stages import build


@pytest.mark.parametrize("most", [1, 16, 64, 256, 1024])
@pytest.mark.parametrize("extents", [[1], [5], [500], [500, 3], [3, 500], [500, 500], [2, 3, 5], [64, 64, 64], [2, 1, 900],
                                     [2, 2, 30]])
def test_items_of_a_group(extents: list[int], most: int) -> None:
    found = strategy.items(extents, replace(GENERIC_GPU, max_work_group=most))
    assert prod(found) <= most
    assert all(n & (n - 1) == 0 for n in found), "powers of two"
    assert all(n < 2 * e for n, e in zip(found, extents)), "no more than there is to do"
    assert len(found) < 3 or found[2] <= 64, "CUDA has no more along z"
    assert prod(found) >= min(32, most, prod(extents)), "a warp, if there is as much to do"


@pytest.mark.parametrize(("text", "first"), [("Y[i,j] = X[i,j]*2", 1), ("Y[j,i] = X[i,j]*2 + X[j,i]", 1), ("S[j] += X[i,j]", 0),
                                             ("Y[a,b,c,d] = X[a,b]*X[c,d]", 3)])
def test_neighbouring_items_touch_neighbouring_words(text: str, first: int) -> None:
    program = build(text, {"X": (40, 40)})
    (group,) = partition(program, "smart")
    found = strategy.mapping(program, group, GENERIC_GPU, vectors=False)
    assert (found.axes[0][0], found.vector, found.each) == (first, 1, 1)
    assert len(found.axes) <= 3


def test_statements_that_are_cut_are_one_launch() -> None:
    program = build("C[i,j] += A[i,k]*B[k,j]", {"A": (64, 64), "B": (64, 64)})
    assert not any(map(strategy.is_cut, program.statements))
    staged = local_tiles.map_to_work_groups(program, division.own(GENERIC_GPU))
    launches = list(strategy.kernels(staged.statements))
    assert [s for launch in launches for s in launch] == list(staged.statements)
    assert any(all(map(strategy.is_cut, launch)) and len(launch) > 2 for launch in launches)


@pytest.mark.parametrize("device", ["generic-gpu", "nvidia-sm90", "mali"])
def test_the_nest_has_each_statement_once(device: str) -> None:
    program = build("T[i,j] = X[i,j]*2; s[i] += T[i,j]; Y[i,j] = T[i,j]/s[i]", {"X": (40, 50)})
    found = strategy.nest(program, DEVICES[device])
    assert sorted(nest.statements(found)) == sorted(s.name for s in program.statements)
