"""Elementwise statements for GPUs whose operands lie the other way round: tiles of these are turned in local memory.

    B[i,j] = A[j,i]                                     with A[512,512] on gpu
    ->  A_tile[i_group,j_group, ...] = A[32*j_group + ..., 32*i_group + ...]
        B[i_at + 32*i_group + 4*i_item, 32*j_group + j_item] = A_tile[i_group,j_group,j_item, i_at + 4*i_item]

so that neighbouring items read neighbouring words, and write such. The tile is copied as that of a contraction is
(rewrite.gpu.tile_copies). (Ruetsch & Micikevicius, Optimizing Matrix Transpose in CUDA, 2009.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import Affine, interval
from polytc.program.generalise import numeric
from polytc.program.linear import expression, linear, normalise
from polytc.program.names import Names
from polytc.program.scalars import I64
from polytc.rewrite.gpu import tile_copies
from polytc.rewrite.gpu.enclosing import Enclosing
from polytc.rewrite.gpu.tile_copies import Operand
from polytc.rewrite.gpu.tiled_indices import TiledIndex, is_ragged, substitute_tiled, varies
from polytc.schedule.facts.fusion_groups import Group
from polytc.schedule.facts.strides import of_access, of_statement

TILE = 32
"""Elements of a tile in either direction: a line of the caches."""
ITEMS = (32, 8)
"""Work-items of a group along the results' fastest index and along the operands'."""
SMALL = 8
"""Iterations below which a tile gains nothing."""


@dataclass(frozen=True)
class TransposedRows:
    """x, y: the rows of a group along which its results, and its turned operands, are contiguous."""

    x: int
    y: int


def choose(program: pr.Program, group: Group, machine: Machine) -> TransposedRows | None:
    """The rows to turn for a group of elementwise statements; None if it needs no turning."""
    if machine.local_bytes < TILE * (TILE + 1) * max(program.tensor(s.target).dtype.bytes for s in group.statements) or \
            machine.max_work_group < prod(ITEMS):
        return None
    if any(s.op is not None or s.where or s.bounds or s.loops or pr.scatters(s) or group.inner(n)
           for n, s in enumerate(group.statements)):
        return None
    found: set[TransposedRows] = set()
    for n, s in enumerate(group.statements):
        names = [row[n] for row in group.rows]
        target = of_statement(program, s)[0]
        x = next((r for r, i in enumerate(names) if target.stride(i) == 1), None)
        turned = [y for read in pr.reads(s) if x is not None and (y := _turned(program, group, read, names, x)) is not None]
        found |= {TransposedRows(x, y) for y in turned if x is not None}
    large = [t for t in found if min(group.extents[t.x], group.extents[t.y]) >= SMALL]
    return large[0] if len(large) == 1 else None


def _turned(program: pr.Program, group: Group, read: pr.Read, names: list[str], x: int) -> int | None:
    """The row along which a read is contiguous, if that is not row x, which moves it far."""
    if None in map(linear, read.subscripts) or read.tensor in {s.target for s in group.statements}:
        return None
    found = of_access(program, read)
    far = found.stride(names[x])
    last = linear(read.subscripts[-1]) if read.subscripts else None
    y = next((r for r, i in enumerate(names) if r != x and found.stride(i) == 1), None)
    plain = last is not None and y is not None and last.coefficient(names[y]) == 1 and len(last.terms) == 1
    return y if far is not None and abs(far) >= SMALL and plain else None


class TransposedGroup:
    """What a group becomes. tensors: the new ones."""

    def __init__(self, program: pr.Program, group: Group, turn: TransposedRows, names: Names, outside: Enclosing) -> None:
        self.program, self.group, self.turn, self.names, self.outside = program, group, turn, names, outside
        self.typical = numeric(program)
        self.tensors: list[pr.Tensor] = []
        self.copies: list[pr.Statement] = []
        self.cuts = self._cuts()
        self.blocks = tuple(r for c in self.cuts for r, _ in c.outer)

    def _cuts(self) -> list[TiledIndex]:
        """The cut of each shared loop."""
        cuts = []
        for r, (row, (lower, upper)) in enumerate(zip(self.group.rows, self.group.ranges, strict=True)):
            axis = {self.turn.x: 0, self.turn.y: 1}.get(r, 2)
            size = 1 if axis == 2 else TILE
            outer = pr.Range(self.names.index(f"{row[0]}_group"), 0, -(-(upper - lower) // size), kinds.group(axis))
            inner: tuple[tuple[pr.Range, int], ...] = ()
            if axis < 2:
                each = TILE // ITEMS[axis]
                inner = ((pr.Range(self.names.index(f"{row[0]}_item"), 0, ITEMS[axis], kinds.item(axis)), each),)
                rounds = pr.Range(self.names.index(f"{row[0]}_at"), 0, each, "unroll")
                inner = (*inner, (rounds, 1)) if each > 1 else inner
            cuts.append(TiledIndex(lower, ((outer, size),), inner))
        return cuts

    def _of(self, position: int) -> dict[str, TiledIndex]:
        """The cuts by the indices of a statement."""
        return {row[position]: c for row, c in zip(self.group.rows, self.cuts, strict=True)}

    def statements(self) -> list[pr.Statement]:
        """The group's statements over the cut indices, and before them the copies of their operands."""
        made = [self._moved(s, n) for n, s in enumerate(self.group.statements)]
        return [*self.copies, *made]

    def _moved(self, s: pr.Statement, position: int) -> pr.Statement:
        cuts = self._of(position)
        names = [row[position] for row in self.group.rows]
        tiles: dict[pr.Expr, pr.Expr] = {}
        for read in pr.reads(s):
            if _turned(self.typical, self.group, read, names, self.turn.x) == self.turn.y:
                tiles[read] = self._copy(s, read, cuts)
        values = {i: expression(c.whole) for i, c in cuts.items()}
        kept = pr.map_expr(s.value, lambda e: tiles.get(e, e))

        def moved(e: pr.Expr) -> pr.Expr:
            return normalise(pr.substitute(e, values))
        y, x = self.cuts[self.turn.y].inner, self.cuts[self.turn.x].inner
        ranges = (*self.blocks, y[0][0], x[0][0], y[1][0])
        return replace(s, subscripts=tuple(map(moved, s.subscripts)), value=moved(kept), ranges=ranges, bounds=self._ends())

    def _ends(self) -> tuple[pr.Bound, ...]:
        """What tells the elements that there are from those of a tile beyond the ends."""
        found = []
        for r in (self.turn.y, self.turn.x):
            c, (lower, upper) = self.cuts[r], self.group.ranges[r]
            if is_ragged(upper - lower, TILE):
                at = c.inner[-1][0]
                others = tuple(sorted((part.index, -size) for part, size in (*c.outer, *c.inner[:-1]) if varies(part)))
                found.append(pr.Bound(at.index, pr.Const(0, I64), expression(Affine(upper - lower, others))))
        return tuple(found)

    def _copy(self, s: pr.Statement, read: pr.Read, cuts: Mapping[str, TiledIndex]) -> pr.Read:
        """The read of the tile that a new statement copies."""
        forms = [f for sub in read.subscripts if (f := linear(sub)) is not None]
        ranges = pr.box(r for c in cuts.values() for r, _ in (*c.outer, *c.inner))
        rest = [substitute_tiled(f, cuts, "rest", constant=False) for f in forms]
        box = [interval(f, ranges) for f in rest]
        widths = tuple(high - low + 1 for low, high in box)
        base = [substitute_tiled(f, cuts, "base") for f in forms]
        tensor = self.program.tensor(read.tensor)
        ends = tuple((lower, lower + n) for lower, n in zip(tensor.lower, tensor.shape, strict=True))
        low = tuple(replace(f, constant=f.constant + start) for f, (start, _) in zip(base, box, strict=True))
        name = self.names.label(f"{read.tensor}_tile")
        shape = (*(r.extent for r in self.blocks), *widths)
        self.tensors.append(pr.Tensor(name, read.dtype, shape, (0,) * len(shape)))
        operand = Operand(read, tensor, low, widths, ends, tuple(range(len(forms))), self.outside.ranges)
        label = self.names.label(f"{s.name}_{name}")
        self.copies.append(tile_copies.copy(operand, label, name, self.blocks, ITEMS, 1, self.names))
        inside = (expression(replace(f, constant=f.constant - start)) for f, (start, _) in zip(rest, box, strict=True))
        return pr.Read(name, (*(pr.Index(r.index) for r in self.blocks), *inside), read.dtype)
