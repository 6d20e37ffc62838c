"""Fusion policies: which statements share loops, and the estimate that chooses between the policies.

    T[i,j] = X[i,j]*2;  Y[i,j] = T[i,j] + T[i,j]*T[i,j]        with X[512,512]
    ->  parallel i, j // 32 { vector j % 32 { T[i,j] = X[i,j]*2.0 };  vector j % 32 { Y[i,j] = T[i,j] + T[i,j]*T[i,j] } }

    min    each update with its initialisation, and nothing else
    smart  neighbours that make or read the same elements in the same iterations, where no register tile is lost for it and
           enough iterations are left for threads (schedule.facts.fusion_groups)
    max    all neighbours that may

(The policies of Pluto: Bondhugula et al., A Practical Automatic Polyhedral Parallelizer and Locality Optimizer, PLDI 2008.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from polytc import decisions
from polytc.machine import Estimate, Machine, estimates
from polytc.program import program as pr
from polytc.schedule.cost import tile_order
from polytc.schedule.decisions import Decisions, Fused, Misfit, Priced, SharedBy
from polytc.schedule.facts.fusion_groups import (
    Group,
    is_contraction,
    loses_register_tile,
    partition,
    splits_transposition,
    together,
)
from polytc.schedule.fusion.outer_fusion import clusters

POLICIES = ("min", "smart", "max")
DEFAULT = "smart"
BETTER = 0.7
"""Time of another policy, in that of the default one, below which it is taken: the estimate leaves out much."""
LONG = 240
"""Characters of a list of groups that is counted instead."""


@dataclass(frozen=True)
class Fusion:
    """groups: the statements that share loops; times: estimated for each policy; asked: the policy was asked for."""

    policy: str
    groups: tuple[Group, ...]
    times: dict[str, Estimate]
    asked: bool

    def __str__(self) -> str:
        groups = " ".join("{" + ", ".join(s.name for s in g.statements) + "}" for g in self.groups)
        if len(groups) > LONG:
            groups = f"{sum(len(g.statements) for g in self.groups)} statements in {len(self.groups)} groups"
        estimates = "; ".join(f"{p} {t}" for p, t in self.times.items())
        return f"fusion {self.policy}{', as asked' if self.asked else ''}: {groups}, estimated: {estimates}"


def choose(program: pr.Program, machine: Machine, policy: str | None = None) -> Fusion:
    """The groups of a program. policy: None for the one with the smallest estimate, the default one where none is clearly
    better."""
    found = {p: partition(program, p) for p in POLICIES}
    tensors = {t.name: t for t in program.tensors}
    users: dict[str, set[str]] = {n: {"caller"} if n in program.arrays else set() for n in tensors}
    for s in program.statements:
        for n in _touched(s):
            users[n].add(s.name)
    times: dict[str, Estimate] = {}
    for p, groups in found.items():
        same = next((q for q in times if q != "min" and _names(found[q]) == _names(groups)), None)
        if same is not None:
            times[p] = times[same]
            continue
        lost = estimates.arithmetic(machine, sum(_lost(g, tensors, machine) for g in groups))
        times[p] = sum((_time(g, tensors, users, machine) for g in _together(program, groups, machine, p)), lost)
    if policy is not None:
        return Fusion(policy, found[policy], times, True)
    best = min(POLICIES, key=lambda p: (times[p].seconds, p != DEFAULT))
    best = best if times[best].seconds < BETTER * times[DEFAULT].seconds else DEFAULT
    return Fusion(best, found[best], times, False)


def decide(program: pr.Program, machine: Machine, policy: str | None, made: Decisions) -> Fusion:
    """The groups of a program as `choose` finds them, or as they are given."""
    lines: tuple[SharedBy, ...] = made.all("group")
    lines = tuple(x for x in lines if any(s.name in x.statements for s in program.statements))
    if lines:
        return _of_lines(program, lines, made)

    def read(given: Fused) -> Fusion:
        if given.policy not in POLICIES:
            raise Misfit(f"{given.policy!r} is none of {', '.join(POLICIES)}")
        return choose(program, machine, policy or given.policy)
    first = program.statements[0].name if program.statements else ""
    return made.take("fusion", first, lambda: choose(program, machine, policy), lambda f: Fused(first, f.policy), read,
                     options=lambda: _options(program, machine, policy))


def _options(program: pr.Program, machine: Machine, policy: str | None) -> Iterator[Priced[Fusion]]:
    """The policies that make a difference, polytc's own first."""
    own, seen = choose(program, machine, policy), list[list[list[str]]]()
    for p in sorted(POLICIES, key=lambda p: (p != own.policy, own.times[p].seconds)):
        found = choose(program, machine, p)
        names = _names(_together(program, found.groups, machine, p))
        if names not in seen:
            seen.append(names)
            yield found, own.times[p].seconds


def _of_lines(program: pr.Program, lines: tuple[SharedBy, ...], made: Decisions) -> Fusion:
    """The groups that the lines name, in the order of their last statements."""
    known, seen = {s.name for s in program.statements}, set[str]()
    for line in lines:
        odd = next((n for n in line.statements if n not in known or n in seen), None)
        if odd is not None or line.statement not in line.statements:
            told = f"{odd} is in another group" if odd in seen else f"there is no statement {odd!r} here"
            raise made.refused("group", line.statement, told if odd is not None else "it is named after one of its statements")
        seen.update(line.statements)
    groups = together(program, tuple(line.statements for line in lines))
    if isinstance(groups, str):
        line = next(x for x in lines if groups in x.statements)
        raise made.refused("group", line.statement, f"{groups} has no loop that it may share with those before it")
    made.taken += [decisions.entry("group", line, "as given") for line in lines]
    return Fusion("as given", groups, {}, True)


def _names(groups: tuple[Group, ...]) -> list[list[str]]:
    return [[s.name for s in g.statements] for g in groups]


def _touched(s: pr.Statement) -> set[str]:
    return {s.target, *(r.tensor for r in pr.reads(s))}


def _together(program: pr.Program, groups: tuple[Group, ...], machine: Machine, policy: str) -> tuple[Group, ...]:
    """The groups, or what of them is under common outer loops, as one."""
    if policy == "min":
        return groups
    return tuple(c.whole if c.rows else c.groups[0] for c in clusters(program, groups, machine))


def _arithmetic(s: pr.Statement, tensors: dict[str, pr.Tensor], machine: Machine) -> float:
    """Cycles of all instances as vectors."""
    return machine.costs.arithmetic.vector * s.points * (2 + len(pr.reads(s))) / machine.lanes(tensors[s.target].dtype.bytes)


def _lost(group: Group, tensors: dict[str, pr.Tensor], machine: Machine) -> float:
    """Cycles more for statements if the group leaves out loops that belong around register tiles of contractions, or into
    square tiles."""
    shared = [{row[n] for row in group.rows} for n in range(len(group.statements))]
    turned = [s.points for s, kept in zip(group.statements, shared, strict=True) if splits_transposition(s, kept)]
    strided = sum(machine.costs.accesses.strided * points for points in turned)
    if not loses_register_tile(group):
        return strided
    tiled = sum(_arithmetic(s, tensors, machine) for s in group.statements if is_contraction(s))
    return strided + (machine.costs.arithmetic.untiled - 1) * tiled


def _strips(group: Group, tensors: dict[str, pr.Tensor], users: dict[str, set[str]], machine: Machine) -> float:
    """Rows of strips that come from or go behind the second cache, where the loops that statements share run along the rows
    of tensors and not over them: each iteration then takes a few vectors of many rows, and nothing fetches the next row in
    time."""
    found, names = dict[str, float](), {s.name for s in group.statements}
    block = max((size for _, size in group.blocks), default=1)
    for n, s in enumerate(group.statements):
        shared = {row[n] for row in group.rows}
        for r in (pr.Read(s.target, s.subscripts, tensors[s.target].dtype), *pr.reads(s)):
            tensor, width = tensors[r.tensor], max(block, 2 * machine.lanes(tensors[r.tensor].dtype.bytes))
            if is_contraction(s) or not r.subscripts or users[r.tensor] <= names or tensor.shape[-1] <= width:
                continue
            along = set(pr.index_names(r.subscripts[-1]))
            over = {i for e in r.subscripts[:-1] for i in pr.index_names(e)} - along
            if along & shared and over and not over & shared:
                found[r.tensor] = tensor.size / width
    return sum(found.values())


def _bytes(group: Group, t: pr.Tensor) -> int:
    """Of the elements of a tensor that a group touches, as boxes around each access; at most the whole tensor."""
    accesses = {(s.name, sub): s for s in group.statements for sub in _subscripts(s, t.name)}
    touched = sum(min(s.points, prod(tile_order.span(e, s.extents, n) for e, n in zip(sub, t.shape, strict=True)))
                  for (_, sub), s in accesses.items())
    return t.dtype.bytes * min(t.size, touched)


def _subscripts(s: pr.Statement, tensor: str) -> list[tuple[pr.Expr, ...]]:
    return [s.subscripts] * (s.target == tensor) + [r.subscripts for r in pr.reads(s) if r.tensor == tensor]


def _time(group: Group, tensors: dict[str, pr.Tensor], users: dict[str, set[str]], machine: Machine) -> Estimate:
    """Arithmetic, bytes that come from and go to other groups, idle threads, and the start of threads. users: the statements
    that touch a tensor, and somebody else where it is no temporary."""
    names = {s.name for s in group.statements}
    moved = sum(_bytes(group, tensors[name]) for name in set().union(*map(_touched, group.statements))
                if not group.rows or not users[name] <= names)
    everything = sum(t.size * t.dtype.bytes for t in tensors.values())  # what lies between one group's use of it and another's
    counted = sum(_arithmetic(s, tensors, machine) for s in group.statements)
    work = estimates.arithmetic(machine, counted) + estimates.moved(machine, moved, everything)
    if estimates.level_of(machine, everything) > 1:
        work += estimates.strips(machine, _strips(group, tensors, users, machine))
    if machine.cores == 1 or sum(s.points for s in group.statements) < machine.costs.threads.instances:
        return work
    iterations = group.iterations
    shared = work * ceil(iterations / machine.cores) / iterations + estimates.regions(machine, 1)
    return min(work, shared, key=lambda t: t.seconds)  # threads are no reason to split a group
