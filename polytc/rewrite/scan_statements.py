"""Statements that are scans: which are, what combines, and what comes new at each place.

    for i in 1:9 { P[i] = P[i-1] + v[i] }       a scan along i by +, of the terms v[i], from what stands in P[0]
    for i in 1:9 { x[i] += x[i-1] }             a scan along i by +, of the terms x[i], from what stands in x[0]

Operators are associative and commutative; a scan is alone in a `for` loop, or an assignment that reads its neighbour (see
rewrite.tidy.scan). rewrite.parallel_scans makes them in blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.linear import linear, normalise
from polytc.program.scalars import I64, REDUCTIONS, DType, identity
from polytc.program.sizes import shortfall


@dataclass(frozen=True)
class Scan:
    """along: the index; op: what combines; before: the read of the element before; term: what comes new at each place; lead:
    what comes before the first one; start: what the place before that gets, None if something else writes it; dtype: of all."""

    along: pr.Range
    op: str
    before: pr.Read
    term: pr.Expr
    lead: pr.Expr
    start: pr.Expr | None
    dtype: DType

    @property
    def neutral(self) -> pr.Expr:
        """What changes nothing: of sums of floats -0, as 0 - 0 is 0."""
        e = pr.Const(identity(self.op, self.dtype), self.dtype)
        return pr.Unary("-", e, self.dtype) if self.op == "+" and self.dtype.is_float else e

    def joined(self, a: pr.Expr, b: pr.Expr) -> pr.Expr:
        """Both put together."""
        return pr.Call(self.op, (a, b), self.dtype) if self.op in ("min", "max") else pr.Binary(self.op, a, b, self.dtype)


def scan_of(program: pr.Program, s: pr.Statement) -> Scan | None:
    """The statement as a scan along its last index, alone in a `for` loop over it if in one."""
    plain = not (s.where or s.bounds or pr.scatters(s)) and s.ranges
    alone = not s.loops or len(s.loops) == 1 and sum(x.loops[:1] == s.loops for x in program.statements) == 1
    if not plain or not alone:
        return None
    along = s.ranges[0] if s.loops else s.ranges[-1]
    if shortfall(along.extent) is None:
        return None
    combined = _combined(s)
    dtype = program.tensor(s.target).dtype
    if combined is None or program.precise and dtype.is_float and combined[0] in ("+", "*") or dtype.is_half:
        return None
    op, parts = combined
    before = next((n for n, e in enumerate(parts) if isinstance(e, pr.Read) and _is_neighbour(s, e, along.index)), None)
    if before is None or parts[before].dtype != dtype or parts[1 - before].dtype != dtype:
        return None
    read, term = parts[before], parts[1 - before]
    assert isinstance(read, pr.Read)
    own = [r for r in pr.walk(term) if isinstance(r, pr.Read) and r.tensor == s.target]
    if any(r.subscripts != s.subscripts for r in own):
        return None
    return Scan(along, op, read, term, _first(read, along, op, dtype), None, dtype)


def _first(before: pr.Read, along: pr.Range, op: str, dtype: DType) -> pr.Read:
    """What stands before the first place, which may not be there where there is nothing to scan."""
    found = normalise(pr.substitute(before, {along.index: pr.Const(along.lower, I64)}))
    assert isinstance(found, pr.Read)
    missing = shortfall(along.extent) and found.default is None
    return replace(found, default=pr.Const(identity(op, dtype), dtype)) if missing else found


def with_start(found: Scan, s: pr.Statement, start: pr.Statement | None) -> Scan | None:
    """The scan with what a statement right before it does, writing what stands before the first places; None if none does.

        P[0] = v[0];  for i in 1:9 { P[i] = P[i-1] + v[i] }          a scan of nine terms from nothing
        P[0] = 5.0;  for i in 1:9 { P[i] = P[i-1] + v[i] }           one of eight terms from 5, which P[0] gets
    """
    kept = [r for r in s.ranges if r is not found.along]
    if start is None or start.target != s.target or len(start.ranges) != len(kept) or shortfall(found.along.extent) or \
            start.op is not None or start.where or start.bounds or start.loops or found.before.default is not None:
        return None
    at: dict[str, pr.Expr] = {found.along.index: pr.Const(found.along.lower - 1, I64)}
    place = [normalise(pr.substitute(e, at)) for e in s.subscripts]
    names = _renamed(start.subscripts, place)
    ends = {r.index: (r.lower, r.upper) for r in kept}
    same = all(ends.pop(names.get(r.index, ""), None) == (r.lower, r.upper) for r in start.ranges)
    values: dict[str, pr.Expr] = {theirs: pr.Index(mine) for theirs, mine in names.items()}

    def moved(e: pr.Expr) -> pr.Expr:
        return normalise(pr.substitute(e, values))
    if not same or [moved(e) for e in start.subscripts] != place or any(r.tensor == s.target for r in pr.reads(start)):
        return None
    value, first = moved(start.value), normalise(pr.substitute(found.term, at))
    lead = found.neutral if value == first else _other(found.op, value, first)
    if lead is not None:
        return replace(found, along=replace(found.along, lower=found.along.lower - 1), lead=lead)
    return replace(found, lead=value, start=value)


def _renamed(theirs: Sequence[pr.Expr], mine: Sequence[pr.Expr]) -> dict[str, str]:
    """The indices that stand alone in one's subscripts, and those in their places."""
    forms = [(linear(a), linear(b)) for a, b in zip(theirs, mine, strict=True)]
    pairs = [(a.index, b.index) for a, b in forms if a is not None and b is not None]
    return {a: b for a, b in pairs if a is not None and b is not None}


def _other(op: str, value: pr.Expr, term: pr.Expr) -> pr.Const | None:
    """The constant that a value puts together with a term, if that is what it is."""
    parts = value.args if isinstance(value, pr.Call) and value.fn == op else \
        (value.a, value.b) if isinstance(value, pr.Binary) and value.op == op else ()
    return next((e for n, e in enumerate(parts) if isinstance(e, pr.Const) and parts[1 - n] == term), None) \
        if len(parts) == 2 else None


def _combined(s: pr.Statement) -> tuple[str, Sequence[pr.Expr]] | None:
    """The operator and the two operands of `P[i] = a + b`, or of `P[i] += b` in a loop."""
    if s.op is not None:
        return (s.op, (s.value, pr.Read(s.target, s.subscripts, s.value.dtype))) if s.loops else None
    if isinstance(s.value, pr.Call) and s.value.fn in ("min", "max") and len(s.value.args) == 2:
        return s.value.fn, s.value.args
    if isinstance(s.value, pr.Binary) and s.value.op in REDUCTIONS:
        return s.value.op, (s.value.a, s.value.b)
    if isinstance(s.value, pr.Binary) and s.value.op == "-":
        return "+", (s.value.a, pr.Unary("-", s.value.b, s.value.b.dtype))
    return None


def _is_neighbour(s: pr.Statement, read: pr.Read, along: str) -> bool:
    """Is it the own target one step back along an index that stands alone in one subscript, with all others plain?"""
    if read.tensor != s.target:
        return False
    back: dict[str, pr.Expr] = {along: pr.Binary("-", pr.Index(along), pr.Const(1, I64), I64)}
    forms = [linear(sub) for sub in s.subscripts]
    names = [f.terms[0][0] for f in forms if f is not None and len(f.terms) == 1 and abs(f.terms[0][1]) == 1]
    plain = None not in forms and sorted(map(str, names)) == sorted(s.indices)
    return plain and [linear(pr.substitute(sub, back)) for sub in s.subscripts] == [linear(sub) for sub in read.subscripts]
