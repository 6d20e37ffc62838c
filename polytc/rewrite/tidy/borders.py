"""Subscripts in pieces (`%`, `clamp`, `min`, `max`, `abs`, `?:`) change their piece at the borders only: what is inside is a
statement of its own, with plain subscripts.

    Y[i] = X[(i+31)%32] + X[(i+1)%32] where i in 0:32   with X[32]
    ->  Y[i] = X[i+31] + X[i+1] where i in 0:1
        Y[i] = X[i-1] + X[i+1] where i in 1:31
        Y[i] = X[i-1] + X[i-31] where i in 31:32

    Y[i] = X[clamp(i-2,0,31)] where i in 0:32           with X[32]
    ->  Y[i] = X[0] where i in 0:2;  Y[i] = X[i-2] where i in 2:32

    Y[i] = i < 20 ? A[i] : B[i-20] where i in 0:50      with A[20], B[30]
    ->  Y[i] = (A[i] else 0.0) where i in 0:20;  Y[i] = (B[i-20] else 0.0) where i in 20:50

What is inside runs in vectors, as a stencil does; a remainder or a comparison for each element would take longer than all else.
Statements in `for` loops are split in their loops. Sums are split along the indices of their results, so that each is made as
before. Sums that use an element many times read a copy instead, see
piecewise_copies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TypeAlias

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, add, interval
from polytc.program.domain import Domain, tighten
from polytc.program.linear import linear, normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, COMPARISONS, I64, DType
from polytc.program.sizes import Size, Undecided, surely
from polytc.program.solutions import Interval, solve
from polytc.rewrite.bounds import at_least
from polytc.schedule.facts.fusion_groups import coincident_indices

INSIDE = 2
"""Of the values of an index, one in so many at least must be inside."""
SMALL = 8
"""A branch of a value that reads becomes a statement of its own where it has one in so many of an index's values at least; what
fewer have is left to masks."""
ALONG = 16
"""Values of an index that walks the target's memory that are a statement of their own at least: shorter pieces of a row are
written together."""
NESTED = 4
"""Pieces inside of each other that are taken apart: `min(max(i, 0), 9)` are two."""

Question: TypeAlias = tuple[Linear, Interval]
"""A form, and the values around the middle one for which an expression stays in one piece."""
Cuts: TypeAlias = dict[str, tuple[int, int]]
"""Index -> the values from where to where all questions have one answer."""


def split_all(program: pr.Program) -> pr.Program:
    """The program with the borders of subscripts in pieces and of values in branches split off."""
    return split(program, values=True)


def split(program: pr.Program, of: Collection[str] | None = None, values: bool = False) -> pr.Program:
    """The program with the borders of subscripts in pieces split off. of: of the statements of these names; None: of all;
    values: values in branches, too."""
    names, statements = Names.of(program), list[pr.Statement]()
    for s in program.statements:
        start = statements.pop() if statements and _starts(statements[-1], s) else None
        try:
            statements += _split(s, start, names, NESTED if of is None or s.name in of else 0, values)
        except Undecided:  # a piece depends on sizes that stay open
            statements += [s] if start is None else [start, s]
    return replace(program, statements=tuple(statements))


def _starts(start: pr.Statement, s: pr.Statement) -> bool:
    """Does a statement give the elements that the next one updates, index by index, what they start from? The parts of the
    update then follow parts of it, so that sums begin in the registers where they are kept."""
    plain = all(isinstance(e, pr.Index) for e in (*start.subscripts, *s.subscripts))
    if start.op is not None or s.op is None or start.target != s.target or not plain or start.loops != s.loops:
        return False
    own = _indices(start)
    once = len(own) == len(set(own)) == len(start.ranges) - start.depth and len(set(_indices(s))) == len(own)
    return once and not start.where and not start.bounds and not pr.reads(start) and all(
        start.by_index[a].lower == s.by_index[b].lower and start.by_index[a].upper == s.by_index[b].upper
        for a, b in zip(own, _indices(s), strict=True))


def _indices(s: pr.Statement) -> list[str]:
    return [e.name for e in s.subscripts if isinstance(e, pr.Index)]


def _split(s: pr.Statement, start: pr.Statement | None, names: Names, rounds: int, values: bool) -> list[pr.Statement]:
    """The parts of a statement, each behind its part of what it starts from."""
    s = _plain(s, values)
    cuts = _cuts(s, values) if rounds else {}
    if not cuts:
        return [s] if start is None else [start, s]
    found = list[pr.Statement]()
    for part, first in _parts(s, start, list(cuts.items()), names):
        if part is not None:
            found += _split(part, first, names, rounds - 1, values)
        elif first is not None:
            found.append(first)
    return found


def _cuts(s: pr.Statement, values: bool) -> Cuts:
    """Where a statement is cut; nowhere if it is left as it is."""
    own = coincident_indices(s)
    if s.bounds or any(r.tensor == s.target for r in pr.reads(s)):
        return {}
    cuts: Cuts = {}
    free = sorted((r for r in s.ranges[s.depth:] if r.index in own), key=lambda r: -int(r.extent))
    asked = [(q, False) for q in questions(s)] + [(q, True) for q in branches(s) if values]
    for (form, ends), both in asked:
        for r in free:
            found = solve(form, *ends, r.index, s.box, every=True) if form.coefficient(r.index) else None
            if found is None:
                continue
            inside = _inside(cuts.get(r.index, (r.lower, r.upper)), found)
            if inside is None or INSIDE * int(inside[1] - inside[0]) < int(r.extent):
                continue
            if not both or _worth(s, r, inside):
                cuts[r.index] = inside
                break
    return {i: ends for i, ends in cuts.items() if ends != (s.by_index[i].lower, s.by_index[i].upper)}


def _worth(s: pr.Statement, r: pr.Range, inside: tuple[int, int]) -> bool:
    """Are the values of an index that a branch leaves to others enough for statements of their own?"""
    parts = [n for n in (int(inside[1] - inside[0]), int(inside[0] - r.lower), int(r.upper - inside[1])) if n > 0]
    along = bool(s.subscripts) and r.index in pr.index_names(s.subscripts[-1])
    return SMALL * (int(r.extent) - parts[0]) >= int(r.extent) and (not along or min(parts) >= ALONG)


def _inside(before: tuple[int, int], found: Interval) -> tuple[int, int] | None:
    """The part of a range where a question has one answer; None where it depends on sizes which that is."""
    low, high = before
    try:
        return low if found[0] is None else max(low, found[0]), high if found[1] is None else min(high, found[1] + 1)
    except Undecided:
        return None


def _parts(s: pr.Statement, start: pr.Statement | None, cuts: list[tuple[str, tuple[int, int]]], names: Names
           ) -> Iterator[tuple[pr.Statement | None, pr.Statement | None]]:
    """The statement as parts: before the inside of the first index, inside, behind it; None where it has no instances. With
    each part goes that of what it starts from. Where sizes stay open, parts may be empty, or the inside end before it begins:
    conditions keep them apart."""
    if not cuts:
        yield s, start
        return
    index, (low, high) = cuts[0]
    r = s.by_index[index]
    for kind, (lower, upper), test in (("before", (r.lower, low), ("<", r.upper)), ("", (low, high), None),
                                       ("behind", (high, r.upper), (">=", low))):
        if surely(lambda lower=lower, upper=upper: lower >= upper):  # type: ignore[misc]
            continue
        part = _named(_ranged(s, index, (lower, upper), test), kind, names)
        first = None
        if start is not None:
            its = _indices(start)[_indices(s).index(index)]
            first = _named(_ranged(start, its, (lower, upper), test), kind, names)
        if _empty(part):
            yield None, first
        else:
            yield from _parts(part, first, cuts[1:], names)


def _ranged(s: pr.Statement, index: str, ends: tuple[int, int], test: tuple[str, int] | None) -> pr.Statement:
    """The statement in a part of a range, and with a comparison of its index that may not hold in all of that."""
    part = replace(s, ranges=tuple(replace(x, lower=ends[0], upper=ends[1]) if x.index == index else x for x in s.ranges))
    if test is None or surely(lambda: ends[1] <= test[1] if test[0] == "<" else ends[0] >= test[1]):
        return part
    return replace(part, where=(*part.where, pr.Binary(test[0], pr.Index(index), pr.Const(test[1], I64), BOOL)))


def _empty(s: pr.Statement) -> bool:
    """Has a statement no instances? Of open sizes there may be some."""
    ends = [n for r in s.ranges for n in r.ends] + [e.value for c in s.where for e in pr.walk(c) if isinstance(e, pr.Const)]
    return not any(isinstance(n, Size) for n in ends) and tighten(Domain(s.box, s.where)).empty


def _named(s: pr.Statement, kind: str, names: Names) -> pr.Statement:
    return replace(s, name=names.label(f"{s.name}_{kind}")) if kind else s


# ---- pieces

def _plain(s: pr.Statement, values: bool) -> pr.Statement:
    """The statement with its subscripts, and values, in the pieces in which they are for all instances."""
    def plain(e: pr.Expr) -> pr.Expr:
        if values and isinstance(e, pr.Select) and not e.skips:
            return _only_piece(s, e)
        if not isinstance(e, pr.Read):
            return e
        return replace(e, subscripts=tuple(pr.map_expr(sub, lambda x: _only_piece(s, x)) for sub in e.subscripts))
    value = pr.map_expr(s.value, plain)
    return replace(s, value=normalise(value)) if value != s.value else s


def _only_piece(s: pr.Statement, e: pr.Expr) -> pr.Expr:
    """The piece of an expression in which all instances are; the expression where there are several."""
    match e:
        case pr.Call(fn="max" | "min", dtype=DType(name="i64")):
            a, b = e.args
            return _chosen(_answer(s, pr.Binary(">=" if e.fn == "max" else "<=", a, b, BOOL)), a, b, e)
        case pr.Call(fn="clamp", dtype=DType(name="i64")):
            low = _only_piece(s, pr.Call("max", e.args[:2], I64))
            return _only_piece(s, pr.Call("min", (low, e.args[2]), I64))
        case pr.Call(fn="abs", dtype=DType(name="i64")):
            negative = pr.Unary("-", e.args[0], I64)
            return _chosen(_answer(s, pr.Binary(">=", e.args[0], pr.Const(0, I64), BOOL)), e.args[0], negative, e)
        case pr.Select():
            return _chosen(_decided(s, e.cond), e.a, e.b, e)
        case pr.Binary(op="%"):
            return _unwrapped(s, e)
        case _:
            return e


def _chosen(known: bool | None, a: pr.Expr, b: pr.Expr, otherwise: pr.Expr) -> pr.Expr:
    return otherwise if known is None else a if known else b


def _decided(s: pr.Statement, e: pr.Expr) -> bool | None:
    """Does a condition hold for all instances, or for none of them? None where that is not known."""
    match e:
        case pr.Const():
            return bool(e.value)
        case pr.Unary(op="!"):
            a = _decided(s, e.a)
            return None if a is None else not a
        case pr.Binary(op="&&" | "||"):
            known = {_decided(s, e.a), _decided(s, e.b)}
            strong = e.op == "||"
            return strong if strong in known else None if None in known else not strong
        case pr.Binary() if e.op in COMPARISONS:
            return _answer(s, e)
        case _:
            return None


def _answer(s: pr.Statement, e: pr.Binary) -> bool | None:
    """The same for a comparison of linear forms."""
    form = _difference(e.a, e.b)
    if form is None:
        return None
    opposite = add(Affine(0), form, -1)
    positive = _at_least(form, 1 if e.op in ("==", "!=", ">", "<=") else 0, s)
    negative = _at_least(opposite, 1, s)
    match e.op:
        case "<" | ">=":
            return None if not (positive or negative) else positive == (e.op == ">=")
        case ">" | "<=":
            return (e.op == ">") if positive else (e.op == "<=") if _at_least(opposite, 0, s) else None
        case _:
            if _at_least(form, 0, s) and _at_least(opposite, 0, s):
                return e.op == "=="
            return e.op == "!=" if positive or negative else None


def _at_least(form: Linear, least: int, s: pr.Statement) -> bool:
    """Is the form `least` or more in the whole box, or, where that depends on sizes, at all instances?"""
    try:
        return interval(form, s.box)[0] >= least
    except Undecided:
        return at_least(form, least, s)


def _unwrapped(s: pr.Statement, e: pr.Binary) -> pr.Expr:
    """A remainder of what does not wrap, or as often for all instances, as a difference."""
    form, size = linear(e.a), _size(e)
    if form is None or size is None:
        return e
    low, high = interval(form, s.box)
    whole = surely(lambda: low // size == high // size)
    return pr.Binary("-", e.a, pr.Const(low // size * size, I64), I64) if whole else e


def _size(e: pr.Binary) -> int | None:
    """The divisor of a remainder."""
    return int(e.b.value) if e.op == "%" and isinstance(e.b, pr.Const) and e.b.value > 0 else None


def _difference(a: pr.Expr, b: pr.Expr) -> Linear | None:
    return linear(pr.Binary("-", a, b, I64)) if a.dtype == b.dtype == I64 else None


def questions(s: pr.Statement) -> Iterator[Question]:
    """What decides which pieces the subscripts of a statement's reads are in."""
    for read in pr.reads(s):
        for sub in read.subscripts:
            for e in pr.walk(sub):
                yield from _of(s, e)


def branches(s: pr.Statement) -> Iterator[Question]:
    """What decides which branches are taken of choices in the value of a statement that read memory. Comparisons of several
    indices are masks (triangles, bands), of which no box takes the one or the other branch for long."""
    for e in pr.walk(s.value):
        if isinstance(e, pr.Select) and not e.skips and any(isinstance(x, pr.Read) for b in (e.a, e.b) for x in pr.walk(b)):
            for c in pr.walk(e.cond):
                if isinstance(c, pr.Binary) and c.op in COMPARISONS:
                    yield from (q for q in _of(s, c) if len(q[0].terms) == 1)


def _of(s: pr.Statement, e: pr.Expr) -> Iterator[Question]:
    pairs: list[tuple[pr.Expr, pr.Expr]] = []
    if isinstance(e, pr.Call) and e.dtype == I64 and e.fn in ("min", "max", "clamp", "abs"):
        pairs = [(e.args[0], other) for other in e.args[1:] or (pr.Const(0, I64),)]
    elif isinstance(e, pr.Binary) and e.op in COMPARISONS:
        pairs = [(e.a, e.b)]
    for a, b in pairs:
        form = _difference(a, b)
        if form is not None:
            yield form, _side(e, interval(form, s.box))
    if isinstance(e, pr.Binary) and (size := _size(e)) is not None and (form := linear(e.a)) is not None:
        turn = _middle(interval(form, s.box)) // size  # how often the middle of its values has wrapped around
        yield form, (int(turn * size), int((turn + 1) * size - 1))


def _middle(ends: tuple[int, int]) -> int:
    return int(ends[0] + ends[1]) // 2


def _side(e: pr.Expr, ends: tuple[int, int]) -> Interval:
    """On which side of 0 is the middle of the values of a difference? At 0 a comparison may be on either."""
    middle, op = _middle(ends), e.op if isinstance(e, pr.Binary) else ""
    if middle > 0:
        return (0 if op not in ("==", "!=", ">", "<=") else 1), None
    return None, (0 if op not in ("==", "!=", "<", ">=") else -1)
