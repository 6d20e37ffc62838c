"""The fast path of calls that write inputs in place: when it is taken, and that it does what the general way does."""

from __future__ import annotations

import numpy as np
import pytest

import polytc

ADD = "def f(f32[N] W, inout f32[N] Z) { Z[i] += W[i] }"
BOTH = "def f(inout f32[N] Z, f32[N] W) -> (f32[N] S, f32[N] Z) { S[i] = Z[i] - W[i]; Z[i] = Z[i]*W[i] }"


def arrays(n: int = 37) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.integers(-9, 9, n).astype(np.float32), rng.integers(-9, 9, n).astype(np.float32)


def taken(op: polytc.Op, *args: np.ndarray) -> bool:
    """Does the code of the last call take such arrays by the fast path? It runs then."""
    assert op._last is not None
    return op._last.fast_path(args, None) is not None


def test_arrays_are_written_in_place() -> None:
    op, (w, z) = polytc.compile(ADD), arrays()
    before = z.copy()
    for count in (1, 2, 3):
        assert op(w, z) is z
        np.testing.assert_array_equal(z, before + count*w)
    assert taken(op, w, z)


def test_results_come_in_their_order() -> None:
    op, (w, z) = polytc.compile(BOTH), arrays()
    for _ in range(3):
        before = z.copy()
        found = op(z, w)
        assert found.Z is z
        np.testing.assert_array_equal(found.S, before - w)
        np.testing.assert_array_equal(z, before*w)
        z %= 7
    assert taken(op, z, w)


@pytest.mark.parametrize("text", [ADD, BOTH])
def test_others_go_the_general_way(text: str) -> None:
    op = polytc.compile(text)
    first = [a.copy() for a in arrays()]
    op(*first)
    op(*first)
    names = op.inputs
    w, z = arrays()
    locked = w.copy()
    locked.flags.writeable = False
    by_name = {"Z": z.copy(), "W": locked}
    found = op(*(by_name[n] for n in names))
    expected = {"Z": z.copy(), "W": w.copy()}
    wanted = op(*(expected[n] for n in names))
    np.testing.assert_array_equal(by_name["Z"], expected["Z"])
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_arrays_that_share_memory() -> None:
    op = polytc.compile("def f(f32[N] W, inout f32[N] Z) { Z[i] = W[i] + 1 }")
    memory = np.arange(60, dtype=np.float32)
    w, z = memory[:37].copy(), np.zeros(37, np.float32)
    op(w, z)
    op(w, z)
    assert not taken(op, memory[:37], memory[5:42])
    before = memory.copy()
    op(memory[:37], memory[5:42])
    np.testing.assert_array_equal(memory[5:42], before[:37] + 1)


def test_read_only_targets_and_out() -> None:
    op, (w, z) = polytc.compile(ADD), arrays()
    before = z.copy()
    op(w, z)
    op(w, z)
    locked = before.copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(op(w, locked), before + w)
    np.testing.assert_array_equal(locked, before)
    out = np.empty_like(z)
    assert op(w, before, out=out) is out
    np.testing.assert_array_equal(out, before + w)


@pytest.mark.part(2)
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_in_place(dtype: str) -> None:
    name = {"c8": "c64", "c16": "c128"}[dtype]
    rng = np.random.default_rng(2)
    w, z = ((rng.standard_normal((9, 35)) + 1j*rng.standard_normal((9, 35))).astype(dtype) for _ in range(2))
    for value, wanted in (("Z[i,j]*W[i,j]", z*w), ("W[i,j] / Z[i,j]", w/z), ("conj(Z[i,j])*Z[i,j] + W[i,j]", np.conj(z)*z + w),
                          ("exp(Z[i,j])", np.exp(z)), ("Z[8-i,j]*W[i,j]", z[::-1]*w)):
        op = polytc.compile(f"def f({name}[N,M] W, inout {name}[N,M] Z) {{ Z[i,j] = {value} }}" if "8-i" not in value else
                            f"def f({name}[9,M] W, inout {name}[9,M] Z) {{ Y[i,j] = {value}; Z[i,j] = Y[i,j] }}")
        found = z.copy()
        op(w, found)
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == "c8" else 1e-13)
