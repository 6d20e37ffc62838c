"""Contractions for GPUs: indices cut into groups, items and elements, operands copied to local memory by all items of a group.

    C[i,j] += A[i,k]*B[k,j]                             with A[2048,64], B[64,2048] on gpu
    ->  A_tile[i_group,j_group,k_step,...] = A[...];  B_tile[i_group,j_group,k_step,...] = B[...]
        C_acc[i_group,j_group,i_item,j_item,i_row,j_vector,j_lane] += A_tile[i_group,j_group,k_step,k_at, 8*i_item + i_row]
            * B_tile[i_group,j_group,k_step,k_at, 4*j_item + j_lane + 64*j_vector] where i_row in 0:8, j_vector in 0:2
        C[128*i_group + 8*i_item + i_row, ...] = C_acc[i_group,j_group,i_item,j_item,i_row,j_vector,j_lane]

All tiles are whole: results beyond the ends are computed and not stored, operands beyond the ends are copied as zeros. The
copies and accumulators are tensors with a slice for each group, which storage contraction (codegen.passes.array_contraction)
then keeps in local memory or registers, as it does with the copies that users ask for (schedule.user.copies). A range of an
index says what its loop becomes; schedule.gpu.strategy builds the nest from that. (Verdoolaege et al., Polyhedral Parallel
Code Generation for CUDA, TACO 2013, with a second level of tiles in registers.)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, interval
from polytc.program.generalise import numeric
from polytc.program.linear import expression, linear
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64, identity
from polytc.program.sizes import Undecided
from polytc.rewrite.gpu import contraction_tiles, split_reduction, tile_conditions, tile_copies, work_group_shape
from polytc.rewrite.gpu.contraction_tiles import Blocking
from polytc.rewrite.gpu.division import Cut, Division
from polytc.rewrite.gpu.enclosing import Enclosing
from polytc.rewrite.gpu.local_transpose import TransposedGroup, TransposedRows
from polytc.rewrite.gpu.tile_copies import Operand
from polytc.rewrite.gpu.tiled_indices import TiledIndex, is_ragged, substitute_tiled
from polytc.rewrite.gpu.work_group_reductions import ReducedGroup
from polytc.rewrite.gpu.work_group_shape import WorkGroupShape
from polytc.schedule.facts.fusion_groups import Group, conditions_on, of_sizes, partition, reduced_indices

AXES = kinds.GROUPS


def map_to_work_groups(program: pr.Program, division: Division) -> pr.Program:
    """The program with its contractions, transpositions and reductions divided as somebody decides."""
    if program.sequential or program.dynamic or program.precise:
        return program
    return without_unused_tensors(map_statements(program, division, Names.of(program), Enclosing()))


def survey(program: pr.Program, division: Division) -> None:
    """What of a program can be divided is decided, and nothing is made of it."""
    if not program.precise:
        _groups(program, division, Names.of(program))


def map_statements(program: pr.Program, division: Division, names: Names, around: Enclosing) -> pr.Program:
    """As map_to_work_groups, but for what is in loops. around: the `for` loops and statements that enclose the program."""
    program, groups = _groups(program, division, names)
    statements: list[pr.Statement] = []
    tensors = list(program.tensors)
    for group, whole, cut in groups:
        made, new = _divided(program, group, whole, cut, names, around)
        statements += made
        tensors += new
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def _groups(program: pr.Program, division: Division, names: Names
            ) -> tuple[pr.Program, list[tuple[Group, Group | None, Cut | None]]]:
    """The program with its long reductions divided, its groups of statements for typical sizes and for all sizes, and how each
    is divided."""
    program, runs = split_reduction.split(program, names, division.parts)
    typical, found = numeric(program), list[tuple[Group, Group | None, Cut | None]]()
    for run in runs:
        for group in partition(replace(typical, statements=tuple(typical.statement(s.name) for s in run))):
            whole = of_sizes(program, group)
            found.append((group, whole, division.cut(typical, group) if whole is not None else None))
    return program, found


def without_unused_tensors(program: pr.Program) -> pr.Program:
    """The program without the tensors that nothing uses."""
    names = {s.target for s in program.statements} | {r.tensor for s in program.statements for r in pr.reads(s)}
    return replace(program, tensors=tuple(t for t in program.tensors if t.name in names | set(program.arrays)))


def _divided(program: pr.Program, group: Group, whole: Group | None, cut: Cut | None, names: Names, around: Enclosing
             ) -> tuple[list[pr.Statement], list[pr.Tensor]]:
    """The statements of a group, divided among the items of work-groups as is decided, and the tensors that are new.

    group, whole: it for the sizes that decide what is fast, and for all sizes.
    """
    if whole is not None and cut is not None:
        with suppress(Undecided):
            made = _of_cut(program, whole, cut, names, around)
            return made.statements(), made.tensors
    return [program.statement(s.name) for s in group.statements], []


def _of_cut(program: pr.Program, group: Group, cut: Cut, names: Names, around: Enclosing
            ) -> _TiledContraction | TransposedGroup | ReducedGroup:
    """What a group becomes."""
    match cut:
        case Blocking():
            return _TiledContraction(program, group, cut, names, around)
        case TransposedRows():
            return TransposedGroup(program, group, cut, names, around)
        case WorkGroupShape():
            rows = work_group_shape.row_tensors(group)
            assert rows is not None, "local tiles: a reduction without results"
            return ReducedGroup(program, group, cut, rows, names, around)


class _TiledContraction:
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
            items, elements, tile = b.items[axis], b.elements[axis], b.tile[axis]
            outer = pr.Range(self.names.index(f"{i}_group"), 0, -(-(upper - lower) // tile), AXES[axis])
            item = pr.Range(self.names.index(f"{i}_item"), 0, items, kinds.item(axis))
            if axis == 2:
                inner: tuple[tuple[pr.Range, int], ...] = ((item, 1),)
            elif axis == 1:
                point = pr.Range(self.names.index(f"{i}_row"), 0, elements, "unroll")
                inner = ((item, elements), (point, 1))
            else:
                vector = pr.Range(self.names.index(f"{i}_lane"), 0, b.lanes, "vector")
                part = pr.Range(self.names.index(f"{i}_vector"), 0, elements // b.lanes, "unroll")
                inner = ((item, b.lanes), (part, items * b.lanes), (vector, 1))
            cuts[i] = TiledIndex(lower, ((outer, tile),), inner)
        return cuts | self._reduction()

    def _reduction(self) -> dict[str, TiledIndex]:
        depth, cuts = dict(self.blocking.depth), dict[str, TiledIndex]()
        for r in self.main.ranges:
            if r.index not in reduced_indices(self.main):
                continue
            step = depth.get(r.index, 1)
            outer = pr.Range(self.names.index(f"{r.index}_step"), 0, -(-r.extent // step), "sequential")
            inner = pr.Range(self.names.index(f"{r.index}_at"), 0, step, "sequential")
            cuts[r.index] = TiledIndex(r.lower, ((outer, step),), ((inner, 1),))
        return cuts

    @property
    def groups(self) -> list[pr.Range]:
        """The loops over work-groups."""
        return [r for i, c in self.cuts.items() if i not in reduced_indices(self.main) for r, _ in c.outer]

    @property
    def steps(self) -> list[pr.Range]:
        """The loops around the copies that are the reduction's."""
        return [r for i, c in self.cuts.items() if i in reduced_indices(self.main) for r, _ in c.outer]

    def _inner(self, reduced: bool) -> list[pr.Range]:
        return [r for i, c in self.cuts.items() if (i in reduced_indices(self.main)) == reduced for r, _ in c.inner]

    @property
    def elements(self) -> list[pr.Range]:
        """The loops over the elements of a group's tile: items first, the vector last."""
        return sorted(self._inner(reduced=False), key=lambda r: (not kinds.is_item(r.kind), r.kind == "vector"))

    @property
    def _box(self) -> pr.Box:
        return pr.box(r for c in self.cuts.values() for r, _ in (*c.outer, *c.inner))

    # ---- statements

    def statements(self) -> list[pr.Statement]:
        """The group's statements over the cut indices."""
        copies, main = self._main()
        made: list[pr.Statement] = []
        accumulators: dict[str, pr.Tensor] = {}
        for n, s in enumerate(self.group.statements):
            if s.target not in accumulators:
                accumulators[s.target] = self._accumulator(s)
            mine = accumulators[s.target]
            if n == self.at:
                if n == 0:
                    made.append(self._start(s, mine))
                made += [*copies, replace(main, target=mine.name, subscripts=self._cell())]
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

    def _start(self, s: pr.Statement, mine: pr.Tensor) -> pr.Statement:
        """The accumulators begin with what the target holds."""
        value = pr.Read(s.target, tuple(self._moved(e, self.at) for e in s.subscripts), mine.dtype)
        return self._over_elements(f"{s.name}_load", self.at, mine.name, self._cell(), value)

    def _store(self, s: pr.Statement, position: int, mine: pr.Tensor) -> pr.Statement:
        value = pr.Read(mine.name, self._cell(), mine.dtype)
        cell = tuple(self._moved(e, position) for e in s.subscripts)
        return self._over_elements(f"{s.name}_store", position, s.target, cell, value)

    def _pointwise(self, s: pr.Statement, position: int, mine: pr.Tensor, known: Mapping[str, pr.Tensor]) -> pr.Statement:
        def moved(e: pr.Expr) -> pr.Expr:
            if isinstance(e, pr.Read) and e.tensor in known and (e.tensor != s.target):
                return pr.Read(known[e.tensor].name, self._cell(), e.dtype)
            return e
        value = self._moved(pr.map_expr(s.value, moved), position)
        reads = any(isinstance(e, pr.Read) for e in pr.walk(value))
        return self._over_elements(s.name, position, mine.name, self._cell(), value, guarded=reads, taken=False)

    def _over_elements(self, name: str, position: int, target: str, subscripts: tuple[pr.Expr, ...], value: pr.Expr,
                       guarded: bool = True, taken: bool = True) -> pr.Statement:
        """A statement that runs once for each element of the tiles, of those within the result if it is guarded. position: of
        the statement for whose elements it is."""
        name = self.names.label(name) if taken else name
        ends: list[pr.Bound] = []
        where = tuple(self._moved(c, position) for c in self._region(position)) if guarded else ()
        partial = bool(where)
        for axis, r in reversed(tuple(enumerate(self.blocking.rows))):
            cut, extent = self.cuts[self.group.rows[r][self.at]], self.group.extents[r]
            if not guarded or not is_ragged(extent, self.blocking.tile[axis]):
                continue
            lanes = self.blocking.lanes if axis == 0 and not is_ragged(extent, self.blocking.lanes) else 1
            partial |= axis == 0 and lanes == 1
            at = cut.inner[0][0].index if lanes > 1 else cut.inner[-1][0].index
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
        return _simple(pr.substitute(e, {i: expression(self.cuts[main].whole) for i, main in names.items()}))

    # ---- the contraction and its operands

    def _main(self) -> tuple[list[pr.Statement], pr.Statement]:
        """The copies of the operands, and the contraction of these copies."""
        copies: list[pr.Statement] = []
        s, value = self.main, self.main.value
        inside = tile_conditions.reached(s.where, self.cuts)
        masks = [c for c in s.where if c not in self._region(self.at)]
        cut = [i for i, c in self.cuts.items() if i in reduced_indices(s) and is_ragged(s.extents[i], c.outer[0][1])]
        factors = (value.a, value.b) if s.op == "+" and isinstance(value, pr.Binary) and value.op == "*" else ()
        zeros: list[pr.Expr] = []
        for read in dict.fromkeys(e for e in pr.walk(self.main.value) if isinstance(e, pr.Read)):
            if self._is_shared(read):
                copy, cell, zero = self._copy(read, cut)
                copies.append(replace(copy, where=inside))
                zeros += [read] if zero else []
                s = pr.replaced(s, read, pr.Read(copy.target, cell, read.dtype))
            else:
                s = pr.replaced(s, read, self._direct(read))
        new = _simple(pr.substitute(s.value, {i: expression(c.whole) for i, c in self.cuts.items()}))
        dtype = self.program.tensor(s.target).dtype
        tests = [_simple(pr.substitute(c, {i: expression(x.whole) for i, x in self.cuts.items()})) for c in masks]
        if cut and not (factors and all(f in zeros for f in factors)):
            ends = {i: pr.Const(self.cuts[i].start + s.extents[i], I64) for i in cut}
            tests += (pr.Binary("<", expression(self.cuts[i].whole), end, BOOL) for i, end in ends.items())
        if tests:
            new = pr.Select(pr.conjunction(tuple(tests)), new, pr.Const(identity(s.op or "+", dtype), dtype), dtype)
        items = [r for r in self.elements if kinds.is_item(r.kind)]
        points = [r for r in self.elements if r not in items]
        ranges = (*self.groups, *self.steps, *items, *self._inner(reduced=True), *points)
        return copies, replace(s, value=new, ranges=ranges, where=inside)

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

    def _copy(self, read: pr.Read, cut: list[str]) -> tuple[pr.Statement, tuple[pr.Expr, ...], bool]:
        """The statement that copies what a group needs of an operand in a step; where the contraction finds it; whether steps
        beyond the end of the reduction find zeros."""
        forms = [f for sub in read.subscripts if (f := linear(sub)) is not None]
        base = [substitute_tiled(f, self.cuts, "base") for f in forms]
        rest = [substitute_tiled(f, self.cuts, "rest", constant=False) for f in forms]
        ranges = self._box
        box = [interval(f, ranges) for f in rest]
        widths = [high - low + 1 for low, high in box]
        ends = [self._end(read, d, f, cut) for d, f in enumerate(forms)]
        zero = read.default is None or read.default.value == 0
        zero &= all(any(f.index == i or f.terms == ((i, 1),) for f in forms) for i in cut)
        order = self._layout(forms)
        around = [*self.groups, *self.steps]
        name = self.names.label(f"{read.tensor}_tile")
        shape = (*(r.extent for r in around), *(widths[d] for d in order))
        self.tensors.append(pr.Tensor(name, read.dtype, shape, (0,) * len(shape)))
        shifted = [replace(f, constant=f.constant - low) for f, (low, _) in zip(rest, box, strict=True)]
        outside = tuple(pr.Index(r.index) for r in around)
        cell = (*outside, *(expression(shifted[d]) for d in order))
        low = [replace(f, constant=f.constant + start) for f, (start, _) in zip(base, box, strict=True)]
        operand = Operand(read, self.program.tensor(read.tensor), tuple(low), tuple(widths), tuple(ends), tuple(order),
                          self.outside.ranges)
        label = self.names.label(f"{self.main.name}_{name}")
        copy = tile_copies.copy(operand, label, name, tuple(around), self.blocking.items, self.blocking.lanes, self.names)
        return copy, cell, zero

    def _end(self, read: pr.Read, d: int, form: Linear, cut: list[str]) -> tuple[int, int]:
        """The coordinates of dimension d that are copied; beyond the end of the reduction there are none."""
        t = self.program.tensor(read.tensor)
        lower, upper = t.lower[d], t.lower[d] + t.shape[d]
        for i in cut:
            if form.terms == ((i, 1),):
                upper = min(upper, form.constant + self.cuts[i].start + self.main.extents[i])
        return lower, upper

    def _layout(self, forms: list[Linear]) -> list[int]:
        """The order of an operand's dimensions in local memory: those of the tile last, so that its rows are contiguous."""
        tile = {self.group.rows[r][self.at] for r in self.blocking.rows}
        return sorted(range(len(forms)), key=lambda d: bool(tile & {i for i, _ in forms[d].terms}))


def _simple(e: pr.Expr) -> pr.Expr:
    """The expression with linear subscripts of reads written as such."""
    def flat(x: pr.Expr) -> pr.Expr:
        if isinstance(x, pr.Read):
            forms = [(linear(sub), sub) for sub in x.subscripts]
            return replace(x, subscripts=tuple(expression(f) if f is not None else sub for f, sub in forms))
        return x
    return pr.map_expr(e, flat)
