"""One statement: its indices, what narrows them, and the points at which it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from polytc.lang.parsing import syntax as sx
from tests.meaning import ranges, values
from tests.meaning.expressions import CONSTANTS, Expressions, Refused, reads, walk
from tests.meaning.ranges import Box, Clauses, Hull

MOST = 1 << 22
"""Points that are looked at together."""

_PIECES = ("min", "max", "clamp", "abs", "sign", "fmin", "fmax", "fabs")
"""Functions that leave subscripts and conditions piecewise quasi-affine."""

Points = dict[str, np.ndarray]


class Unsupported(Exception):
    """The program is too large, or in a form, that is not interpreted here."""


@dataclass(frozen=True)
class Test:
    """What narrows the points of a statement. names: the indices in it; memory: whether it is asked at each instance;
    loop: whether it is the range of a `for`, which the run of the `for` keeps."""

    names: frozenset[str]
    memory: bool
    loop: bool
    holds: Callable[[Expressions], values.Value]


class Plan:
    """group: the statement, or all of a tuple reduction. tensors: names of all; numbers: names of sizes and scalars."""

    def __init__(self, group: Sequence[sx.Statement], tensors: Mapping[str, object], numbers: Mapping[str, object]) -> None:
        s = self.s = group[0]
        self.group, self.tensors, self.numbers = group, tensors, numbers
        self.loops, self.clauses = s.loops, s.clauses
        self.counters = [loop.index for loop in s.loops]
        own = s.clauses[len(s.loops):]
        self.lets = {c.name: c.value for c in own if isinstance(c, sx.LetClause)}
        stated = [c for c in own if isinstance(c, sx.RangeClause)]
        around = [c for c in s.clauses[:len(s.loops)] if isinstance(c, sx.RangeClause)]
        conditions = [p for c in own if isinstance(c, sx.Condition) for p in ranges.conjuncts(c.value)]
        self.values = tuple(map(self.taken, s.components or (s.value,)))
        self.where = Clauses(
            tuple(c for c in (*around, *stated) if not self.remembers(c)), tuple(c for c in stated if self.remembers(c)),
            tuple(c for c in conditions if not self.asked(c)), tuple(c for c in conditions if self.asked(c)))
        ordered = s.label.indices if s.label is not None else ()
        self.indices = list(dict.fromkeys((*ordered, *self.mentioned(around, own))))
        self.tests = [Test(frozenset(self.names(c)), self.asked(c), False, self.condition(c)) for c in conditions]
        self.tests += [Test(frozenset({c.index, *self.names(c.lower), *self.names(c.upper)}), self.remembers(c), c in around,
                            self.bounded(c)) for c in (*around, *stated) if self.narrows(c)]
        self.around = {c.index for c in around}
        self.scattered = [self.reads(e) for e in s.subscripts]
        self.box: Box = {}
        self._base: Points | None = None

    def taken(self, e: sx.Expr) -> sx.Expr:
        """The expression without the branches that conditions of numbers alone leave out."""
        open_ = self.names(e.condition) or any(isinstance(n, sx.Extent) for n in walk(e.condition)) \
            if isinstance(e, sx.Ternary) else True
        if isinstance(e, sx.Ternary) and not open_ and not self.reads(e.condition):
            c = Expressions(self.numbers, self.lets, {}, {}, {}).value(e.condition)  # type: ignore[arg-type]
            return self.taken(e.a if bool(c.data if c.number is None else c.number) else e.b)
        return sx.rebuild(e, tuple(map(self.taken, sx.operands(e))))

    def reads(self, e: sx.Expr) -> bool:
        return reads(e, self.tensors) or any(
            isinstance(n, sx.Name) and n.id in self.lets and self.reads(self.lets[n.id]) for n in walk(e))

    def asked(self, e: sx.Expr) -> bool:
        """Is a condition asked at each instance, and narrows no range? It reads memory, or is not quasi-affine."""
        return self.reads(e) or self.bent(e)

    def bent(self, e: sx.Expr) -> bool:
        """Is an expression of indices and numbers not quasi-affine?"""
        match e:
            case sx.Number():
                return isinstance(e.value, float)
            case sx.Name():
                if e.id in self.lets:
                    return self.bent(self.lets[e.id])
                return isinstance(self.numbers.get(e.id), float)
            case sx.Binary(op="*"):
                bent = bool(self.names(e.a)) and bool(self.names(e.b))
            case sx.Binary(op="//" | "%"):
                bent = bool(self.names(e.b))
            case sx.Binary(op="/"):
                bent = True
            case sx.Binary(op="&" | "|" | "^" | "<<" | ">>") | sx.Unary(op="~"):
                bent = bool(self.names(e))
            case sx.Call():
                bent = e.fn not in _PIECES and bool(self.names(e))
            case _:
                bent = False
        return bent or any(map(self.bent, sx.operands(e)))

    def remembers(self, c: sx.RangeClause) -> bool:
        return self.reads(c.lower) or self.reads(c.upper)

    def names(self, e: sx.Expr) -> set[str]:
        return set(self.ordered(e))

    def ordered(self, e: sx.Expr) -> Iterator[str]:
        """The indices in an expression, in order."""
        for n in walk(e):
            if isinstance(n, sx.Name) and n.id in self.lets:
                yield from self.ordered(self.lets[n.id])
            elif isinstance(n, sx.Name) and n.id not in self.tensors and n.id not in self.numbers and n.id not in CONSTANTS:
                yield n.id

    def mentioned(self, around: list[sx.RangeClause], own: tuple[sx.Clause, ...]) -> Iterator[str]:
        yield from (c.index for c in around)
        for e in (*self.s.subscripts, *self.values):
            yield from self.ordered(e)
        for c in own:
            if isinstance(c, sx.RangeClause):
                yield c.index
                yield from (*self.ordered(c.lower), *self.ordered(c.upper))
            elif isinstance(c, sx.Condition):
                yield from self.ordered(c.value)

    # ---- what narrows the points

    def narrows(self, c: sx.RangeClause) -> bool:
        """Does a range say more than its first and last value?"""
        return self.remembers(c) or c.step is not None or bool(self.names(c.lower) | self.names(c.upper)) or sum(
            isinstance(x, sx.RangeClause) and x.index == c.index for x in self.s.clauses) > 1

    @staticmethod
    def condition(e: sx.Expr) -> Callable[[Expressions], values.Value]:
        return lambda x: x.value(e)

    @staticmethod
    def bounded(c: sx.RangeClause) -> Callable[[Expressions], values.Value]:
        def holds(x: Expressions) -> values.Value:
            low, high = x.value(c.lower), x.value(c.upper)
            step = 1 if c.step is None else int(x.value(c.step).data)
            i, a, b = x.at[c.index], low.data.astype(np.int64), high.data.astype(np.int64)
            inside = (a <= i) & (i < b) if step > 0 else (b < i) & (i <= a)
            return values.Value(inside & ((i - a) % step == 0), "bool", error=values.largest(low.error, high.error))
        return holds

    # ---- ranges

    def solve(self, hulls: Mapping[str, Hull], target: Hull | None, make: Callable[[Points], Expressions]) -> None:
        """Finds the box. hulls: of the tensors that are read, as far as they are known; make: see Solver."""
        free: list[ranges.Read] = []
        guarded: list[ranges.Read] = []
        said = [*self.s.subscripts, *self.values, *self.lets.values()] + [
            e for c in self.s.clauses if not isinstance(c, sx.LetClause)
            for e in ((c.lower, c.upper) if isinstance(c, sx.RangeClause) else (c.value,))]
        for e in said:
            behind = [n.access for n in walk(e) if isinstance(n, sx.Guarded)]
            for n, path in ranges.paths(e):
                if isinstance(n, sx.Access) and n.tensor in hulls:
                    pairs = zip(n.subscripts, hulls[n.tensor], strict=True)
                    own = tuple((c, wanted) for c, wanted in path if not self.asked(c))
                    (guarded if any(n is g for g in behind) else free).extend(
                        (p, b, own) for p, b in pairs if not self.reads(p))
        left = [] if target is None else [
            (p, b, ()) for p, b in zip(self.s.subscripts, target, strict=True) if not self.reads(p)]
        self.box = ranges.Solver(self.indices, self.names, self.where, free, guarded, left, make).run()
        self._base = None

    def closure(self, names: set[str], tests: Sequence[Test]) -> set[str]:
        """The names and all that narrows them."""
        while more := {n for t in tests if t.names & names for n in t.names} - names:
            names = names | more
        return names

    def grid(self, names: set[str]) -> Points:
        """All points of a box, one after another."""
        if not names:
            return {"": np.zeros(1, np.int64)}
        order = [i for i in self.indices if i in names]
        extents = [max(self.box[i][1] - self.box[i][0] + 1, 0) for i in order]
        if prod(extents) > MOST:
            raise Unsupported("too many points")
        at = np.indices(extents).reshape(len(order), -1)
        return {i: at[d] + self.box[i][0] for d, i in enumerate(order)}

    @staticmethod
    def narrowed(points: Points, tests: Sequence[Test], make: Callable[[Points], Expressions]) -> Points:
        """Those for which all tests hold."""
        for t in tests:
            held = np.broadcast_to(t.holds(make(points)).data, next(iter(points.values())).shape if points else ())
            points = {i: a if a.ndim == 0 else a[held] for i, a in points.items()}
        return points

    def hull(self, target: Hull | None, make: Callable[[Points], Expressions], *, restarted: bool) -> Hull | None:
        """What the statement writes, or starts again: the bounds of it. target: of what memory decides."""
        used = {n for e in self.s.subscripts for n in self.names(e)} | self.around
        none = {i for i, (low, high) in self.box.items() if low > high}
        tests = [t for t in self.tests if not t.memory and not t.names & none and (not restarted or t.names <= used)]
        found = []
        for e, scattered, d in zip(self.s.subscripts, self.scattered, range(len(self.scattered))):
            if scattered:
                if target is None:
                    raise Refused("a scatter of unknown extent")
                found.append(target[d])
                continue
            if self.names(e) & none:
                found.append((0, -1))
                continue
            of = self.closure(self.names(e), tests)
            points = self.narrowed(self.grid(of), [t for t in tests if t.names <= of], make)
            if not next(iter(points.values())).size:
                if of & self.around:
                    raise Unsupported("ranges of a `for` that leave no iteration together")
                return None
            at = make(points).value(e).data
            found.append((int(at.min()), int(at.max())))
        return tuple(found)

    # ---- the run

    def points(self, env: Mapping[str, int], make: Callable[[Points], Expressions]) -> tuple[Points, bool]:
        """The points of one iteration of the loops around, in order; and whether what memory decides of them is sure."""
        around = {i: np.asarray(env[i]) for i in self.counters}
        own = set(self.indices) - around.keys()
        tests = [t for t in self.tests if not t.loop and not t.memory]
        if self._base is None:
            self._base = self.narrowed(self.grid(own), [t for t in tests if t.names <= own], make)
        points = self._base
        if any(not self.box[i][0] <= env[i] <= self.box[i][1] for i in self.counters):
            points = {i: a[:0] for i, a in points.items()}
        points = self.narrowed({**points, **around}, [t for t in tests if not t.names <= own], make)
        sure = True
        for t in (t for t in self.tests if t.memory and not t.loop):
            sure = sure and t.holds(make(points)).error is None
            points = self.narrowed(points, [t], make)
        return points, sure

    def restarts(self, env: Mapping[str, int], make: Callable[[Points], Expressions]) -> Points:
        """Values of the left side's indices for which `op=!` starts again in this iteration."""
        used = {n for e in self.s.subscripts for n in self.names(e)} | self.around
        around = {i: np.asarray(env[i]) for i in self.counters}
        tests = [t for t in self.tests if not t.memory and not t.loop and t.names <= used]
        return self.narrowed({**self.grid(used - around.keys()), **around}, tests, make)
