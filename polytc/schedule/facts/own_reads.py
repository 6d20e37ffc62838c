"""Assignments that read their own target: does one instance read what another one writes?

    C[j,i] = C[i,j] where i < j                         no: one triangle is written, the other one read
    P[i] = P[i-1] + v[i]                                yes
"""

from __future__ import annotations

import functools

import islpy

from polytc.poly import isl
from polytc.program import program as pr

OPERATIONS = 100_000
"""Of isl, for one statement."""


@functools.lru_cache(maxsize=256)
def meets_itself(s: pr.Statement) -> bool:
    """May two instances of an assignment touch one element of its target, one of them reading it? True where isl does not
    tell: indices in memory, open sizes, more than its budget."""
    names = [isl.name(i) for i in s.indices]
    mirrored = [f"{i}_other" for i in s.indices]
    others: dict[str, pr.Expr] = {i: pr.Index(o) for i, o in zip(s.indices, mirrored, strict=True)}
    box = [f"{isl.number(int(r.lower))} <= {isl.name(x)} < {isl.number(int(r.upper))}"
           for r, o in zip(s.ranges, mirrored, strict=True) for x in (r.index, o)]
    where = [isl.expr(x) for c in s.where for x in (c, pr.substitute(c, others))]
    apart = " or ".join(f"{n} != {isl.name(o)}" for n, o in zip(names, mirrored, strict=True))
    found = list[str]()
    for read in (r for r in pr.reads(s) if r.tensor == s.target):
        pairs = [(isl.expr(a), isl.expr(pr.substitute(b, others))) for a, b in zip(s.subscripts, read.subscripts, strict=True)]
        if None in where or any(None in p for p in pairs):
            return True
        conditions = [*box, *map(str, where), *(f"{a} = {b}" for a, b in pairs), f"({apart or 'false'})"]
        found.append(" and ".join(conditions))
    said = (e for r in pr.reads(s) for e in (*s.where, *s.subscripts, *r.subscripts))
    around = {i for e in said for i in pr.index_names(e)} - {*s.indices}
    space = ", ".join([*names, *map(isl.name, mirrored), *map(isl.name, sorted(around))])  # one iteration of the loops around
    ctx = isl.new_context()
    try:
        return isl.bounded(ctx, OPERATIONS, lambda: any(
            not islpy.Set.read_from_str(ctx, f"{{ [{space}] : {c} }}").is_empty() for c in found))
    except isl.QuotaExceeded:
        return True
