"""Traversal of the Loop AST: a pass states only the nodes it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter, is_
from typing import Any, TypeVar

from polytc.codegen import loops
from polytc.program.scalars import BOOL

C = TypeVar("C")


def operands(e: loops.Expr) -> tuple[loops.Expr, ...]:
    """The direct operands of an expression."""
    return _OPERANDS[type(e)](e)


# A table by type: passes spend most of their time here, and a match statement tests the types one after another.
_OPERANDS: dict[type, Callable[[Any], tuple[loops.Expr, ...]]] = {
    **dict.fromkeys((loops.Var, loops.Const), lambda e: ()),
    **dict.fromkeys((loops.Unary, loops.Cast, loops.Broadcast, loops.Reduce), lambda e: (e.a,)),
    **dict.fromkeys((loops.Binary, loops.Shuffle), attrgetter("a", "b")), loops.Call: attrgetter("args"),
    loops.Select: attrgetter("cond", "a", "b"),
    loops.Load: attrgetter("indices"), loops.Ramp: lambda e: _of_ramp(e)}


def _of_ramp(e: loops.Ramp) -> tuple[loops.Expr, ...]:
    return (e.base,) if e.active is None or isinstance(e.active, int) else (e.base, e.active)


def repeated(e: loops.Expr) -> loops.Expr:
    """What a vector repeats in all lanes, if it says so; else the expression itself."""
    return e.a if isinstance(e, loops.Broadcast) else e


def with_operands(e: loops.Expr, new: tuple[loops.Expr, ...]) -> loops.Expr:
    """`e` with other operands of the same types, in the order of `operands`; `e` itself if they are its own."""
    for a, b in zip(_OPERANDS[type(e)](e), new, strict=True):
        if a is not b:
            return _REBUILD[type(e)](e, new)
    return e


_REBUILD: dict[type, Callable[[Any, tuple[loops.Expr, ...]], loops.Expr]] = {
    loops.Unary: lambda e, new: loops.Unary(e.op, new[0], e.dtype, e.lanes),
    loops.Cast: lambda e, new: loops.Cast(new[0], e.dtype, e.lanes),
    loops.Broadcast: lambda e, new: loops.Broadcast(new[0], e.lanes, e.dtype),
    loops.Reduce: lambda e, new: loops.Reduce(e.op, new[0], e.dtype, e.lanes),
    loops.Binary: lambda e, new: loops.Binary(e.op, new[0], new[1], e.dtype, e.lanes),
    loops.Call: lambda e, new: loops.Call(e.fn, new, e.dtype, e.lanes),
    loops.Select: lambda e, new: loops.Select(new[0], new[1], new[2], e.dtype, e.lanes),
    loops.Load: lambda e, new: loops.Load(e.buffer, new, e.dtype, e.lanes),
    loops.Ramp: lambda e, new: replace(e, base=new[0], active=new[1] if len(new) > 1 else e.active),
    loops.Shuffle: lambda e, new: loops.Shuffle(new[0], new[1], e.order, e.dtype, e.lanes)}


def variables(e: loops.Expr) -> frozenset[str]:
    """The names of the loop variables in an expression."""
    try:
        return e._variables
    except AttributeError:
        parts = [variables(o) for o in _OPERANDS[type(e)](e)]
        found = frozenset((e.name,)) if isinstance(e, loops.Var) else parts[0].union(*parts[1:]) if parts else frozenset()
        object.__setattr__(e, "_variables", found)
        return found


def exact(e: loops.Expr) -> bool:
    """Is an expression of loop variables and whole numbers alone? What is equal to it is then the same to the last digit, as
    0.0 and -0.0 are not, nor True and 1."""
    try:
        return e._exact
    except AttributeError:
        if isinstance(e, loops.Const):
            found = type(e.value) is (bool if e.dtype is BOOL else int) and not e.dtype.is_float
        else:
            found = isinstance(e, _EXACT) and all(map(exact, _OPERANDS[type(e)](e)))
        object.__setattr__(e, "_exact", found)
        return found


_EXACT = (loops.Var, loops.Unary, loops.Binary, loops.Call, loops.Select)


def loads(e: loops.Expr) -> tuple[tuple[loops.Load, bool], ...]:
    """The loads in an expression, outer ones first, each with whether it is conditional (in a Select)."""
    try:
        return e._loads
    except AttributeError:
        own = ((e, False),) if isinstance(e, loops.Load) else ()
        inner = [found for o in _OPERANDS[type(e)](e) for found in loads(o)]
        if isinstance(e, loops.Select):
            inner = [(load, True) for load, _ in inner]
        object.__setattr__(e, "_loads", (*own, *inner))
        return e._loads


def active_lanes(indices: Iterable[loops.Expr]) -> int | loops.Expr | None:
    """The lanes that an access through these indices touches, as `Ramp.active` says it; None: all of them. The ramps of one
    access come from one loop, so that they agree."""
    for i in indices:
        if i.lanes > 1:
            for e in (i,) if isinstance(i, loops.Ramp) else walk_expr(i):  # the base of a ramp is a scalar
                if isinstance(e, loops.Ramp) and e.active is not None:
                    return e.active
    return None


def map_expr(e: loops.Expr, f: Callable[[loops.Expr], loops.Expr]) -> loops.Expr:
    """Rewrite bottom-up: f is applied to every node after its operands."""
    old = _OPERANDS[type(e)](e)
    if not old:
        return f(e)
    return f(with_operands(e, tuple([map_expr(o, f) for o in old])))


def map_stmt(s: loops.Stmt, on_stmt: Callable[[loops.Stmt], loops.Stmt],
             on_expr: Callable[[loops.Expr], loops.Expr]) -> loops.Stmt:
    """Rewrite bottom-up: on_expr on every expression (whole trees, see map_expr), on_stmt on every statement after its
    parts. A statement whose parts stay stays itself."""
    def go(x: loops.Stmt) -> loops.Stmt:
        return map_stmt(x, on_stmt, on_expr)
    match s:
        case loops.For():
            lower, upper, body = on_expr(s.lower), on_expr(s.upper), go(s.body)
            if lower is not s.lower or upper is not s.upper or body is not s.body:
                s = replace(s, lower=lower, upper=upper, body=body)
        case loops.If():
            cond, then, orelse = on_expr(s.cond), go(s.then), go(s.orelse) if s.orelse is not None else None
            if cond is not s.cond or then is not s.then or orelse is not s.orelse:
                s = loops.If(cond, then, orelse)
        case loops.Store():
            indices, value = tuple(map(on_expr, s.indices)), on_expr(s.value)
            if value is not s.value or not all(map(is_, indices, s.indices)):
                s = loops.Store(s.buffer, indices, value, s.origin, s.atomic)
        case loops.Block():
            stmts = tuple(map(go, s.stmts))
            if not all(map(is_, stmts, s.stmts)):
                s = loops.Block(stmts)
        case loops.Alloc():
            body = go(s.body)
            if body is not s.body:
                s = loops.Alloc(s.buffer, body)
        case loops.Barrier():
            pass
    return on_stmt(s)


def substitute(s: loops.Stmt, values: dict[str, loops.Expr]) -> loops.Stmt:
    """The statement with loop variables replaced by expressions."""
    def on_expr(e: loops.Expr) -> loops.Expr:
        if values.keys().isdisjoint(variables(e)):
            return e
        return map_expr(e, lambda x: values.get(x.name, x) if isinstance(x, loops.Var) else x)
    return map_stmt(s, lambda x: x, on_expr)


def walk_expr(e: loops.Expr) -> Iterator[loops.Expr]:
    """`e` and everything below it, parents first."""
    rest = [e]
    while rest:
        first = rest.pop()
        yield first
        rest += reversed(_OPERANDS[type(first)](first))


def children(s: loops.Stmt) -> tuple[loops.Stmt, ...]:
    """The statements directly inside a statement."""
    return _CHILDREN[type(s)](s)


_CHILDREN: dict[type, Callable[[Any], tuple[loops.Stmt, ...]]] = {
    **dict.fromkeys((loops.For, loops.Alloc), lambda s: (s.body,)),
    **dict.fromkeys((loops.Store, loops.Barrier), lambda s: ()),
    loops.If: lambda s: (s.then,) if s.orelse is None else (s.then, s.orelse),
    loops.Block: attrgetter("stmts")}


def walk_stmt(s: loops.Stmt) -> Iterator[loops.Stmt]:
    """`s` and all statements below it, parents first."""
    rest = [s]
    while rest:
        first = rest.pop()
        yield first
        rest += reversed(_CHILDREN[type(first)](first))


def buffer_names(kernel: loops.Kernel) -> set[str]:
    """Of its arguments, and of what it allocates."""
    return {b.name for b in kernel.args} | {s.buffer.name for s in walk_stmt(kernel.body) if isinstance(s, loops.Alloc)}


def expressions(s: loops.Stmt) -> tuple[loops.Expr, ...]:
    """The expressions that a statement itself holds (not those of the statements inside it)."""
    match s:
        case loops.For():
            return (s.lower, s.upper)
        case loops.If():
            return (s.cond,)
        case loops.Store():
            return (*s.indices, s.value)
        case _:
            return ()


def is_parallel(s: loops.Stmt) -> bool:
    """Is it a loop that threads share?"""
    return isinstance(s, loops.For) and s.kind == "parallel"


def runs_once(s: loops.For) -> bool:
    """Whether a loop has no more than one iteration for certain."""
    match s.lower, s.upper:
        case loops.Const(value=low), loops.Const(value=high):
            return high - low <= s.step
    return False


def has_vectors(s: loops.Stmt) -> bool:
    """Does a statement, or one inside of it, compute with vectors?"""
    return any(e.lanes > 1 for x in walk_stmt(s) for top in expressions(x) for e in walk_expr(top))


def has_scalar_loops(s: loops.Stmt, looped: bool = False) -> bool:
    """Does a sequential loop store numbers one by one, such as a recurrence? looped: `s` is in a sequential loop."""
    if isinstance(s, loops.Store):
        return looped and s.value.lanes == 1 and all(i.lanes == 1 for i in s.indices)
    looped = looped or isinstance(s, loops.For) and s.kind == "sequential"
    return any(has_scalar_loops(x, looped) for x in children(s))


def accesses(s: loops.Stmt, names: frozenset[str], outside: C, inside: Callable[[C, loops.For], C],
             under: Callable[[C, loops.If, bool], C] | None = None) -> Iterator[tuple[str, tuple[loops.Expr, ...], C, bool]]:
    """All loads and stores of the buffers of these names: the buffer's name, the indices, the context, and whether it is in a
    store, not in a bound or test. The context is `outside` around `s`, what `inside` makes of it in the body of a loop, and
    what `under` makes of it where a test holds, or does not."""
    store = isinstance(s, loops.Store)
    if isinstance(s, loops.Store) and s.buffer.name in names:
        yield s.buffer.name, s.indices, outside, store
    for top in expressions(s):
        for e, _ in loads(top):
            if e.buffer.name in names:
                yield e.buffer.name, e.indices, outside, store
    inner = inside(outside, s) if isinstance(s, loops.For) else outside
    for child in children(s):
        if under is not None and isinstance(s, loops.If):
            inner = under(outside, s, child is s.then)
        yield from accesses(child, names, inner, inside, under)
