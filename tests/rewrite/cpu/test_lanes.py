"""Partial results for the lanes of vectors: which reductions get them, what is left over, and that sums stay."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.lang import evaluate
from polytc.machine import AVX2, AVX512
from polytc.rewrite.cpu import lanes
from polytc.stages import build
from tests.rewrite.equal import same_results


@pytest.mark.parametrize("length", [512, 515, 640])
@pytest.mark.parametrize("op", ["+=", "max="])
def test_a_reduction_along_memory(length: int, op: str) -> None:
    before = build(f"S[i] {op} X[i,k]", {"X": (8, length)})
    decision = lanes.decide(before, AVX512)
    (chosen,) = decision.choices
    assert (chosen.statement, chosen.along, chosen.lanes % 16) == ("S1", "k", 0)
    after = lanes.split_reductions(before, decision)
    assert ("S1_rest" in {s.name for s in after.statements}) == (length % chosen.lanes != 0)
    same_results(before, after)


@pytest.mark.parametrize("text", ["S[i] += X[k,i]", "S[i] += X[i,7*k]", "S[i,k] = X[i,k]"])
def test_others_have_no_lanes(text: str) -> None:
    program = build(text, {"X": (64, 512)})
    assert lanes.along(program, program.statements[-1], 8) is None
    decision = lanes.decide(program, AVX2)
    assert not decision.choices
    assert all(not r.acted for r in decision.reasons)


@pytest.mark.parametrize("text", ["S[i] += X[i,2*k]", "S[i] += X[i,4*k]*Y[k]", "S[i] += X[i,511-k]*Y[2*k]"])
def test_small_steps_have_lanes(targets: tuple[str, ...], text: str) -> None:
    shapes = {"X": (64, 512), **({"Y": (130,)} if "Y" in text else {})}
    program = build(text, shapes)
    found = lanes.along(program, program.statements[-1], 8)
    assert found is not None
    assert found.index == "k"
    given = {n: np.random.default_rng(1).integers(-9, 9, s).astype(np.float32) for n, s in shapes.items()}
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **given, target=target), evaluate(program, given)["S"])
