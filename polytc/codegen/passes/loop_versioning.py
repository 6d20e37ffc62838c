"""Full tiles and others: where the bounds of point loops vary, full tiles get code of their own.

    for i in 0:9 { for j in 0:5 {                       with C[72,80], A[72,80]
        unroll for p in 0:8 { vector for q in 0:min(16, 8*i + p - 16*j + 1) { C[8*i + p, 16*j + q] = A[8*i + p, 16*j + q] } }
    } }
    ->  for i in 0:9 { for j in 0:5 {
            if i * 8 - j * 16 - 15 >= 0 {
                unroll for p.0 in 0:8 { vector for q.0 in 0:16 { C[8*i + p.0, 16*j + q.0] = A[8*i + p.0, 16*j + q.0] } }
            } else { unroll for p.0 in 0:8 { ... } }
        } }

The condition is that each bound equals its constant for all values of the loops inside, so that the tile of a triangle, of a
parallelogram or at an edge runs at the speed of a box. It stands above the loops of a reduction, so that they keep the tile in
registers; one on whose variable it depends is cut in two instead:

a loop over k in i+1:n around `unroll for p in 0:min(8, k - i)` becomes one over i+1:i+8 and one over i+8:n, of whole tiles.
A test above it for all its iterations would leave the blocks of a reduction that a diagonal crosses without full tiles.

What is left of the rows of a tile runs in smaller tiles (strip_mining.rows).

Guarantees: the same instances; in the same order, but for rows of which none touches what another one writes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.linear_forms import Terms
from polytc.codegen.lower import conjunction
from polytc.codegen.passes import simplify, strip_mining
from polytc.codegen.passes.simplify import Interval
from polytc.codegen.passes.vector_statements import bound_operands, clamp_shared_loads, shared_loads_safe
from polytc.machine import Machine

POINT = ("unroll", "vector", "reduce")
LARGEST = 4096
"""Instances of a nest of point loops up to which it counts as a tile."""
LONGEST = 512
"""Iterations of one of its loops, likewise: bounds that reach further are hardly ever met, and make long straight code."""


@dataclass(frozen=True)
class Condition:
    """terms >= 0, a linear form of the variables outside, makes the expression `alternative`, one of those whose minimum (or
    maximum) is a bound of the point loop over `var`, no tighter than the constant `limit`. upper: which bound."""

    terms: Terms
    var: str
    upper: bool
    alternative: loops.Expr
    limit: int

    def coefficient(self, var: str) -> int:
        return self.terms.get(loops.Var(var), 0)

    @property
    def quotients(self) -> tuple[loops.Expr, ...]:
        """The terms that are neither variables nor formulas of open sizes."""
        return tuple(a for a in self.terms if not isinstance(a, loops.Var) and not _of_sizes(a))


@dataclass(frozen=True)
class _Facts:
    """masks: may other tiles stay loops or masked vectors? numbers: for the variables of tiles, each of which gets a name of
    its own, so that a condition means one loop; items: is it a GPU? registers: its buffers that may come to be registers."""

    masks: bool
    numbers: Iterator[int]
    items: bool = False
    registers: frozenset[str] = frozenset()


def version_kernel(kernel: loops.Kernel, machine: Machine, scratch: frozenset[str] = frozenset()) -> loops.Kernel:
    """The kernel with its full tiles told apart; on a machine with masks, the other tiles are ready to be unrolled as well, on
    a GPU those that load what may lie in registers. scratch: the buffers that are not the caller's."""
    gpu = machine.kind == "gpu"
    facts = _Facts(machine.masked or gpu, itertools.count(), gpu, scratch if gpu else frozenset())
    return replace(kernel, body=_visit(kernel.body, {}, facts)[0])


def _visit(s: loops.Stmt, known: dict[str, Interval], facts: _Facts) -> tuple[loops.Stmt, list[Condition]]:
    """The statement with the conditions dealt with that it can deal with, and the others."""
    match s:
        case loops.For() if s.kind in POINT:
            return _tile(s, known, facts)
        case loops.For():
            return _loop(s, known, facts)
        case loops.Block():
            parts = [_visit(x, known, facts) for x in s.stmts]
            return loops.block(*(x for x, _ in parts)), [c for _, found in parts for c in found]
        case loops.Alloc():
            body, found = _visit(s.body, known, facts)
            return replace(s, body=body), found
        case loops.If():
            then, found = _visit(s.then, known, facts)
            orelse, others = _visit(s.orelse, known, facts) if s.orelse is not None else (None, [])
            return loops.If(s.cond, then, orelse), found + others
        case _:
            return s, []


def _loop(s: loops.For, known: dict[str, Interval], facts: _Facts) -> tuple[loops.Stmt, list[Condition]]:
    inside = known | {s.var: simplify.values(s, known)}
    body, found = _visit(s.body, inside, facts)
    s = replace(s, body=body)
    if not found:
        return s, []
    single = simplify.expr(loops.binary("-", s.upper, s.lower), {}) == loops.const(1)       # a tile loop that was split
    if single or _stores_move(s.body, s.var) or any(s.var in traverse.variables(a) for c in found for a in c.quotients):
        other = _rest(body, found, facts) or _other(body, inside, facts)
        return replace(s, body=loops.If(_all(found), assume_full_tile(body, found), other)), []
    mine, rest = [c for c in found if c.coefficient(s.var)], [c for c in found if not c.coefficient(s.var)]
    hoisted = _hoisted(mine, s, known)
    if hoisted == []:                                               # they hold in all iterations
        return s, rest
    if s.step == 1 and s.kind == "sequential":
        return _cut(s, mine, known, facts), rest
    return s, rest + (hoisted or [])


def _rest(body: loops.Stmt, found: Sequence[Condition], facts: _Facts) -> loops.Stmt | None:
    """The rows that are left of a tile, in smaller tiles. With masks that is only better where an open size decides how many
    there are, as these may be all. Without, so are its columns: loops over what is left keep no results in registers."""
    of_size = any(_of_sizes(a) and not isinstance(a, loops.Const) for c in found for a in c.terms)
    limits = {c.limit for c in found if c.upper}
    if (facts.masks and not of_size) or len(limits) != 1 or not all(c.upper for c in found):
        return None
    kinds = ("unroll", "vector") if of_size and not facts.masks else ("unroll",)
    return strip_mining.rows(body, {c.var for c in found}, max(limits), facts.numbers, kinds)


def _stores_move(s: loops.Stmt, var: str) -> bool:
    """Does a loop over `var` write other elements in each iteration?"""
    stores = [x for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)]
    return all(any(var in traverse.variables(i) for i in x.indices) for x in stores)


# ---- conditions

def _tile(s: loops.For, known: dict[str, Interval], facts: _Facts) -> tuple[loops.Stmt, list[Condition]]:
    """A nest of point loops, and the conditions under which all its bounds are constant."""
    s = _renamed(s, facts.numbers)
    found = _nest(s, known, 1)
    if found is None:
        return s, []
    unmet = [c for c in found if not _holds(c, known)]
    points = {x.var for x in traverse.walk_stmt(s) if isinstance(x, loops.For)}
    if any(_fails(c, known) or not facts.items and c.quotients or any(points & traverse.variables(a) for a in c.quotients)
           for c in unmet):
        return _other(s, known, facts), []
    return s, unmet


def _renamed(s: loops.For, numbers: Iterator[int]) -> loops.For:
    """The nest with names of its own for the point loops: one after another over the same variable have different ones."""
    number, met = next(numbers), set[str]()

    def on_stmt(x: loops.Stmt) -> loops.Stmt:
        if not isinstance(x, loops.For) or x.kind not in POINT:
            return x
        name = f"{x.var}.{next(numbers) if x.var in met else number}"
        met.add(x.var)
        return replace(x, var=name, body=traverse.substitute(x.body, {x.var: loops.Var(name)}))
    renamed = traverse.map_stmt(s, on_stmt, lambda e: e)
    assert isinstance(renamed, loops.For)
    return renamed


def _nest(s: loops.Stmt, known: dict[str, Interval], size: int) -> list[Condition] | None:
    """size: instances of the loops outside; None if there are no such conditions."""
    match s:
        case loops.For() if s.kind in POINT and s.step == 1:
            low, high = simplify.values(s, known)
            if low is None or high is None or (high - low + 1) * size > LARGEST or high - low >= LONGEST:
                return None
            inner = _nest(s.body, known | {s.var: (low, high)}, size * (high - low + 1))
            if inner is None:
                return None
            own = [Condition(_minus(a, high + 1), s.var, True, a, high + 1) for a in bound_operands(s.upper, "min")]
            own += [Condition(_scaled(_minus(a, low)), s.var, False, a, low) for a in bound_operands(s.lower, "max")]
            return [*own, *(_least(c, s.var, low, high) for c in inner)]
        case loops.For():
            return None
        case loops.Block():
            parts = [_nest(x, known, size) for x in s.stmts]
            return None if any(p is None for p in parts) else [c for p in parts if p is not None for c in p]
        case loops.Store():
            return []
        case _:
            return None


def _minus(e: loops.Expr, number: int) -> Terms:
    return linear_forms.linear(simplify.expr(loops.binary("-", e, loops.const(number)), {}))


def _scaled(terms: Terms) -> Terms:
    return {a: -c for a, c in terms.items()}


def _least(c: Condition, var: str, low: int, high: int) -> Condition:
    """The condition for all values low..high of a variable."""
    k = c.coefficient(var)
    return _with(c, var, loops.const(low if k > 0 else high)) if k else c


def _with(c: Condition, var: str, value: loops.Expr) -> Condition:
    """The condition with an expression for a variable."""
    e = simplify.expr(traverse.map_expr(linear_forms.build(c.terms), lambda x: value if x == loops.Var(var) else x), {})
    return replace(c, terms=linear_forms.linear(e))


def _holds(c: Condition, known: dict[str, Interval]) -> bool:
    low = simplify.interval(linear_forms.build(c.terms), known)[0]
    return low is not None and low >= 0


def _fails(c: Condition, known: dict[str, Interval]) -> bool:
    """Is it never met?"""
    high = simplify.interval(linear_forms.build(c.terms), known)[1]
    return high is not None and high < 0


def _of_sizes(a: loops.Expr) -> bool:
    """Is it a number, or arithmetic on open sizes, such as `(m + 1) // 2`?"""
    return all(isinstance(e, loops.Const | loops.Binary) or (isinstance(e, loops.Var) and e.least is not None)
               for e in traverse.walk_expr(a))


def _all(found: Iterable[Condition]) -> loops.Expr:
    tests = [loops.binary(">=", linear_forms.build(c.terms), loops.const(0)) for c in found]
    return conjunction(list(dict.fromkeys(tests)))


def _hoisted(found: Sequence[Condition], s: loops.For, known: dict[str, Interval]) -> list[Condition] | None:
    """The conditions for all iterations of a loop; None if some then never hold."""
    moved = []
    for c in found:
        bounds = bound_operands(s.lower, "max") if c.coefficient(s.var) > 0 else \
            [simplify.expr(loops.binary("-", a, loops.const(1)), {}) for a in bound_operands(s.upper, "min")]
        able = [m for m in (_with(c, s.var, b) for b in bounds) if not m.quotients and not _fails(m, known)]
        if not able:
            return None
        best = next((m for m in able if _holds(m, known)), able[0])
        if not _holds(best, known):
            moved.append(best)
    return moved


def _cut(s: loops.For, found: Sequence[Condition], known: dict[str, Interval], facts: _Facts) -> loops.Stmt:
    """The loop in up to three parts, in one of which the conditions hold."""
    var = loops.Var(s.var)
    first, last = s.lower, s.upper
    for c in found:
        k = c.coefficient(s.var)
        rest = linear_forms.build({a: n for a, n in c.terms.items() if a != var})
        if k > 0:                                                     # var >= ceil(-rest / k)
            start = loops.binary("//", simplify.expr(loops.binary("-", loops.const(k - 1), rest), {}), loops.const(k))
            first = loops.Call("max", (first, start), first.dtype)
        else:                                                         # var <= floor(rest / -k)
            end = loops.binary("+", loops.binary("//", rest, loops.const(-k)), loops.const(1))
            last = loops.Call("min", (last, end), last.dtype)
    first = simplify.expr(loops.Call("min", (first, s.upper), s.lower.dtype), known)
    last = simplify.expr(loops.Call("max", (last, first), s.lower.dtype), known)
    full = replace(s, lower=first, upper=last, body=assume_full_tile(s.body, found))
    other = replace(s, body=_other(s.body, known | {s.var: simplify.values(s, known)}, facts))
    return loops.block(*([replace(other, upper=first)] if first != s.lower else []), full,
                       *([replace(other, lower=last)] if last != s.upper else []))


def assume_full_tile(s: loops.Stmt, found: Sequence[Condition]) -> loops.Stmt:
    """The statement without the bounds that the conditions make needless."""
    drop: dict[tuple[str, bool], dict[loops.Expr, int]] = {}
    for c in found:
        drop.setdefault((c.var, c.upper), {})[c.alternative] = c.limit

    def bound(x: loops.For, upper: bool) -> loops.Expr:
        old, gone = x.upper if upper else x.lower, drop.get((x.var, upper), {})
        fn = "min" if upper else "max"
        kept = [a for a in bound_operands(old, fn) if a not in gone]
        return _extreme(fn, [*kept, *map(loops.const, gone.values())]) if gone else old

    def on_stmt(x: loops.Stmt) -> loops.Stmt:
        return replace(x, lower=bound(x, False), upper=bound(x, True)) if isinstance(x, loops.For) else x

    return traverse.map_stmt(s, on_stmt, lambda e: e)


def _extreme(fn: str, values: Sequence[loops.Expr]) -> loops.Expr:
    """min or max of values."""
    result = values[0]
    for v in values[1:]:
        result = loops.Call(fn, (result, v), result.dtype)
    return simplify.expr(result, {})


# ---- the other tiles

def _other(s: loops.Stmt, known: dict[str, Interval], facts: _Facts) -> loops.Stmt:
    """Tiles that are not full: ready to be unrolled into masked vectors, if the machine has them."""
    match s:
        case loops.For() if s.kind in POINT and any(e.buffer.name in facts.registers for e in _loads(s)):
            return tested_nest(s, known)
        case loops.For() if s.kind in POINT:
            return rectangular_nest(s, known) if facts.masks else s
        case loops.For():
            return replace(s, body=_other(s.body, known | {s.var: simplify.values(s, known)}, facts))
        case loops.Block():
            return loops.block(*(_other(x, known, facts) for x in s.stmts))
        case loops.Alloc():
            return replace(s, body=_other(s.body, known, facts))
        case loops.If():
            return replace(s, then=_other(s.then, known, facts), orelse=_other(s.orelse, known, facts) if s.orelse else None)
        case _:
            return s


def rectangular_nest(s: loops.For, known: dict[str, Interval]) -> loops.For:
    """A nest whose 'unroll' loops have constant bounds, around a vector loop that has no iterations where they had none.

        for a in 0:9 { for b in 0:17 {                  with C[8,16], A[8,16]
            unroll for p in max(0, a - 4):8 { vector for q in 0:b { C[p,q] = A[p,q] } }
        } }
        ->  for a in 0:9 { for b in 0:17 {
                unroll for p in 0:8 { vector for q in 0:min(b, a * -16 + p * 16 + 80) { C[p,q] = A[p,q] } }
            } }

    where 16 is the most that b is.
    """
    vector = _vector_of(s)
    if vector is None or s.kind != "unroll":
        return s
    limits: list[loops.Expr] = []
    inside, outer, nest = dict(known), list[loops.For](), s
    while nest is not vector:
        low, high = simplify.values(nest, inside)
        if low is None or high is None:
            return s
        var = loops.Var(nest.var)
        above = [_plus_one(loops.binary("-", var, a)) for a in bound_operands(nest.lower, "max") if a != loops.const(low)]
        below = [loops.binary("-", a, var) for a in bound_operands(nest.upper, "min") if a != loops.const(high + 1)]
        limits += [*above, *below]
        outer.append(replace(nest, lower=loops.const(low), upper=loops.const(high + 1)))
        inside[nest.var] = low, high
        assert isinstance(nest.body, loops.For)
        nest = nest.body
    low, high = simplify.values(vector, inside)
    if low is None or high is None:
        return s
    wide = [loops.binary("+", loops.binary("*", x, loops.const(high + 1 - low)), loops.const(low)) for x in limits]
    result = replace(vector, upper=_extreme("min", [vector.upper, *(simplify.expr(w, {}) for w in wide)]))
    result = clamp_shared_loads(result, inside)
    if not shared_loads_safe(result, inside):
        return s
    for x in reversed(outer):
        result = replace(x, body=result)
    return result


def tested_nest(s: loops.For, known: dict[str, Interval]) -> loops.Stmt:
    """A nest of point loops with constant bounds around what their bounds say, as a condition: compilers for GPUs unroll it,
    and know which registers each copy reads.

        for a in 0:9 { unroll for p in 0:min(4, a + 1) { C[a,p] = r[p] } }         with C[9,4], r[4]
        ->  for a in 0:9 { for p in 0:4 { if p < a + 1 { C[a,p] = r[p] } } }
    """
    around, tests, inside = list[loops.For](), list[loops.Expr](), dict(known)
    nest: loops.Stmt = s
    while isinstance(nest, loops.For):
        low, high = simplify.values(nest, inside)
        if nest.step != 1 or low is None or high is None or high - low >= LONGEST:
            return s
        var = loops.Var(nest.var)
        tests += [loops.binary(">=", var, a) for a in bound_operands(nest.lower, "max") if a != loops.const(low)]
        tests += [loops.binary("<", var, a) for a in bound_operands(nest.upper, "min") if a != loops.const(high + 1)]
        around.append(replace(nest, kind="sequential", lower=loops.const(low), upper=loops.const(high + 1)))
        inside[nest.var] = low, high
        nest = nest.body
    made: loops.Stmt = loops.If(conjunction(tests), nest)
    for x in reversed(around):
        made = replace(x, body=made)
    return made


def _loads(s: loops.Stmt) -> Iterator[loops.Load]:
    return (load for x in traverse.walk_stmt(s) if isinstance(x, loops.Store) for load, _ in traverse.loads(x.value))


def _plus_one(e: loops.Expr) -> loops.Expr:
    return simplify.expr(loops.binary("+", e, loops.const(1)), {})


def _vector_of(s: loops.Stmt) -> loops.For | None:
    """The vector loop inside a perfect nest of 'unroll' loops."""
    while isinstance(s, loops.For) and s.kind == "unroll" and s.step == 1:
        s = s.body
    return s if isinstance(s, loops.For) and s.kind == "vector" and s.step == 1 else None
