"""Roots, remainders, powers of ten, and circular functions of multiples of pi."""

from __future__ import annotations

import math

from polytc.functions import coefficients
from polytc.functions.arithmetic import Arithmetic, V

SCALES = {24: (50, 90), 53: (400, 700)}
"""Squares of numbers between 2^-a and 2^a are normal, others are scaled by 2^b or 2^-b."""


def hypot(m: Arithmetic[V], x: V, y: V) -> V:
    """sqrt(x^2 + y^2), which overflows only if the result does. Infinite if one is, whatever the other one is."""
    p, q = m.abs(x), m.abs(y)
    first = m.less(p, q)
    a, b = m.choose(first, q, p), m.choose(first, p, q)
    limit, scale = SCALES[m.digits]
    huge, tiny = m.less(m.number(2.0**limit), a), m.less(a, m.number(2.0**-limit))
    up, down, one = m.number(2.0**scale), m.number(2.0**-scale), m.number(1.0)
    factor, back = m.choose(huge, down, m.choose(tiny, up, one)), m.choose(huge, up, m.choose(tiny, down, one))
    a, b = m.mul(a, factor), m.mul(b, factor)
    value = m.mul(m.sqrt(m.fma(a, a, m.mul(b, b))), back)
    infinity = m.number(math.inf)
    return m.choose(m.equal(p, infinity), infinity, m.choose(m.equal(q, infinity), infinity, value))


def fdim(m: Arithmetic[V], x: V, y: V) -> V:
    """x - y, or 0 where that is negative; NaN if one is."""
    value = m.choose(m.less(y, x), m.sub(x, y), m.number(0.0))
    return m.choose(m.both(m.equal(x, x), m.equal(y, y)), value, m.add(x, y))


def remainder(m: Arithmetic[V], x: V, y: V) -> V:
    """x - n y with the whole number n nearest to x / y, the even one of two: exactly. |x| modulo 2 |y| is between 0 and 2 |y|,
    of which |y| is taken once where it is more than half of |y|, and twice from one and a half of |y| on."""
    size = m.abs(y)
    rest = m.fmod(m.abs(x), m.add(size, size))
    once = m.sub(rest, size)
    twice = m.choose(m.less(m.add(once, once), size), once, m.sub(once, size))
    value = m.choose(m.less(size, m.add(rest, rest)), twice, rest)
    return m.mul(value, m.copysign(m.number(1.0), x))


def rcbrt(m: Arithmetic[V], x: V) -> V:
    """1 / cbrt(x)."""
    return m.div(m.number(1.0), m.cbrt(x))


EXP10_END = {24: 50.0, 53: 400.0}
"""From here on powers of ten are infinite, and 0 below its opposite."""


def exp10(m: Arithmetic[V], x: V) -> V:
    """2^(x log2(10)): what the rounded product leaves out is added at the end."""
    end = EXP10_END[m.digits]
    x = m.neg(m.at_most(m.neg(m.at_most(x, end)), end))
    high, low = (m.number(part) for part in coefficients.LOG2_10[m.digits])
    h = m.mul(x, high)
    rest = m.fma(x, low, m.fused(x, high, m.neg(h)))
    value = m.exp2(h)
    return m.choose(m.less(value, m.number(math.inf)), m.fma(value, m.mul(rest, m.number(math.log(2))), value), value)


def _quarters(m: Arithmetic[V], x: V) -> tuple[V, V, V, V]:
    """(sin(pi r), cos(pi r), is n odd?, is n // 2 odd?) of |x| = n / 2 + r, |r| <= 1/4. Of infinity they are NaN."""
    size = m.abs(x)
    z = m.at_most(size, 2.0 ** m.digits)  # an even number, as all that are larger
    z = m.choose(m.equal(size, m.number(math.inf)), m.number(math.nan), z)
    half = m.number(0.5)
    n = m.round(m.add(z, z))
    r = m.fused(n, m.number(-0.5), z)
    square = m.mul(r, r)
    high, low = (m.number(part) for part in coefficients.PI[m.digits])
    sine = m.fma(r, high, m.mul(r, m.fma(square, m.polynomial(square, coefficients.SINPI[m.digits]), low)))
    cosine = m.fma(square, m.polynomial(square, coefficients.COSPI[m.digits]), m.number(1.0))
    pairs = m.mul(n, half)
    whole = m.trunc(pairs)
    turns = m.mul(whole, half)
    return sine, cosine, m.less(whole, pairs), m.less(m.trunc(turns), turns)


def _unsigned_zero(m: Arithmetic[V], a: V) -> V:
    zero = m.number(0.0)
    return m.choose(m.equal(a, zero), zero, a)


def sinpi(m: Arithmetic[V], x: V) -> V:
    """sin(pi x); 0 of whole numbers, with their sign."""
    sine, cosine, odd, back = _quarters(m, x)
    value = m.choose(odd, cosine, sine)
    value = _unsigned_zero(m, m.choose(back, m.neg(value), value))
    return m.mul(value, m.copysign(m.number(1.0), x))


def cospi(m: Arithmetic[V], x: V) -> V:
    """cos(pi x); 0 in the middle between whole numbers."""
    sine, cosine, odd, back = _quarters(m, x)
    value = m.choose(odd, m.neg(sine), cosine)
    return _unsigned_zero(m, m.choose(back, m.neg(value), value))
