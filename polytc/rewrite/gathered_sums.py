"""Sums that are scattered over a tensor are gathered for each of its elements.

    D[h+r] += W[r]*G[h]                                 with W[3], G[30]
    ->  D[h_at] += W[h_tap]*(G[h_at - h_tap] else 0.0) where h_at in 0:32, h_tap in 0:3

    Y[128*t+k] += F[t,k]                                with F[30,512]
    ->  Y[128*t_at + t_phase] += (F[t_at - t_tap, t_phase + 128*t_tap] else 0.0)
            where t_at in 0:33, t_phase in 0:128, t_tap in 0:4

Those meet in one element for which a*h + r = a*at + phase, with r = a*tap + phase and h = at - tap: one for each tap. No loop
over elements carries anything then, so that they run in vectors and in parallel, and what is left is a convolution like any
other. h leaves its range where a factor is 0 then, as in the padding of a convolution; where none
is, and for other operators, a condition keeps it there, for GPUs. Where a does not divide the values of r,
the sums lie in a tensor of their own, one for each at and phase, before they go to their places; that is done for GPUs, where
nothing else lets items share the work. Sums into quotients, `D[h//2] += G[h]`, are gathered, too (digit_sums).

A rewrite from Program to Program, of sums of products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.program.linear import linear, normalise
from polytc.program.names import Names, initialisation
from polytc.program.scalars import BOOL, I64, identity
from polytc.program.sizes import Size
from polytc.rewrite import digit_sums
from polytc.rewrite.step import Decision, Option, Reasons


@dataclass(frozen=True)
class Gathered:
    """The sums of a statement are gathered."""

    statement: str


@dataclass(frozen=True)
class _Meeting:
    """A subscript `step*outer + sign*inner + constant` of the target. tested: conditions tell where outer leaves its range, as
    no factor is 0 there."""

    dimension: int
    outer: pr.Range
    inner: pr.Range
    step: int
    sign: int
    constant: int
    tested: bool = False

    @property
    def taps(self) -> int:
        """How many terms meet in an element at most."""
        return -(-self.inner.extent // self.step)

    @property
    def ragged(self) -> bool:
        """Do fewer terms meet in some elements, as step does not divide the values of inner?"""
        return self.inner.extent % self.step != 0


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The statements whose sums are gathered: all that can be, as scattered sums run neither in vectors nor in parallel."""
    chosen, why = list[Gathered](), Reasons()
    for s in program.statements:
        found = _meetings(program, s, machine)
        if digit_sums.divided(s) is not None:
            chosen.append(Gathered(s.name))
            why.acts(s.name, "each element gathers the terms whose index has its digits")
        elif found:
            chosen.append(Gathered(s.name))
            told = ", ".join(f"{m.outer.index} and {m.inner.index}" for m in found)
            why.acts(s.name, f"each element gathers the terms of which {told} meet there")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def gather(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen sums gathered."""
    names, chosen = Names.of(program), {c.statement for c in decision.choices}
    tensors, statements = list(program.tensors), list[pr.Statement]()
    for s in program.statements:
        if s.name not in chosen:
            statements.append(s)
        elif digit_sums.divided(s) is not None:
            while digit_sums.divided(s) is not None:
                s = digit_sums.split(s, names)
            statements.append(s)
        else:
            met = _meetings(program, s, decision.machine)
            gathered, cell = _gathered(program, s, met, names)
            made = [gathered]
            if any(m.ragged for m in met):
                tensor, made = _apart(program, gathered, cell, met, names)
                tensors.append(tensor)
            statements += made
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def fits(program: pr.Program, machine: Machine, choice: Gathered) -> str:
    """Why the sums of a statement cannot be gathered; '' if they can."""
    s = program.statement(choice.statement)
    if digit_sums.divided(s) is not None or _meetings(program, s, machine):
        return ""
    return f"{choice.statement} is no sum of products in whose subscripts pairs of indices meet"


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each such sum, that it is gathered or not."""
    return [[Option(), Option((Gathered(s.name),))] for s in program.statements
            if digit_sums.divided(s) is not None or _meetings(program, s, machine)]


# ---- what meets

def _meetings(program: pr.Program, s: pr.Statement, machine: Machine) -> list[_Meeting]:
    """The subscripts of a statement in which two indices meet, if all of it can be gathered; none if it cannot."""
    own, gpu = any(r.tensor == s.target for r in pr.reads(s)), machine.kind == "gpu"
    if s.op is None or s.op != "+" and not gpu or own or s.where or s.bounds or s.value.dtype.kind == "b":
        return []
    found = list[_Meeting]()
    for dimension, sub in enumerate(s.subscripts):
        form = linear(sub)
        if form is None:
            return []
        if len(form.terms) < 2:
            continue
        meeting = _meeting(s, dimension, dict(form.terms), form.constant)
        if meeting is None or meeting.ragged and not gpu:
            return []
        vanishes = s.op == "+" and _vanishes(program, s, meeting)
        if not vanishes and not gpu:
            return []
        found.append(replace(meeting, tested=not vanishes))
    named = [i for sub in s.subscripts for i in pr.index_names(sub)]
    return found if len(named) == len(set(named)) else []


def _meeting(s: pr.Statement, dimension: int, terms: dict[str, int], constant: int) -> _Meeting | None:
    """The one index and the other of a subscript of two. Of equal steps the longer one is replaced; sizes that stay open are
    longer than numbers, and the other one has a number of values."""
    if len(terms) != 2:
        return None
    def length(i: str) -> tuple[int, bool, int]:
        extent = s.by_index[i].extent
        return abs(terms[i]), isinstance(extent, Size), int(extent)
    inner, outer = (s.by_index[i] for i in sorted(terms, key=length))
    step, sign = terms[outer.index], terms[inner.index]
    if isinstance(inner.extent, Size) or isinstance(inner.lower, Size) or step < 1 or abs(sign) != 1:
        return None
    if not isinstance(outer.extent, Size) and -(-inner.extent // step) > outer.extent:
        return None
    return _Meeting(dimension, outer, inner, step, sign, constant)


def _vanishes(program: pr.Program, s: pr.Statement, m: _Meeting) -> bool:
    """Is a factor of the value 0 where the outer index leaves its range, if reads that name it are 0 beside their tensors?"""
    own = [r for r in pr.reads(s) if _names(r, m.outer)]
    outside = any(x == pr.Index(m.outer.index) for x in _beside_reads(s.value))
    plain = all(r.default is None and not r.gathers for r in own)
    return plain and not outside and any(_spans(program, f, m.outer) for f in pr.factors(s.value))


def _spans(program: pr.Program, factor: pr.Expr, outer: pr.Range) -> bool:
    """Is a factor a read that names the index alone, forwards or backwards, in a dimension of just its range, or such a one
    converted?"""
    while isinstance(factor, pr.Cast) or isinstance(factor, pr.Unary) and factor.op == "-":
        factor = factor.a
    if not isinstance(factor, pr.Read):
        return False
    t = program.tensor(factor.tensor)
    return any((low, extent) == (_first(linear(sub), outer), outer.extent)
               for sub, low, extent in zip(factor.subscripts, t.lower, t.shape, strict=True))


def _first(form: Linear | None, outer: pr.Range) -> int | None:
    """The smallest value of a subscript that is the index, or a number less it."""
    if form is None or form.terms not in (((outer.index, 1),), ((outer.index, -1),)):
        return None
    return form.constant + outer.lower if form.terms[0][1] > 0 else form.constant - outer.upper + 1


def _beside_reads(e: pr.Expr) -> Iterator[pr.Expr]:
    """The parts of an expression that are not within a read."""
    yield e
    if not isinstance(e, pr.Read):
        for part in pr.children(e):
            yield from _beside_reads(part)


def _names(read: pr.Read, r: pr.Range) -> bool:
    return any(r.index in pr.index_names(sub) for sub in read.subscripts)


# ---- the rewrite

def _gathered(program: pr.Program, s: pr.Statement, meetings: list[_Meeting], names: Names
              ) -> tuple[pr.Statement, dict[int, tuple[pr.Range, ...]]]:
    """The statement over elements and taps, and the indices of the elements of each dimension in which indices met."""
    cell = dict[int, tuple[pr.Range, ...]]()
    for m in meetings:
        at, tap = (pr.Range(names.index(f"{m.outer.index}_{kind}"), 0, n) for kind, n in
                     (("at", m.outer.extent + m.taps - 1), ("tap", m.taps)))
        phase = [pr.Range(names.index(f"{m.outer.index}_phase"), 0, m.step)] if m.step > 1 else []
        cell[m.dimension] = (at, *phase)
        within = _sum([(m.step, tap.index), *((1, p.index) for p in phase)], 0)
        first = m.inner.lower if m.sign > 0 else m.inner.upper - 1
        values = {m.outer.index: _sum([(1, at.index), (-1, tap.index)], m.outer.lower),
                  m.inner.index: pr.Binary("+" if m.sign > 0 else "-", pr.Const(first, I64), within, I64)}
        place = _sum([(m.step, at.index), *((1, p.index) for p in phase)],
                     m.constant + m.step * m.outer.lower + m.sign * first)
        ranges = list[pr.Range]()
        for r in s.ranges:
            ranges += [at, *phase] if r.index == m.outer.index else \
                [tap] if r.index == m.inner.index else [r]
        padded = m.ragged and s.op == "+" and _padded(program, s, m)
        beyond = pr.Binary("<", within, pr.Const(m.inner.extent, I64), BOOL) if m.ragged and not padded else None
        at_most = pr.Const(m.outer.extent, I64)
        inside = [pr.Binary(">=", _sum([(1, at.index), (-1, tap.index)], 0), pr.Const(0, I64), BOOL),
                  pr.Binary("<", _sum([(1, at.index), (-1, tap.index)], 0), at_most, BOOL)] if m.tested else []
        s = replace(s, subscripts=tuple(normalise(place) if d == m.dimension else sub for d, sub in enumerate(s.subscripts)),
                    value=_guarded(s.value, m, values, padded), ranges=tuple(ranges),
                    where=(*s.where, *map(normalise, inside), *((normalise(beyond),) if beyond is not None else ())))
    return s, cell


def _padded(program: pr.Program, s: pr.Statement, m: _Meeting) -> bool:
    """Are all reads that name the inner index 0 beside their tensors just where it leaves its range, one of them a factor?"""
    own = [r for r in pr.reads(s) if _names(r, m.inner)]
    spans = all(not r.gathers and (r.default is None or r.default.value == 0) and _spans(program, r, m.inner) for r in own)
    factor = any(_spans(program, f, m.inner) for f in pr.factors(s.value))
    return spans and factor and not any(x == pr.Index(m.inner.index) for x in _beside_reads(s.value))


def _apart(program: pr.Program, s: pr.Statement, cell: dict[int, tuple[pr.Range, ...]], meetings: list[_Meeting], names: Names
           ) -> tuple[pr.Tensor, list[pr.Statement]]:
    """The sums in a tensor of their own, with a dimension for each index of an element, and what adds them to their places."""
    assert s.op is not None
    ragged = {m.dimension: m for m in meetings if m.ragged}
    target, ranges = program.tensor(s.target), s.by_index
    kept = [cell.get(d) or tuple(ranges[i] for i in dict.fromkeys(pr.index_names(sub))) for d, sub in enumerate(s.subscripts)]
    mine = tuple(r for part in kept for r in part)
    tensor = pr.Tensor(names.label(f"{s.target}_gathered"), target.dtype, tuple(r.extent for r in mine),
                       tuple(r.lower for r in mine))
    own, label = tuple(pr.Index(r.index) for r in mine), names.label(f"{s.name}_gathered")
    neutral = pr.Const(identity(s.op, target.dtype), target.dtype)
    made = [pr.Statement(names.label(initialisation(label)), tensor.name, own, None, neutral, mine, span=s.span),
            replace(s, name=label, target=tensor.name, subscripts=own)]
    places, found, around = list[pr.Expr](), list[pr.Expr](), list[pr.Range]()
    for d, (part, sub) in enumerate(zip(kept, s.subscripts, strict=True)):
        if d not in ragged:
            places.append(sub)
            found += (pr.Index(r.index) for r in part)
            around += part
            continue
        m = ragged[d]
        q = pr.Range(names.index(f"{m.outer.index}_place"), 0, m.step * (m.outer.extent - 1) + m.inner.extent)
        first = m.inner.lower if m.sign > 0 else m.inner.upper - 1
        places.append(_sum([(1, q.index)], m.constant + m.step * m.outer.lower + m.sign * first))
        found += (pr.Binary(op, pr.Index(q.index), pr.Const(m.step, I64), I64) for op in ("//", "%"))
        around.append(q)
    value = pr.Read(tensor.name, tuple(found), target.dtype)
    return tensor, [*made, replace(s, subscripts=tuple(map(normalise, places)), value=value, ranges=tuple(around), where=())]


def _guarded(value: pr.Expr, m: _Meeting, values: dict[str, pr.Expr], padded: bool) -> pr.Expr:
    """The value in the new indices, whose reads are 0 where the outer one is not in its range; padded: nor the inner one."""
    def guarded(e: pr.Expr) -> pr.Expr:
        if not isinstance(e, pr.Read) or not (_names(e, m.outer) and not m.tested or padded and _names(e, m.inner)):
            return e
        return replace(e, default=e.default or pr.Const(0.0 if e.dtype.is_float else 0, e.dtype))
    return normalise(pr.substitute(pr.map_expr(value, guarded), values))


def _sum(terms: list[tuple[int, str]], constant: int) -> pr.Expr:
    e: pr.Expr = pr.Const(constant, I64)
    for c, index in terms:
        e = pr.Binary("+", e, pr.Binary("*", pr.Const(c, I64), pr.Index(index), I64), I64)
    return e
