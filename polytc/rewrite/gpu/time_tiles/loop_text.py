"""What takes the place of a loop around stencils: launches in pairs, from the tensors to second buffers and back.

    for t in 0:500 { B[i] = A[i-1] + A[i+1];  A[i] = B[i-1] + B[i+1] }              with 8 iterations in a launch
    for t in 0:31 { iterations 16*t to 16*t + 7, from A to A_next; 16*t + 8 to 16*t + 15, from A_next to A }
    two launches of two and one iterations, and the last one as it was

Groups read beside their tiles what others write, so that a launch writes to another buffer than it reads; pairs of launches
leave all values where they belong. A tensor that an iteration writes before it reads it is written by the last iteration alone,
which stays as it is. Where one group has all of it, there is one launch of all iterations, and nothing of this is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear
from polytc.program.linear import normalise
from polytc.program.names import Names
from polytc.program.scalars import I64
from polytc.rewrite.gpu.time_tiles import geometry
from polytc.rewrite.gpu.time_tiles.geometry import Reach, Widths
from polytc.rewrite.gpu.time_tiles.launches import Frame, Launch, Store
from polytc.rewrite.gpu.time_tiles.stencils import Ends, Stencils, hull


@dataclass(frozen=True)
class Shape:
    """rounds: of a launch at most; items, elements: of a group and of an item, by dimension."""

    rounds: int
    items: tuple[int, ...]
    elements: tuple[int, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Cells of a group's buffers."""
        return tuple(n * e for n, e in zip(self.items, self.elements, strict=True))


@dataclass(frozen=True)
class Loop:
    """A loop that can be tiled, in its program. alive: its tensors that are read behind it, or are outputs; reach: of its
    launches; grid: what all that it reads and writes of its own tensors lies in."""

    program: pr.Program
    stencils: Stencils
    alive: frozenset[str]
    reach: Reach
    grid: Ends

    @staticmethod
    def of(program: pr.Program, s: Stencils) -> Loop:
        others = [x for x in program.statements if x not in s.members]
        used = {r.tensor for x in others for r in pr.reads(x)} | {x.target for x in others if x.op is not None}
        alive = frozenset({*program.outputs, *used} & {*s.states})
        return Loop(program, s, alive, geometry.reach(program, s), _grid(program, s))

    def is_alone(self, shape: Shape) -> bool:
        """Has one group room for all of it?"""
        sizes = (high - low + 1 + a + b for (low, high), (a, b) in zip(self.grid, self.margin, strict=True))
        return all(n <= w for n, w in zip(sizes, shape.widths, strict=True))

    @property
    def margin(self) -> Widths:
        """The cells beside a tile that is alone: as far as reads go."""
        found = [offsets for x in self.reach.instances for _, offsets in x.reads.values()]
        return tuple((max(0, *(-o for o in d)), max(0, *d)) for d in zip(*found, strict=True))

    @property
    def last(self) -> int:
        """Iterations at the end that stay as they are where there are several tiles: one, if that writes what no other reads of
        it."""
        kept = (t in self.alive and t not in self.stencils.turns and t not in self.reach.stored for t in self.stencils.written)
        return int(any(kept))

    @property
    def doubled(self) -> tuple[str, ...]:
        """The tensors of which groups read what others write."""
        found = set[str]()
        for x in self.reach.loads:
            if x.inside and (any(map(any, x.beside)) or any(map(any, self.reach.more))):
                found |= {x.inside, x.outside}
        return tuple(t for t in self.stencils.states if t in found)

    def launches(self, shape: Shape) -> tuple[tuple[int, int], int]:
        """((pairs of launches, rounds of each), rounds left) where there are several tiles."""
        total = (self.stencils.loop.extent - self.last) // self.stencils.round
        rounds = max(1, min(shape.rounds, total // 2))
        pairs, rest = divmod(total, 2 * rounds)
        return (pairs, rounds), rest


@dataclass
class TiledLoop:
    """The statements that take the place of a loop, and their tensors."""

    loop: Loop
    shape: Shape
    names: Names
    tensors: list[pr.Tensor] = field(default_factory=list)
    statements: list[pr.Statement] = field(default_factory=list)

    def make(self) -> TiledLoop:
        """All of them."""
        s, program = self.loop.stencils, self.loop.program
        if self.loop.is_alone(self.shape):
            done = s.loop.extent // s.round
            self._launch((), Affine(0, ()), done, {}, back=True)
        else:
            second = {t: self.names.label(f"{t}_next") for t in self.loop.doubled}
            self.tensors += [replace(program.tensor(t), name=n, title="") for t, n in second.items()]
            done = self._pairs(second)
        for n in range(s.loop.lower + done * s.round, s.loop.upper):
            self.statements += [self._outside(x, n) for x in s.members]
        return self

    def _pairs(self, second: dict[str, str]) -> int:
        """The launches to second buffers and back; how many rounds that is."""
        (pairs, rounds), rest = self.loop.launches(self.shape)
        s = self.loop.stencils
        t = replace(s.loop, lower=0, upper=pairs)
        around = ((t, s.members[0].loops[0]),) if pairs > 1 else ()
        for n, back in enumerate((False, True)):
            first: Linear = Affine(n * rounds, ((t.index, 2 * rounds),) if around else ())
            self._launch(around, first, rounds, second, back)
        done, half = 2 * rounds * pairs, (rest + 1) // 2
        if rest < 2:
            return done
        self._launch((), Affine(done, ()), half, second, back=False)
        self._launch((), Affine(done + half, ()), rest - half, second, back=True)
        return done + rest

    def _launch(self, around: tuple[tuple[pr.Range, str], ...], first: Linear, rounds: int, second: dict[str, str], back: bool
                ) -> None:
        """One launch. second: the second buffers of tensors; back: it reads these and writes the tensors."""
        loop, s, alone = self.loop, self.loop.stencils, self.loop.is_alone(self.shape)
        frame = Frame(self.shape.items, self.shape.elements, loop.grid, rounds, around, first)
        halo = loop.margin if alone else loop.reach.halo(rounds)
        made = Launch(loop.program, s, loop.reach, frame, halo, self.names, s.members[0].name)
        stored = [t for t in s.states if t in loop.reach.stored or (alone and t in loop.alive and t not in s.turns)]
        stores = [self._store(made, t, second, back) for t in stored]
        made.make(second if back else {}, stores)
        self.tensors += made.tensors
        self.statements += made.statements

    def _store(self, made: Launch, tensor: str, second: dict[str, str], back: bool) -> Store:
        """What a launch stores of a tensor: what it has written; to a second buffer all that the launch back reads there."""
        s = self.loop.stencils
        box = s.copied if tensor in s.turns else s.writes(tensor)
        if back or tensor not in second:
            return Store(tensor, tensor, box)
        return Store(tensor, second[tensor], box if tensor in s.turns[:-2] else made.covered(tensor))

    def _outside(self, s: pr.Statement, number: int) -> pr.Statement:
        """A statement of the loop in one iteration, behind it."""
        at: dict[str, pr.Expr] = {self.loop.stencils.loop.index: pr.Const(number, I64)}
        alone = replace(s, name=self.names.label(s.name), loops=())
        return pr.with_expressions(alone, lambda e: normalise(pr.substitute(e, at)), s.ranges[1:])


def _grid(program: pr.Program, s: Stencils) -> Ends:
    """What all that a loop reads and writes of its own tensors lies in."""
    boxes = [x.domain for x in s.stages]
    for x in s.stages:
        for read, offsets in x.reads.items():
            t = program.tensor(read.tensor)
            boxes.append(tuple((max(low + o, first), min(high + o, first + n - 1)) for (low, high), o, first, n
                               in zip(x.domain, offsets, t.lower, t.shape, strict=True)))
    return hull(*boxes)
