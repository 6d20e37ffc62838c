"""A chain of products and exponentials (rewrite.gpu.softmax_chains) as statements of one kernel, which goes through the keys in
blocks.

    for c in 0:8 {                                      for each group of rows, and block of keys
        K_tile[...] = K[...];  V_tile[...] = V[...]
        S_own[...] = 0;  S_own[...] += Q_tile[...]*K_tile[...]
        S_own[...] = S_own[...]*0.125                   -inf where there is no such key
        M_part[...] max= S_own[...]                     of an item
        M_next[...] = max(M_own[...], M_part[...,0], M_part[...,1], ...)
        M_scale[...] = exp(M_own[...] - M_next[...])
        S_own[...] = exp(S_own[...] - M_next[...]);  S_tile[...] = S_own[...]
        Z_own[...] = Z_own[...]*M_scale[...];  Z_own[...] += S_own[...]
        O_own[...] = O_own[...]*M_scale[...];  O_own[...] += S_tile[...]*V_tile[...]
        M_own[...] = M_next[...]
    }

The `for` loop is one of the text, whose order the dependences keep; its range says that it runs inside of the kernel. An item
has rows x keys of the scores, and the same rows x columns of the results. Sums of weights stay with the items until all keys
are done. Where a row has met no key so far, its maximum is -inf, and counts as 0 in exponents: all weights are 0 then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, interval
from polytc.program.linear import collected, expression, linear
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64, DType
from polytc.rewrite.gpu import tile_conditions, tile_copies
from polytc.rewrite.gpu.softmax_chains import Chain
from polytc.rewrite.gpu.tile_copies import Operand
from polytc.rewrite.gpu.tiled_indices import TiledIndex, is_ragged, linear_subscripts, substitute_tiled
from polytc.rewrite.gpu.work_group_reductions import combine_as_tree

Ranges = tuple[pr.Range, ...]


@dataclass(frozen=True)
class KeyBlocks:
    """A chain whose first product is `statement` runs as one kernel. items: of a group across keys and columns, and down rows;
    elements: keys, rows and columns of an item; steps: features, and keys, that are copied at once."""

    statement: str
    items: tuple[int, ...]
    elements: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Of a group."""
        return self.items[1] * self.elements[1]

    @property
    def keys(self) -> int:
        """Of a block."""
        return self.items[0] * self.elements[0]

    @property
    def columns(self) -> int:
        """Of a group."""
        return self.items[0] * self.elements[2]


class StreamedSoftmax:
    """The statements that take the place of a chain. tensors: the new ones."""

    def __init__(self, program: pr.Program, chain: Chain, by: KeyBlocks, names: Names) -> None:
        self.program, self.chain, self.by, self.names = program, chain, by, names
        self.dtype = program.tensor(chain.score.target).dtype
        self.tensors: list[pr.Tensor] = []
        self.made: list[pr.Statement] = []
        self.where: tuple[pr.Expr, ...] = ()
        self.loops: tuple[tuple[str, pr.Range], ...] = ()
        self.tiles: dict[pr.Read, _Tile] = {}
        ranges = chain.score.by_index
        self.keys, self.rows, self.features = ranges[chain.key], ranges[chain.row], ranges[chain.feature]
        group = pr.Range(names.index(f"{chain.row}_group"), 0, -(-self.rows.extent // by.rows), kinds.group(0))
        batch = [replace(r, kind=kinds.group(1 if n == len(chain.batch) - 1 else 2)) for n, r in enumerate(chain.batch)]
        self.batch = {r.index: TiledIndex(r.lower, ((replace(r, index=names.index(r.index), lower=0, upper=r.extent), 1),), ())
                      for r in batch}
        self.group = group
        self.groups: Ranges = (*(r for c in self.batch.values() for r, _ in c.outer), group)
        self.row = pr.Range(names.index(f"{chain.row}_row"), 0, by.elements[1], "unroll")
        self.key_parts = self._across(chain.key, by.elements[0])
        self.column_parts = self._across(chain.column.index.rstrip("'"), by.elements[2])
        self.block = pr.Range(names.index(f"{chain.key}_block"), 0, -(-self.keys.extent // by.keys), "sequential")

    # ---- loops

    def _across(self, name: str, elements: int) -> tuple[pr.Range, pr.Range]:
        """The loops over an item's keys or columns: vectors, and their elements."""
        lanes = next(n for n in (4, 2, 1) if elements % n == 0 and n * self.dtype.bytes <= 16)
        return (pr.Range(self.names.index(f"{name}_vector"), 0, elements // lanes, "unroll"),
                pr.Range(self.names.index(f"{name}_lane"), 0, lanes, "vector"))

    def _meet(self) -> None:
        """What follows is in loops of its own over the items, which begin when those before have ended."""
        down, across = self.by.items[1], self.by.items[0]
        self.items: Ranges = (pr.Range(self.names.index("line"), 0, down, kinds.item(1)),
                              pr.Range(self.names.index("item"), 0, across, kinds.item(0)))

    def _cuts(self) -> dict[str, TiledIndex]:
        """The indices of the scores and of the results over those of the groups, items and elements."""
        by, (y, x) = self.by, self.items
        at = ((self.block, by.keys),) if self.loops else ()

        def across(parts: tuple[pr.Range, pr.Range]) -> tuple[tuple[pr.Range, int], ...]:
            vector, lane = parts
            return (x, lane.extent), (vector, by.items[0] * lane.extent), (lane, 1)
        return self.batch | {
            self.chain.row: TiledIndex(self.rows.lower, ((self.group, by.rows),), ((y, by.elements[1]), (self.row, 1))),
            self.chain.key: TiledIndex(self.keys.lower, at, across(self.key_parts)),
            self.chain.column.index: TiledIndex(self.chain.column.lower, (), across(self.column_parts))}

    # ---- tensors and statements

    def _tensor(self, base: str, dtype: DType, *ranges: pr.Range) -> str:
        name = self.names.label(base)
        shape = tuple(r.extent for r in (*self.groups, *ranges))
        self.tensors.append(pr.Tensor(name, dtype, shape, (0,) * len(shape)))
        return name

    def _own(self, base: str, *ranges: pr.Range) -> str:
        """A tensor of which each item has a part."""
        return self._tensor(base, self.dtype, *self.items, *ranges)

    def _cell(self, *ranges: pr.Range) -> tuple[pr.Expr, ...]:
        return _cells((*self.groups, *self.items, *ranges))

    def _read(self, tensor: str, *ranges: pr.Range) -> pr.Read:
        return pr.Read(tensor, self._cell(*ranges), self.dtype)

    def _emit(self, label: str, target: str, cell: Sequence[pr.Expr], value: pr.Expr, inner: Ranges, op: str | None = None,
              where: tuple[pr.Expr, ...] = (), items: Ranges | None = None) -> None:
        name = self.names.label(f"{self.chain.score.name}_{label}")
        ranges = (*self.groups, *(self.items if items is None else items), *inner)
        self._add(pr.Statement(name, target, tuple(cell), op, value, ranges, where))

    def _add(self, s: pr.Statement) -> None:
        """One more statement, in the loops that are around now."""
        labels, ranges = tuple(x for x, _ in self.loops), tuple(r for _, r in self.loops)
        self.made.append(replace(s, ranges=(*ranges, *s.ranges), where=(*self.where, *s.where), loops=labels))

    def _set(self, label: str, tensor: str, value: pr.Expr, *inner: pr.Range, op: str | None = None) -> None:
        """A statement about what each item has itself."""
        if op is None:
            self._emit(label, tensor, self._cell(*inner), value, inner)
        else:
            self._emit(label, tensor, self._cell(self.row), value, tuple(replace(r, kind="unroll") for r in inner), op)

    def _moved(self, e: pr.Expr) -> pr.Expr:
        """An expression of the scores or the results over the new indices, in which each item has its own of rows, sums and
        scores, and what it reads beyond an end is 0."""
        ragged = self._ragged()
        cuts = self._cuts()

        def own(x: pr.Expr) -> pr.Expr:
            if not isinstance(x, pr.Read):
                return x
            if x.tensor in self.owned:
                name, parts = self.owned[x.tensor]
                return pr.Read(name, self._cell(*parts), x.dtype)
            used = {i.name for sub in x.subscripts for i in pr.walk(sub) if isinstance(i, pr.Index)}
            return replace(x, default=tile_copies.zero(x)) if x.default is None and used & ragged else x
        return linear_subscripts(pr.substitute(pr.map_expr(e, own), {i: expression(c.whole) for i, c in cuts.items()}))

    def _ragged(self) -> set[str]:
        """The indices that items run beyond their ends."""
        sizes = ((self.rows, self.by.rows), (self.keys, self.by.keys), (self.chain.column, self.by.columns))
        return {r.index for r, size in sizes if is_ragged(r.extent, size)}

    def _below(self, r: pr.Range, but: str = "") -> pr.Expr:
        """Is an index before its end? but: a part that does not matter."""
        form = self._cuts()[r.index].whole
        return pr.Binary("<", expression(replace(form, terms=tuple(x for x in form.terms if x[0] != but))), pr.Const(r.upper, I64), BOOL)

    # ---- the kernel

    def statements(self) -> list[pr.Statement]:
        """All of them, in order."""
        self._meet()
        chain, wide = self.chain, (self.row, *self.column_parts)
        self.maximum, self.result = self._own(f"{chain.maximum}_own", self.row), self._own(f"{chain.product.target}_own", *wide)
        self.score = self._own(f"{chain.score.target}_own", self.row, *self.key_parts)
        self.totals = {s.target: self._own(f"{s.target}_own", self.row) for s in chain.sums}
        self.owned: dict[str, tuple[str, Ranges]] = {chain.score.target: (self.score, (self.row, *self.key_parts))}
        self.tile, self.parts = (self.names.label(f"{chain.score.target}_{n}") for n in ("tile", "parts"))
        self.tensors.append(self._scratch(self.tile, (self.by.keys, self.by.rows), self.dtype))
        self.tensors.append(self._scratch(self.parts, (self.by.rows, self.by.items[0]), self.dtype))
        self._set("lowest", self.maximum, pr.Const(float("-inf"), self.dtype), self.row)
        for target, own in self.totals.items():
            self._set(f"{target}_none", own, self._number(0.0), self.row)
        self._set("none", self.result, self._number(0.0), *wide)
        self.feature_steps = self._steps(chain.feature, self.features.extent, self.by.steps[0])
        if self.feature_steps[0].extent == 1:
            self._copy(chain.queries, self._with_features())
        all_ = self.block
        for conditions, hidden in self._pieces():
            self.block = replace(all_, index=self.names.index(all_.index))
            self._blocks(tuple(pr.substitute(c, {all_.index: pr.Index(self.block.index)}) for c in conditions), hidden)
        self.loops, self.where = (), ()
        self._finish()
        return self.made

    def _number(self, value: float) -> pr.Const:
        return pr.Const(value, self.dtype)

    def _pieces(self) -> list[tuple[tuple[pr.Expr, ...], tuple[pr.Expr, ...]]]:
        """The blocks of keys, in parts: the conditions, on groups and blocks, under which a block is in the part, and those on
        rows and keys that are tested there. In the first all keys count for all rows."""
        self.loops = (("", self.block),)
        conditions, cuts = tuple(dict.fromkeys((*self.chain.conditions, *self.chain.hides))), self._cuts()
        reached = tile_conditions.reached(conditions, cuts)
        found, whole = list[tuple[tuple[pr.Expr, ...], tuple[pr.Expr, ...]]](), tuple[pr.Expr, ...]()
        for c in conditions:
            all_, = tile_conditions.reached((c,), cuts, all_=True) or (None,)
            if all_ is None:
                continue
            found.append(((*reached, *whole, _negated(all_)), conditions))
            whole += (all_,)
        inside = ((*reached, *whole), ())
        if is_ragged(self.keys.extent, self.by.keys):
            last = pr.Const(self.keys.extent // self.by.keys, I64)
            at = pr.Index(self.block.index)
            end = pr.Binary("<", pr.Index(self.chain.key), pr.Const(self.keys.upper, I64), BOOL)
            inside = ((*inside[0], pr.Binary("<", at, last, BOOL)), ())
            found = [(x, (*c, end)) for x, c in found]
            found.append(((*reached, *whole, pr.Binary("==", at, last, BOOL)), (end,)))
        return [inside, *found]

    def _blocks(self, conditions: tuple[pr.Expr, ...], hidden: tuple[pr.Expr, ...]) -> None:
        """The loop over some of the blocks. conditions: see `_pieces`; hidden: under which keys count there."""
        self.loops = ((self.names.label(f"{self.chain.score.name}_keys"), self.block),)
        self.where = conditions
        self._meet()
        self._scores(hidden)
        self._weights()
        self._meet()
        self._results(tuple(c for c in hidden if c in self.chain.conditions))

    def _scores(self, hidden: tuple[pr.Expr, ...]) -> None:
        """The scores of a block, what becomes of them, and the largest of those that an item has."""
        chain, inner = self.chain, (self.row, *self.key_parts)
        self._set("zero", self.score, self._number(0.0), *inner)
        (step, at), outside = self.feature_steps, self.loops
        if step.extent > 1:
            step = replace(step, index=self.names.index(step.index))
            self.loops += ((self.names.label(f"{chain.score.name}_features"), step),)
            self.feature_steps = step, at
        cuts, value = self._with_features(), chain.score.value
        for read in (chain.queries, chain.keys):
            tile = self.tiles[read] if read == chain.queries and step.extent == 1 else self._copy(read, cuts)
            value = pr.map_expr(value, lambda e, old=read, new=tile.read(cuts): new if e == old else e)
        self._emit("scores", self.score, self._cell(*inner), linear_subscripts(value), (at, *inner), "+")
        self.loops = outside
        value = self._moved(chain.value)
        if hidden:
            tests = tuple(self._moved(c) for c in hidden)
            value = pr.Select(pr.conjunction(tests), value, self._number(float("-inf")), self.dtype)
        if value != self._read(self.score, *inner):
            self._set("values", self.score, value, *inner)
        self.most = self._own(f"{chain.maximum}_most", self.row)
        self._set("most_none", self.most, self._number(float("-inf")), self.row)
        self._set("most", self.most, self._read(self.score, *inner), *inner, op="max")

    def _with_features(self) -> dict[str, TiledIndex]:
        """The cuts for the first product."""
        step, at = self.feature_steps
        outer = ((step, self.by.steps[0]),) if step.extent > 1 else ()
        return self._cuts() | {self.chain.feature: TiledIndex(self.features.lower, outer, ((at, 1),))}

    def _weights(self) -> None:
        """The maximum of each row, the weights in their own and in local memory, and the sums so far less what the maximum has
        grown by."""
        chain, inner, lowest = self.chain, (self.row, *self.key_parts), self._number(float("-inf"))
        names = ("next", "base", "scale")
        next_, base, scale = (self._own(f"{chain.maximum}_{n}", self.row) for n in names)
        largest = self._together(self.most, "max")
        most, known = self._read(next_, self.row), self._read(self.maximum, self.row)
        self._set("next", next_, pr.Call("max", (known, largest), self.dtype), self.row)
        self._set("base", base, pr.Select(pr.Binary("==", most, lowest, BOOL), self._number(0.0), most, self.dtype), self.row)
        less = self._read(base, self.row)
        self._set("scale", scale, self._exp(known, less), self.row)
        self._set("weights", self.score, self._exp(self._read(self.score, *inner), less), *inner)
        key, row = (expression(self._cuts()[i].rest) for i in (chain.key, chain.row))
        self._emit("tile", self.tile, (*_cells(self.groups), key, row), self._read(self.score, *inner), inner)
        factor = self._read(scale, self.row)
        for own in self.totals.values():
            self._set("less", own, pr.Binary("*", self._read(own, self.row), factor, self.dtype), self.row)
            self._set("sum", own, self._read(self.score, *inner), *inner, op="+")
        wide = (self.row, *self.column_parts)
        self._set("less", self.result, pr.Binary("*", self._read(self.result, *wide), factor, self.dtype), *wide)
        self._set("grown", self.maximum, most, self.row)

    def _results(self, hidden: tuple[pr.Expr, ...]) -> None:
        """The second product of a block. hidden: the conditions under which keys count."""
        chain, inner, by = self.chain, (self.row, *self.column_parts), self.by
        (step, at), outside = self._steps(chain.key, by.keys, by.steps[1]), self.loops
        outer = ((step, by.steps[1]),) if step.extent > 1 else ()
        if outer:
            self.loops += ((self.names.label(f"{chain.score.name}_values"), step),)
        cuts = self._cuts() | {chain.key: TiledIndex(self.keys.lower, ((self.block, by.keys), *outer), ((at, 1),))}
        values = self._copy(chain.values, cuts).read(cuts)
        term = pr.map_expr(chain.term, lambda e: values if e == chain.values else e)
        key = expression(TiledIndex(0, outer, ((at, 1),)).whole)
        weight = pr.Read(self.tile, (*_cells(self.groups), key, expression(cuts[chain.row].rest)), self.dtype)
        value: pr.Expr = pr.Binary("*", weight, term, self.dtype)
        if hidden:
            whole = {i: expression(c.whole) for i, c in cuts.items()}
            tests = tuple(linear_subscripts(pr.substitute(c, whole)) for c in hidden)
            value = pr.Select(pr.conjunction(tests), value, self._number(0.0), self.dtype)
        self._emit("results", self.result, self._cell(*inner), linear_subscripts(value), (at, *inner), "+")
        self.loops = outside

    def _finish(self) -> None:
        """The sums of rows, what becomes of rows and results, and those that others use."""
        chain = self.chain
        for target, own in self.totals.items():
            value = self._together(own, "+")
            self._set(f"{target}_all", own, value, self.row)
        self.owned = {chain.maximum: (self.maximum, (self.row,))}
        if not chain.safe:
            self._nothing_but_lowest()
        wide = (self.row, *self.column_parts)
        for x in chain.tail:
            columns = chain.column.index in (e.name for sub in x.subscripts for e in pr.walk(sub) if isinstance(e, pr.Index)) \
                if isinstance(x, pr.Statement) else x.target == chain.product.target
            inner = wide if columns else (self.row,)
            if isinstance(x, pr.Statement):
                own, value = self._own(f"{x.target}_own", *inner), self._moved(x.value)
            else:
                own = self.result if columns else self.totals[x.target]
                value = self._moved(x.of(_SUM))
                value = pr.map_expr(value, lambda e, own=own, inner=inner: self._read(own, *inner) if e == _SUM else e)
            self.owned[x.target] = own, inner
            if value != self._read(own, *inner):
                self._set(x.target, own, value, *inner)
        for x in (chain.maximum, *(x.target for x in chain.tail)):
            if self._is_used(x):
                self._store(x)

    def _nothing_but_lowest(self) -> None:
        """Where all values of a row are -inf, the program's exponents are -inf less -inf, and its sums NaN."""
        rows = tuple(map(self._moved, self._seen()))
        lowest = pr.Binary("==", self._read(self.maximum, self.row), self._number(float("-inf")), BOOL)
        test = pr.conjunction((lowest, *rows))
        wide = (self.row, *self.column_parts)
        for own, inner in (*((own, (self.row,)) for own in self.totals.values()), (self.result, wide)):
            value = pr.Select(test, self._number(float("nan")), self._read(own, *inner), self.dtype)
            self._set("nan", own, value, *inner)

    def _seen(self) -> tuple[pr.Expr, ...]:
        """The conditions under which a row has a key that counts."""
        key, ranges = self.chain.key, self.chain.score.by_index
        low: list[Linear] = [Affine(self.keys.lower, ())]                # key >= each of these, and key <= each of those
        high: list[Linear] = [Affine(self.keys.upper - 1, ())]
        for c in self.chain.conditions:
            form = tile_conditions.form_of(c)
            assert form is not None and isinstance(c, pr.Binary), "streamed softmax: no comparison"
            sign = 1 if c.op in ("<", "<=") else -1                       # sign * form <= 0
            each = sign * form.coefficient(key)
            rest = collected(((i, -sign * each * x) for i, x in form.terms if i != key),
                             -each * (sign * form.constant + (c.op in ("<", ">"))))
            (high if each > 0 else low).append(rest)
        found = (collected((*a.terms, *((i, -x) for i, x in b.terms)), a.constant - b.constant)
                 for a in low for b in high)
        return tuple(pr.Binary("<=", expression(f), pr.Const(0, I64), BOOL) for f in found
                     if interval(f, pr.box(ranges.values()))[1] > 0)

    def _store(self, target: str) -> None:
        """What others use, where it belongs."""
        own, inner = self.owned[target]
        chain, cuts, items = self.chain, self._cuts(), self.items
        where = (self._below(self.rows),) if chain.row in self._ragged() else ()
        if len(inner) == 1:
            items = (items[0], replace(items[1], upper=1))
        elif chain.column.index in self._ragged():
            vector, lane = inner[1:]
            whole = chain.column.extent % lane.extent == 0
            inner = inner if whole else (*inner[:2], replace(lane, kind="unroll"))
            where += (self._below(chain.column, but=lane.index if whole else ""),)
        cell = self.program_cell(target)
        at = tuple(expression(f) if (f := linear(x)) is not None else x for x in (
            pr.substitute(e, {i: expression(c.whole) for i, c in cuts.items()}) for e in cell))
        self._emit(f"{target}_store", target, at, self._read(own, *inner), inner, where=where, items=items)

    # ---- parts

    def _steps(self, name: str, extent: int, size: int) -> tuple[pr.Range, pr.Range]:
        """The loops over the steps of a sum, and within one."""
        size = min(size, extent)
        return (pr.Range(self.names.index(f"{name}_step"), 0, -(-extent // size), "sequential"),
                pr.Range(self.names.index(f"{name}_at"), 0, size, "sequential"))

    def _exp(self, a: pr.Expr, b: pr.Expr) -> pr.Expr:
        return pr.Call("exp", (pr.Binary("-", a, b, self.dtype),), self.dtype)

    def _together(self, own: str, op: str) -> pr.Expr:
        """What the items of a row have, put together: each stores its own in local memory, they meet, and each reads all."""
        rest, across = expression(self._cuts()[self.chain.row].rest), self.by.items[0]
        self._emit("part", self.parts, (*_cells(self.groups), rest, pr.Index(self.items[1].index)), self._read(own, self.row), (self.row,))
        self._meet()
        rest = expression(self._cuts()[self.chain.row].rest)
        reads = [pr.Read(self.parts, (*_cells(self.groups), rest, pr.Const(u, I64)), self.dtype) for u in range(across)]
        return combine_as_tree(op, reads, self.dtype)

    def _copy(self, read: pr.Read, cuts: Mapping[str, TiledIndex]) -> _Tile:
        """The copy of what a group uses of an operand in an iteration of the loops around. Loops one after another copy to the
        same place."""
        forms = [f for sub in read.subscripts if (f := linear(sub)) is not None]
        box = pr.box(r for c in cuts.values() for r, _ in c.inner)
        used = {i for f in forms for i, _ in f.terms}
        rest = [substitute_tiled(f, cuts, "rest", constant=False) for f in forms]
        ends = [interval(f, box) for f in rest]
        base = [substitute_tiled(f, cuts, "base") for f in forms]
        low = tuple(replace(f, constant=f.constant + first) for f, (first, _) in zip(base, ends, strict=True))
        widths = tuple(last - first + 1 for first, last in ends)
        t = self.program.tensor(read.tensor)
        summed = (self.chain.feature, self.chain.key)
        tile = [i for i in cuts if i not in summed] + ([self.chain.key] if self.chain.feature in used else [])
        order = sorted(range(len(forms)), key=lambda d: any(forms[d].coefficient(i) for i in tile))
        limits = tuple(self._limits(t, d, f) for d, f in enumerate(forms))
        operand = Operand(read, t, low, widths, limits, tuple(order), tuple(r for _, r in self.loops))
        if read not in self.tiles:
            name = self.names.label(f"{read.tensor}_tile")
            self.tensors.append(self._scratch(name, tuple(widths[d] for d in order), read.dtype))
            self.tiles[read] = _Tile(name, read.dtype, self.groups, tuple(forms[d] for d in order), tuple(ends[d][0] for d in order))
        tile = self.tiles[read]
        copy = tile_copies.copy(operand, self.names.label(f"{self.chain.score.name}_{tile.name}"), tile.name, self.groups,
                                (self.by.items[0], self.by.items[1]), LANES, self.names)
        self._add(copy)
        return tile

    def _limits(self, t: pr.Tensor, d: int, form: Linear) -> tuple[int, int]:
        """The coordinates of a dimension that are copied; beyond the ends of sums there are none."""
        lower, upper = t.lower[d], t.lower[d] + t.shape[d]
        for r in (self.keys, self.features):
            if form.terms == ((r.index, 1),):
                upper = min(upper, form.constant + r.upper)
        return lower, upper

    def _scratch(self, name: str, shape: tuple[int, ...], dtype: DType) -> pr.Tensor:
        """Local memory of a group."""
        shape = (*(r.extent for r in self.groups), *shape)
        return pr.Tensor(name, dtype, shape, (0,) * len(shape))

    def program_cell(self, target: str) -> tuple[pr.Expr, ...]:
        """Where an element of a row or a result lies, in the indices of the scores."""
        return self.chain.cells[target]

    def _is_used(self, target: str) -> bool:
        """Does anything but the chain use a tensor?"""
        others = (s for s in self.program.statements if s.name not in self.chain.names)
        return target in self.program.arrays or any(target in (s.target, *(r.tensor for r in pr.reads(s))) for s in others)


@dataclass(frozen=True)
class _Tile:
    """A copy of an operand's tile. around: the loops in whose iterations it is made; forms: the operand's coordinates in the order
    of the copy's dimensions; first: those of its first element, without what the loops around say."""

    name: str
    dtype: DType
    around: Ranges
    forms: tuple[Linear, ...]
    first: tuple[int, ...]

    def read(self, cuts: Mapping[str, TiledIndex]) -> pr.Read:
        """What takes the place of an element of the operand."""
        inside = (substitute_tiled(f, cuts, "rest", constant=False) for f in self.forms)
        at = (replace(f, constant=f.constant - first) for f, first in zip(inside, self.first, strict=True))
        return pr.Read(self.name, (*_cells(self.around), *map(expression, at)), self.dtype)


LANES = 4
"""Elements of a vector that is copied at once."""
_SUM = pr.Index("")
"""A sum in expressions of one."""


def _cells(ranges: Sequence[pr.Range]) -> tuple[pr.Expr, ...]:
    return tuple(pr.Index(r.index) for r in ranges)


def _negated(c: pr.Expr) -> pr.Expr:
    """That a comparison does not hold."""
    assert isinstance(c, pr.Binary), "streamed softmax: no comparison"
    return replace(c, op={"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[c.op])
