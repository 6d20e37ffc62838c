"""Statements of a loop as vector statements: lane by lane what the iterations did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.lower import size
from polytc.codegen.passes import simplify, unrolling
from polytc.program.scalars import BOOL, I64
from polytc.program.sizes import Size


@dataclass(frozen=True)
class Chunk:
    """Iterations base, base + stride, ... of a loop as one vector of `lanes`. active: the lanes that count (see Ramp).
    count: so many such vectors, one after another, from a base that is a number then."""

    base: loops.Expr
    stride: int
    lanes: int
    active: int | loops.Expr | None = None
    count: int = 1

    def copies(self, var: str) -> loops.For:
        """The loop over the vectors, without a body; the variable is the base of each."""
        assert isinstance(self.base, loops.Const)
        step = self.lanes * self.stride
        upper = loops.const(int(self.base.value) + self.count * step)
        return loops.For(var, self.base, upper, step, loops.Block(()), "unroll")


def divides_integers(s: loops.Stmt) -> bool:
    """Does it divide integers by other than numbers? In idle lanes, which hold 0, that would trap."""
    return any(isinstance(e, loops.Binary) and e.op in ("/", "//", "%") and e.dtype.is_int and not isinstance(e.b, loops.Const)
               for x in traverse.walk_stmt(s) for top in traverse.expressions(x) for e in traverse.walk_expr(top))


def is_vectorizable(s: loops.Stmt, var: str, masks: bool) -> bool:
    """Can it be made vectors of the values of `var`? Stores of scalars can, in loops that all lanes run alike, and under
    conditions that all lanes meet alike, or, if there are masks, one by one."""
    match s:
        case loops.Block():
            return all(is_vectorizable(x, var, masks) for x in s.stmts)
        case loops.Store():
            return not any(e.lanes > 1 for top in (*s.indices, s.value) for e in traverse.walk_expr(top))
        case loops.For(kind="sequential"):
            return _alike(s.lower, var) and _alike(s.upper, var) and is_vectorizable(s.body, var, masks)
        case loops.If():
            return (masks or _alike(s.cond, var)) and is_vectorizable(s.then, var, masks) and \
                (s.orelse is None or is_vectorizable(s.orelse, var, masks))
        case _:
            return False


def _alike(e: loops.Expr, var: str) -> bool:
    """Has an index expression the same value in all lanes?"""
    return var not in traverse.variables(e) and not traverse.loads(e)


def widest_element(s: loops.Stmt, var: str) -> int:
    """Bytes of the widest element that a vector along this variable holds: of what is stored, and of what is loaded or
    converted for each iteration. What all iterations share, such as the row of a table, is one number whatever its type."""
    sizes = [x.buffer.dtype.bytes for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)]
    sizes += [e.dtype.bytes for x in traverse.walk_stmt(s) for top in traverse.expressions(x) for e in traverse.walk_expr(top)
              if isinstance(e, loops.Load | loops.Cast) and var in traverse.variables(e)]
    return max(sizes, default=4)


def vectors(s: loops.Stmt, var: str, chunks: Sequence[Chunk]) -> loops.Stmt:
    """A straight statement for the iterations of all chunks; a loop in it runs once, for all of them together."""
    if not any(isinstance(x, loops.For) for x in traverse.walk_stmt(s)):
        return loops.block(*(vector(s, var, c) for c in chunks))
    match s:
        case loops.For():
            return replace(s, body=vectors(s.body, var, chunks))
        case loops.Block():
            return loops.block(*(vectors(x, var, chunks) for x in s.stmts))
        case loops.If() if _alike(s.cond, var):
            return replace(s, then=vectors(s.then, var, chunks),
                           orelse=vectors(s.orelse, var, chunks) if s.orelse is not None else None)
        case _:
            return loops.block(*(vector(s, var, c) for c in chunks))


def vector(s: loops.Stmt, var: str, chunk: Chunk) -> loops.Stmt:
    """A straight statement for the iterations of one chunk."""
    if chunk.count > 1:
        loop = chunk.copies(var)
        body = vector(s, var, replace(chunk, base=loops.Var(var), count=1))
        copies = replace(loop, body=body)
        if unrolling.may_stay(body, var):
            return copies
        each = (replace(chunk, base=loops.const(v), count=1) for v in unrolling.values(loop))
        return loops.block(*(vector(s, var, c) for c in each))
    if chunk.lanes == 1:
        return simplify.at(s, var, int(chunk.base.value), {}) if isinstance(chunk.base, loops.Const) else \
            simplify.simplify(traverse.substitute(s, {var: chunk.base}), {})
    match s:
        case loops.Block():
            return loops.block(*(vector(x, var, chunk) for x in s.stmts))
        case loops.For():
            return replace(s, body=vector(s.body, var, chunk))
        case loops.If() if _alike(s.cond, var):
            return replace(s, then=vector(s.then, var, chunk),
                           orelse=vector(s.orelse, var, chunk) if s.orelse is not None else None)
        case loops.If():
            return _masked(s, var, chunk)
        case loops.Store():
            ramp = loops.Ramp(chunk.base, chunk.stride, chunk.lanes, active=chunk.active)
            indices = tuple(vector_expr(i, var, ramp) for i in s.indices)
            return loops.Store(s.buffer, indices, broadcast(vector_expr(s.value, var, ramp), chunk.lanes), s.origin)
        case _:
            raise AssertionError("lanewise: not straight")


def _masked(s: loops.If, var: str, chunk: Chunk) -> loops.Stmt:
    """Each branch in the lanes that take it."""
    ramp = loops.Ramp(chunk.base, chunk.stride, chunk.lanes, active=chunk.active)
    cond = broadcast(vector_expr(s.cond, var, ramp), chunk.lanes)
    parts = [vector(s.then, var, replace(chunk, active=meet_masks(chunk, cond)))]
    if s.orelse is not None:
        other = loops.Unary("!", cond, BOOL, chunk.lanes)
        parts.append(vector(s.orelse, var, replace(chunk, active=meet_masks(chunk, other))))
    return loops.block(*parts)


def meet_masks(chunk: Chunk, cond: loops.Expr) -> loops.Expr:
    """The lanes of a chunk that count and meet a condition."""
    if chunk.active is None:
        return cond
    mask = chunk.active
    if isinstance(mask, int):
        mask = loops.binary("<", loops.Ramp(loops.const(0), 1, chunk.lanes), loops.const(mask, chunk.lanes))
    return loops.binary("&&", mask, cond)


def widen_masked_loads(s: loops.Stmt, known: dict[str, simplify.Interval], stored: frozenset[str]) -> loops.Stmt:
    """The statement with masked loads that read whole vectors where all lanes lie in the buffer, whether they count or not:
    what is computed from the others is not stored. Buffers that the kernel stores keep their masks: loads match stores."""
    def load(e: loops.Expr) -> loops.Expr:
        if not isinstance(e, loops.Load) or e.buffer.name in stored or not _inside(e, known):
            return e
        return replace(e, indices=tuple(replace(i, active=None) if isinstance(i, loops.Ramp) else i for i in e.indices))
    return traverse.map_stmt(s, lambda x: x, lambda e: traverse.map_expr(e, load))


def bound_operands(bound: loops.Expr, fn: str) -> list[loops.Expr]:
    """The expressions of which a bound is the minimum (or maximum, as `fn` says)."""
    match bound:
        case loops.Call() if bound.fn == fn:
            return [a for x in bound.args for a in bound_operands(x, fn)]
        case loops.Binary(op="+" | "-", b=loops.Const()):
            return [simplify.expr(replace(bound, a=x), {}) for x in bound_operands(bound.a, fn)]
        case _:
            return [bound]


def relax_masks(s: loops.Stmt, known: dict[str, simplify.Interval], stored: frozenset[str]) -> loops.Stmt:
    """The statement with masked loads from buffers of open sizes under as few conditions as keep them inside, so that rows of a
    tile share them whether they count or not: what is computed from the other lanes is not stored.

    Of n columns, `B[k, ramp(j, active q < min(n - j, 16*(m - i)))]` keeps `q < n - j`.
    """
    def load(e: loops.Expr) -> loops.Expr:
        if not isinstance(e, loops.Load) or e.buffer.name in stored or not any(isinstance(n, Size) for n in e.buffer.shape):
            return e
        places = [d for d, i in enumerate(e.indices) if isinstance(i, loops.Ramp)]
        if len(places) != 1 or any(i.lanes > 1 for d, i in enumerate(e.indices) if d != places[0]):
            return e
        ramp = _relaxed(e.indices[places[0]], e.buffer.shape[places[0]], known)
        others = [(i, n) for d, (i, n) in enumerate(zip(e.indices, e.buffer.shape, strict=True)) if d != places[0]]
        if ramp is None or not all(isinstance(n, Size) or _within(i, n, known) for i, n in others):
            return e
        return replace(e, indices=tuple(ramp if d == places[0] else _clamped(i, n, known) if isinstance(n, Size) else i
                                        for d, (i, n) in enumerate(zip(e.indices, e.buffer.shape, strict=True))))
    return traverse.map_stmt(s, lambda x: x, lambda e: traverse.map_expr(e, load))


def _relaxed(index: loops.Expr, extent: int, known: dict[str, simplify.Interval]) -> loops.Ramp | None:
    """A ramp with one of the bounds of its mask, which alone keeps it inside; None if none does."""
    assert isinstance(index, loops.Ramp)
    match index.active:
        case loops.Binary(op="<", a=loops.Ramp() as lane, b=loops.Broadcast() as most) if index.stride == lane.stride == 1:
            low = simplify.interval(index.base, known)[0]
            for a in bound_operands(most.a, "min") if low is not None and low >= 0 else ():
                past = _simple(loops.binary("-", loops.binary("+", loops.binary("-", index.base, lane.base), a), size(extent)))
                end = simplify.interval(past, known)[1]
                if end is not None and end <= 0:
                    return replace(index, active=replace(index.active, b=replace(most, a=a)))
    return None


def _within(index: loops.Expr, extent: int, known: dict[str, simplify.Interval]) -> bool:
    low, high = simplify.interval(index, known)
    return low is not None and high is not None and low >= 0 and high < extent


def shared_loads_safe(s: loops.For, known: dict[str, simplify.Interval]) -> bool:
    """May the loads that all lanes of a loop share happen, even if it has no iterations: do they lie in their buffers, whatever
    the variables in their intervals? Loads under a condition of their own are no matter."""
    return all(conditional or s.var in traverse.variables(e) or _inside(e, known) for x in traverse.walk_stmt(s.body)
               for top in traverse.expressions(x) for e, conditional in traverse.loads(top))


def clamp_shared_loads(s: loops.For, known: dict[str, simplify.Interval]) -> loops.For:
    """The loop whose loads that all lanes share stay inside of their buffers, where extents are open, so that they may happen
    even if it has no iterations; where it has some, nothing changes."""
    def load(e: loops.Expr) -> loops.Expr:
        if not isinstance(e, loops.Load) or s.var in traverse.variables(e) or e.lanes > 1 or _inside(e, known):
            return e
        return replace(e, indices=tuple(_clamped(i, n, known) if isinstance(n, Size) else i
                                        for i, n in zip(e.indices, e.buffer.shape, strict=True)))
    return replace(s, body=traverse.map_stmt(s.body, lambda x: x, lambda e: traverse.map_expr(e, load)))


def _clamped(index: loops.Expr, extent: Size, known: dict[str, simplify.Interval]) -> loops.Expr:
    low = simplify.interval(index, known)[0]
    natural = index if low is not None and low >= 0 else loops.Call("max", (index, loops.const(0)), index.dtype)
    last = _simple(size(extent - 1))
    return natural if _below(index, extent, known) else loops.Call("min", (natural, last), index.dtype)


def _below(index: loops.Expr, extent: Size, known: dict[str, simplify.Interval]) -> bool:
    """Is a scalar less than an open extent for certain?"""
    parts = index.args if isinstance(index, loops.Call) and index.fn == "min" else (index,)
    past = (simplify.interval(_simple(loops.binary("-", p, size(extent))), known)[1] for p in parts)
    return any(high is not None and high < 0 for high in past)


def _inside(e: loops.Load, known: dict[str, simplify.Interval]) -> bool:
    """Do all lanes of a load through ramps and scalars lie in its buffer?"""
    for index, extent in zip(e.indices, e.buffer.shape, strict=True):
        ramp = index if isinstance(index, loops.Ramp) else None
        scalar = ramp.base if ramp is not None else index
        if isinstance(extent, Size) and ramp is None and scalar.lanes == 1 and _below(scalar, extent, known) and \
                (simplify.interval(scalar, known)[0] or 0) >= 0 and simplify.interval(scalar, known)[0] is not None:
            continue
        low, high = simplify.interval(scalar, known) if scalar.lanes == 1 else (None, None)
        span = (ramp.lanes - 1) * ramp.stride if ramp is not None else 0
        if isinstance(extent, Size) or low is None or high is None or low + min(0, span) < 0 or high + max(0, span) >= extent:
            return False
    return True


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
    if op == "*" and isinstance(b, loops.Const) and abs(a.stride * int(b.value)) < linear_forms.SMALL:
        return replace(a, base=_simple(loops.binary("*", a.base, b)), stride=a.stride * int(b.value))
    return None


def _simple(e: loops.Expr) -> loops.Expr:
    return simplify.expr(e, {})
