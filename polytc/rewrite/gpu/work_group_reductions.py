"""Reductions for GPUs: the items of a group divide them, and put their results together in local memory.

    S[i] += X[i,k]                                      with X[512,512] on gpu
    ->  S_mine[i_group,i_item,item] += X[2*i_group + i_item, item + 128*round] where round in 0:4
        S_part[i_group,i_item,item] = S_mine[i_group,i_item,item] where item in 0:128
        S_part2[i_group,i_item,item] = S_part[i_group,i_item,item] + S_part[i_group,i_item, item + 8] + (...) where item in 0:8
        S_own[i_group,i_item,item] += S_part2[i_group,i_item,0] + S_part2[i_group,i_item,1] + (...)
        S[2*i_group + i_item] = S_own[i_group,i_item,item]

A tree with branches of up to 16: between its levels the items meet at a barrier. What the group does with single results runs
in every item, which is quicker than to wait for one; what it does with the elements of a row is divided as the reduction is,
and stays in registers where all of it is made and used by the same items. The order of operations is fixed: results do not
vary.
Index ranges say what their loops become, as in rewrite.gpu.local_tiles. (Harris, Optimizing Parallel Reduction in CUDA, 2007.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import Affine
from polytc.program.linear import expression, linear, normalise
from polytc.program.names import Names
from polytc.program.scalars import I64, DType, identity
from polytc.program.sizes import may_be_less
from polytc.rewrite.gpu.enclosing import Enclosing
from polytc.rewrite.gpu.tiled_indices import TiledIndex, is_ragged, varies
from polytc.rewrite.gpu.work_group_shape import WorkGroupShape
from polytc.schedule.facts.fusion_groups import Group, conditions_on, reduced_indices

BRANCHES = 16
"""Results that one item puts together at once."""
KEPT = 16
"""Elements of a row that an item keeps in registers, of one tensor."""


class ReducedGroup:
    """What a group becomes. tensors: the new ones."""

    def __init__(self, program: pr.Program, group: Group, shape: WorkGroupShape, rows: dict[str, tuple[pr.Expr, ...]],
                 names: Names, outside: Enclosing) -> None:
        self.program, self.group, self.shape, self.names, self.outside = program, group, shape, names, outside
        self.tensors: list[pr.Tensor] = []
        self.places = rows
        self.cuts = self._row_cuts()
        self.blocks = tuple(r for c in self.cuts for r, _ in c.outer) or (
            pr.Range(self.names.index("group"), 0, 1, kinds.group(0)),)
        member = pr.Range(self.names.index("item"), 0, shape.size, kinds.item(shape.axis))
        self.items = tuple(sorted((member, *(r for c in self.cuts for r, _ in c.inner)), key=lambda r: r.kind, reverse=True))
        self.rounds: dict[int, pr.Range] = {}
        self.own: dict[str, str] = {}                                # tensor of the group -> that of the items
        self.kept = self._kept()
        self.made: list[pr.Statement] = []

    # ---- loops

    def _row_cuts(self) -> list[TiledIndex]:
        """The cut of each shared loop."""
        cuts = []
        for r, (row, (lower, upper)) in enumerate(zip(self.group.rows, self.group.ranges, strict=True)):
            name, other = row[0], 1 - self.shape.axis
            if r != self.shape.row:
                group = pr.Range(self.names.index(f"{name}_group"), 0, upper - lower, kinds.group(0))
                cuts.append(TiledIndex(lower, ((group, 1),), ()))
                continue
            beside = self.shape.items[other]
            outer = pr.Range(self.names.index(f"{name}_group"), 0, -(-(upper - lower) // beside), kinds.group(0))
            inner = pr.Range(self.names.index(f"{name}_item"), 0, beside, kinds.item(other))
            cuts.append(TiledIndex(lower, ((outer, beside),), ((inner, 1),)))
        return cuts

    def _round(self, extent: int) -> pr.Range:
        """The loop over what one item does of so many iterations."""
        if extent not in self.rounds:
            count = -(-extent // self.shape.size)
            kind = "sequential" if may_be_less(KEPT, count) else "unroll"
            self.rounds[extent] = pr.Range(self.names.index("round"), 0, count, kind)
        return self.rounds[extent]

    @property
    def _member(self) -> pr.Range:
        """The items that reduce together."""
        return next(r for r in self.items if r.kind == kinds.item(self.shape.axis))

    def _values(self, position: int) -> dict[str, pr.Expr]:
        """A statement's indices over the cut ones."""
        values = {row[position]: expression(c.whole) for row, c in zip(self.group.rows, self.cuts, strict=True)}
        dealt = self._dealt(position)
        if dealt is not None:
            cut = TiledIndex(dealt.lower, ((self._round(dealt.extent), self.shape.size),), ((self._member, 1),))
            values[dealt.index] = expression(cut.whole)
        return values

    def _dealt(self, position: int) -> pr.Range | None:
        name = self.shape.dealt[position]
        return next((r for r in self.group.inner(position) if r.index == name), None)

    def _guards(self, position: int | None) -> tuple[pr.Bound, ...]:
        """What tells the instances that there are, of a statement or of the rows: items may have none to do."""
        found = []
        for c, (lower, upper) in zip(self.cuts, self.group.ranges, strict=True):
            if c.inner and is_ragged(upper - lower, c.outer[0][1]):
                (group, size), (item, _) = c.outer[0], c.inner[0]
                found.append(_below(item, {group.index: size} if varies(group) else {}, upper - lower))
        dealt = self._dealt(position) if position is not None else None
        if dealt is not None and is_ragged(dealt.extent, self.shape.size):
            round_ = self._round(dealt.extent)
            found.append(_below(self._member, {round_.index: self.shape.size} if varies(round_) else {}, dealt.extent))
        return tuple(found)

    # ---- tensors

    def _tensor(self, base: str, dtype: DType, ranges: Sequence[pr.Range]) -> str:
        """A new tensor with an element for each iteration of the ranges."""
        name = self.names.label(base)
        self.tensors.append(pr.Tensor(name, dtype, tuple(r.extent for r in ranges), (0,) * len(ranges)))
        return name

    def _kept(self) -> dict[str, pr.Range]:
        """The tensors of which each item keeps the elements that it makes, and uses no others; the range of one's rounds."""
        found: dict[str, pr.Range] = {}
        written = {s.target for s in self.group.statements} - self.places.keys()
        for tensor in sorted(written):
            used = self._used(tensor)
            if tensor in self.program.temporaries and not self._outside(tensor) and used is not None:
                found[tensor] = used
        return found

    def _used(self, tensor: str) -> pr.Range | None:
        """The rounds of a tensor that all statements deal in the same way, if they do."""
        seen: set[tuple[object, ...]] = set()
        extents: set[int] = set()
        for n, s in enumerate(self.group.statements):
            dealt = self._dealt(n)
            names: dict[str, pr.Expr] = {row[n]: pr.Index(row[0]) for row in self.group.rows}
            if dealt is not None:
                names[dealt.index] = pr.Index("")
            for t, cell in ((s.target, s.subscripts), *((r.tensor, r.subscripts) for r in pr.reads(s))):
                if t == tensor:
                    if dealt is None or len(self.group.inner(n)) > 1:
                        return None
                    seen.add((dealt.lower, *(pr.substitute(sub, names) for sub in cell)))
                    extents.add(dealt.extent)
        plain = {f.index for sub in next(iter(seen))[1:] if (f := linear(sub)) is not None}
        told = {row[0] for row in self.group.rows} | {""} <= plain
        defaults = any(r.default is not None for s in self.group.statements for r in pr.reads(s) if r.tensor == tensor)
        if len(seen) != 1 or len(extents) != 1 or not told or defaults:
            return None
        found = self._round(extents.pop())
        return found if found.kind == "unroll" else None

    def _outside(self, tensor: str) -> bool:
        """Does anything else use a tensor?"""
        return self.outside.uses(self.program, self.group, tensor)

    # ---- statements

    def statements(self) -> list[pr.Statement]:
        """The group's statements over the cut indices."""
        shape = (*self.blocks, *self.items)
        for tensor in self.places:
            self.own[tensor] = self._tensor(f"{tensor}_own", self.program.tensor(tensor).dtype, shape)
        for tensor, rounds in self.kept.items():
            self.own[tensor] = self._tensor(f"{tensor}_own", self.program.tensor(tensor).dtype, (*shape, rounds))
        for tensor in self.places:
            self._load(tensor)
        for n, s in enumerate(self.group.statements):
            if reduced_indices(s):
                self._reduce(s, n)
            else:
                self._plain(s, n)
        for tensor in self.places:
            if self._outside(tensor):
                self._store(tensor)
        return self.made

    def _cell(self) -> tuple[pr.Expr, ...]:
        return tuple(pr.Index(r.index) for r in (*self.blocks, *self.items))

    def _emit(self, name: str, target: str, cell: Sequence[pr.Expr], op: str | None, value: pr.Expr, inner: Sequence[pr.Range],
              guards: tuple[pr.Bound, ...] = (), items: Sequence[pr.Range] | None = None,
              where: tuple[pr.Expr, ...] = ()) -> None:
        ranges = (*self.blocks, *(self.items if items is None else items), *inner)
        self.made.append(pr.Statement(name, target, tuple(cell), op, value, ranges, where, bounds=guards))

    def _load(self, tensor: str) -> None:
        """An item's own copy of a result begins with what is in memory, unless the group begins with setting it."""
        first = next(s for s in self.group.statements
                     if tensor == s.target or any(r.tensor == tensor for r in pr.reads(s)))
        if first.target == tensor and first.op is None and all(r.tensor != tensor for r in pr.reads(first)):
            return
        dtype = self.program.tensor(tensor).dtype
        value = pr.Read(tensor, self._place(tensor), dtype)
        if self._guards(None) or self._region():  # items without a result compute all the same: with what there is
            nothing = pr.Const(identity("+", dtype), dtype)
            self._emit(self.names.label(f"{tensor}_none"), self.own[tensor], self._cell(), None, nothing, ())
        self._emit(self.names.label(f"{tensor}_load"), self.own[tensor], self._cell(), None, value, (), self._guards(None),
                   where=self._region())

    def _store(self, tensor: str) -> None:
        """One of the items that reduce together writes a result."""
        value = pr.Read(self.own[tensor], self._cell(), self.program.tensor(tensor).dtype)
        items = [replace(r, upper=1) if r is self._member else r for r in self.items]
        self._emit(self.names.label(f"{tensor}_store"), tensor, self._place(tensor), None, value, (), self._guards(None), items,
                   self._region())

    def _place(self, tensor: str) -> tuple[pr.Expr, ...]:
        """Where a result lies."""
        return tuple(_flat(pr.substitute(sub, self._values(0))) for sub in self.places[tensor])

    def _region(self) -> tuple[pr.Expr, ...]:
        """The conditions under which a row has results, which are the same for all statements."""
        s = self.group.statements[0]
        return tuple(self._moved(c, 0) for c in conditions_on(s, [row[0] for row in self.group.rows]))

    def _where(self, position: int) -> tuple[pr.Expr, ...]:
        """The conditions of a statement."""
        return tuple(self._moved(c, position) for c in self.group.statements[position].where)

    def _moved(self, e: pr.Expr, position: int) -> pr.Expr:
        """An expression of a statement over the cut indices, which reads the items' own tensors."""
        def own(x: pr.Expr) -> pr.Expr:
            if isinstance(x, pr.Read) and x.tensor in self.own:
                return pr.Read(self.own[x.tensor], self._own_cell(x.tensor), x.dtype)
            return x
        return normalise(pr.map_expr(pr.substitute(e, self._values(position)), own))

    def _own_cell(self, tensor: str) -> tuple[pr.Expr, ...]:
        rounds = self.kept.get(tensor)
        return (*self._cell(), *((pr.Index(rounds.index),) if rounds is not None else ()))

    def _plain(self, s: pr.Statement, position: int) -> None:
        """A statement on results, or on the elements of a row."""
        value = self._moved(s.value, position)
        dealt = self._dealt(position)
        inner = [r for r in self.group.inner(position) if r is not dealt] + ([self._round(dealt.extent)] if dealt else [])
        if s.target in self.own:
            cell = self._own_cell(s.target)
        else:
            cell = tuple(_flat(pr.substitute(sub, self._values(position))) for sub in s.subscripts)
        read = {r.tensor for r in pr.walk(value) if isinstance(r, pr.Read)}
        memory = s.target not in self.own or not read <= set(self.own.values())
        guards = self._guards(position) if memory else ()
        self._emit(s.name, self.own.get(s.target, s.target), cell, s.op, value, inner, guards, where=self._where(position))

    def _reduce(self, s: pr.Statement, position: int) -> None:
        """What each item adds up, the tree, and the result."""
        assert s.op is not None
        dtype = self.program.tensor(s.target).dtype
        dealt = self._dealt(position)
        assert dealt is not None, "reductions: nothing to divide"
        shape = (*self.blocks, *self.items)
        mine = self._tensor(f"{s.target}_mine", dtype, shape)
        inner = [*(r for r in self.group.inner(position) if r is not dealt), self._round(dealt.extent)]
        self._emit(self.names.label(f"{s.name}_begin"), mine, self._cell(), None, pr.Const(identity(s.op, dtype), dtype), ())
        self._emit(s.name, mine, self._cell(), s.op, self._moved(s.value, position), inner, self._guards(position),
                   where=self._where(position))
        name = self._tensor(f"{s.target}_part", dtype, shape)
        self._emit(self.names.label(f"{s.name}_part"), name, self._cell(), None, pr.Read(mine, self._cell(), dtype), ())
        width = self.shape.size
        if len(tree_levels(width)) == 1:
            self._meet()
        for branches in tree_levels(width)[:-1]:
            width //= branches
            member = replace(self._member, upper=width)
            items = [member if r is self._member else r for r in self.items]
            below, name = name, self._tensor(f"{s.target}_part", dtype, (*self.blocks, *items))
            value = combine_as_tree(s.op, [pr.Read(below, self._at(u * width, member), dtype) for u in range(branches)], dtype)
            self._emit(self.names.label(f"{s.name}_part"), name, self._cell(), None, value, (), items=items)
        own = self.own[s.target]
        whole = combine_as_tree(s.op, [pr.Read(name, self._at(u, None), dtype) for u in range(width)], dtype)
        self._emit(self.names.label(f"{s.name}_all"), own, self._cell(), s.op, whole, ())

    def _meet(self) -> None:
        """Let the statements that follow have loops of their own over the items, which begin when those before have ended."""
        self.items = tuple(replace(r, index=self.names.index("item")) if r is self._member else r for r in self.items)

    def _at(self, offset: int, member: pr.Range | None) -> tuple[pr.Expr, ...]:
        """The cell of the item `offset`, or of that many behind the own one."""
        name = self._member.index
        place = expression(Affine(offset, ((name, 1),) if member is not None and member.extent > 1 else ()))
        return tuple(place if e == pr.Index(name) else e for e in self._cell())


def tree_levels(items: int) -> list[int]:
    """The branches of each level of a tree over a power of two: as few levels as possible, about equal."""
    bits, most = items.bit_length() - 1, BRANCHES.bit_length() - 1
    count = max(1, -(-bits // most))
    return [1 << (bits // count + (n < bits % count)) for n in range(count)]


def combine_as_tree(op: str, parts: Sequence[pr.Expr], dtype: DType) -> pr.Expr:
    """All parts put together by a reduction operator, as a balanced tree."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    a, b = combine_as_tree(op, parts[:half], dtype), combine_as_tree(op, parts[half:], dtype)
    return pr.Call(op, (a, b), dtype) if op in ("min", "max") else pr.Binary(op, a, b, dtype)


def _below(r: pr.Range, others: dict[str, int], end: int) -> pr.Bound:
    """r + others < end."""
    terms = tuple((i, -c) for i, c in sorted(others.items()))
    return pr.Bound(r.index, pr.Const(0, I64), expression(Affine(end, terms)))


def _flat(e: pr.Expr) -> pr.Expr:
    form = linear(e)
    return expression(form) if form is not None else e
