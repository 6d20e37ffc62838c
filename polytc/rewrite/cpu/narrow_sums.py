"""Sums of small whole numbers are made in 32 bits, where all of their terms together fit these.

    R[i] += x[j] < x[i] ? 1 : 0                         with x[4000] on avx2
    ->  R_narrow[i] += x[j] < x[i] ? 1 : i32(0)
        R[i] = i64(R_narrow[i])

as counts are (`R[i] += 1 where x[j] < x[i]`, `R[i] += i64(A[i,j] > 0)`), whose results are i64 so that nobody needs to think of
their size. A vector then has as many numbers as one of f32, and nothing is widened on the way; products of i64 take three
products each where the machine has none. Exact: neither a term nor a sum of terms leaves 32 bits, whatever the data. What reads
numbers of 64 bits has vectors of so many as these anyway, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.names import Names, initialisation
from polytc.program.scalars import I32, I64, U64, DType, identity
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.schedule.facts.fusion_groups import coincident_indices

TERMS = 16
"""Of a sum at least: its result is widened by itself."""
LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Narrow:
    """The sums of a statement are made in 32 bits."""

    statement: str


@dataclass(frozen=True)
class _Term:
    """A term in 32 bits, and its ends."""

    value: pr.Expr
    low: int
    high: int


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The sums that fit."""
    chosen, why = list[Narrow](), Reasons()
    for s, term in _sums(program):
        chosen.append(Narrow(s.name))
        why.acts(s.name, f"in 32 bits: {_terms(s)} terms of {term.low} to {term.high}")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each sum that fits, that it is narrow or not."""
    return [[Option(), Option((Narrow(s.name),))] for s, _ in _sums(program)]


def fits(program: pr.Program, machine: Machine, choice: Narrow) -> str:
    """Why a sum is not made in 32 bits; '' if it can be."""
    found = any(s.name == choice.statement for s, _ in _sums(program))
    return "" if found else f"{choice.statement} is no sum of {TERMS} and more terms in 64 bits that fit 32"


def narrow(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen sums in 32 bits."""
    names, tensors, statements = Names.of(program), list(program.tensors), list[pr.Statement]()
    chosen, terms = {c.statement for c in decision.choices}, {s.name: (s, term) for s, term in _sums(program)}
    for s in program.statements:
        if s.name not in chosen:
            statements.append(s)
            continue
        start, wide = statements.pop(), program.tensor(s.target)
        sums = replace(wide, name=names.label(f"{s.target}_narrow"), dtype=I32, title="")
        tensors.append(sums)
        value = pr.Cast(pr.Read(sums.name, start.subscripts, I32), wide.dtype)
        label = names.label(f"{s.name}_narrow")
        statements += [replace(start, name=initialisation(label), target=sums.name, value=pr.Const(0, I32)),
                       replace(s, name=label, target=sums.name, value=terms[s.name][1].value),
                       replace(start, name=s.name, value=value, span=s.span)]
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def _sums(program: pr.Program) -> Iterator[tuple[pr.Statement, _Term]]:
    """The sums that start from 0 in the statement before and fit 32 bits."""
    for start, s in zip(program.statements, program.statements[1:], strict=False):
        if s.op != "+" or program.tensor(s.target).dtype not in (I64, U64) or s.loops or s.bounds or pr.scatters(s):
            continue
        zero = isinstance(start.value, pr.Const) and start.value.value == 0
        if start.name != initialisation(s.name) or start.target != s.target or not zero or start.where:
            continue
        count, term = _terms(s), _narrow(s.value)
        own = any(r.tensor == s.target for r in pr.reads(s))
        if term is not None and not own and count >= TERMS and count * max(-term.low, term.high) <= LARGEST:
            yield s, term


def _terms(s: pr.Statement) -> int:
    """Terms of a sum at most."""
    kept = coincident_indices(s)
    return prod(r.extent for r in s.ranges if r.index not in kept)


def _narrow(e: pr.Expr) -> _Term | None:
    """An expression of 64 bits in 32; None where it may not fit, or its operands are wide themselves."""
    found = _of_parts(e)
    return found if found is not None and max(-found.low, found.high) <= LARGEST else None


def _of_parts(e: pr.Expr) -> _Term | None:
    match e:
        case pr.Const(value=int(n)):
            return _Term(pr.Const(n, I32), n, n)
        case pr.Cast(a=a) if _small(a.dtype) and not any(map(_wide, _computed(a))):
            low, high = (int(identity(op, a.dtype)) for op in ("max", "min"))
            return _Term(pr.Cast(a, I32) if a.dtype != I32 else a, low, high)
        case pr.Select(cond=cond, a=a, b=b) if not any(map(_wide, _computed(cond))):
            x, y = _narrow(a), _narrow(b)
            if x is None or y is None:
                return None
            return _Term(replace(e, a=x.value, b=y.value, dtype=I32), min(x.low, y.low), max(x.high, y.high))
        case pr.Binary(op="+" | "-" | "*" as op, a=a, b=b):
            x, y = _narrow(a), _narrow(b)
            return None if x is None or y is None else _combined(op, x, y)
        case _:
            return None


def _combined(op: str, x: _Term, y: _Term) -> _Term:
    value = pr.Binary(op, x.value, y.value, I32)
    match op:
        case "+":
            return _Term(value, x.low + y.low, x.high + y.high)
        case "-":
            return _Term(value, x.low - y.high, x.high - y.low)
        case _:
            corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
            return _Term(value, min(corners), max(corners))


def _small(dtype: DType) -> bool:
    """Numbers that I32 holds."""
    return dtype.kind == "b" or dtype.kind in "iu" and dtype.bits < 32 or dtype == I32


def _computed(e: pr.Expr) -> Iterator[pr.Expr]:
    """An expression and its operands; places in memory are none."""
    yield e
    if not isinstance(e, pr.Read):
        for x in pr.children(e):
            yield from _computed(x)


def _wide(e: pr.Expr) -> bool:
    return e.dtype.bits > 32 and not isinstance(e, pr.Const)
