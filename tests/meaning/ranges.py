"""Which values an index takes: the largest interval for which every unguarded read is in bounds, found by trying all values.

Rounds, as docs/language.md says them: stated ranges first; then reads whose other indices are known, for all values of these;
then comparisons; then the target as declared or written before; then guarded reads that have the bare index as a subscript.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polytc.lang.parsing import syntax as sx
from tests.meaning.expressions import Expressions, Refused, chained, walk

Box = dict[str, tuple[int, int]]
"""index -> its smallest and largest value."""
Hull = tuple[tuple[int, int], ...]

_MANY = 80
"""Values of another index that are tried: at both ends."""


@dataclass(frozen=True)
class Clauses:
    """Of one statement. ranges: stated, memory: those that read it; conditions, and masks, which read memory."""

    ranges: tuple[sx.RangeClause, ...]
    memory: tuple[sx.RangeClause, ...]
    conditions: tuple[sx.Expr, ...]
    masks: tuple[sx.Expr, ...]


class Solver:
    """indices: of the statement, in their order; names: the indices in an expression, lets written out; values: makes an
    Expressions of index values. reads, guards, left: (subscript, its tensor's bounds in that dimension)."""

    def __init__(self, indices: Sequence[str], names: Callable[[sx.Expr], set[str]], clauses: Clauses,
                 reads: list[tuple[sx.Expr, tuple[int, int]]], guards: list[tuple[sx.Expr, tuple[int, int]]],
                 left: list[tuple[sx.Expr, tuple[int, int]]],
                 values: Callable[[Mapping[str, np.ndarray]], Expressions]) -> None:
        self.indices, self.names, self.clauses, self.values = indices, names, clauses, values
        self.reads, self.left = reads, left
        self.guards = [(e, b) for e, b in guards if isinstance(e, sx.Name)]
        self.stated = {c.index for c in clauses.ranges}
        self.box: Box = {}
        self.none: set[str] = set()
        """Indices that have no values, rightly."""
        ends = [abs(x) for _, b in (*reads, *guards, *left) for x in b]
        numbers = [abs(n.value) for e in (*(e for e, _ in (*reads, *left)), *clauses.conditions) for n in walk(e)
                   if isinstance(n, sx.Number) and isinstance(n.value, int)]
        self.far = 4 * max([*ends, *numbers, 16])

    def run(self) -> Box:
        while len(self.box) < len(self.indices) and (
                self.by_ranges() or self.by_reads(self.reads) or self.by_conditions() or self.by_reads(self.left)
                or self.by_reads(self.guards)):
            empty = [i for i, (low, high) in self.box.items() if low > high and i not in self.none]
            if empty:
                raise Refused(f"the range of {empty} is empty")
        missing = [i for i in self.indices if i not in self.box]
        if missing:
            raise Refused(f"nothing bounds {missing}")
        return {i: self.box[i] for i in self.indices}

    def interval(self, e: sx.Expr) -> tuple[int, int]:
        """Bounds of an expression over the box."""
        found = self.values(self.grid(sorted(self.names(e)))).value(e).data
        return int(found.min()), int(found.max())

    def grid(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """All values of some indices, of many only those at both ends, broadcasting against each other."""
        found = {}
        for d, i in enumerate(names):
            low, high = self.box[i]
            axis = np.arange(low, high + 1)
            if len(axis) > _MANY:
                axis = np.concatenate([axis[:_MANY // 2], axis[-_MANY // 2:]])
            found[i] = axis.reshape([-1] + [1] * (d + 1))
        return found

    def by_ranges(self) -> bool:
        found: Box = {}
        for index in self.stated - self.box.keys():
            own = [c for c in self.clauses.ranges if c.index == index]
            if all(n in self.box for c in own for e in (c.lower, c.upper) for n in self.names(e)):
                if any(n in self.none for c in own for e in (c.lower, c.upper) for n in self.names(e)):
                    found[index] = (0, -1)
                    self.none.add(index)
                    continue
                found[index] = (max(self.first(c) for c in own), min(self.last(c) for c in own))
                self.none |= {index} if any(self.first(c) > self.last(c) for c in own) else set()
        self.box |= found
        return bool(found)

    def first(self, c: sx.RangeClause) -> int:
        return self.interval(c.upper)[0] + 1 if self.down(c) else self.interval(c.lower)[0]

    def last(self, c: sx.RangeClause) -> int:
        return self.interval(c.lower)[1] if self.down(c) else self.interval(c.upper)[1] - 1

    def down(self, c: sx.RangeClause) -> bool:
        return c.step is not None and int(self.values({}).value(c.step).data) < 0

    def by_reads(self, reads: list[tuple[sx.Expr, tuple[int, int]]]) -> bool:
        found: Box = {}
        ends: dict[str, tuple[list[int], list[int]]] = {}
        plain: dict[str, bool] = {}
        for index in (i for i in self.indices if i not in self.box and i not in self.stated):
            for e, (low, high) in reads:
                names = self.names(e)
                if index not in names or any(n != index and (n not in self.box or n in self.none) for n in names):
                    continue
                if low > high and any(isinstance(n, sx.Binary) and n.op == "%" for n in walk(e)):
                    continue                                          # a remainder bounds nothing, not even to nothing
                if low > high:
                    found[index] = (0, -1)
                    self.none.add(index)
                    continue
                inside = (low, high) if isinstance(e, sx.Name) and e.id == index else self.inside(e, index, low, high)
                if inside == (None, None):
                    continue                                          # it says nothing of the index
                plain[index] = plain.get(index, True) and names == {index}
                lows, highs = ends.setdefault(index, ([], []))
                lows += [] if inside[0] is None else [inside[0]]
                highs += [] if inside[1] is None else [inside[1]]
        found |= {i: (max(lows), min(highs)) for i, (lows, highs) in ends.items() if lows and highs and i not in found}
        self.none |= {i for i, (low, high) in found.items() if high == low - 1 and plain.get(i)}
        self.box |= found
        return bool(found)

    def tried(self, e: sx.Expr, index: str) -> tuple[np.ndarray, np.ndarray]:
        """Values of an index, and those of the expression, one row each."""
        others = [n for n in sorted(self.names(e)) if n != index]
        axis = np.arange(-self.far, self.far + 1)
        found = self.values({**self.grid(others), index: axis}).value(e).data
        return axis, np.broadcast_to(found, np.broadcast_shapes(found.shape, axis.shape)).reshape(-1, len(axis))

    def inside(self, e: sx.Expr, index: str, low: int, high: int) -> tuple[int | None, int | None]:
        """The largest interval of the index for which low <= e <= high, whatever the others are; None as an end that e does not
        say, as for both where the values are no interval, or a choice depends on other indices."""
        if any(isinstance(n, sx.Ternary) and not self.names(n.condition) <= {index} for n in walk(e)):
            return None, None
        axis, found = self.tried(e, index)
        good = ((found >= low) & (found <= high)).all(0)
        if not good.any():
            return (0, -1) if self.moves(found) else (None, None)
        first, last = int(np.argmax(good)), len(good) - 1 - int(np.argmax(good[::-1]))
        if not good[first:last + 1].all():
            return None, None
        return None if first == 0 else int(axis[first]), None if last == len(good) - 1 else int(axis[last])

    @staticmethod
    def moves(found: np.ndarray) -> bool:
        """Does the expression go further and further with the index?"""
        return bool((np.abs(found[:, 0] - found[:, -1]) > found.shape[1] // 64).all())

    def by_conditions(self) -> bool:
        for index in (i for i in self.indices if i not in self.box and i not in self.stated):
            lows, highs = [], []
            for e in self.clauses.conditions:
                names = self.names(e)
                if not isinstance(e, sx.Binary) or index not in names or any(
                        n != index and (n not in self.box or n in self.none) for n in names):
                    continue
                axis, found = self.tried(e, index)
                good = np.nonzero(found.any(0))[0]
                if len(good) == 0:
                    raise Refused("a condition that never holds")
                lows += [int(axis[good[0]])] if good[0] > 0 else []
                highs += [int(axis[good[-1]])] if good[-1] < len(axis) - 1 else []
            if lows and highs:
                self.box[index] = (max(lows), min(highs))
                return True
        return False


def conjuncts(e: sx.Expr) -> Iterator[sx.Expr]:
    """The parts of a condition that all must hold."""
    if isinstance(e, sx.Binary) and e.op == "&&":
        yield from conjuncts(e.a)
        yield from conjuncts(e.b)
    elif isinstance(e, sx.ChainedComparison):
        yield from chained(e)
    else:
        yield e
