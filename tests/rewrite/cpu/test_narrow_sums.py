"""Sums in 32 bits: which fit, and that results are numpy's at the ends of what fits."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.machine import AVX2
from polytc.rewrite.cpu import narrow_sums
from polytc.rewrite.cpu.narrow_sums import Narrow
from polytc.stages import build
from tests.rewrite.equal import same_results


def chosen(text: str, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, str] | None = None) -> int:
    program = build(text, shapes, dtypes or {})
    decision = narrow_sums.decide(program, AVX2)
    after = narrow_sums.narrow(program, decision)
    same_results(program, after)
    assert all(narrow_sums.fits(program, AVX2, c) == "" for c in decision.choices)
    return len(decision.choices)


@pytest.mark.parametrize("text", [
    "R[i] += 1 where V[j] < V[i]", "R[i] += i64(V[j] < V[i])", "r += V[j] > 1 ? 3 : -2", "R[i] += u64(V[i] == V[j])",
    "R[i] += 1 where V[j] < V[i], j <= i", "R[i] += (V[j] < V[i] ? 1 : 0)*2 - i64(V[j] > 3)",
])
def test_counts_are_narrow(text: str) -> None:
    assert chosen(text, {"V": (40,)}) == 1


@pytest.mark.parametrize(("text", "dtype"), [
    ("R[i] += i64(V[j] < V[i])", "f64"), ("R[i] += i64(V[j])*(V[i] > 0 ? 1 : 0)", "i64"),
    ("R[i] += j where V[j] < V[i]", "f32"), ("R[i] += i32(V[j] < V[i])", "f32"),
    ("R[i] max= i64(V[j] < V[i])", "f32"), ("R[i] += i64(V[i,j] > 0) where j in 0:8", "f32"),
    ("R[i] += i64(V[j] < V[i])*100000000", "f32"), ("R[i] += i64(V[j])", "i32"), ("R[i] += i64(V[j])", "u32"),
])
def test_others_are_not(text: str, dtype: str) -> None:
    shape = (40, 40) if "V[i,j]" in text else (40,)
    text = text.replace("R[i] += i64(V[j])", "R[i] += i64(V[j]) where i in 0:3") if text.endswith("(V[j])") else text
    assert chosen(text, {"V": shape}, {"V": dtype}) == 0


def test_choices_that_do_not_fit() -> None:
    program = build("R[i] += i64(V[j] < V[i])", {"V": (40,)})
    assert narrow_sums.fits(program, AVX2, Narrow("S1")) == ""
    assert "fit 32" in narrow_sums.fits(program, AVX2, Narrow("S1_init"))
    assert len(narrow_sums.options(program, AVX2)) == 1


@pytest.mark.part(6)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "i2", "?"])
@pytest.mark.parametrize("shape", [(33, 1001), (500, 16)])
def test_counts(dtype: str, shape: tuple[int, int]) -> None:
    a = np.random.default_rng(2).integers(0, 3, shape).astype(dtype)
    for text, axis in (("R[i] += {}", 1), ("R[j] += {}", 0), ("r += {}", None)):
        found = polytc.run(text.format("i64(A[i,j])" if dtype == "?" else "1 where A[i,j] > 1"), A=a)
        np.testing.assert_array_equal(found, (a if dtype == "?" else a > 1).sum(axis=axis))
        assert found.dtype == np.int64


@pytest.mark.parametrize("n", [33_025, 33_027])
def test_products_of_bytes_up_to_the_end(n: int) -> None:
    a, b = np.full((3, n), 255, np.uint8), np.full((n, 40), 255, np.uint8)
    found = polytc.run("C[i,j] += i64(A[i,k])*i64(B[k,j])", A=a, B=b)
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))


def test_the_smallest_numbers() -> None:
    for count in (65_000, 70_000):
        a = np.full((20, count), -32_768, np.int16)
        np.testing.assert_array_equal(polytc.run("R[i] += i64(A[i,j]) - 5", A=a), a.sum(axis=1, dtype=np.int64) - 5*count)


@pytest.mark.part(2)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("n", [1, 15, 16, 1000])
def test_ranks(dtype: str, n: int) -> None:
    v = np.random.default_rng(n).permutation(n).astype(dtype)
    np.testing.assert_array_equal(polytc.run("R[i] += 1 where V[j] < V[i]", V=v), np.argsort(np.argsort(v)))
