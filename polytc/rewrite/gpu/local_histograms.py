"""Histograms and other scattered updates of whole numbers: the items of a group update copies of the target in local memory.

    H[x[i]] += 1 -> (i64[64] H)                         with i32 x[524288] on gpu
    ->  x_own[i_part,item,i_step,i_each_load,i_lane_load] = x[1024*i_each_load + i_lane_load + 2048*i_part + 4*item]
        H_local[i_part, i64(x_own[i_part,item,i_step,i_each,i_lane]), item % 16] += 1 where i_part in 0:256, item in 0:256
        H_parts[i_part,0,item3] = H_local[i_part,item3,item3 // 2 % 16] + ...
        H_parts2[i_part2_part,k] += i64(H_parts[i_part2_at + 64*i_part2_part, 0, k])
        H[k] += H_parts2[i_part2_part,k]

An atomic update reads and writes its element in one step, so that items that meet in one need not wait for each other. Whole
numbers give the same sum in any order; floats do not, and stay with rewrite.gpu.scattered_parts. What an item updates with it
loads before, several elements at once, neighbouring items neighbouring ones. Numbers in local memory have 32 bits
(histogram_shapes says when these do); the elements of a group's copies are zeroed, and put together, by all its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import Affine
from polytc.program.linear import expression, linear, normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I32, I64, identity
from polytc.program.traces.traced import whole
from polytc.rewrite.gpu import histogram_shapes
from polytc.rewrite.gpu.histogram_shapes import Histogram, Update
from polytc.rewrite.gpu.tiled_indices import TiledIndex, is_ragged
from polytc.rewrite.gpu.work_group_reductions import combine_as_tree

BANKS = 32
"""Words of local memory that items can reach at once: neighbours begin with other copies where they put them together."""


@dataclass(frozen=True)
class Made:
    """tensors: new ones; statements: of the kernel that makes partial results; total: what takes the place of the update; None
    where the kernel has updated the target itself."""

    tensors: tuple[pr.Tensor, ...]
    statements: tuple[pr.Statement, ...]
    total: pr.Statement | None


def made(program: pr.Program, s: pr.Statement, by: Histogram, names: Names, fresh: bool = False) -> Made:
    """An update with copies of its target in local memory. fresh: the kernel sets the target, where nothing has been before."""
    u = histogram_shapes.update(program, s, histogram_shapes.opened(program, s))
    assert isinstance(u, Update), f"local histograms: {u}"
    return _Kernel(program, s, u, by, names, fresh).made()


def may_begin(program: pr.Program, start: pr.Statement, s: pr.Statement, by: Histogram) -> bool:
    """Can the kernel set the whole target, which `start` fills with a number that changes nothing?"""
    u, target = histogram_shapes.update(program, s, histogram_shapes.opened(program, s)), program.tensor(s.target)
    if program.sizes or not by.parts == by.ranges == 1 or not isinstance(u, Update) or s.op is None:
        return False
    number = isinstance(start.value, pr.Const) and start.value.value == identity(s.op, target.dtype)
    filled = number and not (start.op or start.where or start.bounds) and start.points == target.size
    kept = {d: form for d, sub in enumerate(s.subscripts) if d not in u.local and (form := linear(sub)) is not None}
    ends = [(s.by_index[f.terms[0][0]].lower + f.constant, s.by_index[f.terms[0][0]].extent) for f in kept.values()]
    alone = len({f.terms for f in kept.values()}) == len(kept)
    return filled and alone and ends == [(target.lower[d], target.shape[d]) for d in kept]


class _Kernel:
    """The statements that groups run. blocks: the loops over groups; kept: those of them that are indices of the update; part,
    range: of what is scattered, and of the target; item: of a group, in each phase another loop."""

    def __init__(self, program: pr.Program, s: pr.Statement, u: Update, by: Histogram, names: Names, fresh: bool) -> None:
        self.program, self.s, self.u, self.by, self.names, self.fresh = program, s, u, by, names, fresh
        self.target = program.tensor(s.target)
        self.kept = {r.index: pr.Range(names.index(f"{r.index}_group"), 0, r.extent, kinds.group(0)) for r in u.kept}
        self.part = pr.Range(names.index(f"{by.index}_part"), 0, by.parts, kinds.group(0))
        self.range = pr.Range(names.index(f"{s.target}_range"), 0, by.ranges, kinds.group(0))
        several = (*((self.part,) if by.parts > 1 else ()), *((self.range,) if by.ranges > 1 else ()))
        self.blocks = (*self.kept.values(), *several) or (self.part,)
        self.each = histogram_shapes.each(u, whole(s.by_index[u.walked].extent), by)
        self.cuts = self._cuts()
        self.sides = tuple(self._side(d) for d in u.local)
        self.tensors: list[pr.Tensor] = []
        self.local = self._tensor("local", (*(r.extent for r in self.blocks), *self.sides, by.copies),
                                  (*(0 for _ in self.blocks), *map(self._lower, u.local), 0))

    def made(self) -> Made:
        """See `made`."""
        zeroed, updated = self._zeroed(), self._updated()
        stored, total = self._stored()
        return Made(tuple(self.tensors), (zeroed, *updated, stored), total)

    # ---- loops and tensors

    def _cuts(self) -> dict[str, TiledIndex]:
        """The divided indices. What items walk they take in steps, of which groups take turns if they divide it, too."""
        u, by, found = self.u, self.by, dict[str, TiledIndex]()
        for index in dict.fromkeys((by.index, u.walked)):
            r, parts = self.s.by_index[index], by.parts if index == by.index else 1
            unit = by.items * self.each if index == u.walked else 1
            turn = pr.Range(self.names.index(f"{index}_{'step' if unit > 1 else 'at'}"), 0, -(-r.extent // (parts * unit)))
            outer = ((turn, parts * unit), *(((self.part, unit),) if parts > 1 else ()))
            found[index] = TiledIndex(r.lower, outer, self._inner() if index == u.walked else ())
        return found

    def _inner(self) -> tuple[tuple[pr.Range, int], ...]:
        """What an item does of a step: some vectors, or elements, that lie as far apart as all items reach, and the elements of
        a vector."""
        item, lanes = self._items("item"), self.u.lanes
        some = pr.Range(self.names.index(f"{self.u.walked}_each"), 0, self.each // lanes, "unroll")
        lane = pr.Range(self.names.index(f"{self.u.walked}_lane"), 0, lanes, "unroll")
        return ((some, self.by.items * lanes), (item, lanes), *(((lane, 1),) if lanes > 1 else ()))

    def _items(self, name: str) -> pr.Range:
        return pr.Range(self.names.index(name), 0, self.by.items, kinds.item(0))

    def _side(self, d: int) -> int:
        """Elements of a dimension that a group has."""
        extent = int(self.target.shape[d])
        return -(-extent // self.by.ranges) if d == self.u.longest else extent

    def _lower(self, d: int) -> int:
        return 0 if d == self.u.longest and self.by.ranges > 1 else int(self.target.lower[d])

    def _first(self) -> pr.Expr:
        """The coordinate with which a group's range begins."""
        d = self.u.longest
        return expression(TiledIndex(int(self.target.lower[d]), ((self.range, self.sides[self.u.local.index(d)]),), ()).whole)

    def _tensor(self, end: str, shape: Sequence[int], lower: Sequence[int]) -> pr.Tensor:
        tensor = pr.Tensor(self.names.label(f"{self.s.target}_{end}"), self.u.dtype, tuple(shape), tuple(lower))
        self.tensors.append(tensor)
        return tensor

    @property
    def _groups(self) -> tuple[pr.Expr, ...]:
        return tuple(pr.Index(r.index) for r in self.blocks)

    def _statement(self, end: str, target: str, cell: Sequence[pr.Expr], value: pr.Expr, inner: Sequence[pr.Range],
                   bounds: tuple[pr.Bound, ...] = (), op: str | None = None) -> pr.Statement:
        name = self.names.label(f"{self.s.name}_{end}")
        return pr.Statement(name, target, tuple(cell), op, value, (*self.blocks, *inner), span=self.s.span, bounds=bounds)

    def _dealt(self, total: int) -> tuple[pr.Expr, tuple[pr.Range, pr.Range], tuple[pr.Bound, ...]]:
        """So many elements that the items of a group divide: the number of one, the loops, and the test that it exists."""
        item = self._items("item")
        rounds = pr.Range(self.names.index("round"), 0, -(-total // self.by.items))
        number = TiledIndex(0, ((rounds, self.by.items),), ((item, 1),)).whole
        if not is_ragged(total, self.by.items):
            return expression(number), (item, rounds), ()
        rest = Affine(total, tuple((i, -c) for i, c in number.terms if i != item.index))
        return expression(number), (item, rounds), (pr.Bound(item.index, pr.Const(0, I64), expression(rest)),)

    def _coordinates(self, number: pr.Expr, copies: int) -> tuple[pr.Expr, ...]:
        """The place of an element of a group by its number, in so many copies of the target."""
        found, left = list[pr.Expr](), prod(self.sides) * copies
        lower = (*map(self._lower, self.u.local), 0)
        for n, low in reversed(list(zip((*self.sides, copies), lower, strict=True))[:len(lower) - (copies == 1)]):
            digit = number if n == left else pr.Binary("%", number, pr.Const(n, I64), I64) if n > 1 else pr.Const(0, I64)
            found.insert(0, pr.Binary("+", digit, pr.Const(low, I64), I64) if low else digit)
            number, left = pr.Binary("//", number, pr.Const(n, I64), I64) if n > 1 else number, left // n
        return tuple(map(normalise, found))

    # ---- phases

    def _zeroed(self) -> pr.Statement:
        """All elements of a group."""
        op, dtype = self.s.op, self.u.dtype
        assert op is not None
        number, loops, bounds = self._dealt(prod(self.sides) * self.by.copies)
        cell = self._coordinates(number, self.by.copies)
        start = pr.Const(self._identity(op), dtype)
        return self._statement("zero", self.local.name, (*self._groups, *cell, *self._one_copy()), start, loops, bounds)

    def _one_copy(self) -> tuple[pr.Expr, ...]:
        return () if self.by.copies > 1 else (pr.Const(0, I64),)

    def _identity(self, op: str) -> int:
        """Of the target's numbers, which those in local memory hold all of."""
        of = self.target.dtype
        return int(identity(op, of if of.bits < self.u.dtype.bits and op != "&" else self.u.dtype))

    def _updated(self) -> list[pr.Statement]:
        """What an item loads, and the updates with it."""
        s, u, values = self.s, self.u, {i: expression(c.whole) for i, c in self.cuts.items()}
        values |= {i: expression(TiledIndex(s.by_index[i].lower, ((r, 1),), ()).whole) for i, r in self.kept.items()}
        cut = self.cuts[u.walked]
        item = next(r for r, _ in cut.inner if kinds.is_item(r.kind))
        some = tuple(r for r, _ in cut.inner if r is not item)
        inner = sorted((i for i in s.by_index if i not in self.kept), key=lambda i: i == u.walked)
        turns = [self.cuts[i].outer[0][0] if i in self.cuts else s.by_index[i] for i in inner]
        around = (item, *turns)
        tests, nowhere = self._tests(values), self._nowhere()
        own, loads = dict[pr.Read, pr.Read](), list[pr.Statement]()
        for r in histogram_shapes.copied(s, u.walked):
            shape = tuple(x.extent for x in (*self.blocks, *around, *some))
            lower = tuple(x.lower for x in (*self.blocks, *around, *some))
            tensor = pr.Tensor(self.names.label(f"{r.tensor}_own"), r.dtype, shape, lower)
            self.tensors.append(tensor)
            cell = tuple(pr.Index(x.index) for x in (*self.blocks, *around, *some))
            own[r] = pr.Read(tensor.name, cell, r.dtype)
            other = nowhere[1] if nowhere is not None and nowhere[0] == r else int(identity("+", r.dtype))
            loads.append(self._load(r, own[r], values, (tests, pr.Const(other, r.dtype)), around, some))

        def moved(e: pr.Expr) -> pr.Expr:
            return normalise(pr.substitute(pr.map_expr(e, lambda x: own.get(x, x) if isinstance(x, pr.Read) else x), values))
        where = (*(tests if nowhere is None or self._asks() else ()), *map(moved, s.where))
        last = some[-1]
        ends = pr.Const(last.lower, I64), pr.Const(last.upper, I64)
        bounds = (pr.Bound(last.index, pr.Select(pr.conjunction(where), *ends, I64), ends[1]),) if where else ()
        places = [self._inside(moved(s.subscripts[d]), d) for d in u.local]
        at: tuple[pr.Expr, ...] = (*self._groups, *places, self._copy(pr.Index(item.index)))
        update = self._statement("local", self.local.name, at, moved(u.value), (*around, *some), bounds, s.op)
        return [*loads, replace(update, atomic=True)]

    def _copy(self, number: pr.Expr) -> pr.Expr:
        """The copy of the target that a number stands for."""
        return normalise(pr.Binary("%", number, pr.Const(self.by.copies, I64), I64)) if self.by.copies > 1 else pr.Const(0, I64)

    def _inside(self, place: pr.Expr, d: int) -> pr.Expr:
        """A place in the target as one in the range of a group, which may lie outside: such an update does not happen."""
        if d != self.u.longest or self.by.ranges == 1:
            return place
        e = place.a if isinstance(place, pr.Cast) and place.dtype == I64 and place.a.dtype.is_int else place
        dtype = I32 if e.dtype == I32 or e.dtype.bits < I32.bits else I64  # what wraps lies outside as well
        e, first = (x if x.dtype == dtype else pr.Cast(x, dtype) for x in (e, self._first()))
        return pr.Binary("-", e, first, dtype)

    def _tests(self, values: dict[str, pr.Expr]) -> tuple[pr.Expr, ...]:
        """Whether an instance exists: items and groups may have none to do at the ends."""
        found = []
        for index, cut in self.cuts.items():
            r, each = self.s.by_index[index], cut.outer[0][1]
            if is_ragged(r.extent, each):
                found.append(pr.Binary("<", values[index], pr.Const(r.upper, I64), BOOL))
        return tuple(found)

    def _asks(self) -> bool:
        """Does an update use the divided indices itself, beside what it has loaded?"""
        own, zero = histogram_shapes.copied(self.s, self.u.walked), pr.Const(0, I64)
        left = (pr.map_expr(e, lambda x: zero if x in own else x) for e in (self.u.value, *self.s.subscripts))
        return any(isinstance(x, pr.Index) and x.name in self.cuts for e in left for x in pr.walk(e))

    def _nowhere(self) -> tuple[pr.Read, int] | None:
        """A read that is a place in the target, and a number that is none: where that stands for elements that there are not,
        nothing else needs to tell that they are not."""
        for d in self.u.local:
            place, low, high = self.s.subscripts[d], int(self.target.lower[d]), int(self.target.lower[d] + self.target.shape[d])
            place = place.a if isinstance(place, pr.Cast) and place.dtype == I64 else place
            if isinstance(place, pr.Read) and place in histogram_shapes.copied(self.s, self.u.walked):
                least, most = (int(identity(op, place.dtype)) for op in ("max", "min"))
                found = low - 1 if least < low else high if high <= most else None
                if found is not None:
                    return place, found
        return None

    def _load(self, r: pr.Read, own: pr.Read, values: dict[str, pr.Expr], otherwise: tuple[tuple[pr.Expr, ...], pr.Const],
              around: tuple[pr.Range, ...], some: tuple[pr.Range, ...]) -> pr.Statement:
        """An item's own copy of what it reads. otherwise: the tests that tell the elements that there are, and what stands for
        others."""
        tests, other = otherwise
        mine = [replace(x, index=self.names.index(f"{x.index}_load")) for x in some]
        if self.u.lanes > 1:
            mine[-1] = replace(mine[-1], kind="vector")
        at: dict[str, pr.Expr] = {x.index: pr.Index(y.index) for x, y in zip(some, mine, strict=True)}
        value: pr.Expr = pr.Read(r.tensor, tuple(normalise(pr.substitute(pr.substitute(sub, values), at))
                                                 for sub in r.subscripts), r.dtype)
        if tests:
            whole = {some[-1].index: pr.Const(0, I64)} if self.u.lanes > 1 else {}  # vectors exist as a whole, or do not
            first: dict[str, pr.Expr] = {**at, **whole}
            found = tuple(normalise(pr.substitute(t, first)) for t in tests)
            value = pr.Select(pr.conjunction(found), value, other, r.dtype)
        cell = tuple(pr.substitute(e, at) for e in own.subscripts)
        return self._statement("load", own.tensor, cell, value, (*around, *mine))

    def _stored(self) -> tuple[pr.Statement, pr.Statement | None]:
        """What the copies of a group are together, and what adds up the parts."""
        s, u, by = self.s, self.u, self.by
        assert s.op is not None
        number, loops, bounds = self._dealt(prod(self.sides))
        item, cell = loops[0], self._coordinates(number, 1)
        turned = expression(Affine(0, ((item.index, 1),))) if by.copies >= BANKS else \
            pr.Binary("//", pr.Index(item.index), pr.Const(BANKS // by.copies, I64), I64)

        copies = [self._copy(pr.Binary("+", turned, pr.Const(n, I64), I64) if n else turned) for n in range(by.copies)]
        reads = [pr.Read(self.local.name, (*self._groups, *cell, copy), u.dtype) for copy in copies]
        value = combine_as_tree(s.op, reads, u.dtype)
        if by.parts == 1 == by.ranges:
            return self._direct(cell, value, loops, bounds), None
        outer = (self.part, self.range, *self.kept.values())
        parts = pr.Tensor(self.names.label(f"{s.target}_parts"), u.dtype, (*(r.extent for r in outer), *self.sides),
                          (*(0 for _ in outer), *map(self._lower, u.local)))
        self.tensors.append(parts)
        place = tuple(pr.Index(r.index) if r in self.blocks else pr.Const(0, I64) for r in outer)
        return self._statement("parts", parts.name, (*place, *cell), value, loops, bounds), self._total(parts)

    def _direct(self, cell: tuple[pr.Expr, ...], value: pr.Expr, loops: tuple[pr.Range, ...], bounds: tuple[pr.Bound, ...]
                ) -> pr.Statement:
        """The update of the target by the only group that has what belongs to its elements."""
        at = dict(zip(self.u.local, cell, strict=True))
        values = {i: expression(TiledIndex(self.s.by_index[i].lower, ((r, 1),), ()).whole) for i, r in self.kept.items()}
        place = tuple(at[d] if d in at else normalise(pr.substitute(sub, values)) for d, sub in enumerate(self.s.subscripts))
        op = None if self.fresh else self.s.op
        return self._statement("total", self.s.target, place, self._of_target(value), loops, bounds, op)

    def _of_target(self, value: pr.Expr) -> pr.Expr:
        return value if value.dtype == self.target.dtype else pr.Cast(value, self.target.dtype)

    def _total(self, parts: pr.Tensor) -> pr.Statement:
        """What adds up the parts."""
        s, u = self.s, self.u
        cells = {d: pr.Range(self.names.index("k"), int(self.target.lower[d]), int(self.target.lower[d] + self.target.shape[d]))
                 for d in u.local}
        part = pr.Range(self.names.index(f"{self.by.index}_part"), 0, self.by.parts)
        kept = tuple(normalise(pr.Binary("-", pr.Index(r.index), pr.Const(r.lower, I64), I64)) for r in u.kept)
        at: dict[int, pr.Expr] = {d: pr.Index(r.index) for d, r in cells.items()}
        number: pr.Expr = pr.Const(0, I64)
        if self.by.ranges > 1:
            size = pr.Const(self.sides[u.local.index(u.longest)], I64)
            found = normalise(pr.Binary("-", at[u.longest], pr.Const(int(self.target.lower[u.longest]), I64), I64))
            number, at[u.longest] = (pr.Binary(op, found, size, I64) for op in ("//", "%"))
        first = pr.Index(part.index) if self.by.parts > 1 else pr.Const(0, I64)
        read = pr.Read(parts.name, (first, number, *kept, *at.values()), u.dtype)
        place = tuple(pr.Index(cells[d].index) if d in cells else sub for d, sub in enumerate(s.subscripts))
        ranges = (*u.kept, *cells.values(), *((part,) if self.by.parts > 1 else ()))
        return replace(s, name=self.names.label(f"{s.name}_total"), subscripts=place, value=self._of_target(read), where=(),
                       ranges=ranges)
