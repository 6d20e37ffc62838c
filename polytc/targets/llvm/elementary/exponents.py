"""Functions that take floats apart: exponents, powers of two, neighbours."""

from __future__ import annotations

import math

from polytc.targets.llvm import ir
from polytc.targets.llvm.elementary.floats import Floats


def _split(m: Floats, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(e as an integer, f) of a finite size = 2^e f > 0, 1 <= f < 2; subnormal numbers are scaled first."""
    f = m.format
    tiny = m.less(size, m.number(2.0 ** (1 - f.bias)))
    bits = m.bits(m.choose(tiny, m.mul(size, m.number(2.0**f.mantissa)), size))
    biased = m.fn.binary("lshr", bits, m.whole(f.mantissa))
    e = m.fn.binary("sub", biased, m.choose(tiny, m.whole(f.bias + f.mantissa), m.whole(f.bias)))
    digits = m.fn.binary("and", bits, m.whole((1 << f.mantissa) - 1))
    return e, m.from_bits(m.fn.binary("or", digits, m.bits(m.number(1.0))))


def _between(m: Floats, n: ir.Value, low: int, high: int) -> ir.Value:
    """An integer, no less and no more than two numbers."""
    n = m.choose(m.fn.compare("icmp sgt", n, m.whole(high)), m.whole(high), n)
    return m.choose(m.fn.compare("icmp slt", n, m.whole(low)), m.whole(low), n)


def logb(m: Floats, x: ir.Value) -> ir.Value:
    """e of |x| = 2^e f, 1 <= f < 2; -infinity of 0."""
    size = m.abs(x)
    value = m.fn.convert("sitofp", _split(m, size)[0], ir.element(m.type))
    value = m.choose(m.less(size, m.number(math.inf)), value, size)
    return m.choose(m.equal(size, m.number(0.0)), m.number(-math.inf), value)


def ldexp(m: Floats, x: ir.Value, n: ir.Value) -> ir.Value:
    """x 2^n for n cut off to a whole number: f 2^(e + n) as (f 2^a) 2^b, of which the first product is exact."""
    size, zero, infinity = m.abs(x), m.number(0.0), m.number(math.inf)
    far = 4 * m.format.bias
    power = m.choose(m.equal(n, n), m.limit(n, -far, far), zero)
    e, f = _split(m, size)
    total = m.fn.binary("add", e, m.fn.convert("fptosi", power, m.format.integer))
    total = _between(m, total, -m.format.bias - m.format.mantissa - 2, m.format.bias + 1)
    second = m.fn.binary("ashr", total, m.whole(1))
    bias = m.whole(m.format.bias)
    a, b = (m.exponent_bits(m.fn.binary("add", part, bias)) for part in (m.fn.binary("sub", total, second), second))
    value = m.copysign(m.mul(m.mul(f, a), b), x)
    usual = m.both(m.less(zero, size), m.less(size, infinity))
    return m.choose(m.equal(n, n), m.choose(usual, value, x), n)


def nextafter(m: Floats, x: ir.Value, y: ir.Value) -> ir.Value:
    """The next number from x towards y: one more or less in the bits, which grow with the distance from 0; y where both are
    equal."""
    zero, one = m.number(0.0), m.whole(1)
    bits = m.bits(x)
    outwards = m.fn.compare("icmp eq", m.less(x, y), m.less(zero, x))
    moved = m.from_bits(m.choose(outwards, m.fn.binary("add", bits, one), m.fn.binary("sub", bits, one)))
    moved = m.choose(m.equal(x, zero), m.copysign(m.from_bits(one), y), moved)
    moved = m.choose(m.equal(x, y), y, moved)
    return m.choose(m.both(m.equal(x, x), m.equal(y, y)), moved, m.add(x, y))
