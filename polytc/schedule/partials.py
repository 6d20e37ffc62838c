"""Reductions with few results: the groups of a GPU divide them, and a second kernel puts the partial results together.

    s += x[k]    ->    p[g] += x[C*g + c];   s += p[g]

Groups cannot wait for each other inside of a kernel. Results do not vary: the order of the operations is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polytc.lang import program as pr
from polytc.lang.linear import Linear, expression
from polytc.lang.rewrites.pad import fresh
from polytc.lang.rewrites.unit import normalise
from polytc.lang.scalars import BOOL, I64, identity
from polytc.machine import Machine
from polytc.schedule.groups import MINIMAL_PARALLELISM, coincident_indices, is_contraction, reduced_indices
from polytc.schedule.teams import COLUMNS, ENOUGH, GROUP, fastest

LEAST = 2048
"""Elements of a group: fewer are not worth a second kernel."""


@dataclass(frozen=True)
class _Split:
    """index: what the groups divide; count: of them; first: their partial results lie apart, not side by side."""

    index: pr.Range
    count: int
    first: bool


def split(program: pr.Program, machine: Machine) -> tuple[pr.Program, list[tuple[pr.Statement, ...]]]:
    """The program with partial results for the reductions that would leave most of the machine idle; and its statements in
    runs: those that make partial results alone, so that they are not fused with what puts them together."""
    tensors, runs = list(program.tensors), list[tuple[pr.Statement, ...]]()
    taken = {t.name for t in program.tensors} | {s.name for s in program.statements}
    run: list[pr.Statement] = []
    for s in program.statements:
        found = _split(program, s, machine)
        if found is None:
            run.append(s)
            continue
        tensor, made, s = _parts(program, s, found, taken)
        tensors.append(tensor)
        start = run.pop() if run and run[-1].target == s.target and run[-1].op is None else None
        runs += [tuple(run), made]
        run = [s] if start is None else [start, s]
    runs = [r for r in (*runs, tuple(run)) if r]
    return replace(program, tensors=tuple(tensors), statements=tuple(s for r in runs for s in r)), runs


def _split(program: pr.Program, s: pr.Statement, machine: Machine) -> _Split | None:
    reduced = {r.index: r for r in s.ranges if r.index in reduced_indices(s)}
    results = [r.extent for r in s.ranges if r.index in coincident_indices(s)]
    own = any(r.tensor == s.target for r in pr.reads(s))
    if not reduced or own or s.where or s.bounds or s.loops or pr.scatters(s):
        return None
    if is_contraction(s) and len([n for n in results if n >= GROUP // 32]) > 1:
        return None
    walked = fastest(program, s, {i: r.extent for i, r in reduced.items()})
    index = reduced.get(walked) or max(reduced.values(), key=lambda r: r.extent)
    groups = prod(results) if walked in reduced else prod(results) // COLUMNS + 1
    if groups >= MINIMAL_PARALLELISM:
        return None
    elements = prod(r.extent for r in reduced.values()) * (1 if walked in reduced else min(COLUMNS, prod(results)))
    count = min(-(-ENOUGH * machine.cores // groups), elements // LEAST, index.extent // 2)
    return _Split(index, count, walked not in reduced) if count > 1 else None


def _parts(program: pr.Program, s: pr.Statement, by: _Split, taken: set[str]
           ) -> tuple[pr.Tensor, tuple[pr.Statement, ...], pr.Statement]:
    """The tensor of partial results, the statements that make them, and what takes the place of `s`."""
    assert s.op is not None
    target, r = program.tensor(s.target), by.index
    kept = tuple(x for x in s.ranges if x.index in coincident_indices(s))
    size = -(-r.extent // by.count)
    size = -(-size // GROUP) * GROUP if size > GROUP else size
    count = -(-r.extent // size)
    part, at = fresh(f"{r.index}_part", set(s.indices)), fresh(f"{r.index}_at", set(s.indices))
    parts = pr.Range(part, 0, count)
    around = (parts, *kept) if by.first else (*kept, parts)
    name, label = (fresh(f"{base}_parts", taken) for base in (s.target, s.name))
    taken |= {name, label, f"{label}_init"}
    tensor = pr.Tensor(name, target.dtype, tuple(x.extent for x in around), tuple(x.lower for x in around))
    cell = tuple(pr.Index(x.index) for x in around)
    place = expression(Linear(tuple(sorted(((part, size), (at, 1)))), r.lower))
    value = normalise(pr.substitute(s.value, {r.index: place}))
    neutral = pr.Const(identity(s.op, target.dtype), target.dtype)
    if count * size != r.extent:
        value = pr.Select(pr.Binary("<", place, pr.Const(r.upper, I64), BOOL), value, neutral, target.dtype)
    inner = tuple(pr.Range(at, 0, size) if x is r else x for x in s.ranges if x not in kept)
    made = (pr.Statement(f"{label}_init", name, cell, None, neutral, around, span=s.span),
            pr.Statement(label, name, cell, s.op, value, (*around, *inner), span=s.span))
    return tensor, made, replace(s, value=pr.Read(name, cell, target.dtype), ranges=(*kept, parts))
