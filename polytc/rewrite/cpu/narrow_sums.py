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
from polytc.program.scalars import I32, I64, U64
from polytc.rewrite.narrow_terms import LARGEST, Term, narrowed
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.schedule.facts.fusion_groups import coincident_indices

TERMS = 16
"""Of a sum at least: its result is widened by itself."""


@dataclass(frozen=True)
class Narrow:
    """The sums of a statement are made in 32 bits."""

    statement: str


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


def _sums(program: pr.Program) -> Iterator[tuple[pr.Statement, Term]]:
    """The sums that start from 0 in the statement before and fit 32 bits."""
    for start, s in zip(program.statements, program.statements[1:], strict=False):
        if s.op != "+" or program.tensor(s.target).dtype not in (I64, U64) or s.loops or s.bounds or pr.scatters(s):
            continue
        zero = isinstance(start.value, pr.Const) and start.value.value == 0
        if start.name != initialisation(s.name) or start.target != s.target or not zero or start.where:
            continue
        count, term = _terms(s), narrowed(s.value)
        own = any(r.tensor == s.target for r in pr.reads(s))
        if term is not None and not own and count >= TERMS and count * max(-term.low, term.high) <= LARGEST:
            yield s, term


def _terms(s: pr.Statement) -> int:
    """Terms of a sum at most."""
    kept = coincident_indices(s)
    return prod(r.extent for r in s.ranges if r.index not in kept)
