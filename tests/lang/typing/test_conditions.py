"""Conditions of indices that are not quasi-affine, which are asked at each instance, and reads with another value than a number
behind `else`: on every target, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.errors import CompileError

R = np.random.default_rng(6)
A = R.integers(-9, 9, (8, 9)).astype(np.int32)
V, Q = R.integers(-9, 9, 9).astype(np.int32), np.array([3, -1, 8, 0, 20, 2, 2, 1, 9])
W = R.integers(-9, 9, 12)
I, J, N = np.arange(8)[:, None], np.arange(9)[None], np.arange(9)
DISC = I * I + J * J <= 9


def shifted(by: int) -> np.ndarray:
    """V[i+by], at the border V[i]."""
    return np.array([V[i + by] if 0 <= i + by < 9 else V[i] for i in range(9)])


CONDITIONS = {
    "Y[i,j] += A[i,j] where i*i + j*j <= 9": np.where(DISC, A, 0),
    "Y[i,j] = 0*A[i,j]; Y[i,j] = A[i,j] where i*i + j*j <= 9": np.where(DISC, A, 0),
    "S[i] += A[i,j] where i*j % 3 == 1, j > i": np.where((I * J % 3 == 1) & (J > I), A, 0).sum(1),
    "S max= A[i,j] where (i & 1) == (j & 1) || i*j < 4": np.where(((I & 1) == (J & 1)) | (I * J < 4), A, -99).max(),
    "S[i] += A[i,j] where sqrt(i*i + j*j) < 4.5": np.where(np.sqrt(I * I + J * J) < 4.5, A, 0).sum(1),
    "S[i] += A[i,j] where r <= 9, r = i*i + j*j": np.where(DISC, A, 0).sum(1),
    "for t in 0:4 { S[t] +=! A[i,j] where i*i + j*j <= t }": np.array([A[t >= I * I + J * J].sum() for t in range(4)]),
    "def f(i32[H,W] A) -> (Y) { Y[i] += A[i,k] where i*k < H }": np.where(I * J < 8, A, 0).sum(1)}

ALTERNATIVES = {
    "Y[i] = (V[i-1] else V[i])": shifted(-1), "Y[i] = V[i+1] else V[i] where i in 0:9": shifted(1),
    "Y[i] = (V[i] else (W[i-4] else 7)) where i in 0:20": np.r_[V, W[5:], [7] * 4],
    "Y[i] += (V[i+k-1] else V[i]) where k in 0:3": shifted(-1) + V + shifted(1),
    "Y[i] = (V[Q[i]] else -V[i])": np.where((Q >= 0) & (Q < 9), V[np.clip(Q, 0, 8)], -V),
    "T[i] = V[i]; Y[i] = (T[i+1] else T[i])": shifted(1), "Y[i] = (V[i-3] else i)": None,
    "for i in 0:9 { P[i] = (P[i-1] else V[8]) + V[i] }": np.cumsum(np.r_[V[8] + V[0], V[1:]]),
    "def f(i32[N] V) -> (Y) { Y[i] = (V[i-1] else V[i]) - (V[i+1] else V[i]) }": shifted(-1) - shifted(1)}
ALTERNATIVES["Y[i] = (V[i-3] else i) where i in 0:9"] = np.r_[0, 1, 2, V[:6]]
del ALTERNATIVES["Y[i] = (V[i-3] else i)"]


def given(text: str) -> dict[str, np.ndarray]:
    return {n: x for n, x in (("A", A), ("V", V), ("W", W), ("Q", Q)) if f"{n}[" in text or f" {n})" in text}


@pytest.mark.part(6)
@pytest.mark.parametrize("text", [*CONDITIONS, *ALTERNATIVES])
def test_on_every_target(targets: tuple[str, ...], text: str) -> None:
    expected = (CONDITIONS | ALTERNATIVES)[text]
    np.testing.assert_array_equal(polytc.evaluate(text, **given(text)), expected)
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **given(text), target=target), expected)
    if text.startswith("def"):
        np.testing.assert_array_equal(polytc.compile(text, symbolic=True)(**given(text)), expected)


def test_the_type_is_that_of_both() -> None:
    both = lang.build("Y[i] = (v[i-1] else w[i])", {"v": (9,), "w": (10,)}, {"v": "f32", "w": "f64"})
    assert both.tensor("Y").dtype.name == "f64"
    assert lang.build("Y[i] = (v[i-1] else i) where i in 0:9", {"v": (9,)}).tensor("Y").dtype.name == "f32"


def test_checked_indices_may_be_anywhere_under_else() -> None:
    text = "Y[i] = (V[Q[i]] else -V[i])"
    np.testing.assert_array_equal(polytc.run(text, V=V, Q=Q, checked=True), ALTERNATIVES[text])
    with pytest.raises(IndexError, match="E418"):
        polytc.run("Y[i] = (V[i+1] else V[Q[i]]) where i in 0:9", V=V, Q=Q, checked=True)


@pytest.mark.parametrize(("code", "text", "part"), [
    ("E203", "S += A[i,0] where i*i <= 9, i in 0:99", "narrow no range"),
    ("E201", "S += A[0,0] * i where i*i <= 9", "narrow no range"),
    ("E214", "Y[i,j] = A[i,j] where i*i + j*j <= 9", "such as `+=`"),
    ("E114", "S[i] += A[i,j] where i*j", "comparison"),
    ("E203", "Y[i] = (V[i-1] else V[9]) where i in 0:9", "reads V[9]"),
    ("E203", "T[i] = V[i] where i in 3:6; Y[i] = (V[i-1] else T[i]) where i in 0:9", "reads T[8]")])
def test_refusals(code: str, text: str, part: str) -> None:
    with pytest.raises(CompileError) as e:
        polytc.run(text, **given(text))
    assert e.value.code == code, str(e.value)
    assert part in str(e.value)
