"""e^x and its kin: x = n ln(2) + r, and 2^n by the exponent's bits."""

from __future__ import annotations

import math

from polytc.targets.llvm import ir
from polytc.targets.llvm.elementary import coefficients
from polytc.targets.llvm.elementary.floats import Floats


def _reduce(m: Floats, x: ir.Value, offset: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """(r, n, n shifted as `magic` with this offset does it) of x = n ln(2) + r, |r| <= ln(2)/2."""
    magic = m.magic(offset)
    shifted = m.fma(x, m.number(1 / math.log(2)), magic)
    whole = m.sub(shifted, magic)
    high, low = (m.number(-part) for part in m.format.ln2)
    return m.fma(whole, low, m.fma(whole, high, x)), whole, shifted


def _exp_of_limited(m: Floats, x: ir.Value, times: int = 0, alive: ir.Value | None = None) -> ir.Value:
    """2^times e^x between the format's limits; 0 where it is not `alive`."""
    r, whole, shifted = _reduce(m, x, 2 * m.format.bias + times)
    one = m.number(1.0)
    value = m.fma(m.fma(m.polynomial(r, coefficients.EXP[m.dtype]), r, one), r, one)
    return m.scale(value, whole if not times else m.add(whole, m.number(float(times))), shifted, alive)


def exp(m: Floats, x: ir.Value) -> ir.Value:
    alive = m.fn.compare("fcmp uge", x, m.number(m.format.low))
    limited = m.at_most(x, m.format.high)
    return _exp_of_limited(m, limited if m.is_whole_avx512 else m.at_least(limited, m.format.low), alive=alive)


def exp2(m: Floats, x: ir.Value) -> ir.Value:
    f = m.format
    x = m.limit(x, -(f.bias + f.mantissa + 2.0), f.bias + 2.0)
    return exp2_of_sum(m, x, None)


def exp2_of_sum(m: Floats, x: ir.Value, rest: ir.Value | None) -> ir.Value:
    """2^(x + rest), for x between the limits of `exp2` and a rest that is much smaller."""
    magic = m.magic(2 * m.format.bias)
    shifted = m.add(x, magic)
    whole = m.sub(shifted, magic)
    fraction = m.sub(x, whole)
    if rest is not None:
        fraction = m.add(fraction, rest)
    return m.scale(m.fma(fraction, m.polynomial(fraction, coefficients.EXP2[m.dtype]), m.number(1.0)), whole, shifted)


def _expm1_reduced(m: Floats, r: ir.Value) -> ir.Value:
    """e^r - 1 for |r| <= ln(2)/2."""
    return m.fma(m.mul(r, r), m.polynomial(r, coefficients.EXP[m.dtype]), r)


def expm1(m: Floats, x: ir.Value) -> ir.Value:
    """2 (s (e^r - 1) + (s - 1/2)) with s = 2^(n-1); far below 0 it is -1."""
    # With this offset the last bits are the biased exponent of s.
    r, _, shifted = _reduce(m, m.limit(x, -45.0, m.format.high), m.format.bias - 1)
    s = m.exponent_bits(m.bits(shifted))
    value = m.fma(_expm1_reduced(m, r), s, m.sub(s, m.number(0.5)))
    small = m.less(m.abs(x), m.number(m.epsilon))
    return m.choose(small, x, m.add(value, value))  # keeps -0


def tanh(m: Floats, x: ir.Value) -> ir.Value:
    """t / (t + 2) with t = e^(2|x|) - 1, which is 1 from 22 on."""
    size = m.at_most(m.abs(x), 22.0)
    r, _, shifted = _reduce(m, m.add(size, size), m.format.bias)
    s = m.exponent_bits(m.bits(shifted))
    t = m.fma(_expm1_reduced(m, r), s, m.sub(s, m.number(1.0)))
    return m.copysign(m.div(t, m.add(t, m.number(2.0))), x)


def erf(m: Floats, x: ir.Value) -> ir.Value:
    """1 - 2^g with g = |x| P(|x|), as -(2^n (2^f - 1) + (2^n - 1)), g = n + f. P is a polynomial for log2(1 - erf(x)) / x."""
    size = m.at_most(m.abs(x), coefficients.ERF_LIMIT[m.dtype])
    g = m.mul(size, m.polynomial(size, coefficients.ERF[m.dtype]))
    magic = m.magic(m.format.bias)
    shifted = m.add(g, magic)
    f = m.sub(g, m.sub(shifted, magic))
    s = m.exponent_bits(m.bits(shifted))
    return m.copysign(m.fma(m.mul(f, m.polynomial(f, coefficients.EXP2[m.dtype])), s, m.sub(s, m.number(1.0))), x)


def sigmoid(m: Floats, x: ir.Value) -> ir.Value:
    """1 / (1 + e) or e / (1 + e) with e = e^-|x|: nothing overflows, and far below 0 it is e^x to the last place."""
    one = m.number(1.0)
    e = _exp_of_limited(m, m.at_least(m.neg(m.abs(x)), m.format.low))
    return m.div(m.choose(m.less(x, m.number(0.0)), e, one), m.add(one, e))


def _half_exp(m: Floats, size: ir.Value) -> ir.Value:
    """e^size / 2 for size >= 0; it overflows where sinh and cosh do."""
    return _exp_of_limited(m, m.at_most(size, m.format.high + 1), -1)


def sinh(m: Floats, x: ir.Value) -> ir.Value:
    """A series near 0, else h - 1/(4h) with h = e^|x| / 2."""
    size = m.abs(x)
    h = _half_exp(m, size)
    far = m.sub(h, m.div(m.number(0.25), h))
    near = m.odd(size, m.mul(size, size), coefficients.SINH[m.dtype])
    return m.copysign(m.choose(m.less(size, m.number(1.0)), near, far), x)


def cosh(m: Floats, x: ir.Value) -> ir.Value:
    h = _half_exp(m, m.abs(x))
    return m.add(h, m.div(m.number(0.25), h))
