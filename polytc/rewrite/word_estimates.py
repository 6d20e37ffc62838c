"""What sums of products of bytes take on a GPU: by multiply-adds, by dot products of words, and on a matrix unit.

    C[i,j] += i32(A[i,k])*i32(B[k,j])  with A[1024,1024], B[1024,1024] of i8 on nvidia-sm90
    64 us by multiply-adds of i32, 16 us by dot_i8i8, 7.5 us by the matrix unit

Words that lie along the sum in memory are the bytes themselves; others are made by the items that copy them to tiles, or
by a kernel: where there are no tiles, where a matrix unit wants them in rows, or where the last one is no whole word
(rewrite.word_copies).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from polytc.machine import Estimate, Machine, estimates
from polytc.program import program as pr
from polytc.program.calls.words import Dot
from polytc.rewrite.gpu import contraction_tiles, matrix_tiles
from polytc.rewrite.word_tensors import Words, named
from polytc.schedule.facts.fusion_groups import partition, reduced_indices

TILE = 32
"""Rows and columns of the smallest tile of a group with a matrix unit."""


@dataclass(frozen=True)
class Dots:
    """A sum as dot products of words of its two factors. fixed: tensors whose words are made once; tiled: whether items
    copy words that they multiply, see `is_tiled`."""

    program: pr.Program
    sum: pr.Statement
    dot: Dot
    words: tuple[Words, Words]
    fixed: frozenset[str]
    machine: Machine
    tiled: bool = True

    def by_items(self) -> Estimate:
        """With instructions of single items, and with what makes the words."""
        along = self.words[0].steps
        steps = self.sum.points // along * ceil(along / self.dot.group)
        return _busy(steps * self.machine.costs.groups.dot, self.machine) + self._made(rows=False)

    def by_unit(self) -> Estimate | None:
        """On a matrix unit, with words in rows; None where there is none for bytes, or the results are too few for it."""
        unit, s = self.machine.matrix_unit, self.sum
        if unit is None or not has_unit(self.machine):
            return None
        a, b = (set(named(w.factor.read)) - set(reduced_indices(s)) for w in self.words)
        sides = [prod(s.extents[i] for i in own) for own in (a - b, b - a)]
        if min(sides) < TILE // 2:
            return None
        beyond = prod(ceil(n / TILE) * TILE / n for n in (*sides, self.words[0].steps))
        return _busy(s.points * beyond / unit.bytes_faster, self.machine) + self._made(rows=True)

    def _made(self, rows: bool) -> Estimate:
        """What the kernels take that make words, and sums of them."""
        spent, launch = Estimate(), Estimate(launches=self.machine.costs.launches.launch)
        for w, other in zip(self.words, reversed(self.words), strict=True):
            source = self.program.tensor(w.factor.read.tensor)
            if source.name in self.fixed:
                continue
            written = not in_rows(source, w) if rows else w.steps % w.group > 0 or not (self.tiled or are_bytes(source, w))
            spent += estimates.of_all_units(self.machine, 2 * int(source.size)) + launch if written else Estimate()
            spent += estimates.of_all_units(self.machine, int(source.size)) + launch if other.zero is not None else Estimate()
        return spent


def multiply_adds(s: pr.Statement, machine: Machine) -> Estimate:
    """Of a sum as it is."""
    return _busy(s.points * machine.costs.groups.integer, machine)


def has_unit(machine: Machine) -> bool:
    """Is there a matrix unit for bytes, and code for it?"""
    unit = machine.matrix_unit
    return unit is not None and unit.bytes_faster > 0 and matrix_tiles.divides_so(machine)


def is_tiled(program: pr.Program, name: str, machine: Machine) -> bool:
    """Are the operands of a sum copied, to local memory or to registers, in the tiles of a contraction?"""
    group = next(g for g in partition(program) if any(s.name == name for s in g.statements))
    return contraction_tiles.choose(program, group, machine) is not None


def are_bytes(source: pr.Tensor, w: Words) -> bool:
    """Are the words of a tensor its bytes as they lie in memory, but for their top bits?"""
    return w.dimension == len(source.shape) - 1 and w.steps % w.group == 0 and int(source.shape[-1]) % w.group == 0


def in_rows(source: pr.Tensor, w: Words) -> bool:
    """Are they just these bytes?"""
    return are_bytes(source, w) and not w.flipped


def _busy(count: float, machine: Machine) -> Estimate:
    """So many multiply-adds of f32, by all units."""
    return Estimate(arithmetic=matrix_tiles.seconds(count / machine.cores, machine))
