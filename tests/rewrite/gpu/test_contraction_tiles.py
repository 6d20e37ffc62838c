"""Tiles of contractions: from a machine's numbers, for extents of any size."""

from __future__ import annotations

from math import prod

import pytest

from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program.program import Program
from polytc.rewrite.gpu import contraction_tiles
from polytc.schedule.facts.fusion_groups import partition
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP
from polytc.stages import build

GPU = DEVICES["nvidia-sm90"]


def product(rows: int, depth: int, columns: int) -> Program:
    return build("C[i,j] += A[i,k]*B[k,j]", {"A": (rows, depth), "B": (depth, columns)})


@pytest.mark.parametrize("machine", [GPU, GENERIC_GPU])
@pytest.mark.parametrize("extents", [(512, 512, 512), (37, 53, 29), (2048, 64, 2048), (64, 4096, 64)])
def test_a_group_fits_the_machine(extents: tuple[int, int, int], machine) -> None:
    program = product(*extents)
    (group,) = partition(program, "smart")
    found = contraction_tiles.choose(program, group, machine)
    assert found is not None
    assert found.rows[0] == 1, "neighbouring items take neighbouring columns"
    assert machine.costs.groups.smallest <= prod(found.items) <= min(MAX_WORK_GROUP, machine.max_work_group)
    assert found.elements[0] % found.lanes == 0
    assert found.tile == tuple(i * p for i, p in zip(found.items, found.elements))
    ((index, steps),) = found.depth
    assert index == "k"
    assert steps in contraction_tiles.DEPTHS


def test_too_few_steps_or_columns_gain_nothing() -> None:
    for extents in ((512, 3, 512), (3, 512, 3)):
        program = product(*extents)
        assert contraction_tiles.choose(program, partition(program, "smart")[0], GPU) is None


@pytest.mark.parametrize(("text", "place"), [
    ("C[i,j] += A[i,k]*B[k,j]", 1), ("C[i,j] += A[i,k]*B[k,j]; D[i,j] = C[i,j]*2", 1), ("C[i,j] = A[i,j]*B[i,j]", None)])
def test_the_contraction_of_a_group(text: str, place: int | None) -> None:
    program = build(text, {"A": (64, 64), "B": (64, 64)})
    (group,) = partition(program, "smart")
    assert contraction_tiles.heavy(group) == place
