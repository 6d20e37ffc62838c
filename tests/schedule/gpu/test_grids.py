"""How loops of `for` programs become the grid of a launch, or the items of one group."""

from __future__ import annotations

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.machine import GENERIC_GPU
from polytc.schedule.gpu import batches
from polytc.targets.interp import InterpTarget
from tests.schedule.gpu import test_launches

BACK = """def back(inout f64[N] A, f64[T] w) -> (A) {
    for t in 0:T {
        B[i] = w[t] * A[i+5] + A[i+6]    where i in -5:N-6
        A[i] = B[i-5]                    where i in 0:N-1
    }
}"""
DEEP = """def deep(inout f64[N,N,N,N] A, f64[T] w) -> (A) {
    for t in 0:T {
        B[i,j,k,l] = w[t] * A[i+1,j,k,l] + A[i,j,k,l]    where i in 0:N-1
        A[i,j,k,l] = B[i,j,k,l]                          where i in 0:N-1
    }
}"""


@pytest.mark.parametrize("mode", ["launches", "one group"])
@pytest.mark.parametrize(("text", "shape"), [(BACK, (50,)), (DEEP, (5, 5, 5, 5))])
def test_loops_that_begin_below_zero_and_more_than_a_grid_has(
        text: str, shape: tuple[int, ...], mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles begin with the first iteration, so that one has room for all; of many loops three are those of the grid."""
    monkeypatch.setattr(batches, "outermost", lambda *_: None)
    rng = np.random.default_rng(0)
    given = {"A": rng.random(shape), "w": rng.random(3)}
    p = stages.build(text, {n: a.shape for n, a in given.items()}, {n: a.dtype for n, a in given.items()})
    low = compiler.lower_program(p, InterpTarget(GENERIC_GPU.costing({"launches.launch": test_launches.MODES[mode][0]})),
                                 "polytc decisions 1\ntime_tiles: none\nrotated_buffers: none\n")
    assert str(low.loops).count("thread") == 2 * (1 if text == BACK else 3 if mode == "launches" else 2)
    assert text == DEEP or "if" not in str(low.loops)
    expected = given["A"].copy()
    for factor in given["w"]:
        here = expected.copy()
        expected[:-1] = factor * here[:-1] + here[1:] if text == BACK else factor * here[1:] + here[:-1]
    test_launches.assert_equal(test_launches.run(low, given), {"A": expected})
