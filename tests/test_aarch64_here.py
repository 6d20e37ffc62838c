"""What tests/aarch64_here.py finds: kernels for Arm that read or write beside their arrays, and calls that it answers."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import polytc
from polytc.codegen import loops as L
from polytc.program.scalars import F32
from tests.aarch64_here import ARM, PLAIN, EmulatedArm, Stray, emulates, unicorn
from tests.codegen import loop_programs as P

pytestmark = pytest.mark.skipif(unicorn is None, reason="there is no emulator")


def beside(*, read: int, write: int) -> np.ndarray:
    """y[write] = x[read] of arrays of four numbers."""
    x, y = L.Buffer("x", F32, (4,)), L.Buffer("y", F32, (4,))
    body = L.Store(y, (L.const(write),), L.Load(x, (L.const(read),), F32))
    target = EmulatedArm()
    out = np.zeros(4, np.float32)
    code = target.build(target.emit(P.module("beside", (x, y), ("y",), body)))
    target.load(code, 1).run([np.arange(5, 9, dtype=np.float32), out])
    return out


def test_what_is_inside_runs() -> None:
    np.testing.assert_array_equal(beside(read=3, write=0), [8, 0, 0, 0])


@pytest.mark.parametrize("at", [{"read": 4, "write": 0}, {"read": 3, "write": 4}, {"read": -2000, "write": 0}])
def test_what_is_beside_an_array_is_found(at: dict[str, int]) -> None:
    with pytest.raises(Stray):
        beside(**at)


def test_it_is_code_for_arm_and_the_threads_have_halves() -> None:
    """In a pool of two the second half runs as well; the object file says for which processor it is (EM_AARCH64)."""
    target = EmulatedArm()
    low = polytc.lower("B[i] = sin(A[i]) + 1000 * i", target, shapes={"A": (100_003,)}, dtypes={"A": "f64"})
    binary = target.build(low.source)
    assert binary.options["parallel"] != "0"
    assert struct.unpack_from("<H", binary.code, 18) == (183,)
    a, b = np.linspace(-1e6, 1e6, 100_003), np.zeros(100_003)
    target.load(binary, 2).run([a, b])
    np.testing.assert_allclose(b, np.sin(a) + 1000 * np.arange(100_003), rtol=1e-12, atol=1e-12)


def test_which_machines_it_runs() -> None:
    assert emulates(ARM)
    assert emulates(PLAIN)
    for other in (polytc.machine.SVE, polytc.machine.AVX2, polytc.machine.DEVICES["mali"]):
        assert not emulates(other)
