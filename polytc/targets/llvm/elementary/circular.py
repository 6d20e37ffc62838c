"""Circular functions and their inverses.

Arguments are reduced by multiples of pi, or of pi/2 for tan, in three parts (W. J. Cody, W. Waite, Software Manual for the
Elementary Functions, 1980). What is beyond FAST goes another way: f32 through f64, and from there, element by element, to the C
library.
"""

from __future__ import annotations

import math

from polytc.program.scalars import F32, F64
from polytc.targets.llvm import ir
from polytc.targets.llvm.elementary import coefficients
from polytc.targets.llvm.elementary.floats import Floats

FAST = {F32: 2.0**15, F64: 2.0**30}
"""Arguments up to here are reduced in their own format: the multiple of pi is right, and three parts of it leave no more than
the last place. A vector with a larger one goes the slow way."""


def reduced(m: Floats, x: ir.Value, period: tuple[float, ...], shift: float = 0.0) -> tuple[ir.Value, ir.Value]:
    """(r, n as the last bits of an integer) of x = (n + shift) * period + r, |r| <= period/2. Exact products make the first
    difference exact."""
    magic = m.magic()
    inverse = m.number(1 / sum(period))
    shifted = m.add(m.fma(x, inverse, m.number(-shift)) if shift else m.mul(x, inverse), magic)
    multiple = m.sub(shifted, magic)
    if shift:
        multiple = m.add(multiple, m.number(shift))
    r = x
    for part in period:
        r = m.fused(multiple, m.number(-part), r)
    return r, m.bits(shifted)


def _sine(m: Floats, r: ir.Value, n: ir.Value) -> ir.Value:
    """(-1)^n sin(r) for |r| <= pi/2."""
    sign = m.fn.binary("shl", n, m.whole(m.dtype.bits - 1))
    signed = m.from_bits(m.fn.binary("xor", m.bits(r), sign))
    size = m.odd(m.abs(r), m.mul(r, r), coefficients.SIN[m.dtype])
    return m.copysign(m.at_most(size, 1.0), signed)  # also of 0


def sin(m: Floats, x: ir.Value) -> ir.Value:
    """(-1)^n sin(r) with x = n pi + r."""
    return _sine(m, *reduced(m, x, coefficients.PI[m.dtype]))


def cos(m: Floats, x: ir.Value) -> ir.Value:
    """(-1)^(n+1) sin(r) with x = (n + 1/2) pi + r."""
    r, n = reduced(m, x, coefficients.PI[m.dtype], 0.5)
    return _sine(m, m.neg(r), n)


def tan(m: Floats, x: ir.Value) -> ir.Value:
    """sin(r) / cos(r), or -cos(r) / sin(r) for odd n, with x = n pi/2 + r."""
    r, n = reduced(m, x, coefficients.HALF_PI[m.dtype])
    z = m.mul(r, r)
    sine = m.copysign(m.odd(r, z, coefficients.SIN[m.dtype]), r)
    cosine = m.fma(z, m.polynomial(z, coefficients.COS[m.dtype]), m.number(1.0))
    odd = m.fn.compare("icmp ne", m.fn.binary("and", n, m.whole(1)), m.whole(0))
    return m.div(m.choose(odd, m.neg(cosine), sine), m.choose(odd, sine, cosine))


def near(m: Floats, x: ir.Value) -> ir.Value:
    """Which elements are within FAST."""
    return m.less(m.abs(x), m.number(FAST[m.dtype]))


def _arcsine(m: Floats, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(a, large) for 0 <= size <= 1: asin(size) = a, or pi/2 - 2a where it is large, that is above 1/2."""
    half = m.number(0.5)
    large = m.less(half, size)
    z = m.choose(large, m.fma(size, m.number(-0.5), half), m.mul(size, size))
    return m.odd(m.choose(large, m.sqrt(z), size), z, coefficients.ASIN[m.dtype]), large


def asin(m: Floats, x: ir.Value) -> ir.Value:
    a, large = _arcsine(m, m.abs(x))
    high, low = (m.number(part) for part in coefficients.HALF_PI[m.dtype][:2])
    far = m.add(high, m.fma(a, m.number(-2.0), low))
    return m.copysign(m.choose(large, far, a), x)


def acos(m: Floats, x: ir.Value) -> ir.Value:
    """2a or pi - 2a far from 0; pi/2 - asin(x) near it."""
    a, large = _arcsine(m, m.abs(x))
    (half_high, half_low), (high, low) = ([m.number(part) for part in table[m.dtype][:2]]
                                          for table in (coefficients.HALF_PI, coefficients.PI))
    twice = m.add(a, a)
    negative = m.less(x, m.number(0.0))
    far = m.choose(negative, m.add(high, m.sub(low, twice)), twice)
    return m.choose(large, far, m.add(half_high, m.sub(half_low, m.copysign(a, x))))


def _arctangent(m: Floats, y: ir.Value, x: ir.Value) -> ir.Value:
    """atan(y / x) for y, x >= 0: swapped if that is above 1, and by (y - x) / (y + x) if it is above tan(pi/8)."""
    swap = m.less(x, y)
    top, bottom = m.choose(swap, x, y), m.choose(swap, y, x)
    middle = m.less(m.mul(bottom, m.number(math.tan(math.pi / 8))), top)
    quotient = m.div(m.choose(middle, m.sub(top, bottom), top), m.choose(middle, m.add(top, bottom), bottom))
    a = m.odd(quotient, m.mul(quotient, quotient), coefficients.ATAN[m.dtype])
    high, low = (m.number(part) for part in coefficients.HALF_PI[m.dtype][:2])
    quarter, rest = (m.mul(part, m.number(0.5)) for part in (high, low))
    a = m.choose(middle, m.add(quarter, m.add(a, rest)), a)
    return m.choose(swap, m.add(high, m.sub(low, a)), a)


def atan(m: Floats, x: ir.Value) -> ir.Value:
    return m.copysign(_arctangent(m, m.abs(x), m.number(1.0)), x)


def atan2(m: Floats, y: ir.Value, x: ir.Value) -> ir.Value:
    """The angle of (x, y). Large arguments are scaled, so that their sum is finite; equal infinities count as 1."""
    above, beside = m.abs(y), m.abs(x)
    one, infinity = m.number(1.0), m.number(math.inf)
    huge = m.less(m.number(2.0 ** (m.format.bias - 1)), m.fn.intrinsic("maxnum", (above, beside)))
    factor = m.choose(huge, m.number(2.0**-4), one)
    infinite = m.both(m.equal(above, infinity), m.equal(beside, infinity))
    above, beside = (m.choose(infinite, one, m.mul(size, factor)) for size in (above, beside))
    nothing = m.both(m.equal(above, m.number(0.0)), m.equal(beside, m.number(0.0)))
    a = _arctangent(m, above, m.choose(nothing, one, beside))
    high, low = (m.number(part) for part in coefficients.PI[m.dtype][:2])
    left = m.fn.compare("icmp slt", m.bits(x), m.whole(0))
    return m.copysign(m.choose(left, m.add(high, m.sub(low, a)), a), y)
