"""Guards for reads in branches: what happens in bounds may be computed everywhere.

    D[i] = i > 0 ? A[i] - A[i-1] : A[i] where i in 0:9   ->   D[i] = i > 0 ? A[i] - (A[i-1] else 0) : A[i] where i in 0:9

Both sides of a choice may be evaluated. A read that leaves its tensor only where its branch is not taken gets a default, which
is never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polytc.errors import Span
from polytc.lang.soundness.check import violation
from polytc.lang.typing import branches
from polytc.lang.typing.lowered import Lowered
from polytc.lang.typing.ranges import Hull, of_access
from polytc.program import program as pr
from polytc.program import scalars
from polytc.program.domain import Domain


def guarded(s: Lowered, domain: Domain, hulls: Mapping[str, Hull]) -> Lowered:
    """The statement with guards for the reads in branches that need them. hulls: the bounds of the tensors that are known."""
    spans = dict[pr.Read, Span]()

    def change(read: pr.Read, path: branches.Path) -> pr.Read:
        if not path or read.default is not None or read.tensor not in hulls:
            return read
        found = of_access(read.tensor, read.subscripts, hulls[read.tensor], s.span(read), path)
        if all(violation(replace(c, path=()), domain) == {} for c in found) or any(violation(c, domain) != {} for c in found):
            return read
        made = replace(read, default=pr.Const(scalars.zero(read.dtype), read.dtype))
        spans[made] = s.span(read)
        return made

    def of(e: pr.Expr) -> pr.Expr:
        return branches.mapped(e, change)
    if not any(path for e in s.expressions for _, path in branches.reads(e)):
        return s
    s = replace(s, value=replace(s.value, expr=of(s.value.expr)), subscripts=tuple(map(of, s.subscripts)),
                also=tuple(map(of, s.also)), masks=tuple(map(of, s.masks)),
                limits=tuple(replace(b, lower=of(b.lower), upper=of(b.upper)) for b in s.limits))
    return replace(s, spans={**s.spans, **spans}) if spans else s
