"""Loops over work-groups and work-items: constant bounds outside, the true bounds as one guard inside.

    block0 for b in 0:16 { thread0 for t in 0:min(32, 510 - 32*b) { Y[32*b + t] = X[32*b + t] } }     with X[510], Y[510] on gpu
    ->  block0 for b in 0:16 { thread0 for t in 0:32 { if t < b * -32 + 510 { Y[b * 32 + t] = X[b * 32 + t] } } }

Block loops beyond the third share the last axis. Guarantees: block and thread loops start at 0, have steps of 1 and constant
extents (where sizes are not fixed, block loops extents that are products of formulas of the sizes); those at the top of the
kernel form one chain with each axis once. Thread loops further inside all call the work-item of an axis by one name, `item0` to
`item2`, so that passes can tell what belongs to one item.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import intervals, linear_forms, loops, ndrange, size_limits, traverse
from polytc.codegen.lower import conjunction
from polytc.codegen.passes import simplify
from polytc.program.extents import Extent, times


def grid_loops(kernel: loops.Kernel) -> tuple[list[loops.For], loops.Stmt]:
    """The block and thread loops around everything else, outermost first, and what is inside of them."""
    chain: list[loops.For] = []
    s = kernel.body
    while isinstance(s, loops.For) and s.kind in ("block", "thread"):
        chain.append(s)
        s = s.body
    return chain, s


def name_items(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with one name an axis for the work-items of the thread loops that are not in the chain at its top. Raises
    TargetError E510 for one inside of another one of its axis, which would have the same name."""
    chain, s = grid_loops(kernel)
    for loop, around, _ in ndrange.mapped_loops(s):
        ndrange.check_axis(kernel, loop, (*chain, *around))

    def on_stmt(x: loops.Stmt) -> loops.Stmt:
        if not isinstance(x, loops.For) or x.kind != "thread":
            return x
        low, high = simplify.interval(x.lower, {})[0], simplify.interval(x.upper, {})[1]
        if low is None or high is None or x.step != 1:
            return x
        var = loops.binary("+", loops.Var(f"item{x.axis}"), loops.const(low))
        guards = [loops.binary(">=", var, x.lower)] if x.lower != loops.const(low) else []
        guards += [loops.binary("<", var, x.upper)] if simplify.expr(x.upper, {}) != loops.const(high) else []
        body = traverse.substitute(x.body, {x.var: simplify.expr(var, {})})
        inner = loops.If(conjunction(guards), body) if guards else body
        return loops.For(f"item{x.axis}", loops.const(0), loops.const(high - low), 1, inner, "thread", x.axis)
    body = traverse.map_stmt(s, on_stmt, lambda e: e)
    for loop in reversed(chain):
        body = replace(loop, body=body)
    return replace(kernel, body=body)


def map_kernel(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with its grid loops normalised; a kernel without any is left alone."""
    chain, body = grid_loops(kernel)
    if not chain:
        return kernel
    known: dict[str, simplify.Interval] = {}
    ranges: dict[str, size_limits.Range] = {}
    host = frozenset(s.var for s in kernel.host)
    guards: list[loops.Binary] = []
    fixed: list[tuple[loops.For, int, int, int]] = []
    moved: dict[str, loops.Expr] = {}
    for loop in chain:
        loop = _from_item(_substituted(loop, moved), kernel.host, known, moved)
        low, high = _least(loop.lower, kernel.host, known), simplify.interval(loop.upper, known)[1]
        assert low is not None, f"grid: the {loop.kind} loop {loop.var} has no constant lower bound"
        known[loop.var] = (low, None if high is None else high - 1)
        if high is None:
            high = size_limits.limits(_largest(loop.upper, host), {**_of_host(kernel), **ranges})[1]
        ranges[loop.var] = (low, high - 1)
        var = loops.Var(loop.var)
        starts = loop.lower == loops.const(low)
        guards += [loops.binary(">=", var, loop.lower)] if not starts else []
        guards += [loops.binary("<", var, loop.upper)] if size_limits.extent(loop.upper) != high else []
        step = loop.step if starts else 1  # items between those of a loop that starts anywhere do nothing
        if loop.step != step:
            offset = loops.binary("-", var, loop.lower)
            guards.append(loops.binary("==", loops.binary("%", offset, loops.const(loop.step)), loops.const(0)))
        fixed.append((loop, low, step, -((low - high) // step)))
    body = traverse.substitute(body, moved)
    guarded = loops.If(conjunction(guards), body) if guards else body
    inner = simplify.simplify(_merge(fixed, guarded), {})
    return replace(kernel, body=inner)


def _substituted(s: loops.For, values: dict[str, loops.Expr]) -> loops.For:
    """A loop with variables in its ends replaced by expressions."""
    found = traverse.substitute(replace(s, body=loops.Block(())), values) if values else s
    assert isinstance(found, loops.For)
    return replace(found, body=s.body)


def _from_item(s: loops.For, host: tuple[loops.For, ...], known: dict[str, simplify.Interval], moved: dict[str, loops.Expr]
               ) -> loops.For:
    """A loop over items that begins elsewhere in each launch, and has fewer iterations in each than places where they may be:
    item 0 takes the first of them. `moved` says then what the variable was."""
    low, high = _least(s.lower, host, known), simplify.interval(s.upper, known)[1]
    less = _least(simplify.expr(loops.binary("-", s.lower, s.upper), {}), host, known)
    few = less is not None and low is not None and (high is None or -less < high - low)
    if s.kind != "thread" or s.step != 1 or s.lower == loops.const(low or 0) or not few or less is None:
        return s
    moved[s.var] = loops.binary("+", loops.Var(s.var), s.lower)
    upper = simplify.expr(loops.binary("-", s.upper, s.lower), {})
    return replace(s, lower=loops.const(0), upper=loops.Call("min", (loops.const(-less), upper), upper.dtype))


def _of_host(kernel: loops.Kernel) -> dict[str, size_limits.Range]:
    """What the variables of the loops around the kernel lie between."""
    ranges: dict[str, size_limits.Range] = {}
    for s in kernel.host:
        inside = frozenset(ranges)
        ranges[s.var] = size_limits.limits(s.lower, ranges)[0], size_limits.limits(_largest(s.upper, inside), ranges)[1] - 1
    return ranges


def _least(e: loops.Expr, host: tuple[loops.For, ...], known: dict[str, simplify.Interval]) -> int | None:
    """A number that the expression is not below. With k in 32*b:1024, k - 32*b is not below 0, which the ends of k and of b
    alone do not tell."""
    around = dict(known)
    for s in host:
        around[s.var] = simplify.values(s, around)
    lows = [simplify.interval(e, around)[0]]
    for s in reversed(host):
        terms = linear_forms.linear(e)
        mine = [a for a, c in terms.items() if isinstance(a, loops.Var) and a.name == s.var and c > 0]
        if mine:
            least = loops.binary("*", loops.const(terms[mine[0]]), s.lower)
            rest = linear_forms.build({a: c for a, c in terms.items() if a != mine[0]})
            e = simplify.expr(loops.binary("+", rest, least), {})
            lows.append(simplify.interval(e, around)[0])
    return max((n for n in lows if n is not None), default=None)


def _largest(e: loops.Expr, host: frozenset[str]) -> loops.Expr:
    """An upper bound of the expression: of a minimum, the simplest part that does not depend on these variables, if one does
    not."""
    def on_expr(x: loops.Expr) -> loops.Expr:
        if isinstance(x, loops.Call) and x.fn == "min":
            free = [a for a in x.args if host.isdisjoint(traverse.variables(a))]
            return min(free, key=lambda a: sum(1 for _ in traverse.walk_expr(a))) if free else x
        return x
    return traverse.map_expr(e, on_expr) if host else e


def _merge(chain: list[tuple[loops.For, int, int, int]], body: loops.Stmt) -> loops.Stmt:
    """Loops from 0 with one loop an axis: those that share an axis become one, taken apart by division. chain: loops, each with
    its first value, its step and its iterations."""
    values: dict[str, loops.Expr] = {}
    result = body
    for kind in ("thread", "block"):
        for axis in (0, 1, 2):
            same = [x for x in chain if x[0].kind == kind and x[0].axis == axis]
            if not same:
                continue
            total: Extent = 1
            name, title = same[-1][0].var, "_".join(x[0].title for x in same if x[0].title)
            for loop, low, step, extent in reversed(same):
                index: loops.Expr = loops.Var(name)
                index = loops.binary("//", index, _divisor(total)) if total != 1 else index
                index = loops.binary("%", index, _divisor(extent)) if loop is not same[0][0] else index
                index = loops.binary("*", index, loops.const(step)) if step > 1 else index
                values[loop.var] = loops.binary("+", index, loops.const(low))
                total = times(total, extent)
            result = loops.For(name, loops.const(0), size_limits.expression(total), 1, result, same[0][0].kind, axis, title)
    shifted = {n: v for n, v in values.items() if simplify.expr(v, {}) != loops.Var(n)}
    return _outer_substitute(result, shifted) if shifted else result


def _divisor(extent: Extent) -> loops.Expr:
    """The extent of a loop; 1 for one without iterations, in which nothing is divided."""
    found = size_limits.expression(extent)
    return found if intervals.interval(found, {}).low > 0 else loops.Call("max", (found, loops.const(1)), found.dtype)


def _outer_substitute(s: loops.Stmt, values: dict[str, loops.Expr]) -> loops.Stmt:
    """Substitute below the chain of grid loops only."""
    if isinstance(s, loops.For) and s.kind in ("block", "thread"):
        return replace(s, body=_outer_substitute(s.body, values))
    return traverse.substitute(s, values)
