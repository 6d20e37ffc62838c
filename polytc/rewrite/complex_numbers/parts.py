"""Complex expressions as real ones: their real and imaginary parts.

A part that is 0 whatever the data are, as that of a real number, is None, and nothing is computed of it: `2*z` is two products,
`c64(x)*z` too. Quotients are Smith's (Algorithm 116, Communications of the ACM 5(8), 1962), which overflow only where the
result does, or nearly does; docs/accuracy.md has the bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from polytc.program import program as pr
from polytc.program.scalars import BOOL, COMPLEX, F32, I64, DType

Parts: TypeAlias = "tuple[pr.Expr | None, pr.Expr | None]"
"""The real and the imaginary part; None is 0."""


def parts(e: pr.Expr) -> Parts:
    """The parts of a complex expression."""
    part = e.dtype.part
    match e:
        case pr.Const():
            re, im = e.value.real, e.value.imag
            return (pr.Const(re, part) if re != 0 or im == 0 else None), (pr.Const(im, part) if im != 0 else None)
        case pr.Read():
            return read(e, pr.Const(0, I64)), read(e, pr.Const(1, I64))
        case pr.Cast() if e.a.dtype.is_complex:
            re, im = parts(e.a)
            return _cast(re, part), _cast(im, part)
        case pr.Cast():
            return _cast(real(e.a), part), None
        case pr.Unary():
            re, im = parts(e.a)
            return negative(re), negative(im)
        case pr.Select():
            return _either(e, *map(parts, (e.a, e.b)))
        case pr.Binary():
            return _BINARY[e.op](parts(e.a), parts(e.b))
        case pr.Call():
            return _CALLS[e.fn](*parts(e.args[0]))
    raise AssertionError(f"complex_numbers: {e}")


def both(e: pr.Expr) -> tuple[pr.Expr, pr.Expr]:
    """The parts of a complex expression, each an expression."""
    re, im = parts(e)
    zero = pr.Const(0.0, e.dtype.part)
    return re if re is not None else zero, im if im is not None else zero


def read(e: pr.Read, part: pr.Expr) -> pr.Read:
    """The part with that number of an element of a tensor."""
    subscripts = (*map(real, e.subscripts), part)
    return replace(e, subscripts=subscripts, dtype=e.dtype.part, default=_default(e, part) if e.default is not None else None)


def _default(e: pr.Read, part: pr.Expr) -> pr.Const:
    assert e.default is not None
    re, im = both(e.default)
    found = re if re == im or part == pr.Const(0, I64) else im
    assert isinstance(found, pr.Const)
    return found


def real(e: pr.Expr) -> pr.Expr:
    """A real expression without what is complex in it."""
    if isinstance(e, pr.Call) and e.fn in COMPLEX and e.args[0].dtype.is_complex:
        return _REAL_CALLS[e.fn](*both(e.args[0]))
    if isinstance(e, pr.Binary) and e.a.dtype.is_complex:
        (a, b), (c, d) = both(e.a), both(e.b)
        return pr.Binary("&&" if e.op == "==" else "||", pr.Binary(e.op, a, c, BOOL), pr.Binary(e.op, b, d, BOOL), BOOL)
    return pr.rebuild(e, tuple(map(real, pr.children(e))))


def uniform(e: pr.Expr, part: pr.Expr) -> pr.Expr | None:
    """The part with that number, an index, of an expression whose parts are made alike; None for others."""
    match e:
        case pr.Read():
            alike = e.default is None or both(e.default)[0] == both(e.default)[1]
            return read(e, part) if alike else None
        case pr.Const():
            return pr.Const(0.0, e.dtype.part) if e.value == 0 else None
        case pr.Unary():
            return negative(uniform(e.a, part))
        case pr.Cast() if e.a.dtype.is_complex:
            return _cast(uniform(e.a, part), e.dtype.part)
        case pr.Select():
            a, b = uniform(e.a, part), uniform(e.b, part)
            return None if a is None or b is None else replace(e, cond=real(e.cond), a=a, b=b, dtype=e.dtype.part)
        case pr.Binary(op="+" | "-"):
            a, b = uniform(e.a, part), uniform(e.b, part)
            return None if a is None or b is None else pr.Binary(e.op, a, b, e.dtype.part)
        case pr.Binary():
            return _scaled(e, part)
    return None


def _scaled(e: pr.Binary, part: pr.Expr) -> pr.Expr | None:
    """The same of a product with a real number, or a quotient by one."""
    for real_one, other in ((e.b, e.a), (e.a, e.b)):
        scale = _real_number(real_one)
        rest = uniform(other, part) if scale is not None else None
        if scale is not None and rest is not None:
            return pr.Binary(e.op, *((rest, scale) if real_one is e.b else (scale, rest)), e.dtype.part)
        if e.op == "/":
            break
    return None


def _real_number(e: pr.Expr) -> pr.Expr | None:
    """An expression that is a real number of a complex type, as a real one."""
    if not (isinstance(e, pr.Cast) and not e.a.dtype.is_complex or isinstance(e, pr.Const)):
        return None
    re, im = parts(e)
    return re if im is None else None


# ---- arithmetic of parts

def negative(e: pr.Expr | None) -> pr.Expr | None:
    """-e"""
    if isinstance(e, pr.Const):
        return pr.Const(-e.value, e.dtype)
    return None if e is None else pr.Unary("-", e, e.dtype)


def _cast(e: pr.Expr | None, dtype: DType) -> pr.Expr | None:
    if e is None or e.dtype == dtype:
        return e
    return pr.Const(float(e.value), dtype) if isinstance(e, pr.Const) and e.dtype.is_float else pr.Cast(e, dtype)


def _add(a: pr.Expr | None, b: pr.Expr | None) -> pr.Expr | None:
    return b if a is None else a if b is None else pr.Binary("+", a, b, a.dtype)


def _subtract(a: pr.Expr | None, b: pr.Expr | None) -> pr.Expr | None:
    return negative(b) if a is None else a if b is None else pr.Binary("-", a, b, a.dtype)


def _times(a: pr.Expr | None, b: pr.Expr | None) -> pr.Expr | None:
    if a is None or b is None:
        return None
    for one, other in ((a, b), (b, a)):
        if isinstance(one, pr.Const) and abs(one.value) == 1:
            return other if one.value > 0 else negative(other)
    return pr.Binary("*", a, b, a.dtype)


def _over(a: pr.Expr | None, b: pr.Expr) -> pr.Expr | None:
    return None if a is None else pr.Binary("/", a, b, a.dtype)


def _sum(x: Parts, y: Parts) -> Parts:
    return _add(x[0], y[0]), _add(x[1], y[1])


def _difference(x: Parts, y: Parts) -> Parts:
    return _subtract(x[0], y[0]), _subtract(x[1], y[1])


def _product(x: Parts, y: Parts) -> Parts:
    (a, b), (c, d) = x, y
    return _subtract(_times(a, c), _times(b, d)), _add(_times(a, d), _times(b, c))


def _quotient(x: Parts, y: Parts) -> Parts:
    """The quotient by the larger part of the divisor; of two zeros, what the parts over 0 are."""
    (a, b), (c, d) = x, y
    if d is None:
        assert c is not None, "complex_numbers: a divisor without parts"
        return _over(a, c), _over(b, c)
    if c is None:
        return _over(b, d), negative(_over(a, d))
    dtype = c.dtype
    first = pr.Binary(">=", call("abs", c), call("abs", d), BOOL)
    large, small = pr.Select(first, c, d, dtype), pr.Select(first, d, c, dtype)
    none = pr.Binary("==", small, pr.Const(0.0, dtype), BOOL)
    ratio = pr.Select(none, small, pr.Binary("/", small, large, dtype), dtype)
    whole = pr.Binary("+", large, pr.Binary("*", small, ratio, dtype), dtype)
    re = _choice(first, _add(a, _times(b, ratio)), _add(_times(a, ratio), b))
    im = _choice(first, _subtract(b, _times(a, ratio)), _subtract(_times(b, ratio), a))
    return _over(re, whole), _over(im, whole)


_BINARY: dict[str, Callable[[Parts, Parts], Parts]] = {"+": _sum, "-": _difference, "*": _product, "/": _quotient}


def _choice(condition: pr.Expr, a: pr.Expr | None, b: pr.Expr | None) -> pr.Expr | None:
    dtype = next((x.dtype for x in (a, b) if x is not None), None)
    if dtype is None:
        return None
    zero = pr.Const(0.0, dtype)
    return pr.Select(condition, a if a is not None else zero, b if b is not None else zero, dtype)


def _either(e: pr.Select, x: Parts, y: Parts) -> Parts:
    """The parts of a choice."""
    condition = real(e.cond)
    made = (_choice(condition, a, b) for a, b in zip(x, y, strict=True))
    re, im = (replace(m, skips=e.skips) if isinstance(m, pr.Select) else m for m in made)
    return re, im


# ---- functions

def call(fn: str, *args: pr.Expr) -> pr.Expr:
    """A function of real numbers."""
    return pr.Call(fn, args, args[0].dtype)


def _magnitude(a: pr.Expr, b: pr.Expr) -> pr.Expr:
    """sqrt(a*a + b*b), whose squares neither overflow nor vanish: the larger part times the root of 1 + (smaller/larger)**2."""
    if b == pr.Const(0.0, b.dtype):
        return call("abs", a)
    dtype, large, small = a.dtype, call("max", call("abs", a), call("abs", b)), call("min", call("abs", a), call("abs", b))
    ratio = pr.Binary("/", small, large, dtype)
    root = call("sqrt", pr.Binary("+", pr.Const(1.0, dtype), pr.Binary("*", ratio, ratio, dtype), dtype))
    as_it_is = pr.Binary("||", pr.Binary("==", large, pr.Const(0.0, dtype), BOOL), pr.Call("isinf", (large,), BOOL), BOOL)
    return pr.Select(as_it_is, large, pr.Binary("*", large, root, dtype), dtype)


def _exponential(a: pr.Expr | None, b: pr.Expr | None) -> Parts:
    """exp(a)*(cos(b), sin(b)), in two halves of exp(a), so that it overflows only where a part does, or nearly does."""
    if b is None:
        return (call("exp", a) if a is not None else None), None
    re, im = call("cos", b), call("sin", b)
    if a is None:
        return re, im
    half = call("exp", pr.Binary("*", a, pr.Const(0.5, a.dtype), a.dtype))
    re, im = (pr.Binary("*", pr.Binary("*", half, x, a.dtype), half, a.dtype) for x in (re, im))
    return re, im


def _root(a: pr.Expr | None, b: pr.Expr | None) -> Parts:
    """The square root whose real part is not negative; on the negative axis the sign of the imaginary part decides."""
    if b is None:
        assert a is not None, "complex_numbers: a root without parts"
        zero = pr.Const(0.0, a.dtype)
        negated = pr.Unary("-", a, a.dtype)
        return call("sqrt", call("max", a, zero)), call("sqrt", call("max", negated, zero))
    dtype = b.dtype
    zero, half = pr.Const(0.0, dtype), pr.Const(0.5, dtype)
    a = a if a is not None else zero
    first, second, back = _in_mid_range(call("abs", a), call("abs", b))
    size = second if a == zero else _magnitude(first, second)
    halves = [pr.Binary("*", x, half, dtype) for x in (first, second, size)]
    larger = call("sqrt", pr.Binary("+", halves[0], halves[2], dtype))
    smaller = pr.Select(pr.Binary("==", larger, zero, BOOL), second, pr.Binary("/", halves[1], larger, dtype), dtype)
    main, other = pr.Binary("*", larger, back, dtype), pr.Binary("*", smaller, back, dtype)
    right = pr.Binary(">=", a, zero, BOOL)
    below = pr.Binary("<", call("atan2", b, pr.Const(-1.0, dtype)), zero, BOOL)  # b < 0, or b is -0.0
    im = pr.Select(right, other, main, dtype)
    return pr.Select(right, main, other, dtype), pr.Select(below, pr.Unary("-", im, dtype), im, dtype)


def _in_mid_range(a: pr.Expr, b: pr.Expr) -> tuple[pr.Expr, pr.Expr, pr.Expr]:
    """Two parts, not negative, times a power of 4, so that their sum does not overflow and no half of one loses digits, and
    what their root is to be multiplied by."""
    dtype = a.dtype
    many = pr.Binary(">=", call("max", a, b), pr.Const(1.0, dtype), BOOL)
    up = 13 if dtype == F32 else 27  # more than half of the digits: the smallest number becomes a normal one

    def choice(large: float, small: float) -> pr.Expr:
        return pr.Select(many, pr.Const(large, dtype), pr.Const(small, dtype), dtype)
    scale = choice(1 / 16, 4.0 ** up)
    return pr.Binary("*", a, scale, dtype), pr.Binary("*", b, scale, dtype), choice(4.0, 2.0 ** -up)


def _either_part(fn: str) -> Callable[[pr.Expr, pr.Expr], pr.Expr]:
    return lambda a, b: pr.Binary("||", pr.Call(fn, (a,), BOOL), pr.Call(fn, (b,), BOOL), BOOL)


_CALLS: dict[str, Callable[[pr.Expr | None, pr.Expr | None], Parts]] = {
    "conj": lambda a, b: (a, negative(b)), "exp": _exponential, "sqrt": _root}

_REAL_CALLS: dict[str, Callable[[pr.Expr, pr.Expr], pr.Expr]] = {
    "real": lambda a, b: a, "imag": lambda a, b: b, "abs": _magnitude, "angle": lambda a, b: call("atan2", b, a),
    "isnan": _either_part("isnan"), "isinf": _either_part("isinf")}
