"""The complementary error function, scaled and as a normal distribution, and the inverses.

(z + 1/2) e^(z^2) erfc(z) is a polynomial in (z - 3) / (z + 3) for all z >= 0; e^-(z^2) takes the rounding of z^2 into account.
erfinv(x) is x times a polynomial in w = -ln(1 - x^2) near 0, else a function of sqrt(w); in f64 this is a first guess, which a
step of Halley's method makes exact (cubically: 2^-22 becomes 2^-62).
"""

from __future__ import annotations

import math

from polytc.functions import coefficients
from polytc.functions.arithmetic import Arithmetic, V

ZERO_FROM = {24: 11.0, 53: 28.0}
"""From here on erfc is 0."""
HUGE = 2.0**60
"""From here on erfcx(z) is 1 / (sqrt(pi) (z + 1/2)) to the last digit."""


def _scaled(m: Arithmetic[V], z: V) -> V:
    """erfcx(z) for z >= 0."""
    near = m.at_most(z, HUGE)
    centre = m.number(3.0)
    t = m.div(m.sub(near, centre), m.add(near, centre))
    return m.div(m.polynomial(t, coefficients.ERFCX[m.digits]), m.add(z, m.number(0.5)))


def _tail(m: Arithmetic[V], z: V, rest: V | None = None) -> V:
    """erfc(z + rest) for z >= 0 and a rest below its last place."""
    z = m.at_most(z, ZERO_FROM[m.digits])
    square = m.mul(z, z)
    low = m.fused(z, z, m.neg(square))
    if rest is not None:
        low = m.fma(m.add(z, z), rest, low)
    e = m.exp(m.neg(square))
    return m.mul(m.fma(e, m.neg(low), e), _scaled(m, z))


def _near(m: Arithmetic[V], x: V) -> V:
    """erf(x) / x for |x| < 1/2."""
    return m.polynomial(m.mul(x, x), coefficients.ERF_NEAR[m.digits])


def erfc(m: Arithmetic[V], x: V) -> V:
    """1 - erf(x), also where that is tiny."""
    z, zero = m.abs(x), m.number(0.0)
    far = _tail(m, z)
    far = m.choose(m.less(x, zero), m.sub(m.number(2.0), far), far)
    return m.choose(m.less(z, m.number(0.5)), m.fma(m.neg(x), _near(m, x), m.number(1.0)), far)


def erfcx(m: Arithmetic[V], x: V) -> V:
    """e^(x^2) erfc(x); below 0 it is 2 e^(x^2) - erfcx(-x)."""
    z = m.abs(x)
    near, square = _scaled(m, z), m.mul(z, z)
    e = m.exp(square)
    e = m.choose(m.less(e, m.number(math.inf)), m.fma(e, m.fused(z, z, m.neg(square)), e), e)
    far = m.choose(m.less(x, m.number(0.0)), m.sub(m.add(e, e), near), near)
    return m.choose(m.less(z, m.number(0.5)), m.mul(e, m.fma(m.neg(x), _near(m, x), m.number(1.0))), far)


def normcdf(m: Arithmetic[V], x: V) -> V:
    """The share of a normal distribution below x: erfc(-x / sqrt(2)) / 2."""
    size = m.at_most(m.abs(x), 2 * ZERO_FROM[m.digits])
    high, low = (m.number(part) for part in coefficients.HALF_ROOT[m.digits])
    z = m.mul(size, high)
    far = m.mul(m.number(0.5), _tail(m, z, m.fma(size, low, m.fused(size, high, m.neg(z)))))
    far = m.choose(m.less(m.number(0.0), x), m.sub(m.number(1.0), far), far)
    signed = m.mul(x, high)
    near = m.fma(m.mul(signed, m.number(0.5)), _near(m, signed), m.number(0.5))
    return m.choose(m.less(z, m.number(0.5)), near, far)


def _step(m: Arithmetic[V], guess: V, y: V) -> V:
    """Halley's step to erfc(g) = y: g + d / (1 - g d) with d = sqrt(pi) / 2 (erfcx(g) - y e^(g^2))."""
    half = m.exp(m.mul(m.number(0.5), m.mul(guess, guess)))  # e^(g^2) may overflow
    d = m.mul(m.number(math.sqrt(math.pi) / 2), m.sub(_scaled(m, guess), m.mul(m.mul(y, half), half)))
    return m.add(guess, m.div(d, m.sub(m.number(1.0), m.mul(guess, d))))


def _inverse(m: Arithmetic[V], x: V, y: V, product: V) -> V:
    """erfinv(x) for x >= 0, given 1 - x and 1 - x^2."""
    w = m.neg(m.log(product))
    near = m.mul(x, m.polynomial(m.sub(w, m.number(2.0)), coefficients.ERFINV[m.digits]))
    s, centre = m.sqrt(m.at_most(w, 800.0)), m.number(coefficients.INVERSE_CENTRE[m.digits])
    t = m.div(m.sub(s, centre), m.add(s, centre))
    far = m.mul(s, m.polynomial(t, coefficients.ERFINV_TAIL[m.digits]))
    if m.digits > 24:
        far = _step(m, far, y)
    far = m.choose(m.equal(y, m.number(0.0)), m.number(math.inf), far)
    return m.choose(m.less(w, m.number(4.0)), near, far)


def erfinv(m: Arithmetic[V], x: V) -> V:
    """The number whose erf is x; NaN beyond 1."""
    size, one = m.abs(x), m.number(1.0)
    y = m.sub(one, size)
    return m.copysign(_inverse(m, size, y, m.mul(y, m.add(one, size))), x)


def erfcinv(m: Arithmetic[V], x: V) -> V:
    """The number whose erfc is x, also where that is tiny; NaN outside of 0 to 2."""
    one, two = m.number(1.0), m.number(2.0)
    upper = m.less(one, x)
    y = m.choose(upper, m.sub(two, x), x)
    value = _inverse(m, m.sub(one, y), y, m.mul(y, m.sub(two, y)))
    return m.choose(upper, m.neg(value), value)


def normcdfinv(m: Arithmetic[V], x: V) -> V:
    """The quantile of a normal distribution: -sqrt(2) erfcinv(2 x)."""
    value = erfcinv(m, m.add(x, x))
    high, low = (m.number(-2 * part) for part in coefficients.HALF_ROOT[m.digits])
    scaled = m.add(m.fma(value, high, m.mul(value, low)), m.number(0.0))  # 0 of 1/2, not -0
    return m.choose(m.less(m.abs(value), m.number(math.inf)), scaled, m.neg(value))
