"""How much memory a tile touches, from the rows of its band and the subscripts of the statements; and what that costs.

The indices of a statement follow from the rows of the band and of the loops outside; a tile is a box of rows, so that each
index spans an interval, each subscript too, and each tensor a box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, prod
from typing import TypeVar

from polytc.machine import Machine, estimates
from polytc.poly import isl
from polytc.program import program as pr
from polytc.program.affine import Linear, interval
from polytc.program.linear import linear

K = TypeVar("K")


@dataclass(frozen=True)
class Reach:
    """A statement in tiles. extents: of its indices (by isl's names); parts: for each index the rows that it follows from, with
    the sizes of their coefficients, or None if it spans all of its extent; boxes: for each access the tensor, and for each
    dimension the terms of its subscript (None: the whole extent)."""

    statement: pr.Statement
    extents: dict[str, int]
    parts: dict[str, tuple[tuple[int, float], ...] | None]
    boxes: tuple[tuple[pr.Tensor, tuple[tuple[tuple[int, str], ...] | None, ...]], ...]

    def spans(self, sizes: Sequence[int | None]) -> dict[str, int]:
        """Iterations of each index in a tile. sizes: iterations of each row, None for all."""
        result: dict[str, int] = {}
        for index, extent in self.extents.items():
            parts = self.parts[index]
            wide = 1.0
            for n, c in parts or ():
                size = sizes[n]
                wide = float("inf") if size is None else wide + c * (size - 1)
            result[index] = extent if parts is None else min(extent, ceil(min(wide, extent)))
        return result

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.extents)


def reach(program: pr.Program, s: pr.Statement, rows: Sequence[Linear]) -> Reach:
    """rows: times of the statement, those of the loops outside of tiles too."""
    extents = {isl.name(r.index): r.extent for r in s.ranges}
    found = inverse(tuple(extents), rows)
    parts = {i: tuple((n, float(abs(c))) for n, c in found[i].items()) if i in found else None for i in extents}
    boxes = []
    for tensor, subscripts in [(s.target, s.subscripts), *((r.tensor, r.subscripts) for r in pr.reads(s))]:
        forms = [linear(sub) for sub in subscripts]
        boxes.append((program.tensor(tensor), tuple(
            None if f is None else tuple((abs(c), isl.name(i)) for i, c in f.terms) for f in forms)))
    return Reach(s, extents, parts, tuple(dict.fromkeys(boxes)))


def inverse(indices: Sequence[str], rows: Sequence[Linear]) -> dict[str, dict[int, Fraction]]:
    """index -> {row: coefficient}, for those indices that are sums of multiples of rows (and a number)."""
    solved: dict[str, tuple[dict[str, Fraction], dict[int, Fraction]]] = {}
    for n, row in enumerate(rows):
        left: dict[str, Fraction] = {i: Fraction(c) for i, c in row.terms}
        right = {n: Fraction(1)}
        for index, (a, b) in solved.items():
            factor = left.get(index, Fraction(0))
            left, right = _minus(left, a, factor), _minus(right, b, factor)
        pivot = next((i for i in indices if left.get(i)), None)
        if pivot is None:
            continue
        scale = left[pivot]
        left, right = {i: c / scale for i, c in left.items()}, {k: c / scale for k, c in right.items()}
        solved = {i: (_minus(a, left, a.get(pivot, Fraction(0))), _minus(b, right, a.get(pivot, Fraction(0))))
                  for i, (a, b) in solved.items()} | {pivot: (left, right)}
    return {i: b for i, (a, b) in solved.items() if set(a) == {i}}


def _minus(a: dict[K, Fraction], b: dict[K, Fraction], factor: Fraction) -> dict[K, Fraction]:
    if not factor:
        return a
    total = {k: a.get(k, Fraction(0)) - factor * b.get(k, Fraction(0)) for k in {**a, **b}}
    return {k: c for k, c in total.items() if c}


def row_ends(s: pr.Statement, row: Linear) -> tuple[int, int]:
    """Smallest and largest value of a row over the box of the statement."""
    return interval(row, {isl.name(i): ends for i, ends in s.box.items()})


def touched(parts: Sequence[tuple[Reach, dict[str, int]]]) -> int:
    """Bytes of the boxes of all tensors that statements touch, each with the spans of its indices."""
    boxes: dict[str, tuple[pr.Tensor, list[int]]] = {}
    for where, span in parts:
        for tensor, dims in where.boxes:
            box = [n if terms is None else min(n, 1 + sum(c * (span[i] - 1) for c, i in terms))
                   for terms, n in zip(dims, tensor.shape, strict=True)]
            known = boxes.get(tensor.name)
            boxes[tensor.name] = (tensor, box if known is None else [max(a, b) for a, b in zip(known[1], box, strict=True)])
    return sum(t.dtype.bytes * prod(box) for t, box in boxes.values())


def rate(machine: Machine, size: float) -> float:
    """Cycles a byte takes from the smallest memory that holds so many bytes."""
    return machine.costs.of_byte(estimates.level_of(machine, size), len(machine.caches))
