"""What a `for` loop around stencils computes: its stages, and where each reads what others made.

    for t in 0:100 { B[i] = A[i-1] + A[i+1] where i in 1:199;  A[i] = B[i] where i in 1:199 }
    one stage: B in 1:199, from A at -1 and 1; one state, which takes turns between two buffers

A stage is a statement in coordinates of its target: each index is a coordinate less a number, so that tensors of one rank share
the coordinates of a group's tile. What a loop copies back at its end costs nothing in local memory: the buffers of a state take
turns there, as those of rotated_buffers do in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.rewrite.gpu.work_group_reductions import combine_as_tree
from polytc.rewrite.tidy import rotated_buffers

Ends = tuple[tuple[int, int], ...]
"""The first and the last coordinate of each dimension."""
Offsets = tuple[int, ...]
AXES = 3
"""Dimensions of a stencil at most: those of a grid of work-groups."""
FARTHEST = 64
"""How far neighbours may be: beyond that a tile is all halo."""


@dataclass(frozen=True)
class Stage:
    """One statement of an iteration. domain: what it writes, in coordinates of its target; index: by dimension the index that
    walks along it, and what a coordinate is more than that, '' and 0 where the coordinate is one number; reads: of tensors that
    the loop writes, and how far from the target's coordinates."""

    statement: pr.Statement
    domain: Ends
    index: tuple[tuple[str, int], ...]
    reads: Mapping[pr.Read, Offsets]

    @property
    def target(self) -> str:
        return self.statement.target


@dataclass(frozen=True)
class Stencils:
    """A loop that can be tiled. members: its statements as they are; stages: of an iteration, without the copies at its end;
    turns: the states that take turns, oldest first and the new one last, () where nothing is copied back; copied: what these
    copies write."""

    loop: pr.Range
    members: tuple[pr.Statement, ...]
    stages: tuple[Stage, ...]
    turns: tuple[str, ...]
    copied: Ends

    @property
    def rank(self) -> int:
        return len(self.stages[0].domain)

    @property
    def round(self) -> int:
        """Iterations behind which each state is in its own buffer again."""
        return max(1, len(self.turns))

    @property
    def written(self) -> tuple[str, ...]:
        """The tensors that stages write."""
        return tuple(dict.fromkeys(s.target for s in self.stages))

    @property
    def states(self) -> tuple[str, ...]:
        """What is alive between iterations, or read before it is written, or written."""
        return tuple(dict.fromkeys((*self.turns, *self.written)))

    def writes(self, tensor: str) -> Ends:
        """The hull of what stages write of a tensor."""
        return hull(*(s.domain for s in self.stages if s.target == tensor))


def of(program: pr.Program, members: tuple[pr.Statement, ...]) -> Stencils | str:
    """What the loop around some statements computes; else why it is none of stencils, '' if it has nothing of one."""
    loop = members[0].ranges[0]
    if any(s.depth != 1 or s.bounds for s in members) or loop.down or any(s.ranges[0] != loop for s in members):
        return "a loop around one level of statements, which counts up, may be"
    if not any(s.ranges[s.depth:] for s in members):
        return ""
    found = rotated_buffers.states(program, members)
    made, turns, copied = (members, (), ()) if isinstance(found, str) else (found.made, found.names, found.ranges)
    written = {s.target for s in made} | set(turns)
    stages = list[Stage]()
    for s in made:
        stage = _stage(assigned(program, s), frozenset(written))
        if isinstance(stage, str):
            return stage
        stages.append(stage)
    if any(program.tensor(t).dtype.kind == "c" for t in written):
        return "complex numbers"
    if any(low > high for s in stages for low, high in s.domain):
        return "there is nothing to compute"
    if len({len(s.domain) for s in stages}) > 1 or not 1 <= len(stages[0].domain) <= AXES:
        return f"tensors of one to {AXES} dimensions, the same for all, may be"
    result = Stencils(loop, members, tuple(stages), turns, copied)
    return result if any(any(o) for s in stages for o in s.reads.values()) else ""


def hull(*ends: Ends) -> Ends:
    """The box around several."""
    return tuple((min(low for low, _ in d), max(high for _, high in d)) for d in zip(*ends, strict=True))


def assigned(program: pr.Program, s: pr.Statement) -> pr.Statement:
    """An update of elements as an assignment that reads them; what reduces stays."""
    own = tuple(i.name for i in s.subscripts if isinstance(i, pr.Index))
    dtype = program.tensor(s.target).dtype
    if s.op is None or set(own) != set(s.indices[s.depth:]) or s.value.dtype != dtype:
        return s
    old = pr.Read(s.target, s.subscripts, dtype)
    return replace(s, op=None, value=combine_as_tree(s.op, (old, s.value), dtype))


def _stage(s: pr.Statement, written: frozenset[str]) -> Stage | str:
    """A statement as a stage; else why it is none."""
    if s.op is not None or s.where or s.atomic or s.intrinsic is not None or s.ahead:
        return f"{s.name} is no assignment of a box"
    index, domain = list[tuple[str, int]](), list[tuple[int, int]]()
    ranges = {r.index: r for r in s.ranges[s.depth:]}
    for sub in s.subscripts:
        form = linear(sub)
        if form is not None and form.coefficient(s.ranges[0].index):
            return f"{s.name} writes other elements of {s.target} in each iteration"
        if form is None or len(form.terms) > 1 or any(c != 1 or i not in ranges for i, c in form.terms):
            return f"{s.name} writes {s.target} elsewhere than at its indices"
        at = form.terms[0][0] if form.terms else ""
        low, high = ranges[at].ends if at else (0, 0)
        index.append((at, form.constant))
        domain.append((low + form.constant, high + form.constant))
    if sorted(i for i, _ in index if i) != sorted(ranges):
        return f"{s.name} writes an element several times"
    reads = dict[pr.Read, Offsets]()
    for read in pr.reads(s):
        if read.tensor not in written:
            continue
        offsets = _offsets(read, index)
        if offsets is None:
            return f"{s.name} reads {read.tensor} elsewhere than beside what it writes"
        if read.tensor == s.target and any(offsets):
            return f"{s.name} reads neighbours in {s.target}, which it writes"
        if max(map(abs, offsets), default=0) > FARTHEST:
            return f"{s.name} reads {read.tensor} more than {FARTHEST} elements away"
        reads[read] = offsets
    return Stage(s, tuple(domain), tuple(index), reads)


def _offsets(read: pr.Read, index: list[tuple[str, int]]) -> Offsets | None:
    """How far a read is from the target's coordinates; None where that is not the same everywhere."""
    found = list[int]()
    if len(read.subscripts) != len(index):
        return None
    for sub, (at, constant) in zip(read.subscripts, index, strict=True):
        form = linear(sub)
        if form is None or form.terms != (((at, 1),) if at else ()):
            return None
        found.append(form.constant - constant)
    return tuple(found)
