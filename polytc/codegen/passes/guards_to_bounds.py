"""Conditions on a loop's variable become its bounds, so that no iteration is looked at in vain.

    for p in 0:90 { if p >= r[0] && p < r[1] { y[p] = v[p] } }      with i64 r[2], y[90], v[90]
    ->  for p in max(0, r[0]) : min(90, r[1]) { y[p] = v[p] }

A condition that holds for a whole loop goes out of it first, and so does one of loops over work-items that they all find the
same; statements in sequence under one condition share it. Nothing of this happens where the body stores to what the condition
loads. A loop without an iteration loads nothing: what its conditions read may lie nowhere then. Guarantees: the same stores in
the same order.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import intervals, linear_forms, loops, traverse
from polytc.codegen.lower import conjunction, conjuncts
from polytc.codegen.passes import simplify
from polytc.program.scalars import I64


def tighten_bounds(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with its conditions as far out as they may go, and in the bounds of sequential loops."""
    return replace(kernel, body=_narrow(kernel.body))


def _narrow(s: loops.Stmt) -> loops.Stmt:
    match s:
        case loops.For() if s.kind == "thread":
            return _items(s)
        case loops.For():
            return _loop(replace(s, body=_narrow(s.body)))
        case loops.If():
            return replace(s, then=_narrow(s.then), orelse=_narrow(s.orelse) if s.orelse is not None else None)
        case loops.Block():
            return _sequence([_narrow(x) for x in s.stmts])
        case loops.Alloc():
            return replace(s, body=_narrow(s.body))
        case _:
            return s


def _sequence(stmts: list[loops.Stmt]) -> loops.Stmt:
    """Neighbours under one condition share it, unless the first changes what it loads."""
    done: list[loops.Stmt] = []
    for s in stmts:
        last = done[-1] if done else None
        if isinstance(s, loops.If) and isinstance(last, loops.If) and s.orelse is None and last.orelse is None \
                and s.cond == last.cond and not _touches(last.then, s.cond):
            done[-1] = replace(last, then=loops.block(last.then, s.then))
        else:
            done.append(s)
    return loops.block(*done)


def _items(s: loops.For) -> loops.Stmt:
    """The loops over the items of a group; what all items find the same goes out of them, if nothing is loaded for it. Where
    the ends of the loops vary, the conditions tell how far they do (passes.launch_grid), and stay."""
    chain = [s]
    while isinstance(chain[-1].body, loops.For) and chain[-1].body.kind == "thread":
        chain.append(chain[-1].body)
    body, items = _narrow(chain[-1].body), {x.var for x in chain}
    fixed = all(isinstance(simplify.expr(e, {}), loops.Const) for x in chain for e in (x.lower, x.upper))
    tests = conjuncts(body.cond) if fixed and isinstance(body, loops.If) and body.orelse is None else ()
    outside = [t for t in tests if items.isdisjoint(traverse.variables(t)) and not traverse.loads(t)]
    if isinstance(body, loops.If) and outside:
        inside = [t for t in tests if t not in outside]
        body = loops.If(conjunction(inside), body.then) if inside else body.then
    for x in reversed(chain):
        body = replace(x, body=body)
    return loops.If(conjunction(outside), body) if outside else body


def _loop(s: loops.For) -> loops.Stmt:
    if not isinstance(s.body, loops.If) or s.body.orelse is not None or s.step != 1 or s.kind in ("block", "thread"):
        return s
    outside: list[loops.Expr] = []
    inside: list[loops.Expr] = []
    lower, upper = s.lower, s.upper
    for test in conjuncts(s.body.cond):
        bound = _bound(test, s.var) if s.kind == "sequential" else None
        if _touches(s.body.then, test):
            inside.append(test)
        elif s.var not in traverse.variables(test):
            outside.append(test)
        elif bound is not None and bound[0] == ">=":
            lower = loops.Call("max", (lower, bound[1]), I64)
        elif bound is not None:
            upper = loops.Call("min", (upper, bound[1]), I64)
        else:
            inside.append(test)
    body = loops.If(conjunction(inside), s.body.then) if inside else s.body.then
    narrowed = replace(s, lower=lower, upper=upper, body=body)
    if not intervals.always_runs(s) and any(traverse.loads(e) for e in (*outside, lower, upper)):
        outside.insert(0, loops.binary("<", s.lower, s.upper))
    return loops.If(conjunction(outside), narrowed) if outside else narrowed


def _bound(test: loops.Expr, var: str) -> tuple[str, loops.Expr] | None:
    """(operator, bound) of `var >= bound` or `var < bound`, whatever number stands beside the variable."""
    if not isinstance(test, loops.Binary) or test.op not in (">=", "<") or var in traverse.variables(test.b):
        return None
    terms = linear_forms.linear(test.a)
    atoms = [a for a in terms if not isinstance(a, loops.Const)]
    if atoms != [loops.Var(var)] or terms[loops.Var(var)] != 1:
        return None
    beside = sum(c for a, c in terms.items() if isinstance(a, loops.Const))
    return test.op, loops.binary("-", test.b, loops.const(beside)) if beside else test.b


def _touches(body: loops.Stmt, test: loops.Expr) -> bool:
    """Does the body store to what the condition loads?"""
    loaded = {e.buffer.name for e, _ in traverse.loads(test)}
    return any(isinstance(x, loops.Store) and x.buffer.name in loaded for x in traverse.walk_stmt(body))
