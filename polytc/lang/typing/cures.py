"""What to write instead: the notes of errors about expressions, where the likely intention shows."""

from __future__ import annotations

from collections.abc import Iterable

from polytc.lang.parsing import syntax as sx
from polytc.lang.report import closest

_ELSEWHERE = {
    "sum": "a sum is an update: `S += A[i]`, `S[i] += A[i,j]`", "prod": "a product is an update: `P *= A[i]`",
    "mean": "a mean is a sum, divided: `S += A[i]; M = S / A.shape[0]`",
    "len": "an extent is written `A.shape[0]`", "size": "an extent is written `A.shape[0]`",
    "matmul": "a matrix product is written `C[i,j] += A[i,k] * B[k,j]`",
    "dot": "a dot product is written `S += A[i] * B[i]`",
    "transpose": "a transposition is written `B[j,i] = A[i,j]`",
    "range": "the bounds of an index are written `where i in lower:upper`",
    "conv2d": "a convolution is written `O[m,h,w] += I[c,h+r,w+s] * W[m,c,r,s]`",
    "argmax": "`(M[i], P[i]) argmax= (A[i,j], j)` gives value and place",
    "argmin": "`(M[i], P[i]) argmin= (A[i,j], j)` gives value and place",
    "relu": "write `max(x, 0)`", "sigmoid": "write `1 / (1 + exp(-x))`", "square": "write `x * x`",
    "where": "a conditional value is written `c ? a : b`",
    "softmax": "in statements: `M max= A[i]; E[i] = exp(A[i] - M); S += E[i]; Y[i] = E[i] / S`",
}
"""Functions of other languages -> what is written here."""


def of_call(fn: str, known: Iterable[str]) -> str:
    """For a function that there is not."""
    return _ELSEWHERE.get(fn.lower()) or closest(fn, known) or "operators are written element by element, with indices"


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

