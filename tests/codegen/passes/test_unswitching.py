"""Loop unswitching: which conditions are tested before loops, and that results stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.codegen import loops
from polytc.codegen.passes import unswitching
from polytc.machine import AVX2, GENERIC_GPU


def branches(text: str, **shapes: tuple[int, ...]) -> int:
    """The tests in the loops of a program."""
    return str(polytc.lower(text, machine=AVX2, shapes=shapes).loops).count("if ")


@pytest.mark.parametrize(("text", "count"), [
    ("S[i] += A[i,j] where K[i] > 0", 1),
    ("S[i] max= A[i,j] where K[i] > 0, j < 500", 1),
    ("S[i] max= A[i,j] where K[i] > 0 && A[i,j] > 0", 1),
    ("S[i] max= A[i,j] where K[j] > 0", 0),
    ("S[i] max= A[i,j] where A[i,j] > K[j]", 0),
])
def test_what_is_tested_before_loops(text: str, count: int) -> None:
    assert branches(text, A=(640, 640), K=(640,)) == count


def test_short_loops_choose() -> None:
    assert branches("S[i] max= A[i,j] where K[i] > 0", A=(640, 8), K=(640,)) == 0


def test_machines_of_slow_branches_keep_more_choices() -> None:
    """The pass alone: a branch that is worth more operations than the loops have is not made."""
    made = polytc.lower("S[i] max= A[i,j] where K[i] > 0", machine=AVX2, shapes={"A": (64, 640), "K": (64,)})
    before = dict(made.passes)[_before("unswitching", made.passes)].kernels[0]
    costs = replace(AVX2.costs, arithmetic=replace(AVX2.costs.arithmetic, mispredicted=1e6))
    assert unswitching.unswitch_kernel(before, replace(AVX2, costs=costs)) == before
    assert unswitching.unswitch_kernel(before, GENERIC_GPU) == before
    assert "if " in str(unswitching.unswitch_kernel(before, AVX2))


def _before(name: str, passes: tuple[tuple[str, loops.Module], ...]) -> str:
    names = [n for n, _ in passes]
    return names[names.index(name) - 1]


def test_not_on_gpus() -> None:
    made = polytc.lower("S[i] max= A[i,j] where K[i] > 0", "opencl", machine=GENERIC_GPU, shapes={"A": (64, 64), "K": (64,)})
    assert not any("if " in line and "K[" in line for line in str(made.loops).splitlines())


@pytest.mark.part(10)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize(("op", "combine"), [("+", np.add), ("max", np.maximum), ("min", np.minimum), ("*", np.multiply)])
def test_results(dtype: str, op: str, combine: np.ufunc) -> None:
    rng = np.random.default_rng(5)
    a = rng.integers(-9, 9, (37, 515)).astype(dtype)
    k, m = rng.integers(-1, 2, 37).astype(np.int32), rng.integers(0, 2, 515).astype(np.int32)
    given = rng.integers(-9, 9, 37).astype(dtype)
    if op == "*":
        a = np.where(a % 2 == 0, a.dtype.type(1), a.dtype.type(-1))
    name = f"{dtype[0]}{int(dtype[1])*8}"
    text = f"def f({name}[N,M] A, i32[N] K, i32[M] L, inout {name}[N] S) {{ S[i] {op}= A[i,j] where K[i] > 0, L[j] > 0 }}"
    expected = np.where(k > 0, combine.reduce(np.where(m > 0, a, a.dtype.type(1 if op == "*" else 0)), axis=1), 0)
    if op in ("max", "min"):
        expected = combine.reduce(a[:, m > 0], axis=1)
    expected = np.where(k > 0, combine(given, expected.astype(dtype)), given)
    for threads in (1, 2):
        np.testing.assert_array_equal(polytc.compile(text, threads=threads)(a, k, m, given.copy()), expected)


def test_zeros_keep_their_signs() -> None:
    text = "def f(f32[N,M] A, i32[N] K, inout f32[N] S) { S[i] += K[i] > 0 ? A[i,j] : 0.0 }"
    a, k = np.zeros((4, 512), np.float32), np.array([0, 1, 0, 1], np.int32)
    found = polytc.compile(text)(a, k, np.full(4, -0.0, np.float32))
    assert not np.signbit(found).any()


def test_what_is_left_out_is_not_read() -> None:
    a, k = np.ones((6, 640), np.float32), np.array([1, 0, 1, 0, 0, 1], np.int32)
    a[k == 0] = np.nan
    found = polytc.compile("S[i] += A[i,j] where K[i] > 0")(a, k)
    np.testing.assert_array_equal(found, np.where(k > 0, 640.0, 0.0))
