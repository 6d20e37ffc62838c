"""Products of complex numbers are made one after another: their parts are no products of parts.

    P[i] *= A[i,k]                                              with c64 A[4,9]
    ->  for k in 0:9 {
            P_re[i] = P[i,0]*A[i,k,0] - P[i,1]*A[i,k,1]
            P[i,1] = P[i,0]*A[i,k,1] + P[i,1]*A[i,k,0]
            P[i,0] = P_re[i]
        }

`P[i] *= A[i]` of an element for each instance is `P[i] = P[i]*A[i]`, without a loop.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.program.names import Names
from polytc.program.scalars import DType


def in_order(s: pr.Statement, dtype: DType, names: Names) -> pr.Statement:
    """The assignment that an update `*=` of a complex tensor is, in loops over all indices that are no subscripts of their own:
    no two instances of one iteration meet in an element then. dtype: of the tensor."""
    inside = s.ranges[s.depth:]
    own = frozenset() if s.bounds else {e.name for e in s.subscripts if isinstance(e, pr.Index)}
    over = tuple(r for r in inside if r.index not in own)
    loops = tuple(names.label(f"{s.name}_{r.index}") for r in over)
    return replace(s, op=None, value=_product(pr.Read(s.target, s.subscripts, dtype), s.value), loops=(*s.loops, *loops),
                   ranges=(*s.ranges[:s.depth], *over, *(r for r in inside if r.index in own)))


def _product(old: pr.Expr, value: pr.Expr) -> pr.Expr:
    """The old element times the value; the old one itself where `where` or a guard leaves the factor out."""
    if isinstance(value, pr.Select) and value.skips:
        return replace(value, a=_product(old, value.a), b=old)
    return pr.Binary("*", old, value, old.dtype)
