"""Logarithms and inverse hyperbolic functions: x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2)."""

from __future__ import annotations

import math

from polytc.program.scalars import F32
from polytc.targets.llvm import ir
from polytc.targets.llvm.elementary import coefficients
from polytc.targets.llvm.elementary.floats import Floats


def exponent(m: Floats, x: ir.Value) -> ir.Value:
    """e of a normal x, as an integer."""
    return m.fn.binary("ashr", m.fn.binary("sub", m.bits(x), _root(m)), m.whole(m.format.mantissa))


def _root(m: Floats) -> ir.Value:
    """The bits of sqrt(1/2), rounded down."""
    f = m.format
    return m.whole(_digits(m) & ((1 << f.mantissa) - 1) | (f.bias - 1) << f.mantissa)


def _digits(m: Floats) -> int:
    """The mantissa of sqrt(1/2), its first bit included."""
    return int(math.sqrt(0.5) * 2.0 ** (m.format.mantissa + 1))


def split(m: Floats, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(e as a float, f) of a normal x > 0."""
    e = exponent(m, x)
    mantissa = m.from_bits(m.fn.binary("sub", m.bits(x), m.fn.binary("shl", e, m.whole(m.format.mantissa))))
    return m.fn.convert("sitofp", e, ir.element(m.type)), m.sub(mantissa, m.number(1.0))


def split_any(m: Floats, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(e as a float, f) of x > 0; subnormal numbers are scaled first, or the processor takes them apart."""
    f, one = m.format, m.number(1.0)
    if m.is_whole_avx512:
        e, mantissa = m.take_apart(x)
        large = m.fn.compare("fcmp ole", m.number(_digits(m) * 2.0**-f.mantissa), mantissa)
        mantissa = m.choose(large, m.mul(mantissa, m.number(0.5)), mantissa)
        return m.choose(large, m.add(e, one), e), m.sub(mantissa, one)
    tiny = m.less(x, m.number(2.0 ** (1 - f.bias)))
    e, fraction = split(m, m.choose(tiny, m.mul(x, m.number(2.0**f.mantissa)), x))
    return m.choose(tiny, m.sub(e, m.number(float(f.mantissa))), e), fraction


def log1p_reduced(m: Floats, f: ir.Value) -> tuple[ir.Value, ir.Value]:
    """ln(1 + f) as f + c: (f, c). f32: c = f^3 P(f) - f^2 / 2. f64: with s = f / (2 + f), c = s (s^2 P(s^2) - f)."""
    if m.dtype == F32:
        square = m.mul(f, f)
        return f, m.mul(square, m.fma(f, m.polynomial(f, coefficients.LOG[m.dtype]), m.number(-0.5)))
    s = m.div(f, m.add(f, m.number(2.0)))
    z = m.mul(s, s)
    return f, m.mul(s, m.fma(z, m.polynomial(z, coefficients.LOG[m.dtype]), m.neg(f)))


def edges(m: Floats, x: ir.Value, value: ir.Value) -> ir.Value:
    """The logarithm of 0 is -infinity, of infinity infinity, of NaN and negative numbers NaN. `take_apart` has seen to that."""
    if m.is_whole_avx512:
        return value
    zero = m.number(0.0)
    other = m.choose(m.fn.compare("fcmp ueq", x, zero), m.number(-math.inf), m.number(math.nan))
    value = m.choose(m.less(x, m.number(math.inf)), value, x)
    return m.choose(m.fn.compare("fcmp ole", x, zero), other, value)


def _assemble(m: Floats, e: ir.Value, f: ir.Value) -> ir.Value:
    """e ln(2) + ln(1 + f)."""
    f, c = log1p_reduced(m, f)
    high, low = (m.number(part) for part in m.format.ln2)
    return m.fma(e, high, m.add(f, m.fma(e, low, c)))


def log(m: Floats, x: ir.Value) -> ir.Value:
    return edges(m, x, _assemble(m, *split_any(m, x)))


def _scaled(m: Floats, x: ir.Value, scale: float, power: float) -> ir.Value:
    """scale * ln(x) = power * e + scale * ln(1 + f)."""
    e, f = split_any(m, x)
    f, c = log1p_reduced(m, f)
    factor = m.number(scale)
    return edges(m, x, m.fma(e, m.number(power), m.fma(f, factor, m.mul(c, factor))))


def log2(m: Floats, x: ir.Value) -> ir.Value:
    return _scaled(m, x, 1 / math.log(2), 1.0)


def log10(m: Floats, x: ir.Value) -> ir.Value:
    return _scaled(m, x, 1 / math.log(10), math.log10(2))


def log1p(m: Floats, x: ir.Value) -> ir.Value:
    """With 1 + x = 2^e (1 + f), f comes from x itself: f = x 2^-e + (2^-e - 1), in one rounding."""
    one = m.number(1.0)
    size = m.at_least(x, -1.0)
    e = exponent(m, m.add(size, one))
    # 4 * 2^-e is a normal number for every e, 2^-e is not.
    factor = m.from_bits(m.fn.binary("sub", m.bits(m.number(4.0)), m.fn.binary("shl", e, m.whole(m.format.mantissa))))
    quarter = m.number(0.25)
    f = m.fused(m.mul(size, quarter), factor, m.fma(factor, quarter, m.number(-1.0)))
    value = _assemble(m, m.fn.convert("sitofp", e, ir.element(m.type)), f)
    value = m.choose(m.less(m.number(m.epsilon), m.abs(x)), value, x)  # keeps -0 and NaN
    value = m.choose(m.less(x, m.number(math.inf)), value, x)
    limit = m.choose(m.less(x, m.number(-1.0)), m.number(math.nan), m.number(-math.inf))
    return m.choose(m.fn.compare("fcmp ole", x, m.number(-1.0)), limit, value)


FAR = 2.0**30
"""From here on asinh(x) and acosh(x) are ln(2x)."""


def _log1p_or_double(m: Floats, size: ir.Value, near: ir.Value) -> ir.Value:
    """log1p(near), or ln(2 size) where size is far."""
    far = m.less(m.number(FAR), size)
    zero, ln2 = m.number(0.0), m.number(math.log(2))
    return m.add(log1p(m, m.choose(far, size, near)), m.choose(far, ln2, zero))


def asinh(m: Floats, x: ir.Value) -> ir.Value:
    """log1p(|x| + x^2 / (1 + sqrt(1 + x^2)))"""
    size, one = m.abs(x), m.number(1.0)
    a = m.at_most(size, FAR)
    square = m.mul(a, a)
    near = m.add(a, m.div(square, m.add(one, m.sqrt(m.add(one, square)))))
    return m.copysign(_log1p_or_double(m, size, near), x)


def acosh(m: Floats, x: ir.Value) -> ir.Value:
    """log1p(t + sqrt(t (t + 2))) with t = x - 1."""
    t = m.sub(m.at_most(x, FAR), m.number(1.0))
    near = m.add(t, m.sqrt(m.mul(t, m.add(t, m.number(2.0)))))
    value = _log1p_or_double(m, x, near)
    return m.choose(m.less(x, m.number(1.0)), m.number(math.nan), value)


def atanh(m: Floats, x: ir.Value) -> ir.Value:
    """log1p(2|x| / (1 - |x|)) / 2"""
    size = m.abs(x)
    ratio = m.div(m.add(size, size), m.sub(m.number(1.0), size))
    return m.copysign(m.mul(m.number(0.5), log1p(m, ratio)), x)
