"""Expressions of the Loop AST as LLVM values."""

from __future__ import annotations

import functools
from dataclasses import replace

from polytc.codegen import addresses, intervals, loops, traverse
from polytc.codegen.vector_lanes import has_load
from polytc.program.calls import words
from polytc.program.scalars import BF16, F32, I32, I64
from polytc.targets.llvm import (
    arithmetic,
    dots,
    float_facts,
    float_parts,
    intrinsics,
    ir,
    memory,
    necessary,
    quotients,
    rounding,
    walks,
)
from polytc.targets.llvm.function_state import Body


def emit(body: Body, e: loops.Expr) -> ir.Value:
    """The value of an expression."""
    if isinstance(e, loops.Load):
        return _load(body, e)
    if isinstance(e, loops.Call) and e.fn == words.WORD:
        return _word(body, e)
    if isinstance(e, loops.Unary | loops.Binary | loops.Call | loops.Reduce) and traverse.operands(e)[0].dtype == BF16:
        return emit(body, _in_single(e))
    match e:
        case loops.Var():
            return body.values[e.name]
        case loops.Const():
            return ir.number(e.value, e.dtype, e.lanes)
        case loops.Unary():
            return arithmetic.unary(body.fn, e.op, emit(body, e.a), e.dtype)
        case loops.Binary():
            return _binary(body, e)
        case loops.Call() if e.fn in words.DOTS:
            return _dot(body, e, None)
        case loops.Call() if e.fn in words.PARTS:
            x, y = (_wide(body, a, e.lanes) for a in e.args)
            return float_parts.split(body.fn, e.fn, x, y)
        case loops.Call() if rounding.is_small(e):
            return rounding.nearest(body.fn, _rounded_next(body, e.args[0], e.lanes))
        case loops.Cast() if rounding.is_small(e.a) and e.dtype == I32:
            return rounding.nearest_integer(body.fn, _rounded_next(body, traverse.operands(e.a)[0], e.lanes, signed=False))
        case loops.Call():
            return _call(body, e)
        case loops.Cast():
            return arithmetic.cast(body.fn, _wide(body, e.a, e.lanes), e.a.dtype, e.dtype, body.machine)
        case loops.Select():
            return _select(body, e)
        case loops.Ramp():
            base = body.fn.splat(emit(body, e.base), e.lanes)
            steps = ir.constants([i * e.stride for i in range(e.lanes)], ir.register_type(e.dtype))
            return body.fn.binary("add", base, steps)
        case loops.Broadcast():
            return _wide(body, e.a, e.lanes)
        case loops.Reduce():
            return arithmetic.reduce(body.fn, e.op, emit(body, e.a), e.dtype, body.flags)
        case loops.Shuffle():
            return body.fn.shuffle(emit(body, e.a), emit(body, e.b), e.order)


def _in_single(e: loops.Expr) -> loops.Expr:
    """An operation on bf16, done in f32 and rounded."""
    operands = tuple(loops.Cast(x, F32, x.lanes) for x in traverse.operands(e))
    wide = traverse.with_operands(e, operands)
    return loops.Cast(replace(wide, dtype=F32), BF16, e.lanes) if e.dtype == BF16 else wide


def _wide(body: Body, e: loops.Expr, lanes: int) -> ir.Value:
    """A value with `lanes` lanes; a scalar is repeated."""
    return body.fn.splat(emit(body, e), lanes)


def _call(body: Body, e: loops.Call) -> ir.Value:
    """An intrinsic."""
    args = [_wide(body, a, e.lanes) for a in e.args]
    numbers = [value for value, a in zip(args, e.args, strict=True) if float_facts.is_number(a)]
    return intrinsics.emit(body.fn, e.fn, args, e.args[0].dtype, body.flags, body.machine, numbers)


def _rounded_next(body: Body, e: loops.Expr, lanes: int, *, signed: bool = True) -> ir.Value:
    """A value, f32, that is rounded to a whole number next, with `lanes` lanes. signed: a 0 needs its sign."""
    return body.fn.splat(_cut_quotient(body, e, signed) or emit(body, e), lanes)


def _cut_quotient(body: Body, e: loops.Expr, signed: bool) -> ir.Value | None:
    """clamp(a / b, low, high), which is rounded next, without a division; None where it is another expression, or b is not
    known to allow that."""
    if not isinstance(e, loops.Call) or e.fn != "clamp" or not quotients.suits(ir.register_type(e.dtype, e.lanes)):
        return None
    first, *ends = e.args
    if not isinstance(first, loops.Binary) or first.op != "/" or not body.flags or not body.machine.has_fma:
        return None
    sign, divisor = quotients.sign(float_facts.ends(first.b)), _scalar(first.b)
    power = isinstance(divisor, loops.Const) and quotients.is_power(divisor.value)
    if not sign or power or divisor.lanes > 1 or not rounding.are_small(ends) or not all(map(float_facts.is_whole, ends)):
        return None
    x, low, high = (_wide(body, operand, e.lanes) for operand in (first.a, *ends))
    return quotients.cut(body.fn, x, (low, high), emit(body, divisor), negative=sign < 0, signed=signed)


def _scalar(e: loops.Expr) -> loops.Expr:
    """What a vector repeats, if it is said so."""
    return replace(e, lanes=1) if isinstance(e, loops.Const) else traverse.repeated(e)


def _by_number(body: Body, e: loops.Binary, a: ir.Value) -> ir.Value | None:
    """The quotient `a / e.b` by a known number, see quotients.by_number; None where it is another operation, or precise."""
    divisor = _scalar(e.b)
    if e.op != "/" or not body.flags or not body.machine.has_fma or not isinstance(divisor, loops.Const):
        return None
    return quotients.by_number(body.fn, a, float(divisor.value))


def _binary(body: Body, e: loops.Binary) -> ir.Value:
    dtype = e.a.dtype
    if e.op == "+" and rounding.is_small(e.a) and float_facts.is_zero(e.b):
        return rounding.nearest_or_zero(body.fn, _rounded_next(body, traverse.operands(e.a)[0], e.lanes, signed=False))
    if dtype.is_float and e.op in "+-" and body.flags:
        fused = _fused(body, e)
        if fused is not None:
            return fused
    if e.op == "+":
        for product, other in ((e.b, e.a), (e.a, e.b)):
            if isinstance(product, loops.Call) and product.fn in words.DOTS:
                return _dot(body, product, _wide(body, other, e.lanes), e.lanes)
    a, b = _wide(body, e.a, e.lanes), _wide(body, e.b, e.lanes)
    quotient = _by_number(body, e, a)
    if quotient is not None:
        return quotient
    natural = e.op in ("//", "%") and dtype == I64 and intervals.interval(e.a, body.bounds).is_natural
    return arithmetic.binary(body.fn, e.op, a, b, dtype, body.flags, nonnegative=natural)


def _fused(body: Body, e: loops.Binary) -> ir.Value | None:
    """`x*y + z` and its relatives as one operation, so that reassociation cannot take the product from its sum."""
    if e.dtype.bits < 32 or not body.machine.has_fma:
        return None
    left, right = _product(e.a), _product(e.b)
    if left is None and right is None:
        return None
    product, other = (right, e.a) if right is not None else (left, e.b)
    assert product is not None
    x, y, z = _wide(body, product.a, e.lanes), _wide(body, product.b, e.lanes), _wide(body, other, e.lanes)
    if e.op == "-" and right is not None:
        x = body.fn.emit(x.type, f"fneg {x}")
    elif e.op == "-":
        z = body.fn.emit(z.type, f"fneg {z}")
    return body.fn.intrinsic("fmuladd", (x, y, z), body.flags)


def _product(e: loops.Expr) -> loops.Binary | None:
    return e if isinstance(e, loops.Binary) and e.op == "*" else None


def _dot(body: Body, e: loops.Call, total: ir.Value | None, lanes: int = 0) -> ir.Value:
    """A dot product of words, added to `total`."""
    lanes = lanes or e.lanes
    args = [_wide(body, a, lanes) for a in e.args]
    start = total if total is not None else ir.number(0, e.dtype, lanes)
    return dots.emit(body.fn, e.fn, start, args, body.machine) if len(args) == 2 else \
        float_parts.dot(body.fn, e.fn, start, args, body.flags)


def _word(body: Body, e: loops.Call) -> ir.Value:
    """Numbers side by side in words: one load, if they are neighbours in memory."""
    parts = [a.a if isinstance(a, loops.Cast) else a for a in e.args]
    loaded = [p for p in parts if isinstance(p, loops.Load)]
    start = _neighbours(body, loaded) if body.mask is None and len(loaded) == len(parts) else None
    active = traverse.active_lanes(loaded[0].indices) if start is not None else None
    if start is None or not (active is None or isinstance(active, int)):
        return dots.interleave(body.fn, [_wide(body, a, e.lanes) for a in e.args])
    first, count = loaded[0], loaded[0].lanes * len(parts)
    at = pointer(body, first.buffer, start)
    wide = memory.load(body.fn, first.dtype, at, count) if active is None else \
        memory.load_masked(body.fn, first.dtype, at, memory.first_lanes(active * len(parts), count))
    return dots.as_words(body.fn, arithmetic.cast(body.fn, wide, first.dtype, e.args[0].dtype), e.lanes)


def _neighbours(body: Body, loaded: list[loops.Load]) -> addresses.Address | None:
    """The address of the first of several loads that together, lane by lane, read memory without gaps; None if they do not."""
    first, forms = loaded[0], [_form(body, p.buffer, p.indices) for p in loaded]
    start = forms[0]
    if start is None or len({(p.buffer, p.lanes) for p in loaded}) > 1 or first.lanes != max(1, len(start.lanes)):
        return None
    dense = start.lanes == tuple(range(0, len(loaded) * len(start.lanes), len(loaded)))
    return start if dense and all(f == replace(start, constant=start.constant + n) for n, f in enumerate(forms)) else None


def _select(body: Body, e: loops.Select) -> ir.Value:
    """Loads of an arm happen only where the arm is chosen: by a branch, or by a mask where there are lanes."""
    cond = emit(body, e.cond)
    if not (has_load(e.a) or has_load(e.b)):
        a, b = _wide(body, e.a, e.lanes), _wide(body, e.b, e.lanes)
        return body.fn.choose(cond, a, b)
    if ir.lanes_of(cond.type) == 1:
        return memory.guarded(body.fn, cond, lambda: _arm(body, e.a, e.lanes), lambda: _arm(body, e.b, e.lanes))
    outer, there = body.mask, body.there
    inverse = body.fn.binary("xor", cond, ir.constant(True, cond.type))
    body.there = there | necessary.somewhere(e.cond, body.bounds)
    a = _masked_arm(body, e.a, e.lanes, cond, outer)
    body.there = there | necessary.elsewhere(e.cond, body.bounds)
    b = _masked_arm(body, e.b, e.lanes, inverse, outer)
    body.mask, body.there = outer, there
    return body.fn.choose(cond, a, b)


def _arm(body: Body, e: loops.Expr, lanes: int) -> ir.Value:
    body.scopes.append({})
    value = _wide(body, e, lanes)
    body.scopes.pop()
    return value


def _masked_arm(body: Body, e: loops.Expr, lanes: int, cond: ir.Value, outer: ir.Value | None) -> ir.Value:
    if not has_load(e):
        return _wide(body, e, lanes)
    body.mask = cond if outer is None or outer.type != cond.type else body.fn.binary("and", cond, outer)
    return _wide(body, e, lanes)


# ---- addresses

def index(body: Body, e: loops.Expr) -> ir.Value:
    """A scalar index or loop bound as i64."""
    form = addresses.address(e)
    assert form is not None, f"not a scalar index: {loops.format_expr(e)}"
    assert not form.lanes, f"not a scalar index: {loops.format_expr(e)}"
    return offset(body, form.at(body.numbers))


def offset(body: Body, form: addresses.Address, lane: int = 0) -> ir.Value:
    """The value of a scalar form, or of a lane behind it, as i64; sums are shared between accesses."""
    total, constant = _terms(body, form.terms), ir.constant(form.constant + lane, "i64")
    if total is None or constant.number == 0:
        return total or constant
    return body.shared((total.ref, constant.number), lambda: body.fn.binary("add nsw", total, constant))


def _terms(body: Body, terms: tuple[tuple[loops.Expr, int], ...]) -> ir.Value | None:
    if not terms:
        return None
    for scope in body.scopes:
        if terms in scope:
            return scope[terms]
    before = _terms(body, terms[:-1])
    atom, coefficient = terms[-1]
    value = arithmetic.cast(body.fn, emit(body, atom), atom.dtype, I64)
    if coefficient != 1 and isinstance(atom, loops.Var) and atom.name in body.walks:
        value = body.walks[atom.name].counter(body.fn, coefficient)
    elif coefficient != 1:
        value = body.fn.binary("mul nsw", value, ir.constant(coefficient, "i64"))
    total = value if before is None else body.fn.binary("add nsw", before, value)
    if not any(has_load(atom) for atom, _ in terms):
        body.scopes[-1][terms] = total
    return total


def pointer(body: Body, buffer: loops.Buffer, form: addresses.Address, lane: int = 0, active: memory.Active = None) -> ir.Value:
    """Pointer to the element at a known distance of a form's base. The distance is a step of its own from the pointer to the
    base, which neighbouring accesses share (and which, unlike the element, need not lie in the buffer; under a mask neither
    does the element)."""
    base, offset, start = body.pointers[buffer.name], form.constant + lane, _walked(body, buffer, form)
    if start is None:
        total = _terms(body, form.terms)
        if total is None or offset == 0 and not body.there:
            inside = body.mask is None and not isinstance(active, ir.Value)
            return _behind(body, buffer, base, total or ir.constant(offset, "i64"), inside)
        start = _behind(body, buffer, base, total)
    start = _mapped(body, buffer, start, offset) if body.there else start
    return _behind(body, buffer, start, ir.constant(offset, "i64"))


def _behind(body: Body, buffer: loops.Buffer, start: ir.Value, by: ir.Value, inside: bool = False) -> ir.Value:
    return body.shared((start.ref, by.ref, inside), lambda: memory.address(body.fn, start, buffer.dtype, by, inside))


def _walked(body: Body, buffer: loops.Buffer, form: addresses.Address) -> ir.Value | None:
    """The pointer to a form's base where a loop moves it, see walks.py."""
    stays, moves = (_terms(body, terms) for terms in walks.parts(form, body.walks, body.values))
    base = body.pointers[buffer.name]
    start = base if stays is None else _behind(body, buffer, base, stays)
    return None if moves is None else _behind(body, buffer, start, moves)


def _mapped(body: Body, buffer: loops.Buffer, start: ir.Value, offset: int) -> ir.Value:
    """`start`, or where loads are not allowed in any lane a pointer from which `offset` elements lead to the buffer's middle.
    A masked load without lanes reads nothing; but if its address is in no page that is there, as what lies before a tensor may
    not be, a processor takes a hundred cycles to find that out. Neighbouring accesses share the pointer."""
    copy = tuple((n, k) for n, k in body.numbers.items() if any(n in traverse.variables(c) for c in body.there))

    def mapped() -> ir.Value:
        cond = functools.reduce(functools.partial(body.fn.binary, "and"), (emit(body, c) for c in sorted(body.there, key=repr)))
        middle = ir.constant(buffer.size // 2 - offset, "i64")
        return body.fn.choose(cond, start, memory.address(body.fn, body.pointers[buffer.name], buffer.dtype, middle, False))
    return body.shared((start.ref, body.there, copy), mapped)


def pointers(body: Body, buffer: loops.Buffer, indices: tuple[loops.Expr, ...], lanes: int, active: memory.Active) -> ir.Value:
    """One pointer a lane, for any indices."""
    total = ir.constant(0, ir.vector("i64", lanes))
    for e, stride in zip(indices, buffer.strides, strict=True):
        value = body.fn.splat(arithmetic.cast(body.fn, emit(body, e), e.dtype, I64), lanes)
        if stride != 1:
            value = body.fn.binary("mul nsw", value, ir.constant(stride, value.type))
        total = value if total.number == 0 else body.fn.binary("add nsw", total, value)
    return memory.address(body.fn, body.pointers[buffer.name], buffer.dtype, total,
                          body.mask is None and not isinstance(active, ir.Value))


def _form(body: Body, buffer: loops.Buffer, indices: tuple[loops.Expr, ...]) -> addresses.Address | None:
    """The element offset of an access in the copy that is being written."""
    form = addresses.flatten(buffer, indices)
    return form.at(body.numbers) if form is not None and body.numbers else form


def _load(body: Body, e: loops.Load) -> ir.Value:
    form = _form(body, e.buffer, e.indices)
    if e.buffer.name in body.rows:
        return body.rows[e.buffer.name].load(body.fn, form, ir.register_type(e.dtype, e.lanes))
    moves = any(has_load(i) for i in e.indices)  # with what is stored elsewhere
    if form is None or moves:
        return _load_at(body, e, form)
    if body.block != body.fn.block:
        if body.mask is not None:
            return _load_at(body, e, form)
        body.block = body.fn.block
        body.loaded.clear()
    key = form, e.lanes, traverse.active_lanes(e.indices)
    value = body.loaded.get(e.buffer.name, {}).get(key)
    if value is None:
        value = _load_at(body, e, form)
        if body.block == body.fn.block and body.mask is None:  # no address with a branch in it
            body.loaded.setdefault(e.buffer.name, {})[key] = value
    return value


def _load_at(body: Body, e: loops.Load, form: addresses.Address | None) -> ir.Value:
    mask, active = body.mask, _active(body, e.indices)
    if form is not None and (not form.lanes or (mask is None and e.lanes == 1)):
        if mask is not None:
            return body.fn.splat(_load_one_masked(body, e, form, mask), e.lanes)
        return body.fn.splat(memory.load(body.fn, e.dtype, pointer(body, e.buffer, form)), e.lanes)
    if form is None:
        return memory.gather(body.fn, e.dtype, pointers(body, e.buffer, e.indices, e.lanes, active), mask, active)
    return memory.load_pattern(body.fn, e.dtype, form.lanes, lambda lane: pointer(body, e.buffer, form, lane, active), mask,
                               active, _beside(body, e))


def _beside(body: Body, e: loops.Load) -> tuple[int, int]:
    """Elements before and behind the access that lie in the same rows of its buffer, where it takes one element of each."""
    at = e.indices[-1] if e.buffer.name in body.pairs else None
    return (int(at.value), 1 - int(at.value)) if isinstance(at, loops.Const) else (0, 0)


def _active(body: Body, indices: tuple[loops.Expr, ...]) -> memory.Active:
    """The lanes that an access touches."""
    active = traverse.active_lanes(indices)
    if active is None or isinstance(active, int):
        return active
    mask = active
    return emit(body, mask) if has_load(mask) else body.shared(mask, lambda: emit(body, mask))


def _load_one_masked(body: Body, e: loops.Load, form: addresses.Address, mask: ir.Value) -> ir.Value:
    """A scalar load under a mask: it happens if some lane wants it."""
    at = pointer(body, e.buffer, form)
    wide = memory.load_splat_masked(body.fn, e.dtype, at, mask)
    return wide if e.lanes > 1 else body.fn.extract(wide, 0)


def store(body: Body, s: loops.Store) -> None:
    """buffer[indices] = value."""
    form = _form(body, s.buffer, s.indices)
    lanes = max(s.value.lanes, *(i.lanes for i in s.indices)) if s.indices else s.value.lanes
    value = _wide(body, s.value, lanes)
    if s.buffer.name in body.rows:
        body.rows[s.buffer.name].store(body.fn, form, value)
        return
    active = _active(body, s.indices)
    body.loaded.pop(s.buffer.name, None)
    if form is None:
        memory.scatter(body.fn, s.buffer.dtype, pointers(body, s.buffer, s.indices, lanes, active), value, active)
    elif not form.lanes:
        memory.store(body.fn, s.buffer.dtype, pointer(body, s.buffer, form), value)
    else:
        memory.store_pattern(body.fn, s.buffer.dtype, form.lanes, lambda lane: pointer(body, s.buffer, form, lane, active),
                             value, active)
