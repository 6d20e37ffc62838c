"""Functions of numbers that are called in expressions: against numpy, on every target; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.errors import CompileError

V, W = np.arange(8, dtype=np.float32) - 3, np.arange(8, dtype=np.float64)
SQ = "def sq(x) -> (y) { y = x*x }\n"

CASES = {
    SQ + "Y[i] = sq(V[i] + 1)": (V + 1) ** 2,
    "def sq(f64 x) -> (y) { y = x*x }\nY[i] = sq(V[i])": V.astype(np.float64) ** 2,
    "def cut(x) -> (i32 y) { t = x/2; y = t + 1 }\nY[i] = cut(V[i])": (V / 2 + 1).astype(np.int32),
    SQ + "def fourth(x) -> (z) { z = sq(sq(x)) }\nS += fourth(V[i]) + sq(2)": np.float32((V ** 4 + 4).sum()),
    "def at(i) -> (j) { j = clamp(i, 0, 7) }\nY[i] = V[at(i-1)] where i in 0:8": V[np.clip(np.arange(8) - 1, 0, 7)],
    SQ + "def f(f32[N] V) -> (Y) { Y[i] += V[i] where sq(i) < 10 }": np.where(np.arange(8) ** 2 < 10, V, 0),
    SQ + "s = sq(V[3] + 2)": np.float32(4),
    SQ + "s = sq(3); Y[i] = V[i] * s": V * np.int64(9) * np.float64(1),
    SQ + "def g(x, a) -> (y) { y = sq(x) > a ? x : -x }\nfor t in 0:8 { P[t] = (P[t-1] else 0) + g(V[t], 5.5) }":
        np.cumsum(np.where(V * V > 5.5, V, -V)),
    SQ + "(M[], J[]) argmax= (sq(V[i]), i)": np.float32(16)}


@pytest.mark.part(4)
@pytest.mark.parametrize("text", CASES)
def test_on_every_target(targets: tuple[str, ...], text: str) -> None:
    for target in targets:
        found = polytc.run(text, V=V, target=target)
        first = np.asarray(found[0] if isinstance(found, tuple) else found)
        np.testing.assert_array_equal(first, CASES[text])
        assert first.dtype == np.asarray(CASES[text]).dtype


def test_what_calls_a_precise_one_is_precise() -> None:
    text = "precise def sq(x) -> (y) { y = x*x }\ndef f(f32[N] V) -> (s) { s += sq(V[i]) }"
    assert lang.build(text, {"V": (8,)}).precise
    assert not lang.build(text.removeprefix("precise "), {"V": (8,)}).precise


@pytest.mark.parametrize(("code", "text", "part"), [
    ("E120", "def sq(x) -> (y) { y = sq(x)*x }\nY[i] = sq(V[i])", "sq -> sq"),
    ("E103", SQ + "Y[i] = sq(V[i], 2)", "sq(x)"),
    ("E121", "def g(x) -> (Y) { Y[i] = x[i] }\nZ[i] = g(V) + V[i]", "a `def` of numbers alone"),
    ("E311", "def d(x) -> (y) { y = x*x*x*x }\nY[i] = d(d(d(d(d(d(d(V[i])))))))", "statement of its own"),
    ("E005", SQ + "Y[i] = V[i]", "sq")])
def test_refusals(code: str, text: str, part: str) -> None:
    with pytest.raises(CompileError, match=code) as e:
        polytc.run(text, V=V)
    assert part in str(e.value)
