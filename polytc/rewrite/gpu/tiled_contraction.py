"""A contraction cut into groups, items and elements: what rewrite.gpu.local_tiles makes of a group of statements around it.

    C[i,j] += A[i,k]*B[k,j]                             with A[96,64], B[64,80] on mali
    ->  A_own[i_group,j_group,k_step,i_item,j_item, 0, A_own_1] = A[16*i_group + i_item, 4*k_step + A_own_1]
        B_own[i_group,j_group,k_step,i_item,j_item, B_own_0, B_own_1] = B[4*k_step + B_own_0, 16*j_group + 4*j_item + B_own_1]
        C_acc[i_group,j_group,i_item,j_item,i_row,j_vector,j_lane] += A_own[i_group,j_group,k_step,i_item,j_item,0,k_at]
            * B_own[i_group,j_group,k_step,i_item,j_item,k_at,j_lane] where k_at in 0:4, j_lane in 0:4
        C[16*i_group + i_item, ...] = C_acc[i_group,j_group,i_item,j_item,i_row,j_vector,j_lane]

Where operands are in registers, and some of what items read does not exist, the steps of the groups for which all exists are
statements of their own, without tests; the other steps follow, with tests. Which they are say ranges of the loops over steps,
so that both accumulate in the same registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, interval
from polytc.program.linear import expression, linear
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64, identity
from polytc.rewrite.gpu import contraction_tiles, matrix_tiles, tile_conditions, tile_copies
from polytc.rewrite.gpu.contraction_tiles import Blocking
from polytc.rewrite.gpu.enclosing import Enclosing
from polytc.rewrite.gpu.tile_copies import Operand
from polytc.rewrite.gpu.tiled_indices import TiledIndex, is_ragged, linear_subscripts, substitute_tiled, varies
from polytc.schedule.facts.fusion_groups import Group, conditions_on, reduced_indices


class TiledContraction:
    """What a group becomes. tensors: the new ones."""

    def __init__(self, program: pr.Program, group: Group, blocking: Blocking, names: Names, outside: Enclosing) -> None:
        self.program, self.group, self.blocking, self.names, self.outside = program, group, blocking, names, outside
        self.tensors: list[pr.Tensor] = []
        at = contraction_tiles.heavy(group)
        assert at is not None, "local tiles: no contraction"
        self.at, self.main = at, group.statements[at]
        self.cuts = self._cuts()

    # ---- indices

    def _cuts(self) -> dict[str, TiledIndex]:
        """The cut of each index of the contraction, in the order of the loops."""
        b, cuts = self.blocking, dict[str, TiledIndex]()
        order = [r for r in range(len(self.group.rows)) if r not in b.rows] + list(reversed(b.rows))
        for r in order:
            i, (lower, upper) = self.group.rows[r][self.at], self.group.ranges[r]
            if r not in b.rows:
                cuts[i] = TiledIndex(lower, ((pr.Range(i, 0, upper - lower, kinds.group(2)), 1),), ())
                continue
            axis = b.rows.index(r)
            outer = pr.Range(self.names.index(f"{i}_group"), 0, -(-(upper - lower) // b.tile[axis]), kinds.group(axis))
            item, *points = self._inside(i, axis)
            around = ((outer, b.tile[axis]),)
            cuts[i] = TiledIndex(lower, around, (item, *points)) if b.staged else TiledIndex(lower, (*around, item), (*points,))
        return cuts | self._reduction()

    def _inside(self, i: str, axis: int) -> tuple[tuple[pr.Range, int], ...]:
        """The parts of an index within a group's tile: the items, and what each has of it. Vectors of neighbouring items are
        neighbours in local memory; in others, those of one item."""
        b = self.blocking
        if b.matrix:
            return self._inside_warps(i, axis)
        items, elements = b.items[axis], b.elements[axis]
        item = pr.Range(self.names.index(f"{i}_item"), 0, items, kinds.item(axis))
        if axis == 2:
            return ((item, 1),)
        if axis == 1:
            return (item, elements), (pr.Range(self.names.index(f"{i}_row"), 0, elements, "unroll"), 1)
        vector = pr.Range(self.names.index(f"{i}_lane"), 0, b.lanes, "vector")
        part = pr.Range(self.names.index(f"{i}_vector"), 0, elements // b.lanes, "unroll")
        if b.staged:
            return (item, b.lanes), (part, items * b.lanes), (vector, 1)
        return (item, elements), (part, b.lanes), (vector, 1)

    def _inside_warps(self, i: str, axis: int) -> tuple[tuple[pr.Range, int], ...]:
        """The parts of an index within a group's tile where warps multiply tiles, see rewrite.gpu.matrix_tiles."""
        (across, down, beside), (columns, rows), name = self.blocking.items, self.blocking.elements, self.names.index
        if axis == 1:
            item = pr.Range(name(f"{i}_item"), 0, down, kinds.item(1))
            return (item, 1), (pr.Range(name(f"{i}_row"), 0, rows, "unroll"), down)
        lanes = self.blocking.lanes
        return ((pr.Range(name(f"{i}_warp"), 0, beside, kinds.item(2)), across * columns),
                (pr.Range(name(f"{i}_item"), 0, across, kinds.item(0)), lanes),
                (pr.Range(name(f"{i}_vector"), 0, columns // lanes, "unroll"), across * lanes),
                (pr.Range(name(f"{i}_lane"), 0, lanes, "vector"), 1))

    def _reduction(self) -> dict[str, TiledIndex]:
        depth, cuts = dict(self.blocking.depth), dict[str, TiledIndex]()
        for r in self.main.ranges:
            if r.index not in reduced_indices(self.main):
                continue
            step = depth.get(r.index, 1)
            outer = pr.Range(self.names.index(f"{r.index}_step"), 0, -(-r.extent // step), "sequential")
            kind = (kinds.MATRIX if self.blocking.matrix and r.index in depth else
                    "sequential" if self.blocking.staged else "unroll")
            inner = pr.Range(self.names.index(f"{r.index}_at"), 0, step, kind)
            cuts[r.index] = TiledIndex(r.lower, ((outer, step),), ((inner, 1),))
        return cuts

    @property
    def groups(self) -> list[pr.Range]:
        """The loops over work-groups."""
        cuts = (c for i, c in self.cuts.items() if i not in reduced_indices(self.main))
        return [r for c in cuts for r, _ in c.outer if not kinds.is_item(r.kind)]

    @property
    def steps(self) -> list[pr.Range]:
        """The loops around the copies that are the reduction's."""
        return [r for i, c in self.cuts.items() if i in reduced_indices(self.main) for r, _ in c.outer]

    def _inner(self, reduced: bool) -> list[pr.Range]:
        """The loops within a group's tile, and those within a step."""
        cuts = (c for i, c in self.cuts.items() if (i in reduced_indices(self.main)) == reduced)
        return [r for c in cuts for r, _ in (*(x for x in c.outer if kinds.is_item(x[0].kind)), *c.inner)]

    @property
    def elements(self) -> list[pr.Range]:
        """The loops over the elements of a group's tile: items first, those that are neighbours last, the vector last."""
        return sorted(self._inner(reduced=False), key=lambda r: (not kinds.is_item(r.kind), r.kind == kinds.item(0),
                                                                 r.kind == kinds.item(1), r.kind == "vector"))

    @property
    def _box(self) -> pr.Box:
        return pr.box(r for c in self.cuts.values() for r, _ in (*c.outer, *c.inner))

    # ---- statements

    def statements(self) -> list[pr.Statement]:
        """The group's statements over the cut indices."""
        made: list[pr.Statement] = []
        accumulators: dict[str, pr.Tensor] = {}
        for n, s in enumerate(self.group.statements):
            if s.target not in accumulators:
                accumulators[s.target] = self._accumulator(s)
            mine = accumulators[s.target]
            if n == self.at:
                if n == 0:
                    made += self._start(s, mine)
                self.mine = mine
                made += self._main()
            else:
                made.append(self._pointwise(s, n, mine, accumulators))
        kept = [(n, s) for n, s in enumerate(self.group.statements) if self.outside.uses(self.program, self.group, s.target)
                and s.target not in {x.target for x in self.group.statements[n + 1:]}]
        return made + [self._store(s, n, accumulators[s.target]) for n, s in kept]

    def _cell(self) -> tuple[pr.Expr, ...]:
        return tuple(pr.Index(r.index) for r in (*self.groups, *self.elements))

    def _accumulator(self, s: pr.Statement) -> pr.Tensor:
        """The tensor that holds a group's tile of what a statement computes, each item its own elements."""
        name = self.names.label(f"{s.target}_acc")
        shape = tuple(r.extent for r in (*self.groups, *self.elements))
        self.tensors.append(pr.Tensor(name, self.program.tensor(s.target).dtype, shape, (0,) * len(shape)))
        return self.tensors[-1]

    def _start(self, s: pr.Statement, mine: pr.Tensor) -> list[pr.Statement]:
        """The accumulators begin with what the target holds, those of no element with zero."""
        value = pr.Read(s.target, tuple(self._moved(e, self.at) for e in s.subscripts), mine.dtype)
        load = self._over_elements(f"{s.name}_load", self.at, mine.name, self._cell(), value)
        if not load.bounds and load.where == self._reached():
            return [load]
        none = self._over_elements(f"{s.name}_none", self.at, mine.name, self._cell(), tile_copies.zero(value), guarded=False)
        return [none, load]

    def _store(self, s: pr.Statement, position: int, mine: pr.Tensor) -> pr.Statement:
        value = pr.Read(mine.name, self._cell(), mine.dtype)
        cell = tuple(self._moved(e, position) for e in s.subscripts)
        own = self.outside.is_own(self.program, self.group, s.target)
        return self._over_elements(f"{s.name}_store", position, s.target, cell, value, conditional=not own)

    def _pointwise(self, s: pr.Statement, position: int, mine: pr.Tensor, known: Mapping[str, pr.Tensor]) -> pr.Statement:
        def moved(e: pr.Expr) -> pr.Expr:
            if isinstance(e, pr.Read) and e.tensor in known and (e.tensor != s.target):
                return pr.Read(known[e.tensor].name, self._cell(), e.dtype)
            return e
        value = pr.map_expr(self._moved(s.value, position), moved)
        reads = any(isinstance(e, pr.Read) for e in pr.walk(value))
        return self._over_elements(s.name, position, mine.name, self._cell(), value, guarded=reads, taken=False)

    def _over_elements(self, name: str, position: int, target: str, subscripts: tuple[pr.Expr, ...], value: pr.Expr,
                       guarded: bool = True, taken: bool = True, conditional: bool = True) -> pr.Statement:
        """A statement that runs once for each element of the tiles, of those within the result if it is guarded, and under its
        conditions if it is conditional. position: of the statement for whose elements it is."""
        name = self.names.label(name) if taken else name
        ends: list[pr.Bound] = []
        where = tuple(self._moved(c, position) for c in self._region(position)) if guarded and conditional else ()
        partial = bool(where)
        for axis, r in reversed(tuple(enumerate(self.blocking.rows))):
            cut, extent = self.cuts[self.group.rows[r][self.at]], self.group.extents[r]
            if not guarded or not is_ragged(extent, self.blocking.tile[axis]):
                continue
            lanes = self.blocking.lanes if axis == 0 and not is_ragged(extent, self.blocking.lanes) else 1
            partial |= axis == 0 and lanes == 1
            parts = (*cut.outer, *cut.inner)
            each = [r.index for r, size in parts if size == lanes and (varies(r) or lanes == 1)]
            at = each[-1] if each else parts[-1][0].index
            others = [(i, -c // lanes) for i, c in cut.whole.terms if i != at and c % lanes == 0]
            ends.append(pr.Bound(at, pr.Const(0, I64), expression(Affine(extent // lanes, tuple(others)))))
        elements = [replace(r, kind="unroll") if partial and r.kind == "vector" else r for r in self.elements]
        return pr.Statement(name, target, subscripts, None, value, (*self.groups, *elements), (*self._reached(), *where),
                            bounds=tuple(ends))

    def _region(self, position: int) -> tuple[pr.Expr, ...]:
        """The conditions of a statement that tell which elements there are."""
        return conditions_on(self.group.statements[position], [row[position] for row in self.group.rows])

    def _reached(self) -> tuple[pr.Expr, ...]:
        """The conditions under which a group has elements."""
        return tile_conditions.reached(self._region(self.at), self.cuts)

    def _moved(self, e: pr.Expr, position: int) -> pr.Expr:
        """An expression of one of the statements over the cut indices."""
        names = {row[position]: row[self.at] for row in self.group.rows}
        return linear_subscripts(pr.substitute(e, {i: expression(self.cuts[main].whole) for i, main in names.items()}))

    # ---- the contraction and its operands

    def _main(self) -> list[pr.Statement]:
        """The copies of the operands, and the contraction of these copies; twice, where there are tests of single elements:
        without them in the steps in which a condition holds for all, or all that an item reads from registers exists, and with
        them elsewhere."""
        if self.blocking.staged and self._masks():
            return self._masked()
        whole = self._whole() if not self.blocking.staged else ()
        if not whole:
            return self._steps((), tested=True)
        ranges = {r.index: r for r in (*self.groups, *self.steps)}
        inner = self._steps(tuple(tile_conditions.as_bound(c, ranges) for c in whole), tested=False)
        self.cuts |= self._reduction()
        return [*inner, *self._steps((self._rest_of_steps(),), tested=True)]

    def _masked(self) -> list[pr.Statement]:
        """The steps in which a condition holds for all elements of a group's tile, and those in which it is tested."""
        def ends() -> tuple[pr.Bound, pr.Bound] | None:
            return tile_conditions.whole_steps(self._masks(), self.cuts, self.groups, self.steps, self.outside.ranges)
        found = ends()
        if found is None:
            return self._steps((), tested=True)
        inner = self._steps((found[0],), tested=True, masked=False)
        self.cuts |= self._reduction()
        again = ends()
        assert again is not None, "tiled contraction: other steps have other conditions"
        return [*inner, *self._steps((again[1],), tested=True)]

    def _rest_of_steps(self) -> pr.Bound:
        """Of the steps with tests: those that are not whole."""
        ragged, whole = self._ragged_steps(), self._whole()
        index = ragged[-1] if ragged else max(reduced_indices(self.main), key=lambda i: int(self.cuts[i].outer[0][0].extent))
        (step, size), = self.cuts[index].outer
        done = pr.Const(self.main.extents[index] // size, I64) if ragged else pr.Const(step.extent, I64)
        others = tuple(c for c in whole if c != pr.Binary("<", pr.Index(step.index), done, BOOL))
        first = pr.Select(pr.conjunction(others), done, pr.Const(0, I64), I64) if others else done
        return pr.Bound(step.index, first, pr.Const(step.extent, I64))

    def _whole(self) -> tuple[pr.Binary, ...]:
        """The conditions, on groups and steps, under which all that their items read exists; none where that is always so, or
        never."""
        items = pr.box(r for r in self.elements if kinds.is_item(r.kind))
        outside = pr.box((*self.groups, *self.steps, *self.outside.ranges))
        found = [tile_conditions.shortest(c) for read in self._shared()
                 for c in tile_copies.whole(self._operand(read), items, outside)]
        for i in self._ragged_steps():
            (step, size), = self.cuts[i].outer
            last = pr.Const(self.main.extents[i] // size, I64)
            found.append(pr.Binary("<", pr.Index(step.index), last, BOOL))
        possible = all(tile_conditions.may_hold(c, outside) for c in found)
        return tuple(dict.fromkeys(found)) if possible else ()

    def _ragged_steps(self) -> list[str]:
        """The reduced indices whose last step goes beyond the end."""
        s = self.main
        return [i for i, c in self.cuts.items() if i in reduced_indices(s) and is_ragged(s.extents[i], c.outer[0][1])]

    def _shared(self) -> list[pr.Read]:
        """The operands that are copied."""
        return [r for r in dict.fromkeys(e for e in pr.walk(self.main.value) if isinstance(e, pr.Read)) if self._is_shared(r)]

    def _masks(self) -> list[pr.Expr]:
        """The conditions that tell which terms there are."""
        return [c for c in self.main.where if c not in self._region(self.at)]

    def _steps(self, bounds: tuple[pr.Bound, ...], tested: bool, masked: bool = True) -> list[pr.Statement]:
        """The copies and the contraction of some steps of some groups. tested: elements of operands may not exist; masked:
        terms may not."""
        copies: list[pr.Statement] = []
        value, moved = self.main.value, {i: expression(c.whole) for i, c in self.cuts.items()}
        s = replace(self.main, value=pr.substitute(value, moved))  # first: indices of the copies may have the same names
        inside = tile_conditions.reached(s.where, self.cuts)
        masks = self._masks() if masked else []
        cut = self._ragged_steps() if tested else []
        factors = tile_copies.factors(value) if s.op == "+" else ()
        zeros: list[pr.Expr] = []
        for read in dict.fromkeys(e for e in pr.walk(value) if isinstance(e, pr.Read)):
            there = pr.substitute(read, moved)
            assert isinstance(there, pr.Read), "tiled contraction: indices are numbers"
            if self._is_shared(read):
                copy, cell = self._copy(read, tested)
                copies.append(replace(copy, where=inside, bounds=(*copy.bounds, *bounds)))
                zeros += [read] if self._has_zeros(read, cut) else []
                s = pr.replaced(s, there, pr.Read(copy.target, cell, read.dtype))
            else:
                s = pr.replaced(s, there, self._direct(there))
        new = linear_subscripts(s.value)
        dtype = self.program.tensor(s.target).dtype
        tests = [linear_subscripts(pr.substitute(c, moved)) for c in masks]
        if cut and not (factors and all(f in zeros for f in factors)):
            ends = {i: pr.Const(self.cuts[i].start + s.extents[i], I64) for i in cut}
            tests += (pr.Binary("<", expression(self.cuts[i].whole), end, BOOL) for i, end in ends.items())
        if tests:
            new = pr.Select(pr.conjunction(tuple(tests)), new, pr.Const(identity(s.op or "+", dtype), dtype), dtype)
        items = [r for r in self.elements if kinds.is_item(r.kind)]
        points = [replace(r, kind=kinds.MATRIX) if self.blocking.matrix else r for r in self.elements if r not in items]
        ranges = (*self.groups, *self.steps, *items, *self._inner(reduced=True), *points)
        name = s.name if tested and masked else self.names.label(f"{s.name}_whole")
        main = replace(s, name=name, target=self.mine.name, subscripts=self._cell(), value=new, ranges=ranges, where=inside)
        return [*copies, replace(main, bounds=bounds)]

    def _is_shared(self, read: pr.Read) -> bool:
        """Do several items use elements of the operand, in several steps?"""
        forms = [linear(sub) for sub in read.subscripts]
        if None in forms:
            return False
        used = {i for f in forms if f is not None for i, _ in f.terms}
        x, y, *_ = (self.group.rows[r][self.at] for r in self.blocking.rows)
        return bool(used & set(reduced_indices(self.main))) and not {x, y} <= used

    def _direct(self, read: pr.Read) -> pr.Expr:
        """An operand that is read where it lies; zero beyond its ends."""
        return read if read.default is not None else replace(read, default=tile_copies.zero(read))

    def _forms(self, read: pr.Read) -> list[Linear]:
        return [f for sub in read.subscripts if (f := linear(sub)) is not None]

    def _rest(self, read: pr.Read) -> tuple[list[Linear], list[tuple[int, int]]]:
        """An operand's coordinates within what is copied at once, and their intervals."""
        rest = [substitute_tiled(f, self.cuts, "rest", constant=False) for f in self._forms(read)]
        return rest, [interval(f, self._box) for f in rest]

    def _operand(self, read: pr.Read) -> Operand:
        """What is copied of an operand in a step, by a group or by an item."""
        forms, (_, box) = self._forms(read), self._rest(read)
        base = [substitute_tiled(f, self.cuts, "base") for f in forms]
        low = tuple(replace(f, constant=f.constant + start) for f, (start, _) in zip(base, box, strict=True))
        widths = tuple(high - low + 1 for low, high in box)
        ends = tuple(self._end(read, d, f) for d, f in enumerate(forms))
        order = self._layout(forms) if self.blocking.staged else range(len(forms))
        if self.blocking.matrix:  # rows as in memory, what is one element wide before them
            order = sorted(range(len(forms)), key=lambda d: widths[d] > 1)
        return Operand(read, self.program.tensor(read.tensor), low, widths, ends, tuple(order), self.outside.ranges)

    def _has_zeros(self, read: pr.Read, cut: list[str]) -> bool:
        """Do steps beyond the end of the reduction find zeros in an operand?"""
        zero = read.default is None or read.default.value == 0
        return zero and all(any(f.index == i or f.terms == ((i, 1),) for f in self._forms(read)) for i in cut)

    def _copy(self, read: pr.Read, tested: bool) -> tuple[pr.Statement, tuple[pr.Expr, ...]]:
        """The statement that copies what is used of an operand in a step; where the contraction finds it."""
        operand, (rest, box), staged = self._operand(read), self._rest(read), self.blocking.staged
        around = (*self.groups, *self.steps, *(r for r in self.elements if kinds.is_item(r.kind) and not staged))
        name = self.names.label(f"{read.tensor}_{'tile' if staged else 'own'}")
        shape = (*(r.extent for r in around), *(operand.widths[d] for d in operand.order))
        self.tensors.append(pr.Tensor(name, read.dtype, shape, (0,) * len(shape)))
        shifted = [replace(f, constant=f.constant - low) for f, (low, _) in zip(rest, box, strict=True)]
        cell = (*(pr.Index(r.index) for r in around), *(expression(shifted[d]) for d in operand.order))
        label = self.names.label(f"{self.main.name}_{name}")
        if staged:
            halves = self.blocking.matrix
            most = matrix_tiles.BYTES // read.dtype.bytes if halves else self.blocking.lanes
            flying = tile_copies.ELEMENTS_IN_FLIGHT * (4 if halves else 1)  # which need no registers on their way
            copy = tile_copies.copy(operand, label, name, around, self.blocking.items, most, self.names, flying)
        else:
            copy = tile_copies.to_registers(operand, label, name, around, self.blocking.lanes, self.names, tested)
        return copy, cell

    def _end(self, read: pr.Read, d: int, form: Linear) -> tuple[int, int]:
        """The coordinates of dimension d that are copied; beyond the end of the reduction there are none."""
        t = self.program.tensor(read.tensor)
        lower, upper = t.lower[d], t.lower[d] + t.shape[d]
        for i in self._ragged_steps():
            if form.terms == ((i, 1),):
                upper = min(upper, form.constant + self.cuts[i].start + self.main.extents[i])
        return lower, upper

    def _layout(self, forms: list[Linear]) -> list[int]:
        """The order of an operand's dimensions in local memory: those of the tile last, so that its rows are contiguous."""
        tile = {self.group.rows[r][self.at] for r in self.blocking.rows}
        return sorted(range(len(forms)), key=lambda d: bool(tile & {i for i, _ in forms[d].terms}))
