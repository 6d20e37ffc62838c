"""`for` loops that end by copying what they made to where they read it exchange the buffers instead.

    for t in 0:100 { B[i] = A[i-1] + A[i+1] where i in 1:199;  A[i] = B[i] where i in 1:199 }      with inout A[200] on gpu
    ->  A_next[x0] = A[x0]
        for t in 0:50 {
            A_next[i] = A[i - 1] + A[i + 1] where i in 1:199;  A[i] = A_next[i - 1] + A_next[i + 1] where i in 1:199
        }

A time step that keeps two states and more (P = U; U = N) exchanges three buffers and more in turn. A copy takes a launch and
moves each element twice, as much as a stencil does. The states are what the chain of copies names; a loop of as many iterations
as there are states brings each back to where it was, and what is left of the iterations follows it. What no iteration writes,
such as a border, every buffer has. Guarantees: the same values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import ceil, prod

from polytc.machine import Estimate, Machine, estimates
from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.names import Names
from polytc.program.scalars import I64
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP

MOST = 4
"""States that take turns: each has its copy of all that is in the loop."""
Ends = tuple[tuple[int, int], ...]
"""The first and the last coordinate of each dimension."""


@dataclass(frozen=True)
class Rotated:
    """The loop that the statement is the first one of exchanges buffers."""

    statement: str


@dataclass(frozen=True)
class States:
    """What a loop exchanges. made: the statements that do not copy, the last value of the state put where it is made; names: of
    the states, oldest first, each of which becomes the next one behind an iteration, the last being made anew; ranges: of what
    copies write, by dimension."""

    loop: pr.Range
    made: tuple[pr.Statement, ...]
    names: tuple[str, ...]
    ranges: Ends

    @property
    def current(self) -> str:
        """The newest state that an iteration finds: the one that may be read beside what is written."""
        return self.names[-2]


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The loops that exchange buffers: those where that saves more copies than it takes."""
    chosen, why = list[Rotated](), Reasons()
    for members in loops(program):
        first, found = members[0].name, states(program, members)
        if isinstance(found, str):
            if found:
                why.declines(first, f"exchanged: {found}")
            continue
        inside, around = _seconds(program, found, machine)
        told = f"copies in the loop take {Estimate(memory=inside)}, and those around it {Estimate(memory=around)}"
        if inside <= around:
            why.declines(first, f"exchanged: {told}")
            continue
        why.acts(first, f"{' and '.join(found.names[:-1])} and a buffer more take turns: {told}")
        chosen.append(Rotated(first))
    return Decision(machine, tuple(chosen), tuple(why.rows))


def rotate(program: pr.Program, decision: Decision) -> pr.Program:
    """The program whose chosen loops exchange buffers."""
    chosen, names = {choice.statement for choice in decision.choices}, Names.of(program)
    statements: list[pr.Statement] = []
    tensors = list(program.tensors)
    for members in _runs(program):
        found = states(program, members) if members[0].name in chosen else ""
        if isinstance(found, str):
            statements += members
        else:
            added, made = _rotated(program, found, names)
            tensors += added
            statements += made
    left = {*program.arrays, *(s.target for s in statements)}
    return replace(program, tensors=tuple(t for t in tensors if t.name in left), statements=tuple(statements))


def fits(program: pr.Program, machine: Machine, choice: Rotated) -> str:
    """Why the loop of a statement exchanges no buffers; '' if it may."""
    members = next((m for m in loops(program) if m[0].name == choice.statement), None)
    found = states(program, members) if members is not None else "no loop begins with it"
    return found or "it copies nothing back" if isinstance(found, str) else ""


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each loop that may exchange buffers, that it does or not."""
    choices = (Rotated(m[0].name) for m in loops(program))
    return [[Option(), Option((c,))] for c in choices if not fits(program, machine, c)]


def _runs(program: pr.Program) -> Iterator[tuple[pr.Statement, ...]]:
    """The statements, those of one outermost loop together."""
    return (tuple(members) for _, members in groupby(program.statements, lambda s: s.loops[:1]))


def loops(program: pr.Program) -> Iterator[tuple[pr.Statement, ...]]:
    """The statements of each outermost `for` loop."""
    return (members for members in _runs(program) if members[0].loops)


# ---- what may be exchanged

def states(program: pr.Program, members: tuple[pr.Statement, ...]) -> States | str:
    """The states of a loop; else why there are none, '' where it ends with no copy."""
    chain, copies = _copies(members)
    if not copies:
        return ""
    made, loop = members[:-len(copies)], members[0].ranges[0]
    if any(s.depth != 1 or s.bounds for s in members) or loop.down or not made:
        return "a loop around one level of statements, which counts up, may be"
    if not loop.extent >= len(chain) <= MOST:
        return f"there are {len(chain)} states, at most {MOST} take turns, and the loop has {loop.extent} iterations"
    if len(set(chain)) < len(chain) or len({(t.dtype, t.shape, t.lower) for t in map(program.tensor, chain[:-1])}) > 1 or \
            program.tensor(chain[-1]).dtype != program.tensor(chain[0]).dtype:
        return "the states differ in type or shape"
    ranges = _own(copies[0])
    if any(_own(c) != ranges for c in copies):
        return "the copies write different parts"
    new = chain[-1]
    makers = [s for s in made if s.target == new]
    if new not in program.temporaries or len(makers) != 1 or makers[0].op is not None or not _whole(makers[0], ranges):
        return f"{new} is not made by one assignment of what is copied"
    if any(r.tensor == new for s in program.statements if s is not copies[-1] for r in pr.reads(s)) or \
            any(s.target == new for s in program.statements if s is not makers[0]):
        return f"{new} is used elsewhere"
    why = _strange(made, chain[:-1], ranges)
    if why:
        return why
    if sum(_is_read(e, new) for e in pr.walk(copies[-1].value)) > 1:
        return f"{copies[-1].name} would make {new} several times"
    value = pr.map_expr(_over(copies[-1], makers[0]), lambda e: makers[0].value if _is_read(e, new) else e)
    joined = tuple(replace(s, value=value) if s is makers[0] else s for s in made)
    return States(loop, joined, tuple(chain), ranges)


def _copies(members: tuple[pr.Statement, ...]) -> tuple[list[str], tuple[pr.Statement, ...]]:
    """The states that the last statements copy, oldest first and the new one last, and these statements."""
    last = members[-1]
    read = [r.tensor for r in pr.reads(last)]
    if last.op is not None or len(read) != 1 or not _plain(last) or not all(
            r.subscripts == last.subscripts and r.default is None for r in pr.reads(last)):
        return [], ()
    chain, copies = [last.target, read[0]], [last]
    for s in reversed(members[:-1]):
        if s.op is not None or not _plain(s) or s.value != pr.Read(chain[0], s.subscripts, s.value.dtype):
            break
        chain, copies = [s.target, *chain], [s, *copies]
    return chain, tuple(copies)


def _plain(s: pr.Statement) -> bool:
    """Does it write a box, at its own indices?"""
    own = tuple(pr.Index(r.index) for r in s.ranges[s.depth:])
    return not s.where and not s.bounds and len(set(s.subscripts)) == len(s.subscripts) and set(s.subscripts) == set(own)


def _own(s: pr.Statement) -> Ends:
    """What each dimension of its target takes."""
    return tuple(s.by_index[i.name].ends for i in s.subscripts if isinstance(i, pr.Index))


def _whole(s: pr.Statement, ranges: Ends) -> bool:
    return _plain(s) and _own(s) == ranges


def _strange(made: Sequence[pr.Statement], states: Sequence[str], ranges: Ends) -> str:
    """Why statements that make the new state keep buffers from being exchanged; '' if they do not."""
    if all(r.subscripts == s.subscripts for s in made for r in pr.reads(s) if r.tensor in states):
        return "each element follows from itself alone, which an item keeps"
    for s in made:
        if s.target in states:
            return f"{s.name} writes {s.target}, too"
        for r in pr.reads(s):
            at = [s.by_index[i.name].ends if isinstance(i, pr.Index) else None for i in r.subscripts]
            if r.tensor in states[:-1] and at != list(ranges):
                return f"{s.name} reads {r.tensor} where it is not copied"
    return ""


def _over(copy: pr.Statement, maker: pr.Statement) -> pr.Expr:
    """The value of a copy in the indices of the statement that made what it reads."""
    pairs = zip(copy.subscripts, maker.subscripts, strict=True)
    return pr.substitute(copy.value, {a.name: b for a, b in pairs if isinstance(a, pr.Index)})


def _is_read(e: pr.Expr, tensor: str) -> bool:
    return isinstance(e, pr.Read) and e.tensor == tensor


# ---- exchanging them

def _seconds(program: pr.Program, states: States, machine: Machine) -> tuple[float, float]:
    """What the copies in a loop take, and those that take their place. Each is a launch, or a phase of a single group's."""
    costs, current = machine.costs.launches, program.tensor(states.current)
    part, whole = prod(high - low + 1 for low, high in states.ranges), current.size
    older = len(states.names) - 2

    def moved(elements: int) -> float:
        return estimates.of_all_units(machine, 2 * elements * current.dtype.bytes).seconds
    phase = min(costs.launch, costs.barrier + costs.group_step * ceil(part / MAX_WORK_GROUP))
    inside = states.loop.extent * (older + 1) * (phase + moved(part))
    parts = 2 * older + (states.loop.extent % len(states.names) > 0)
    return inside, (older + 1) * (costs.launch + moved(whole)) + parts * (costs.launch + moved(part))


def _rotated(program: pr.Program, states: States, names: Names) -> tuple[list[pr.Tensor], list[pr.Statement]]:
    """The new buffers, and what takes the place of the loop."""
    current = program.tensor(states.current)
    old = [names.label(f"{n}_turn") for n in states.names[:-2]]
    buffers = [*old, states.current, names.label(f"{states.current}_next")]
    tensors = [replace(current, name=n, title="") for n in buffers if n != states.current]
    everywhere = tuple((low, low + n - 1) for low, n in zip(current.lower, current.shape, strict=True))
    made = [_copy(current, n, states.current, everywhere, names) for n in buffers if n != states.current]
    made += [_copy(current, new, was, states.ranges, names) for new, was in zip(old, states.names, strict=False)]
    turns, loop, count = len(buffers), states.loop, states.loop.extent
    again = replace(loop, lower=0, upper=count // turns)

    def step(n: int) -> dict[str, str]:
        """State -> the buffer that holds it in iteration n."""
        return {state: buffers[(k + n) % turns] for k, state in enumerate(states.names)}
    for n in range(turns):
        at = normalise(pr.Binary("+", pr.Binary("*", pr.Index(loop.index), pr.Const(turns, I64), I64),
                                 pr.Const(loop.lower + n, I64), I64))
        made += [_renamed(replace(s, ranges=(again, *s.ranges[1:])), {loop.index: at}, step(n), names, n) for s in states.made]
    left = count % turns
    for n in range(left):
        at = pr.Const(loop.upper - left + n, I64)
        made += [_renamed(replace(s, ranges=s.ranges[1:], loops=()), {loop.index: at}, step(n), names, turns + n)
                 for s in states.made]
    ends = step(left)
    made += [_copy(current, state, ends[state], states.ranges, names) for state in states.names[:-1] if ends[state] != state]
    return tensors, made


def _renamed(s: pr.Statement, at: dict[str, pr.Expr], buffers: dict[str, str], names: Names, copy: int) -> pr.Statement:
    """A statement in one of the iterations of a turn. at: the loop's index there; copy: 0 for the one that keeps the name."""
    def moved(e: pr.Expr) -> pr.Expr:
        held = pr.map_expr(e, lambda x: replace(x, tensor=buffers.get(x.tensor, x.tensor)) if isinstance(x, pr.Read) else x)
        return pr.substitute(held, at)
    return replace(s, name=names.label(s.name) if copy else s.name, target=buffers.get(s.target, s.target),
                   subscripts=tuple(map(moved, s.subscripts)), value=moved(s.value), where=tuple(map(moved, s.where)))


def _copy(like: pr.Tensor, target: str, source: str, ends: Ends, names: Names) -> pr.Statement:
    """target = source, of the coordinates between these ends."""
    ranges = tuple(pr.Range(f"x{d}", low, high + 1) for d, (low, high) in enumerate(ends))
    cell = tuple(pr.Index(r.index) for r in ranges)
    return pr.Statement(names.label(f"{target}_copy"), target, cell, None, pr.Read(source, cell, like.dtype), ranges)
