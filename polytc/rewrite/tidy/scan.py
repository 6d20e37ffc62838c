"""Prefix reductions become scans: each result follows from its neighbour instead of from the start.

    Y[i,j] += X[i,k] where k <= j, j in 0:9             with X[9,9]
    ->  Y[i,0] = 0.0 + X[i,0];  Y[i,j] = Y[i, j - 1] + X[i,j] where j in 1:9

    for t in 1:9 { x[t] = x[t-1] + u[t] };  Y[j] += u[k] where k <= j, j in 0:9         with inout x[9], u[9]
    ->  ...;  Y[0] = 0.0 + u[0];  Y[j] = Y[j - 1] + u[j] where j in 1:9

The reduction for j + 1 covers that for j, and the value does not depend on j, so that n*n/2 operations become n. Reductions
that run to the end (k >= j) start there, and bounds may be a distance away (k < j). (Gautam & Rajopadhye, Simplifying
Reductions, POPL 2006, for one step of reuse.) No operation is reassociated where the reduction grows with j.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.program.linear import linear, normalise
from polytc.program.names import fresh
from polytc.program.scalars import BOOL, I64, identity
from polytc.program.sizes import surely


@dataclass(frozen=True)
class _Prefix:
    """along: the index of the result; over: the reduced index; step: 1 if the reduction grows with `along`, -1 if against it;
    shift: `along + shift` is the value of `over` that comes new at each place."""

    along: pr.Range
    over: pr.Range
    step: int
    shift: int


def simplify_prefixes(program: pr.Program) -> pr.Program:
    """The program with a scan for each reduction over all elements up to its own place."""
    statements = list[pr.Statement]()
    names = {s.name for s in program.statements}
    for s in program.statements:
        before = statements[-1] if statements else None
        prefix = _prefix(s, precise=program.precise)
        if before is None or prefix is None or not _starts(before, s, program):
            statements.append(s)
            continue
        first = fresh(f"{s.name}_first", names)
        names.add(first)
        kept = [before] if any(r not in s.ranges for r in before.ranges) else []
        statements[-1:] = [*kept, *_scan(s, prefix, replace(before, name=first))]
    return replace(program, statements=tuple(statements))


def _prefix(s: pr.Statement, *, precise: bool) -> _Prefix | None:
    """What the statement reduces over, if that is all places up to its own one, or to one at a distance. Those in
    `for` loops stay: no scan in one is made in blocks (parallel_scans)."""
    if s.loops or s.bounds:
        return None
    form = _difference(s.where[0]) if s.op is not None and len(s.where) == 1 else None
    if form is None or len(form.terms) != 2:
        return None
    ranges = s.by_index
    kept = {f.index for sub in s.subscripts if (f := linear(sub)) is not None}
    along = next((i for i, _ in form.terms if i in kept), None)
    over = next((i for i, _ in form.terms if i not in kept), None)
    if along is None or over is None or form.coefficient(along) != -form.coefficient(over) or abs(form.coefficient(along)) != 1:
        return None
    reduced = [i for i in s.indices if not any(pr.Index(i) in pr.walk(sub) for sub in s.subscripts)]
    places = [sub for sub in s.subscripts if pr.Index(along) in pr.walk(sub)]
    depends = pr.Index(along) in pr.walk(s.value) or any(r.tensor == s.target for r in pr.reads(s))
    a, b = ranges[along], ranges[over]
    step = form.coefficient(along)
    shift = step * form.constant
    if reduced != [over] or len(places) != 1 or depends or (precise and step < 0) or \
            (b.lower, b.upper) != (a.lower + shift, a.upper + shift):
        return None
    return _Prefix(a, b, step, shift)


def _difference(e: pr.Expr) -> Linear | None:
    """`a - b` (less one for strict orders) of a comparison that says it is not negative."""
    if not isinstance(e, pr.Binary) or e.op not in ("<", "<=", ">", ">="):
        return None
    larger, smaller = (e.a, e.b) if e.op in (">", ">=") else (e.b, e.a)
    form = linear(pr.Binary("-", larger, smaller, I64))
    return form if form is None or e.op in ("<=", ">=") else replace(form, constant=form.constant - 1)


def _starts(init: pr.Statement, update: pr.Statement, program: pr.Program) -> bool:
    """Does `init` give every element that the update touches the identity, at the same subscripts?"""
    assert update.op is not None
    dtype = program.tensor(update.target).dtype
    same = init.op is None and init.target == update.target and init.subscripts == update.subscripts and not init.where
    box = update.by_index
    return same and init.value == pr.Const(identity(update.op, dtype), dtype) and \
        all(r.index in box and r.lower <= box[r.index].lower and box[r.index].upper <= r.upper for r in init.ranges)


def _scan(s: pr.Statement, prefix: _Prefix, init: pr.Statement) -> list[pr.Statement]:
    """The element where the scan starts, and all others from their neighbours. Against the index, it counts from the end."""
    assert s.op is not None
    assert isinstance(init.value, pr.Const)
    a, k = prefix.along, prefix.over.index
    mirror = pr.Binary("-", pr.Const(a.lower + a.upper - 1, I64), pr.Index(a.index), I64)
    here: pr.Expr = pr.Index(a.index) if prefix.step > 0 else mirror
    before = pr.Binary("-", here, pr.Const(prefix.step, I64), I64)
    start = pr.Const(a.lower if prefix.step > 0 else a.upper - 1, I64)

    def place(along: pr.Expr) -> tuple[pr.Expr, ...]:
        return tuple(normalise(pr.substitute(sub, {a.index: along})) for sub in s.subscripts)

    def term(over: pr.Expr) -> pr.Expr:
        return normalise(pr.substitute(s.value, {k: pr.Binary("+", over, pr.Const(prefix.shift, I64), I64)}))

    around = tuple(r for r in s.ranges if r.index not in (a.index, k))
    if surely(lambda: a.extent >= 1):
        first = replace(init, subscripts=place(start), value=_combined(s.op, init.value, term(start)), ranges=around)
    else:  # at some sizes there is no first element
        first = replace(init, subscripts=place(here), value=_combined(s.op, init.value, term(here)), ranges=(*around, a),
                        where=(pr.Binary("<=", pr.Index(a.index), pr.Const(a.lower, I64), BOOL),))
    value = _combined(s.op, pr.Read(s.target, place(before), init.value.dtype), term(here))
    # the scan is the innermost loop of the text
    return [first, replace(s, subscripts=place(here), op=None, value=value, where=(),
                           ranges=(*around, replace(a, lower=a.lower + 1)))]


def _combined(op: str, a: pr.Const | pr.Read, b: pr.Expr) -> pr.Expr:
    return pr.Call(op, (a, b), a.dtype) if op in ("min", "max") else pr.Binary(op, a, b, a.dtype)
