"""Subscripts that wrap around do so at the borders only: the inside is a statement of its own, with plain subscripts.

    Y[i] = X[(i+31)%32] + X[(i+1)%32] where i in 0:32   with X[32]
    ->  Y[i] = X[i+31] + X[i+1] where i in 0:1
        Y[i] = X[i-1] + X[i+1] where i in 1:31
        Y[i] = X[i-1] + X[i-31] where i in 31:32

What is inside runs in vectors, as a stencil does; a remainder for each element would take longer than all else. Statements in
`for` loops are split in their loops. Sums are split along the indices of their results, so that each is made as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from polytc.program import program as pr
from polytc.program.affine import interval
from polytc.program.linear import linear, normalise
from polytc.program.names import Names
from polytc.program.scalars import I64
from polytc.schedule.facts.fusion_groups import coincident_indices

INSIDE = 2
"""Of the values of an index, one in so many at least must be inside."""

Cuts = dict[str, tuple[int, int]]
"""Index -> the values from where to where nothing wraps."""


def split(program: pr.Program) -> pr.Program:
    """The program with the borders of periodic subscripts split off."""
    names, statements = Names.of(program), list[pr.Statement]()
    for s in program.statements:
        s = _plain(s)
        cuts = _cuts(s)
        statements += [_plain(part) for part in _parts(s, list(cuts.items()), names)] if cuts else [s]
    return replace(program, statements=tuple(statements))


def _cuts(s: pr.Statement) -> Cuts:
    """Where a statement is cut; nowhere if it is left as it is."""
    own = coincident_indices(s)
    if s.bounds or any(r.tensor == s.target for r in pr.reads(s)):
        return {}
    cuts: Cuts = {}
    for e in _remainders(s):
        found = _inside(s, e, [r for r in s.ranges if r.index in own and r.index not in s.indices[:s.depth]])
        if found is None:
            return {}
        index, low, high = found
        before = cuts.get(index, (low, high))
        cuts[index] = (max(low, before[0]), min(high, before[1]))
    cuts = {i: (max(low, s.by_index[i].lower), min(high, s.by_index[i].upper)) for i, (low, high) in cuts.items()}
    most = all(INSIDE * (high - low) >= s.by_index[i].extent for i, (low, high) in cuts.items())
    return cuts if most else {}


def _inside(s: pr.Statement, e: pr.Binary, own: list[pr.Range]) -> tuple[str, int, int] | None:
    """The index along which a remainder is cut, and the values from where to where it wraps no more than at first."""
    form, size = linear(e.a), _size(e)
    if form is None or size is None:
        return None
    steps = {i: c for i, c in form.terms if abs(c) == 1}
    r = max((r for r in own if r.index in steps), key=lambda r: r.extent, default=None)
    if r is None:
        return None
    sign = steps[r.index]
    rest = replace(form, terms=tuple((i, c) for i, c in form.terms if i != r.index))
    low, high = interval(rest, s.box)
    turn = int(sum(interval(form, s.box)) // 2 // size)  # how often the middle of its values has wrapped around
    first, last = int(turn * size - low), int((turn + 1) * size - 1 - high)  # of sign * r
    return (r.index, first, last + 1) if sign > 0 else (r.index, -last, -first + 1)


def _parts(s: pr.Statement, cuts: list[tuple[str, tuple[int, int]]], names: Names) -> Iterator[pr.Statement]:
    """The statement as parts: before the inside of the first index, inside, behind it."""
    if not cuts:
        yield s
        return
    index, (low, high) = cuts[0]
    r = s.by_index[index]
    for kind, (lower, upper) in (("before", (r.lower, low)), ("", (low, high)), ("behind", (high, r.upper))):
        if lower < upper:
            part = replace(s, ranges=tuple(replace(r, lower=lower, upper=upper) if x.index == index else x for x in s.ranges))
            yield from _parts(replace(part, name=names.label(f"{s.name}_{kind}") if kind else s.name), cuts[1:], names)


# ---- remainders

def _plain(s: pr.Statement) -> pr.Statement:
    """The statement without the remainders of what does not wrap, or as often for all instances."""
    def plain(e: pr.Expr) -> pr.Expr:
        if not isinstance(e, pr.Read):
            return e
        return replace(e, subscripts=tuple(pr.map_expr(sub, lambda x: _unwrapped(s, x)) for sub in e.subscripts))
    value = pr.map_expr(s.value, plain)
    return replace(s, value=normalise(value)) if value != s.value else s


def _unwrapped(s: pr.Statement, e: pr.Expr) -> pr.Expr:
    size: Any = _size(e)
    form = linear(e.a) if isinstance(e, pr.Binary) and size is not None else None
    if form is None or not isinstance(e, pr.Binary):
        return e
    low, high = interval(form, s.box)
    if low // size != high // size:
        return e
    return pr.Binary("-", e.a, pr.Const(int(low // size) * size, I64), I64)


def _remainders(s: pr.Statement) -> Iterator[pr.Binary]:
    """The remainders by constants in the subscripts of what a statement reads."""
    for read in pr.reads(s):
        for sub in read.subscripts:
            for x in pr.walk(sub):
                if isinstance(x, pr.Binary) and _size(x) is not None:
                    yield x


def _size(e: pr.Expr) -> int | None:
    """The divisor of a remainder."""
    if isinstance(e, pr.Binary) and e.op == "%" and isinstance(e.b, pr.Const) and e.b.value > 0:
        return int(e.b.value)
    return None
