"""Fusion and loops of the host leave launches the items that there are."""

from __future__ import annotations

from math import prod

import numpy as np

import polytc
from polytc import compiler
from polytc.machine import DEVICES
from polytc.targets.interp.target import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget

GPU = DEVICES["nvidia-sm90"]
CONCAT = "Y[i,j] = A[i,j] where j in 0:256; Y[i,j] = B[i,j-256] where j in 256:512 -> (Y)"
RECURRENCE = """def r(f32[9,N] x, f32[N,N] W, inout f32[9,32,N] H) -> (H) {
    for t in 1:9 {
        H[t,b,d] = x[t,d] where b in 0:32, d in 0:N
        H[t,b,d] += H[t-1,b,e]*W[e,d] where b in 0:32, d in 0:N
    }
}"""


def items(lowered: compiler.Lowered) -> list[int]:
    return [prod(map(int, launch.global_size)) for launch in lowered.source.launches]


def test_statements_that_share_few_loops_are_kernels_of_their_own() -> None:
    """As the record of decisions says, too."""
    program = polytc.build(CONCAT, {"A": (3136, 256), "B": (3136, 256)})
    lowered = compiler.lower_program(program, OpenCLTarget(GPU))
    assert items(lowered) == [3136 * 256 // 4] * 2  # vectors of four
    again = compiler.lower_program(program, OpenCLTarget(GPU), str(lowered.decisions))
    assert again.source.text == lowered.source.text


def test_the_host_has_the_loop_of_a_recurrence_of_independent_elements() -> None:
    large = polytc.build(RECURRENCE, {"x": (9, 256), "W": (256, 256), "H": (9, 32, 256)})
    lowered = compiler.lower_program(large, OpenCLTarget(GPU))
    assert {launch.loops[0].var for launch in lowered.source.launches}
    assert max(items(lowered)) >= 32 * 256
    rng = np.random.default_rng(6)
    x, w, h = (rng.integers(-2, 3, s).astype("f4") for s in ((9, 16), (16, 16), (9, 32, 16)))
    expected = h.copy()
    for t in range(1, 9):
        expected[t] = x[t] + expected[t - 1] @ w
    found = h.copy()
    polytc.compile(RECURRENCE, InterpTarget(GPU))(x, w, found)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
