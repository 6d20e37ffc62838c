"""How the items of a work-group meet memory: counted in the Loop AST for one group in the middle of the NDRange.

Loops run their middle iteration, as often as they have iterations, those of the host once; all items are evaluated at once
(arrays with an element an item). Elements that a loaded index chooses are taken to be neighbours' element 0.

Where sizes are open, loops whose iterations they decide are counted by formulas (counts.Count); which way a condition goes, and
which of two ends is the smaller, is decided at the sizes at hand. An iteration that is there in part, as the last one of K in
steps of 16, takes its time, but moves its part alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

import numpy as np

from polytc.codegen import loops, matrix_products, size_limits, traverse
from polytc.codegen.matrix_products import MatrixProduct
from polytc.codegen.passes import simplify
from polytc.machine import Machine, MatrixUnit
from polytc.program.calls.words import BYTES
from polytc.program.sizes import Size
from polytc.targets.opencl.counts import Count

SECTOR = 32
"""Bytes that global memory moves at least."""
CALL = 8
"""Multiply-adds that take as long as an elementary function."""
AHEAD = 4
"""Iterations of a loop whose loads are under way at once, as compilers unroll it."""
BLOCKS = 4
"""Blocks of 8 rows of 16 bytes that a warp reads at once for a matrix unit, each in a pass over all banks."""
MERGED = 4
"""Words of neighbouring loads of local memory that compilers make one."""


@dataclass
class Traffic:
    """Of one group. wanted: bytes of global memory that its warps ask for, each warp's counted once; moved: in whole sectors;
    words: passes over local memory if no two items met in a bank; passes: as they are; operations: multiply-adds of all items;
    barriers: that an item passes; waits: loads of global memory that follow one another; accesses: loads and stores of global
    memory by items, of whole vectors; tests: comparisons by items, of conditions."""

    wanted: float = 0.0
    moved: float = 0.0
    words: float = 0.0
    passes: float = 0.0
    operations: float = 0.0
    barriers: float = 0.0
    waits: float = 0.0
    accesses: float = 0.0
    tests: float = 0.0


def count(kernel: loops.Kernel, local_size: tuple[int, ...], machine: Machine, sizes: Mapping[str, int] | None = None,
          open_: bool = False) -> Traffic | None:
    """The traffic of a kernel as it is launched; None where it depends on open sizes that `sizes` does not have. open_: as
    formulas of these sizes."""
    numbers = np.arange(prod(local_size))
    ids = {f"item{axis}": numbers // prod(local_size[:axis]) % size for axis, size in enumerate(local_size)}
    counter = _Counter(ids, machine.warp, machine.costs.groups.banks, machine.matrix_unit, Traffic(),
                       dict(sizes or {}) if open_ else {})
    values = {name: np.asarray(n) for name, n in (sizes or {}).items()}
    try:
        forms = dict[str, loops.Expr]()
        for s in kernel.host:
            middle = loops.binary("//", loops.binary("+", s.lower, s.upper), loops.const(2))
            forms |= counter.form_of(s.var, middle, forms, values)
            values[s.var] = _value(middle, values)
        counter.statement(kernel.body, _Place(values, np.ones(len(numbers), bool), 1.0, 1.0, 1.0, forms))
    except KeyError:
        return None
    return counter.traffic


@dataclass(frozen=True)
class _Place:
    """Where a statement stands. values: of the variables; active: items that run it; times: how often; chain: how often one
    after another; share: how often, iterations that are there in part counted so; forms: expressions of sizes for the variables
    that depend on them."""

    values: Mapping[str, np.ndarray]
    active: np.ndarray
    times: float
    chain: float
    share: float
    forms: Mapping[str, loops.Expr]

    def where(self, active: np.ndarray) -> _Place:
        """The same place for some of the items."""
        return replace(self, active=active)


_Loads: TypeAlias = dict[loops.Expr, tuple[loops.Buffer, tuple[loops.Expr, ...], np.ndarray]]
_Touched: TypeAlias = tuple[loops.Buffer, np.ndarray, np.ndarray]
"""A buffer, addresses of bytes for each item and lane, and which items there are."""


@dataclass
class _Counter:
    ids: Mapping[str, np.ndarray]
    warp: int
    banks: int
    unit: MatrixUnit | None
    traffic: Traffic
    sizes: Mapping[str, int] = field(default_factory=dict)
    """That are open; none where only numbers are asked for."""
    under_way: float = 0.0
    """Loads that follow one another, of those since the last barrier."""

    def statement(self, s: loops.Stmt, at: _Place) -> None:
        match s:
            case loops.For() if self.unit is not None and (product := matrix_products.product_of(s)) is not None:
                self.product(product, at)
            case loops.For():
                self.loop(s, at)
            case loops.If():
                self.traffic.tests += _comparisons(s.cond) * at.times * int(at.active.sum())
                chosen = _value(s.cond, at.values).astype(bool) & at.active
                self.statement(s.then, at.where(chosen))
                if s.orelse is not None:
                    self.statement(s.orelse, at.where(at.active & ~chosen))
            case loops.Alloc():
                self.statement(s.body, at)
            case loops.Barrier():
                self.traffic.barriers += at.times
                self.under_way = 0.0
            case loops.Block():
                self.straight([x for x in s.stmts if isinstance(x, loops.Store)], at)
                for x in s.stmts:
                    if not isinstance(x, loops.Store):
                        self.statement(x, at)
            case loops.Store():
                self.straight([s], at)

    def loop(self, s: loops.For, at: _Place) -> None:
        lower, upper = _value(s.lower, at.values), _value(s.upper, at.values)
        chain = 1.0
        if s.kind == "block":
            value, active, trips, parts = lower + (upper - lower) // 2, at.active, 1.0, 1.0
        elif s.kind == "thread":
            value = lower + s.step * self.ids.get(f"item{s.axis}", np.int64(0))
            active, trips, parts = at.active & (value < upper), 1.0, 1.0
        else:
            many = np.maximum(0, -((lower - upper) // s.step)) + np.zeros(len(at.active), np.int64)
            value, active = lower + many // 2 * s.step, at.active & (many > 0)
            trips = parts = float(many[active].mean()) if active.any() else 0.0
            if isinstance(open_ := self.open_trips(s, at), Size):
                trips, parts, active = Count.trips(open_, self.sizes), Count.whole_or_part(open_, self.sizes), at.active
            inner = any(isinstance(x, loops.For | loops.Barrier) for x in traverse.walk_stmt(s.body))
            chain = 1.0 if s.kind == "unroll" else trips if inner else max(1.0, trips / AHEAD)
        if (trips or isinstance(trips, Count)) and active.any():
            forms = {**at.forms, **self.form_of(s.var, _middle(s), at.forms, at.values)}
            self.statement(s.body, _Place({**at.values, s.var: value}, active, at.times * trips, at.chain * chain,
                                          at.share * parts, forms))

    def open_trips(self, s: loops.For, at: _Place) -> int | None:
        """The iterations of a loop, a formula of the open sizes where they depend on them; None where they are no formula."""
        if not self.sizes:
            return None
        span = loops.binary("+", loops.binary("-", s.upper, s.lower), loops.const(s.step - 1))
        return size_limits.formula(self.of_sizes(loops.binary("//", span, loops.const(s.step)), at.forms, at.values))

    def form_of(self, var: str, e: loops.Expr, forms: Mapping[str, loops.Expr], values: Mapping[str, np.ndarray]
                ) -> dict[str, loops.Expr]:
        """The expression of sizes that a variable is, if it depends on them."""
        found = self.of_sizes(e, forms, values) if self.sizes else loops.const(0)
        return {var: found} if traverse.variables(found) else {}

    def of_sizes(self, e: loops.Expr, forms: Mapping[str, loops.Expr], values: Mapping[str, np.ndarray]) -> loops.Expr:
        """An expression of sizes alone: for other variables stands the number of an item in the middle, for the smaller of two
        what is smaller at the sizes at hand."""
        def known(x: loops.Expr) -> loops.Expr:
            if isinstance(x, loops.Var) and x.name not in self.sizes:
                return forms[x.name] if x.name in forms else loops.const(int(np.median(values[x.name])))
            if isinstance(x, loops.Call) and x.fn in ("min", "max"):
                pick = min if x.fn == "min" else max
                return pick(x.args, key=lambda a: int(_value(a, {n: np.asarray(v) for n, v in self.sizes.items()})))
            return x
        return simplify.expr(traverse.map_expr(e, known), {})

    def product(self, p: MatrixProduct, at: _Place) -> None:
        """A product of tiles, for which a warp reads four blocks of both operands in as many passes."""
        items = int(at.active.sum())
        steps, rows, columns, pair = (float(_value(s.upper, at.values)) for s in (p.steps, p.rows, p.columns, p.pair))
        reads = steps / p.at_once * (rows + columns) / 2 * BLOCKS * -(-items // self.warp) * at.times
        assert self.unit is not None, "warp traffic: no matrix unit"
        faster = self.unit.faster if p.left.dtype.is_half else self.unit.bytes_faster / BYTES
        self.traffic.operations += steps * rows * columns * pair * items * at.times / faster if faster else 0
        self.traffic.passes += reads
        self.traffic.words += reads

    def straight(self, stores: list[loops.Store], at: _Place) -> None:
        """Assignments that follow one another: a value that is loaded twice is loaded once."""
        found: _Loads = {}
        for s in stores:
            for top in traverse.expressions(s):
                self.loads(top, at, at.active, found)
            self.traffic.operations += _operations(s.value) * at.times * int(at.active.sum())
        loaded = [(b, _addresses(b, indices, at), active) for b, indices, active in found.values()]
        stored = [(s.buffer, _addresses(s.buffer, s.indices, at), at.active) for s in stores
                  if s.buffer.space != "private"]
        if any(b.space == "global" for b, _, _ in loaded):
            self.traffic.waits += max(0.0, at.chain - self.under_way)
            self.under_way = max(self.under_way, at.chain)
        for b, where, active in [*_merged(loaded), *stored]:
            self.access(b, where, active, at)

    def loads(self, e: loops.Expr, at: _Place, active: np.ndarray, found: _Loads) -> None:
        """The loads of an expression that items perform, by themselves."""
        if isinstance(e, loops.Select) and e.cond.lanes == 1:
            self.traffic.tests += _comparisons(e.cond) * at.times * int(active.sum())
            self.loads(e.cond, at, active, found)
            chosen = _value(e.cond, at.values).astype(bool)
            self.loads(e.a, at, active & chosen, found)
            self.loads(e.b, at, active & ~chosen, found)
            return
        if isinstance(e, loops.Load) and e.buffer.space != "private":
            found[e] = e.buffer, e.indices, active
        for x in traverse.operands(e):
            self.loads(x, at, active, found)

    def access(self, b: loops.Buffer, where: np.ndarray, active: np.ndarray, at: _Place) -> None:
        """where: an address of bytes for each item and lane."""
        t, width, times, share = self.traffic, b.dtype.bytes, at.times, at.share
        t.accesses += times * int(active.sum()) * (b.space == "global")
        for first in range(0, len(active), self.warp):
            own = where[first:first + self.warp][active[first:first + self.warp]]
            if not own.size:
                continue
            if b.space == "global":
                t.wanted += share * len(np.unique(own)) * width
                t.moved += share * len(np.unique(own // SECTOR)) * SECTOR
            else:
                words = np.unique(own // 4)
                t.passes += times * int(np.bincount(words % self.banks).max())
                t.words += times * -(-len(words) // self.banks)


def _middle(s: loops.For) -> loops.Expr:
    """The iteration in the middle of a loop."""
    span = loops.binary("-", s.upper, s.lower)
    return loops.binary("+", s.lower, loops.binary("*", loops.binary("//", span, loops.const(2 * s.step)), loops.const(s.step)))


def _merged(loaded: Iterable[_Touched]) -> list[_Touched]:
    """Loads of neighbouring words of local memory by each item as one, as compilers make them."""
    found: list[_Touched] = []
    runs: dict[tuple[str, bytes], list[_Touched]] = {}
    for b, where, active in loaded:
        if b.space == "global" or where.shape[1] > 1 or b.dtype.bytes != 4:
            found.append((b, where, active))
        else:
            runs.setdefault((b.name, (where - where[0]).tobytes()), []).append((b, where, active))
    for run in runs.values():
        packs: dict[int, list[_Touched]] = {}
        for one in run:
            packs.setdefault(int(one[1][0, 0]) // (4 * MERGED), []).append(one)
        found += [(p[0][0], np.concatenate([w for _, w, _ in p], axis=1), p[0][2]) for p in packs.values()]
    return found


def _addresses(b: loops.Buffer, indices: tuple[loops.Expr, ...], at: _Place) -> np.ndarray:
    """Bytes from the first element, for each item and lane."""
    items = len(at.active)
    total = np.zeros((items, 1), np.int64)
    for i, stride in zip(indices, b.strides, strict=True):
        total = total + stride * _lanes(i, at.values, items)
    return total * b.dtype.bytes


def _lanes(e: loops.Expr, values: Mapping[str, np.ndarray], items: int) -> np.ndarray:
    """An index for each item and lane."""
    match e:
        case loops.Ramp():
            return _lanes(e.base, values, items) + e.stride * np.arange(e.lanes)
        case loops.Broadcast():
            return _lanes(e.a, values, items)
        case loops.Binary() if e.lanes > 1:
            return _ARITHMETIC[e.op](_lanes(e.a, values, items), _lanes(e.b, values, items))
    return (np.zeros(items, np.int64) + _value(e, values)).reshape(items, 1) if e.lanes == 1 else np.zeros((items, 1), np.int64)


_ARITHMETIC: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": lambda a, b: a // np.where(b == 0, 1, b),
    "%": lambda a, b: a % np.where(b == 0, 1, b), "&&": np.logical_and, "||": np.logical_or, "==": np.equal,
    "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "min": np.minimum,
    "max": np.maximum}


def _value(e: loops.Expr, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """An index or a condition for each item; 0 or true for what depends on what memory holds. KeyError for a size."""
    match e:
        case loops.Var():
            return values[e.name]
        case loops.Const():
            return np.asarray(e.value)
        case loops.Unary():
            return np.logical_not(_value(e.a, values)) if e.op == "!" else -_value(e.a, values)
        case loops.Binary() if e.op in _ARITHMETIC:
            return _ARITHMETIC[e.op](_value(e.a, values), _value(e.b, values))
        case loops.Call() if e.fn in ("min", "max"):
            first, *others = (_value(a, values) for a in e.args)
            for other in others:
                first = _ARITHMETIC[e.fn](first, other)
            return first
        case loops.Cast():
            return _value(e.a, values)
        case loops.Select():
            return np.where(_value(e.cond, values), _value(e.a, values), _value(e.b, values))
    return np.asarray(e.dtype.kind == "b", np.int64)


def _comparisons(e: loops.Expr) -> int:
    return sum(isinstance(x, loops.Binary) and x.op in _COMPARISONS for x in traverse.walk_expr(e))


_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


def _operations(e: loops.Expr) -> int:
    """Multiply-adds of an expression, each other operation counted as one, an elementary function as several."""
    count = 0
    for x in traverse.walk_expr(e):
        if x.dtype.kind != "f":
            continue
        if isinstance(x, loops.Call):
            count += x.lanes * (1 if x.fn in ("min", "max", "fma", "muladd") else CALL)
        elif isinstance(x, loops.Binary):
            fused = x.op in "+-" and any(isinstance(o, loops.Binary) and o.op == "*" for o in (x.a, x.b))
            count += 0 if fused else x.lanes * (CALL if x.op == "/" else 1)
    return count
