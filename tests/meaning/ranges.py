"""Which values an index takes: the largest interval for which every unguarded read is in bounds, found by trying all values.

Rounds, as docs/language.md says them: stated ranges first; then reads whose other indices are known, for all values of these;
then comparisons; then the target as declared or written before; then guarded reads, and those in branches, that have the bare
index as a subscript. A read in a branch asks for nothing where conditions on the index leave the branch out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polytc.lang.parsing import syntax as sx
from tests.meaning.expressions import Expressions, Path, Refused, chained, told, walk

Box = dict[str, tuple[int, int]]
"""index -> its smallest and largest value."""
Hull = tuple[tuple[int, int], ...]

Read = tuple[sx.Expr, tuple[int, int], Path]
"""A subscript, the bounds of its tensor in that dimension, and where the read happens."""

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
    Expressions of index values."""

    def __init__(self, indices: Sequence[str], names: Callable[[sx.Expr], set[str]], clauses: Clauses,
                 reads: list[Read], guards: list[Read], left: list[Read],
                 values: Callable[[Mapping[str, np.ndarray]], Expressions]) -> None:
        self.indices, self.names, self.clauses, self.values = indices, names, clauses, values
        self.reads, self.left = reads, left
        self.guards = [(e, b, ()) for e, b, path in (*guards, *(r for r in reads if r[2])) if isinstance(e, sx.Name)]
        self.half: dict[str, tuple[int | None, int | None]] = {}
        """What reads in branches say of an index, which they leave open on one side."""
        self.stated = {c.index for c in clauses.ranges}
        self.box: Box = {}
        self.none: set[str] = set()
        """Indices that have no values, rightly."""
        ends = [abs(x) for _, b, _ in (*reads, *guards, *left) for x in b]
        said = [x for e, _, path in (*reads, *left) for x in (e, *(c for c, _ in path))]
        numbers = [abs(n.value) for e in (*said, *clauses.conditions) for n in walk(e)
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

    def by_reads(self, reads: list[Read]) -> bool:
        found: Box = {}
        plain: dict[str, bool] = {}
        for index in (i for i in self.indices if i not in self.box and i not in self.stated):
            used: list[tuple[Read, tuple[int | None, int | None]]] = []
            for e, (low, high), path in reads:
                names = self.names(e)
                if index not in names or any(n != index and (n not in self.box or n in self.none) for n in names):
                    continue
                if low > high and any(isinstance(n, sx.Binary) and n.op == "%" for n in walk(e)):
                    continue                                          # a remainder bounds nothing, not even to nothing
                if low > high and not self.asked(index, path):
                    found[index] = (0, -1)
                    self.none.add(index)
                    continue
                inside = (low, high) if isinstance(e, sx.Name) and e.id == index else self.inside(e, index, low, high)
                if inside == (None, None):
                    continue                                          # it says nothing of the index
                plain[index] = plain.get(index, True) and names == {index}
                used.append(((e, (low, high), path), inside))
            low_, high_ = self.together(index, used)
            if index not in found and low_ is not None and high_ is not None and used:
                found[index] = low_, high_
            elif any(path for (_, _, path), _ in used):
                self.half[index] = low_, high_
        self.none |= {i for i, (low, high) in found.items() if high == low - 1 and plain.get(i)}
        self.box |= found
        return bool(found)

    def asked(self, index: str, path: Path) -> Path:
        """The conditions of a path that are on the index alone; those with remainders tell nothing."""
        return tuple((c, wanted) for c, wanted in path if self.names(c) == {index} and not any(
            isinstance(n, sx.Binary) and n.op == "%" for n in walk(c)))

    def together(self, index: str, used: list[tuple[Read, tuple[int | None, int | None]]]) -> tuple[int | None, int | None]:
        """What reads leave an index, each of which asks for nothing where its path is not taken. Below 0, or below what they
        leave if each is always asked, it does not go unless `where` compares it."""
        known = [self.half.get(index, (None, None)), *(inside for _, inside in used)]
        low = max((a for a, _ in known if a is not None), default=None)
        high = min((b for _, b in known if b is not None), default=None)
        if not any(self.asked(index, path) for (_, _, path), _ in used):
            return low, high
        axis = np.arange(-self.far, self.far + 1)
        good = np.ones(len(axis), bool)
        for (_, _, path), (first, last) in used:
            inside = (axis >= (-self.far if first is None else first)) & (axis <= (self.far if last is None else last))
            taken = np.ones(len(axis), bool)
            for c, wanted in self.asked(index, path):
                taken &= np.asarray(self.values({index: axis}).value(c).data, bool) == wanted
            good &= inside | ~taken
        if not good.any():
            return low, high
        start, end = int(np.argmax(good)), len(good) - 1 - int(np.argmax(good[::-1]))
        begin, stop = None if start == 0 else int(axis[start]), None if end == len(good) - 1 else int(axis[end])
        if low is not None and not any(index in self.names(e) for e in self.clauses.conditions):
            begin = min(0, low) if begin is None else max(begin, min(0, low))
        return begin, stop

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
            first, last = self.half.get(index, (None, None))
            lows, highs = [] if first is None else [first], [] if last is None else [last]
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


def paths(e: sx.Expr, path: Path = ()) -> Iterator[tuple[sx.Expr, Path]]:
    """An expression and all below it, each with the conditions of the choices around it."""
    yield e, path
    if isinstance(e, sx.Ternary):
        parts = [(e.condition, path), (e.a, path + told(e.condition, True)), (e.b, path + told(e.condition, False))]
    elif isinstance(e, sx.Binary) and e.op in ("&&", "||"):
        parts = [(e.a, path), (e.b, path + told(e.a, e.op == "&&"))]
    else:
        parts = [(x, path) for x in sx.operands(e)]
    for x, its in parts:
        yield from paths(x, its)


def conjuncts(e: sx.Expr) -> Iterator[sx.Expr]:
    """The parts of a condition that all must hold."""
    if isinstance(e, sx.Binary) and e.op == "&&":
        yield from conjuncts(e.a)
        yield from conjuncts(e.b)
    elif isinstance(e, sx.ChainedComparison):
        yield from chained(e)
    else:
        yield e
