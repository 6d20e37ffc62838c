"""Kernels written so that a driver with known faults computes them rightly (see targets/opencl/driver/conformance.py).

    carried        for m { r = T[m % 2]; for k: r += ...; T[m % 2] = r }   ->   the loop over k is not unrolled,
                   and T[5 - m], which no case asks about: what that           a fence is behind it
                   compiler makes of it may end its process
    negated        s += -v[...]                                            ->   s += 0 - v[...]
    complements    max(r, ~x[i])                                           ->   the program is built without optimisation
    carried        for m: for x: Y[9 - x] = T[m % 2, 9 - x]                ->   so is this: it writes beside Y

The second changes no sum but one of -0 alone. What another driver is given stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from polytc.codegen import linear_forms, loops, traverse

WITHOUT_OPTIMISATION = "-cl-opt-disable"


def work_around(kernel: loops.Kernel, faults: frozenset[str]) -> loops.Kernel:
    """The kernel as these faults do not meet it."""
    body = kernel.body
    if "negated" in faults:
        body = traverse.map_stmt(body, _subtracted, lambda e: e)
    if "carried" in faults:
        body = _rolled(_rolled(body, frozenset(), _remainders), frozenset(), _descending)
    return replace(kernel, body=body)


def options(module: loops.Module, faults: frozenset[str]) -> str:
    """What the compiler must be told besides; '' for nothing."""
    wrong = "complements" in faults and any(map(_has_complements, module.kernels)) or (
        "carried" in faults and any(map(_reads_rings_backwards, module.kernels)))
    return WITHOUT_OPTIMISATION if wrong else ""


def _subtracted(s: loops.Stmt) -> loops.Stmt:
    """An accumulation of floats whose terms are negated, with 0 - x for -x."""
    if not (isinstance(s, loops.Store) and s.value.dtype.kind == "f" and _accumulates(s)):
        return s
    value = s.value
    if isinstance(value, loops.Binary) and value.op == "-" and isinstance(value.a, loops.Load) and value.a.buffer == s.buffer:
        value = replace(value, op="+", b=loops.Unary("-", value.b, value.dtype, value.lanes))
    return replace(s, value=traverse.map_expr(value, _from_zero))


def _accumulates(s: loops.Store) -> bool:
    return any(isinstance(e, loops.Load) and e.buffer == s.buffer for e in traverse.walk_expr(s.value))


def _from_zero(e: loops.Expr) -> loops.Expr:
    if isinstance(e, loops.Unary) and e.op == "-" and e.dtype.kind == "f":
        return loops.Binary("-", loops.Const(0.0, e.dtype, e.lanes), e.a, e.dtype, e.lanes)
    return e


def _rolled(s: loops.Stmt, around: frozenset[str], chosen: Callable[[loops.Stmt], Iterator[str]]) -> loops.Stmt:
    """The statement with loops marked that are inside of others by whose variables something is written in such a way. around:
    these variables of the loops around; chosen: those of a statement."""
    match s:
        case loops.For():
            inside = around | ({s.var} if s.var in set(chosen(s.body)) else set())
            kind: loops.LoopKind = "rolled" if around and s.kind in ("sequential", "unroll") else s.kind
            return replace(s, body=_rolled(s.body, frozenset(inside), chosen), kind=kind)
        case loops.Block():
            return replace(s, stmts=tuple(_rolled(x, around, chosen) for x in s.stmts))
        case loops.If():
            other = None if s.orelse is None else _rolled(s.orelse, around, chosen)
            return replace(s, then=_rolled(s.then, around, chosen), orelse=other)
        case loops.Alloc():
            return replace(s, body=_rolled(s.body, around, chosen))
    return s


def _descending(s: loops.Stmt) -> Iterator[str]:
    """The variables that go backwards through elements to which the statement adds."""
    for x in traverse.walk_stmt(s):
        if isinstance(x, loops.Store) and _accumulates(x):
            yield from (a.name for index in x.indices for a, c in linear_forms.linear(index).items()
                        if isinstance(a, loops.Var) and c < 0)


def _remainders(s: loops.Stmt) -> Iterator[str]:
    """The variables of whose remainders elements are chosen that the statement stores."""
    for x in traverse.walk_stmt(s):
        if isinstance(x, loops.Store):
            for e in (e for index in x.indices for e in traverse.walk_expr(index)):
                if isinstance(e, loops.Binary) and e.op in "%&":
                    yield from traverse.variables(e)


def _reads_rings_backwards(kernel: loops.Kernel) -> bool:
    """Does a loop go backwards through what it stores, and read elements of a temporary that a remainder chooses?"""
    stores = [s for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Store)]
    made = {s.buffer for s in stores}

    def is_ring(e: loops.Expr) -> bool:
        return isinstance(e, loops.Load) and e.buffer in made and any(
            isinstance(x, loops.Binary) and x.op in "%&" for i in e.indices for x in traverse.walk_expr(i))
    return any(c < 0 for s in stores if any(map(is_ring, traverse.walk_expr(s.value))) for i in s.indices
               for a, c in linear_forms.linear(i).items() if isinstance(a, loops.Var))


def _has_complements(kernel: loops.Kernel) -> bool:
    return any(isinstance(e, loops.Unary) and e.op == "~" for s in traverse.walk_stmt(kernel.body)
               for top in traverse.expressions(s) for e in traverse.walk_expr(top))
