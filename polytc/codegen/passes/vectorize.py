"""Point loops -> straight code: 'unroll' loops are unrolled, 'vector' loops become vector values, 'reduce' loops horizontal
reductions.

A vector loop of constant extent becomes as many whole vectors as fit, and vectors of fewer lanes (powers of two) for the rest.
Guarantees: no loop of these kinds is left; a point loop whose extent is unknown has become sequential.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc.codegen import loops, traverse
from polytc.codegen.lower import combine
from polytc.codegen.passes import simplify
from polytc.lang.scalars import I64
from polytc.machine import Machine

UNROLL_LIMIT = 512
"""Statements that unrolling may make out of one loop nest."""


def expand_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel with its point loops expanded for vectors of `machine`."""
    return replace(kernel, body=_expand(kernel.body, machine))


def _expand(s: loops.Stmt, machine: Machine) -> loops.Stmt:
    match s:
        case loops.For():
            inner = replace(s, body=_expand(s.body, machine))
            return _point_loop(inner, machine) if s.kind in ("unroll", "vector", "reduce") else inner
        case loops.If():
            other = _expand(s.orelse, machine) if s.orelse is not None else None
            return replace(s, then=_expand(s.then, machine), orelse=other)
        case loops.Block():
            return loops.block(*(_expand(x, machine) for x in s.stmts))
        case loops.Alloc():
            return replace(s, body=_expand(s.body, machine))
        case _:
            return s


def _point_loop(s: loops.For, machine: Machine) -> loops.Stmt:
    if not isinstance(s.lower, loops.Const) or not isinstance(s.upper, loops.Const) or s.step != 1:
        return replace(s, kind="sequential")
    extent = int(s.upper.value) - int(s.lower.value)
    size = sum(isinstance(x, loops.Store) for x in traverse.walk_stmt(s.body))
    if s.kind == "unroll":
        return _unroll(s, extent) if extent * size <= UNROLL_LIMIT else replace(s, kind="sequential")
    if extent == 1 or not _straight(s.body) or extent > 64 * machine.lanes(1):
        return _unroll(s, extent) if extent == 1 else replace(s, kind="sequential")
    lanes = machine.lanes(_widest(s.body))
    if s.kind == "reduce":
        assert isinstance(s.body, loops.Store), "vectorize: a 'reduce' loop holds one update"
        return _horizontal(s, s.body, chunks(extent, lanes))
    pieces = masked_chunks(extent, lanes) if machine.masked and not _divides(s.body) else chunks(extent, lanes)
    return loops.block(*(_vector(s.body, loops.Var(s.var), int(s.lower.value), p) for p in pieces))


@dataclass(frozen=True)
class Chunk:
    """Iterations at..at+active of a loop as one vector of `lanes`."""

    at: int
    lanes: int
    active: int


def chunks(extent: int, lanes: int) -> list[Chunk]:
    """The vectors that cover `extent`: whole ones, then smaller powers of two."""
    out, at = [], 0
    while at < extent:
        while lanes > extent - at:
            lanes //= 2
        out.append(Chunk(at, lanes, lanes))
        at += lanes
    return out


def masked_chunks(extent: int, lanes: int) -> list[Chunk]:
    """The same with one vector for all that is left after whole ones, the smallest that holds it."""
    out = [Chunk(at, lanes, lanes) for at in range(0, extent - lanes + 1, lanes)]
    rest = extent % lanes
    if rest:
        out.append(Chunk(extent - rest, 1 << (rest - 1).bit_length(), rest))
    return out


def _divides(s: loops.Stmt) -> bool:
    """Does it divide integers by other than numbers? In idle lanes, which hold 0, that would trap."""
    return any(isinstance(e, loops.Binary) and e.op in ("/", "//", "%") and e.dtype.is_int and not isinstance(e.b, loops.Const)
               for x in traverse.walk_stmt(s) for top in traverse.expressions(x) for e in traverse.walk_expr(top))


def _unroll(s: loops.For, extent: int) -> loops.Stmt:
    assert isinstance(s.lower, loops.Const)
    first = int(s.lower.value)
    return loops.block(*(simplify.at(s.body, s.var, first + i, {}) for i in range(extent)))


def _straight(s: loops.Stmt) -> bool:
    """Only stores of scalars, which can be made vectors one by one."""
    return all(isinstance(x, loops.Block) or (isinstance(x, loops.Store) and not _wide(x)) for x in traverse.walk_stmt(s))


def _wide(s: loops.Store) -> bool:
    """Has it vectors already, of a point loop inside?"""
    return any(e.lanes > 1 for top in (*s.indices, s.value) for e in traverse.walk_expr(top))


def _widest(s: loops.Stmt) -> int:
    """Bytes of the widest element that the statement touches."""
    sizes = [x.buffer.dtype.bytes for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)]
    sizes += [e.dtype.bytes for x in traverse.walk_stmt(s) for top in traverse.expressions(x) for e in traverse.walk_expr(top)
              if isinstance(e, loops.Load | loops.Cast)]
    return max(sizes, default=4)


def _vector(s: loops.Stmt, var: loops.Var, first: int, chunk: Chunk) -> loops.Stmt:
    """The iterations of a chunk, counted from `first`, as vector statements."""
    if chunk.lanes == 1:
        return simplify.at(s, var.name, first + chunk.at, {})
    if isinstance(s, loops.Block):
        return loops.block(*(_vector(x, var, first, chunk) for x in s.stmts))
    assert isinstance(s, loops.Store)
    base, active = loops.const(first + chunk.at), chunk.active if chunk.active < chunk.lanes else None
    ramp = loops.Ramp(base, 1, chunk.lanes, active=active)
    indices = tuple(vector_expr(i, var.name, ramp) for i in s.indices)
    return loops.Store(s.buffer, indices, broadcast(vector_expr(s.value, var.name, ramp), chunk.lanes))


def _horizontal(loop: loops.For, s: loops.Store, pieces: list[Chunk]) -> loops.Stmt:
    """`T[x] = T[x] op f(i)` for all i: vectors are combined with each other first, then across lanes."""
    assert isinstance(loop.lower, loops.Const)
    old, term, op = _update(s)
    total: loops.Expr | None = None
    whole = pieces[0].lanes
    result: loops.Expr = old
    for piece in pieces:
        base, lanes = int(loop.lower.value) + piece.at, piece.lanes
        if lanes == 1:
            result = combine(op, result, _at(term, loop.var, base))
            continue
        value = broadcast(vector_expr(term, loop.var, loops.Ramp(loops.const(base), 1, lanes)), lanes)
        if lanes == whole:
            total = value if total is None else combine(op, total, value)
        else:
            result = combine(op, result, loops.Reduce(op, value, value.dtype))
    if total is not None:
        result = combine(op, result, loops.Reduce(op, total, total.dtype))
    return replace(s, value=result)


def _update(s: loops.Store) -> tuple[loops.Expr, loops.Expr, str]:
    """(old value, new term, operator) of an update."""
    match s.value:
        case loops.Binary():
            return s.value.a, s.value.b, s.value.op
        case loops.Call():
            return s.value.args[0], s.value.args[1], s.value.fn
    raise AssertionError("vectorize: not an update")


def _at(e: loops.Expr, var: str, value: int) -> loops.Expr:
    return simplify.expr(e, {var: (value, value)})


def broadcast(e: loops.Expr, lanes: int) -> loops.Expr:
    """A scalar in every lane; vectors stay."""
    if e.lanes == lanes:
        return e
    if isinstance(e, loops.Const):
        return replace(e, lanes=lanes)
    return loops.Broadcast(e, lanes, e.dtype)


def vector_expr(e: loops.Expr, var: str, ramp: loops.Ramp) -> loops.Expr:
    """`e` for the values `ramp` of the variable: a vector where it depends on it, else the scalar it was."""
    if isinstance(e, loops.Var):
        return ramp if e.name == var else e
    old = traverse.operands(e)
    new = tuple(vector_expr(o, var, ramp) for o in old)
    if all(o.lanes == 1 for o in new):
        return traverse.with_operands(e, new) if old else e
    if e.dtype == I64 and isinstance(e, loops.Binary):
        moved = _ramp(e.op, new[0], new[1])
        if moved is not None:
            return moved
    if isinstance(e, loops.Load):
        return replace(e, indices=new, lanes=ramp.lanes)
    wide = tuple(broadcast(o, ramp.lanes) for o in new)
    result = traverse.with_operands(e, wide)
    assert not isinstance(result, loops.Ramp | loops.Reduce), "vectorize: nested vectors"
    return replace(result, lanes=ramp.lanes)


def _ramp(op: str, a: loops.Expr, b: loops.Expr) -> loops.Ramp | None:
    """Ramps stay ramps under sums with scalars and products with numbers."""
    if isinstance(b, loops.Ramp) and isinstance(a, loops.Ramp) and op in ("+", "-"):
        sign = 1 if op == "+" else -1
        return replace(a, base=_simple(loops.binary(op, a.base, b.base)), stride=a.stride + sign * b.stride)
    if isinstance(b, loops.Ramp) and a.lanes == 1 and op in ("+", "*"):
        a, b = b, a
    if not isinstance(a, loops.Ramp):
        return replace(b, base=_simple(loops.binary("-", a, b.base)), stride=-b.stride) \
            if isinstance(b, loops.Ramp) and op == "-" and a.lanes == 1 else None
    if op in ("+", "-") and b.lanes == 1:
        return replace(a, base=_simple(loops.binary(op, a.base, b)))
    if op == "*" and isinstance(b, loops.Const) and abs(a.stride * int(b.value)) < simplify.SMALL:
        return replace(a, base=_simple(loops.binary("*", a.base, b)), stride=a.stride * int(b.value))
    return None


def _simple(e: loops.Expr) -> loops.Expr:
    return simplify.expr(e, {})
