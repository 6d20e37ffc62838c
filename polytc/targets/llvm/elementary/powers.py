"""x^y and the cube root.

    x^y = 2^(y log2 x)

needs the logarithm to some ten bits more than the result has: f32 computes in f64, f64 in unevaluated sums of two numbers
(T. J. Dekker, Numerische Mathematik 18, 1971).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from polytc.program.scalars import F32, F64
from polytc.targets.llvm import ir
from polytc.targets.llvm.elementary import coefficients, exponentials, logarithms
from polytc.targets.llvm.elementary.floats import Floats


class Pair(NamedTuple):
    """The sum of two numbers, the second below the last place of the first."""

    high: ir.Value
    low: ir.Value


def _sum(m: Floats, a: ir.Value, b: ir.Value) -> Pair:
    """a + b exactly, for |a| >= |b| or a = 0."""
    high = m.add(a, b)
    return Pair(high, m.sub(b, m.sub(high, a)))


def _product(m: Floats, a: Pair, b: Pair) -> Pair:
    high = m.mul(a.high, b.high)
    rest = m.fused(a.high, b.high, m.neg(high))
    return Pair(high, m.fma(a.high, b.low, m.fma(a.low, b.high, rest)))


def _plus(m: Floats, a: Pair, b: Pair) -> Pair:
    """a + b, for |a| >= |b|."""
    total = _sum(m, a.high, b.high)
    return _sum(m, total.high, m.add(total.low, m.add(a.low, b.low)))


def _pair(m: Floats, parts: tuple[float, ...]) -> Pair:
    return Pair(m.number(parts[0]), m.number(parts[1]))


def _log2(m: Floats, x: ir.Value) -> Pair:
    """log2 of a positive f64, to some 65 bits: e + 2/ln(2) (s + s^3 (1/3 + s^2 P(s^2))) with s = f / (2 + f)."""
    e, f = logarithms.split_any(m, x)
    divisor = _sum(m, m.number(2.0), f)
    inverse = m.div(m.number(1.0), divisor.high)
    s = m.mul(f, inverse)
    rest = m.fused(m.neg(s), divisor.low, m.fused(m.neg(s), divisor.high, f))
    pair = Pair(s, m.mul(rest, inverse))
    square = _product(m, pair, pair)
    tail = m.mul(square.high, m.polynomial(square.high, coefficients.LOG_TAIL))
    third = _pair(m, coefficients.THIRD)
    cubic = _product(m, _product(m, square, pair), _plus(m, third, Pair(tail, m.number(0.0))))
    return _plus(m, Pair(e, m.number(0.0)), _product(m, _plus(m, pair, cubic), _pair(m, coefficients.TWO_OVER_LN2)))


def _power(m: Floats, x: ir.Value, y: ir.Value) -> ir.Value:
    """x^y for x >= 0, f64."""
    log = _log2(m, x)
    exact = m.both(m.less(m.number(0.0), x), m.less(x, m.number(math.inf)))
    high = m.choose(exact, log.high, m.choose(m.equal(x, m.number(0.0)), m.number(-math.inf), x))
    t = m.mul(high, y)
    # Where t is out of bounds its rest does not count, and may not be a number.
    rest = m.fma(log.low, y, m.fused(log.high, y, m.neg(t)))
    rest = m.choose(m.less(m.abs(t), m.number(2048.0)), rest, m.number(0.0))
    bias, mantissa = m.format.bias, m.format.mantissa
    return exponentials.exp2_of_sum(m, m.limit(t, -(bias + mantissa + 2.0), bias + 2.0), rest)


def _power_of_single(m: Floats, x: ir.Value, y: ir.Value) -> ir.Value:
    """x^y for x >= 0, f32 through f64, in as many vectors as that takes."""
    half = m.lanes // 2
    if m.lanes * F64.bytes > m.machine.vector_bytes and half > 1:
        part = Floats(m.fn, m.dtype, ir.vector("float", half), m.machine)
        low, high = (_power_of_single(part, *(m.fn.shuffle(a, None, range(k, k + half)) for a in (x, y))) for k in (0, half))
        return m.fn.shuffle(low, high, range(m.lanes))
    w = m.of(F64)
    x, y = (m.fn.convert("fpext", a, "double") for a in (x, y))
    e, f = logarithms.split_any(w, x)
    log = logarithms.edges(w, x, w.fma(f, w.polynomial(f, coefficients.LOG2_SINGLE), e))
    t = w.limit(w.mul(log, y), -152.0, 130.0)
    magic = w.magic(w.format.bias)
    shifted = w.add(t, magic)
    fraction = w.sub(t, w.sub(shifted, magic))
    value = w.mul(w.polynomial(fraction, coefficients.EXP2_SINGLE), w.exponent_bits(w.bits(shifted)))
    return m.fn.convert("fptrunc", value, "float")


def pow(m: Floats, x: ir.Value, y: ir.Value) -> ir.Value:
    """The special cases are those of IEEE 754's pow: 1 for y = 0 and x = 1 even with NaN; a sign for odd whole y."""
    size, one, zero = m.abs(x), m.number(1.0), m.number(0.0)
    value = (_power_of_single if m.dtype == F32 else _power)(m, size, y)
    trivial = m.fn.binary("or", m.equal(y, zero), m.equal(x, one))
    infinite = m.both(m.equal(size, one), m.equal(m.abs(y), m.number(math.inf)))
    value = m.choose(m.fn.binary("or", trivial, infinite), one, value)
    half = m.mul(y, m.number(0.5))
    is_whole = m.equal(m.trunc(y), y)
    odd = m.both(is_whole, m.fn.compare("fcmp une", m.trunc(half), half))
    value = m.copysign(value, m.choose(odd, x, one))
    negative = m.both(m.less(x, zero), m.less(m.number(-math.inf), x))
    bad = m.both(negative, m.fn.binary("xor", is_whole, ir.constant(True, is_whole.type)))
    bad = m.both(bad, m.fn.compare("fcmp une", y, zero))
    return m.choose(bad, m.number(math.nan), value)


def cbrt(m: Floats, x: ir.Value) -> ir.Value:
    """r near size^(-1/3) from a third of the bits, by Newton's steps r + r (1 - size r^3) / 3; then y = size r^2, and one
    step for y itself."""
    f = m.format
    size = m.abs(x)
    tiny = m.less(size, m.number(2.0 ** (1 - f.bias)))
    lift = 3 * ((f.mantissa + 3) // 3)
    size = m.choose(tiny, m.mul(size, m.number(2.0**lift)), size)
    third = m.fn.binary("udiv", m.bits(size), m.whole(3))
    start = int((4 / 3 * (f.bias - CBRT_SHIFT)) * 2**f.mantissa)
    r = m.from_bits(m.fn.binary("sub", m.whole(start), third))
    for _ in range(3 if m.dtype == F32 else 4):
        error = m.fma(m.neg(m.mul(m.mul(r, r), r)), size, m.number(1.0))
        r = m.fma(m.mul(r, m.number(1 / 3)), error, r)
    square = m.mul(r, r)
    y = m.mul(size, square)
    rest = m.fused(m.neg(m.mul(y, y)), y, size)
    y = m.fma(m.mul(square, m.number(1 / 3)), rest, y)
    y = m.choose(tiny, m.mul(y, m.number(2.0 ** -(lift // 3))), y)
    usual = m.both(m.less(m.number(0.0), m.abs(x)), m.less(m.abs(x), m.number(math.inf)))
    return m.choose(usual, m.copysign(y, x), x)


CBRT_SHIFT = 0.0355
"""Centres the error of the first guess: 3.2 %."""
