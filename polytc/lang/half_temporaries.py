"""Which temporaries of half type are held in f32, and which are stored as halves.

    S[i] += X[i,j];  Y[i] = S[i] / 4096          # S is f16 for promotion, and held in f32: sums leave the range of f16
    R[i,j] = max(X[i,j], 0);  Y[i] += R[i,j]     # R holds halves alone, so that storing them as such changes nothing

A temporary is stored as a half where that loses nothing: only `=` writes to it, and what it writes are halves (reads of halves,
`f16(e)`, numbers that are halves), chosen among, or changed by functions whose results are halves again. One more is stored
so: a bf16 tensor that a contraction multiplies with another one. Its range is that of f32, and processors have instructions
for such products.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan

from polytc.program import program as pr
from polytc.program.scalars import BF16, DType, rounded

_CLOSED = frozenset({"min", "max", "clamp", "abs", "sign", "floor", "ceil", "trunc", "round"})
"""Functions whose results are halves where their arguments are."""


def held_in_single(statements: Iterable[pr.Statement], types: Mapping[str, DType], candidates: Iterable[str]) -> frozenset[str]:
    """The candidates, temporaries of half type, whose values are kept in f32.

    statements: with the types that promotion gives, before any arithmetic is widened; types: of all tensors.
    """
    body, own = tuple(statements), frozenset(candidates)
    factors = {n for s in body for n in _factors(s)} & own
    exact = {n for n, t in types.items() if t.is_half} - {s.target for s in body if s.target in own and s.op in ("+", "*")}
    exact |= factors
    while lossy := {s.target for s in body if s.target in exact & own - factors
                    and not _is_half(s.value, types[s.target], exact)}:
        exact -= lossy
    updated = {s.target for s in body if s.op is not None} - factors
    return own - exact | own & updated


def _is_half(e: pr.Expr, dtype: DType, exact: set[str]) -> bool:
    """Are all values of the expression, computed without rounding, numbers of the half type? exact: tensors of such numbers."""
    match e:
        case pr.Const():
            return isnan(e.value) or rounded(e.value, dtype) == e.value
        case pr.Read():
            return e.dtype == dtype and e.tensor in exact
        case pr.Cast():
            return e.dtype == dtype and (e.a.dtype.is_float or e.a.dtype.bits == 8)
        case pr.Unary():
            return _is_half(e.a, dtype, exact)
        case pr.Call() if e.fn in _CLOSED:
            return all(_is_half(a, dtype, exact) for a in e.args)
        case pr.Select():
            return _is_half(e.a, dtype, exact) and _is_half(e.b, dtype, exact)
        case _:
            return False


def _factors(s: pr.Statement) -> set[str]:
    """The bf16 tensors that a sum of products multiplies, each element several times."""
    product = s.value.a if isinstance(s.value, pr.Select) else s.value
    if s.op != "+" or not isinstance(product, pr.Binary) or product.op != "*":
        return set()
    a, b = product.a, product.b
    if not (isinstance(a, pr.Read) and isinstance(b, pr.Read) and a.dtype == b.dtype == BF16):
        return set()
    ours, theirs, kept = _indices(a), _indices(b), {n for e in s.subscripts for n in _indices(e)}
    reduced = (ours & theirs) - kept
    return {a.tensor, b.tensor} if reduced and ours - theirs and theirs - ours else set()


def _indices(e: pr.Expr) -> set[str]:
    return {n.name for n in pr.walk(e) if isinstance(n, pr.Index)}
