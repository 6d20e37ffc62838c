"""What to write instead: the notes of errors about expressions, where the likely intention shows."""

from __future__ import annotations

from collections.abc import Iterable

from polytc.lang.elsewhere import CURES
from polytc.lang.parsing import syntax as sx
from polytc.lang.report import closest

def of_call(fn: str, known: Iterable[str]) -> str:
    """For a function that there is not."""
    return CURES.get(fn.lower()) or closest(fn, known) or "operators are written element by element, with indices"


def of_float_subscript(e: sx.Expr) -> str:
    """For a subscript that is a float."""
    return "divide integers by `//`, which rounds down" if _divides(e) else "cast it: `i64(...)`"


def _divides(e: sx.Expr) -> bool:
    return isinstance(e, sx.Binary) and (e.op == "/" or _divides(e.a) or _divides(e.b))


def of_early_read(tensor: str, target: str) -> list[str]:
    """For a tensor without a writer before the statement that reads it. target: what the statement writes."""
    if tensor != target:
        return [f"write `{tensor}` in a statement before this one, or call it otherwise if it is an input"]
    return [f"where an element follows from another one, begin `{tensor}` and go on in a loop: "
            f"`for i in 1:N {{ {tensor}[i] = {tensor}[i-1] + ... }}`",
            f"an array of the caller that is changed in place is an argument: `def f(inout f32[N] {tensor}) -> ({tensor}) "
            "{ ... }`"]


OF_GUARD = ("where another element stands in its place, choose it by a condition, and guard the read with any number: "
            "`i > 0 ? (A[i-1] else 0) : A[i]`")
"""For a guarded read whose value after `else` is no number."""
