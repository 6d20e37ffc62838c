"""Sums into places that are digits of an index: the index becomes its digits, so that places are loops of their own.

    D[c,h//2] += G[c,h]                                 with G[64,128]
    ->  D[c,h_at] += G[c, 2*h_at + h_digit] where c in 0:64, h_at in 0:64, h_digit in 0:2

as the gradients of upsampling are. Elements that other iterations of `h_at` write are others, so that these run at once. The
order of the terms of an element stays. A part of the step `gathered_sums`.
"""

from __future__ import annotations

from polytc.program import program as pr
from polytc.program.names import Names
from polytc.rewrite.index_digits import in_digits


def divided(s: pr.Statement) -> tuple[pr.Range, int] | None:
    """An index of an update of which a subscript of the target is the quotient by a number, and that number: one that divides
    the ends of the range, and by which alone the target's subscripts name the index."""
    if s.op is None or s.bounds or s.loops:
        return None
    for sub in s.subscripts:
        if not (isinstance(sub, pr.Binary) and sub.op == "//" and isinstance(sub.a, pr.Index) and isinstance(sub.b, pr.Const)):
            continue
        r, by = s.by_index[sub.a.name], int(sub.b.value)
        named = [e for x in s.subscripts for e in _named(x, r.index)]
        alone = all(isinstance(e, pr.Binary) and e.op in ("//", "%") and e.a == sub.a and e.b == sub.b for e in named)
        if by > 1 and alone and all(n % by == 0 for n in (r.lower, r.upper)):  # for all sizes, of open ones
            return r, by
    return None


def _named(e: pr.Expr, index: str) -> list[pr.Expr]:
    """The smallest operations around an index, or itself where it stands alone."""
    if e == pr.Index(index):
        return [e]
    return [e if x == pr.Index(index) else x for child in pr.children(e) for x in _named(child, index)]


def split(s: pr.Statement, names: Names) -> pr.Statement:
    """The statement over the digits of such an index."""
    found = divided(s)
    assert found is not None, "digit sums: no quotient"
    r, by = found
    at = pr.Range(names.index(f"{r.index}_at"), r.lower // by, r.upper // by)
    digit = pr.Range(names.index(f"{r.index}_digit"), 0, by)
    return in_digits(s, r, at, digit)
