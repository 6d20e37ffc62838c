"""Facts are copied, and sent to other processes, as what they were: exact or not, with what they know of accesses."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import islpy
import pytest

from polytc.poly import dependences, scop
from polytc.stages import build

TEXT = "def f(inout f32[6,7] A, f32[7] v) -> (A, B) { B[i] += A[i,j]*v[j]\n for t in 1:6 { A[t,j] += A[t-1,j]*B[t] } }"
PROGRAM = build(TEXT, {"A": (6, 7), "v": (7,)})
WAYS: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]


def same(a: islpy.UnionMap, b: islpy.UnionMap) -> bool:
    """Are relations of two contexts the same?"""
    ctx = islpy.Context()
    return bool(islpy.UnionMap.read_from_str(ctx, str(a)).is_equal(islpy.UnionMap.read_from_str(ctx, str(b))))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("why", ["", "more than 9 isl operations"])
def test_what_is_computed(way: Callable[[Any], Any], why: str) -> None:
    facts = scop.boxed(PROGRAM, why) if why else scop.extract(PROGRAM)
    other = way(facts)
    assert (other.boxed, other.program, str(other)) == (why, PROGRAM, str(facts))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operations", [10**6, 20])
def test_what_must_run_before_what(way: Callable[[Any], Any], operations: int) -> None:
    facts = scop.extract(PROGRAM)
    found = dependences.analyse(facts, operations)
    assert bool(found.coarse) == (operations == 20)
    other = way(found)
    assert other.coarse == found.coarse
    for name in ("flow", "anti", "output", "reduction", "order"):
        assert same(getattr(other, name), getattr(found, name)), name
    assert same(other.accesses[0], facts.reads)
    assert same(other.accesses[1], facts.writes)
    assert way(replace(found, accesses=None)).accesses is None
