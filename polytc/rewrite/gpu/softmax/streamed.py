"""A chain of products and exponentials (rewrite.gpu.softmax.chain) as statements of one kernel, which goes through the keys in
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

from dataclasses import replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.linear import expression, linear
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64
from polytc.rewrite.gpu.softmax import visible
from polytc.rewrite.gpu.softmax.chain import WEIGHT, Chain, Sum
from polytc.rewrite.gpu.softmax.frame import Frame, Ranges, Tile, cells
from polytc.rewrite.gpu.softmax.key_blocks import KeyBlocks
from polytc.rewrite.gpu.softmax.visible import Part
from polytc.rewrite.gpu.tiled_indices import TiledIndex, linear_subscripts
from polytc.rewrite.gpu.work_group_reductions import combine_as_tree


class StreamedSoftmax(Frame):
    """The statements that take the place of a chain. tensors: the new ones.

    maximum, result, score, totals: what each item has of the largest value of a row, of the second product, of a block's scores
    and then weights, and of sums; weights: of a block in local memory; spread: what items of a row tell each other.
    """

    def __init__(self, program: pr.Program, chain: Chain, by: KeyBlocks, names: Names) -> None:
        super().__init__(program, chain, by, names)
        self.scores, self.wide = (self.row, *self.key_parts), (self.row, *self.column_parts)
        self.maximum = self.own(f"{chain.maximum}_own", self.row)
        self.result = self.own(f"{chain.product.target}_own", *self.wide)
        self.score = self.own(f"{chain.score.target}_own", *self.scores)
        self.totals = {s.target: self.own(f"{s.target}_own", self.row) for s in chain.sums}
        self.owned[chain.score.target] = self.score, self.scores
        count, of = (PARTS, chain.values.dtype) if by.is_matrix else (1, self.dtype)
        self.weights = [names.label(f"{chain.score.target}_tile") for _ in range(count)]
        self.spread = names.label(f"{chain.score.target}_parts")
        shape = (by.rows, by.keys) if by.is_matrix else (by.keys, by.rows)
        self.tensors += [self.scratch(name, shape, of) for name in self.weights]
        self.tensors.append(self.scratch(self.spread, (by.rows, by.items[0]), self.dtype))
        self.feature_steps = self.steps(chain.feature, self.features.extent, by.steps[0])

    def statements(self) -> list[pr.Statement]:
        """All of them, in order."""
        self.assign("lowest", self.maximum, self.number(float("-inf")), self.row)
        for target, own in self.totals.items():
            self.assign(f"{target}_none", own, self.number(0.0), self.row)
        self.assign("none", self.result, self.number(0.0), *self.wide)
        if self.feature_steps[0].extent == 1:
            self.copy(self.chain.queries, self._with_features())
        block = self.block
        self.loops = (("", block),)
        for part in [*visible.parts(self.chain, self.cuts(), block, self.by.keys)]:
            self.block = replace(block, index=self.names.index(block.index))
            where = tuple(pr.substitute(c, {block.index: pr.Index(self.block.index)}) for c in part.where)
            self._blocks(replace(part, where=where))
        self.loops, self.where = (), ()
        self._finish()
        return self.made

    def _blocks(self, part: Part) -> None:
        """The loop over the blocks of a part."""
        self.loops, self.where = ((self.names.label(f"{self.chain.score.name}_keys"), self.block),), part.where
        self.meet()
        early = self._copied_values(*self.steps(self.chain.key, self.by.keys, self.by.steps[1])) \
            if self.by.steps[1] >= self.by.keys else None
        self._scores(part.tested)
        self._weights()
        self.meet()
        self._results(tuple(c for c in part.tested if c in self.chain.conditions), early)

    def _copied_values(self, step: pr.Range, at: pr.Range) -> Tile:
        """The values in local memory. Those of a whole block are on their way together with the keys."""
        return self.copy(self.chain.values, self._with_keys(step, at))

    def _with_keys(self, step: pr.Range, at: pr.Range) -> dict[str, TiledIndex]:
        """The cuts for the second product."""
        outer = ((self.block, self.by.keys), *(((step, self.by.steps[1]),) if step.extent > 1 else ()))
        return self.cuts() | {self.chain.key: TiledIndex(self.keys.lower, outer, ((at, 1),))}

    def _scores(self, tested: tuple[pr.Expr, ...]) -> None:
        """The scores of a block, what becomes of them, and the largest of those that an item has."""
        chain, (step, at), outside = self.chain, self.feature_steps, self.loops
        self.assign("zero", self.score, self.number(0.0), *self.scores)
        if step.extent > 1:
            step = replace(step, index=self.names.index(step.index))
            self.loops += ((self.names.label(f"{chain.score.name}_features"), step),)
            self.feature_steps = step, at
        cuts, value = self._with_features(), chain.score.value
        for read in (chain.queries, chain.keys):
            tile = self.tiles[read] if read == chain.queries and step.extent == 1 else self.copy(read, cuts)
            value = _replaced(value, read, tile.read(cuts))
        self._multiply("scores", self.score, value, at, self.scores)
        self.loops = outside
        value = self.moved(chain.value)
        if tested:
            tests = tuple(map(self.moved, tested))
            value = pr.Select(pr.conjunction(tests), value, self.number(float("-inf")), self.dtype)
        if value != self.read(self.score, *self.scores):
            self.assign("values", self.score, value, *self.scores)

    def _multiply(self, label: str, target: str, value: pr.Expr, at: pr.Range, inner: Ranges) -> None:
        """A sum of products, by items or by warps."""
        loops = (at, *inner)
        if self.by.is_matrix:
            loops = tuple(replace(r, kind=kinds.MATRIX) for r in loops)
        self.emit(label, target, self.cell(*inner), linear_subscripts(value), loops, "+")

    def _with_features(self) -> dict[str, TiledIndex]:
        """The cuts for the first product."""
        step, at = self.feature_steps
        outer = ((step, self.by.steps[0]),) if step.extent > 1 else ()
        return self.cuts() | {self.chain.feature: TiledIndex(self.features.lower, outer, ((at, 1),))}

    def _weights(self) -> None:
        """The maximum of each row, the weights in their own and in local memory, and the sums so far less what the maximum has
        grown by."""
        chain, row, lowest = self.chain, self.row, self.number(float("-inf"))
        most, next_, base, scale = (self.own(f"{chain.maximum}_{n}", row) for n in ("most", "next", "base", "scale"))
        self.assign("most_none", most, lowest, row)
        self.assign("most", most, self.read(self.score, *self.scores), *self.scores, op="max")
        largest = self._together(most, "max")
        new, known = self.read(next_, row), self.read(self.maximum, row)
        self.assign("next", next_, pr.Call("max", (known, largest), self.dtype), row)
        self.assign("base", base, pr.Select(pr.Binary("==", new, lowest, BOOL), self.number(0.0), new, self.dtype), row)
        less, factor = self.read(base, row), self.read(scale, row)
        self.assign("scale", scale, self.exp(known, less), row)
        self.assign("weights", self.score, self.exp(self.read(self.score, *self.scores), less), *self.scores)
        self._share_weights()
        for own in self.totals.values():
            self.assign("less", own, pr.Binary("*", self.read(own, row), factor, self.dtype), row)
            self.assign("sum", own, self.read(self.score, *self.scores), *self.scores, op="+")
        self.assign("less", self.result, pr.Binary("*", self.read(self.result, *self.wide), factor, self.dtype), *self.wide)
        self.assign("grown", self.maximum, new, row)

    def _share_weights(self) -> None:
        """The weights in local memory: as they are, or for a matrix unit in two halves, the second of which is what the first
        has lost."""
        key, row = (expression(self.cuts()[i].rest) for i in (self.chain.key, self.chain.row))
        own, half = self.read(self.score, *self.scores), self.chain.values.dtype
        if not self.by.is_matrix:
            self.emit("tile", self.weights[0], (*cells(self.groups), key, row), own, self.scores)
            return
        rounded = pr.Cast(own, half)
        lost = pr.Cast(pr.Binary("-", own, pr.Cast(rounded, self.dtype), self.dtype), half)
        for name, value in zip(self.weights, (rounded, lost), strict=True):
            self.emit("tile", name, (*cells(self.groups), row, key), value, self.scores)

    def _results(self, tested: tuple[pr.Expr, ...], tile: Tile | None) -> None:
        """The second product of a block. tested: the conditions under which keys count; tile: the values, if they are there."""
        chain, by = self.chain, self.by
        (step, at), outside = self.steps(chain.key, by.keys, by.steps[1]), self.loops
        outer = ((step, by.steps[1]),) if step.extent > 1 else ()
        if outer:
            self.loops += ((self.names.label(f"{chain.score.name}_values"), step),)
        tile = tile or self._copied_values(step, at)
        for name in self.weights:
            at = replace(at, index=self.names.index(at.index))  # one after the other
            cuts = self._with_keys(step, at)
            term = _replaced(chain.term, chain.values, tile.read(cuts))
            key, row = expression(TiledIndex(0, outer, ((at, 1),)).whole), expression(cuts[chain.row].rest)
            weight: pr.Expr = pr.Read(name, (*cells(self.groups), key, row), self.dtype)
            if by.is_matrix:
                weight = pr.Cast(pr.Read(name, (*cells(self.groups), row, key), chain.values.dtype), self.dtype)
            value: pr.Expr = pr.Binary("*", weight, term, self.dtype)
            if tested:
                whole = {i: expression(c.whole) for i, c in cuts.items()}
                tests = tuple(linear_subscripts(pr.substitute(c, whole)) for c in tested)
                value = pr.Select(pr.conjunction(tests), value, self.number(0.0), self.dtype)
            self._multiply("results", self.result, value, at, self.wide)
        self.loops = outside

    def _finish(self) -> None:
        """The sums of rows, what becomes of rows and results, and those that others use."""
        chain = self.chain
        for n, (target, own) in enumerate(self.totals.items()):
            if n:
                self.meet()  # the numbers before have been read
            self.assign(f"{target}_all", own, self._together(own, "+"), self.row)
        self.owned = {chain.maximum: (self.maximum, (self.row,))}
        if not chain.safe:
            self._nothing_but_lowest()
        for x in chain.tail:
            inner = self.wide if chain.is_wide(x) else (self.row,)
            if isinstance(x, Sum):
                own = self.result if chain.is_wide(x) else self.totals[x.target]
                value, total = self.moved(x.value), self.read(own, *inner)
                value = self._of_terms(pr.substitute(value, {WEIGHT: total}), total)
            else:
                own, value = self.own(f"{x.target}_own", *inner, dtype=self.program.tensor(x.target).dtype), self.moved(x.value)
            self.owned[x.target] = own, inner
            if not isinstance(x, Sum) or value != total:
                self.assign(x.target, own, value, *inner)
        for name in (chain.maximum, *(x.target for x in chain.tail)):
            if self.is_used(name):
                self._store(name)

    def _of_terms(self, value: pr.Expr, total: pr.Expr) -> pr.Expr:
        """What a factor makes of a total: of that of no terms nothing, as 0/0 were."""
        rows = tuple(map(self.moved, visible.sees_any(self.chain))) if value != total else ()
        return pr.Select(pr.conjunction(rows), value, total, self.dtype) if rows else value

    def _nothing_but_lowest(self) -> None:
        """Where all values of a row are -inf, the program's exponents are -inf less -inf, and its sums NaN."""
        rows = tuple(map(self.moved, visible.sees_any(self.chain)))
        lowest = pr.Binary("==", self.read(self.maximum, self.row), self.number(float("-inf")), BOOL)
        test = pr.conjunction((lowest, *rows))
        for own, inner in (*((own, (self.row,)) for own in self.totals.values()), (self.result, self.wide)):
            value = pr.Select(test, self.number(float("nan")), self.read(own, *inner), self.dtype)
            self.assign("nan", own, value, *inner)

    def _store(self, target: str) -> None:
        """What others use, where it belongs."""
        (own, inner), chain, items = self.owned[target], self.chain, self.items
        where = [self.below(self.rows)] if chain.row in self.ragged() else []
        value = self.read(own, *inner, dtype=self.program.tensor(target).dtype)
        if len(inner) == 1:
            items = (items[0], replace(items[1], upper=1))
        elif chain.column.index in self.ragged():
            lane = inner[-1]
            whole = chain.column.extent % lane.extent == 0
            inner = inner if whole else (*inner[:-1], replace(lane, kind="unroll"))
            where.append(self.below(chain.column, but=lane.index if whole else ""))
        whole_ = {i: expression(c.whole) for i, c in self.cuts().items()}
        moved = (pr.substitute(e, whole_) for e in chain.cells[target])
        at = tuple(expression(f) if (f := linear(x)) is not None else x for x in moved)
        self.emit(f"{target}_store", target, at, value, inner, where=tuple(where), items=items)

    def _together(self, own: str, op: str) -> pr.Expr:
        """What the items of a row have, put together: each stores its own in local memory, they meet, and each reads all."""
        rest, across = expression(self.cuts()[self.chain.row].rest), self.by.items[0]
        mine = (*cells(self.groups), rest, pr.Index(self.items[1].index))
        self.emit("part", self.spread, mine, self.read(own, self.row), (self.row,))
        self.meet()
        rest = expression(self.cuts()[self.chain.row].rest)
        reads = [pr.Read(self.spread, (*cells(self.groups), rest, pr.Const(u, I64)), self.dtype) for u in range(across)]
        return combine_as_tree(op, reads, self.dtype)


PARTS = 2
"""Halves whose sum a weight is for a matrix unit."""


def _replaced(e: pr.Expr, old: pr.Read, new: pr.Read) -> pr.Expr:
    return pr.map_expr(e, lambda x: new if x == old else x)
