"""Errors say what to write instead, and what they say is right: each cure is a program."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polytc
from polytc.errors import CompileError
from polytc.lang.elsewhere import CURES
from polytc.lang.typing import cures

SHAPES: dict[str, tuple[int, ...]] = {"v": (9,), "X": (4, 5), "n": (3,)}
MISTAKES = {
    "Y[i] = v[i/2] where i in 0:9": ("E308", "i/2", "by `//`"),
    "Y[i] = v[i + i/2] where i in 0:4": ("E308", "i + i/2", "by `//`"),
    "Y[i] = v[i*0.5] where i in 0:9": ("E308", "i*0.5", "i64("),
    "Y = conv2d(X, v)": ("E102", "conv2d(X, v)", "a convolution is written"),
    "Y = sum(v[i])": ("E102", "sum(v[i])", "`S += A[i]`"),
    "Y[i] = exo(v[i])": ("E102", "exo(v[i])", "did you mean `exp`?"),
    "Y[i] = quux(v[i])": ("E102", "quux(v[i])", "element by element"),
    "P[i] = P[i-1] + v[i]": ("E212", "P[i-1]", "for i in 1:N"),
    "P[i] = Q[i] + v[i]; Q[i] = P[i]": ("E212", "Q[i]", "before this one"),
    "Y[i] = np.exp(v[i])": ("E001", "np.exp", "by their names alone"),
    "Y[i] = math.sqrt(v[i])": ("E001", "math.sqrt", "by their names alone"),
    "Y[i] = v[i]*1e": ("E001", "1e", "1e-3"),
    "Y[i] = v[i] for i in range(9)": ("E001", "for i in range(9)", "where i in 0:9"),
    "for i in range(9): Y[i] = v[i]": ("E001", "for i in range(9): Y[i] = v[i]", "for i in 0:9 {"),
    "for i in range(9):\n    Y[i] = v[i]": ("E001", None, "for i in 0:9 {"),
    "Y[i] = !v[i] > 0 ? 1 : 0": ("E305", "!v[i]", "!(x > 0)"),
}
"""text -> code, what the caret is under, a part of the notes."""


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(text: str) -> None:
    code, place, cure = MISTAKES[text]
    with pytest.raises(CompileError) as raised:
        polytc.build(text, {n: s for n, s in SHAPES.items() if f"{n}[" in text or f"{n}," in text or f"{n})" in text})
    first = raised.value.diagnostics[0]
    assert first.code == code
    assert first.span is not None
    assert place is None or text[first.span.start:first.span.end] == place
    assert cure in " ".join(first.notes)


CURED = {
    "Y[i] = i > 0 ? (v[i-1] else 0) : v[i] where i in 0:9": lambda v: np.r_[v[0], v[:-1]],
    "P[i] = v[i] where i in 0:1\nfor i in 1:9 { P[i] = P[i-1] + v[i] }": np.cumsum,
    "def f(inout f32[N] v) -> (v) { v[i] = v[i]*2 }": lambda v: 2 * v,
    "Y[i] = v[i//2] where i in 0:9": lambda v: v[np.arange(9) // 2],
    "M max= v[i]; E[i] = exp(v[i] - M); S += E[i]; Y[i] = E[i] / S": lambda v: np.exp(v) / np.exp(v).sum(),
    "(M, P) argmax= (v[i], i); Y[j] = P where j in 0:1": lambda v: [np.argmax(v)],
    "S += v[i]; Y = S / v.shape[0]": np.mean,
}
"""What the notes lead to -> what it gives."""


@pytest.mark.parametrize("text", CURED)
def test_cures(text: str) -> None:
    v = np.random.default_rng(0).random(9).astype(np.float32)
    got = polytc.run(text, v=v.copy())
    np.testing.assert_allclose(got if not isinstance(got, tuple) else got[-1], CURED[text](v), rtol=1e-5)


@pytest.mark.parametrize("fn", CURES)
def test_what_is_written_for_functions_of_other_languages(fn: str) -> None:
    """Each text in the notes is an expression or statements of the language."""
    for text in re.findall("`([^`]+)`", cures.of_call(fn, ())):
        if text in ("where i in lower:upper", "c ? a : b", "+=", "polytc.einsum", "for"):
            continue
        whole = text if re.search("(?<![=<>!])=(?!=)", text) else f"Y = {text}"
        tensors = {"A": (6, 6) if re.search(r"A\[i(,|//)", whole) else (6,), "B": (6, 6) if "B[k,j]" in whole else (6,),
                   "I": (2, 8, 8), "W": (3, 2, 3, 3)}
        whole = whole.replace("Y = A.shape[0]", "Y += A[i]*A.shape[0]")
        polytc.build(whole, {n: s for n, s in tensors.items() if re.search(rf"{n}\[.*", whole.partition("=")[2])},
                     scalars={"x": 0.5} if re.search(r"\bx\b", whole) else None, checked=True)


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_floyd_warshall_without_the_instances_that_change_nothing(target: str) -> None:
    lengths = np.random.default_rng(3).random((9, 9)).astype(np.float32)
    text = "def f(inout f32[N,N] D) -> (D) { for k in 0:N { D[i,j] min= D[i,k] + D[k,j] } }"
    with pytest.raises(CompileError) as raised:
        polytc.run(text, D=lengths.copy())
    cure = re.search("`(where [^`]+)`", str(raised.value))
    assert cure is not None
    wanted = lengths.copy()
    for k in range(9):
        wanted = np.minimum(wanted, wanted[:, k, None] + wanted[k])
    found = polytc.run(text.replace("D[k,j]", f"D[k,j] {cure[1]}"), D=lengths.copy(), target=target)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
