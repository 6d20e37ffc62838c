"""The gamma function and its logarithm.

Both are Stirling's formula with a correction from 4 (f32) or 8 (f64) on. Below, the argument is moved to where a polynomial
holds: ln(gamma(y)) = (y - 1) (y - 2) P(y), exact at its two zeros, and 1 / gamma(y), which has no poles. Below 0 the
reflection gamma(-z) = -pi / (z sin(pi z) gamma(z)) leads to positive arguments.
"""

from __future__ import annotations

import math

from polytc.functions import coefficients
from polytc.functions.arithmetic import Arithmetic, V
from polytc.functions.elementary import sinpi

SMALL, LARGE = 0.7, 2.25
"""The polynomial for the logarithm is for numbers between these."""
REFLECTED = -0.3
"""ln(gamma(x)) is reflected below, gamma(x) below -1/2."""
OVERFLOWS = {24: 60.0, 53: 250.0}
"""From here on gamma is infinite, and 1 / gamma 0."""


def _moved(m: Arithmetic[V], y: V, above: float, steps: int) -> tuple[V, V]:
    """(y - k, (y - 1) (y - 2) ... (y - k)) with the least k that makes it no more than `above`, if that takes no more than
    `steps`."""
    one = m.number(1.0)
    product, end = one, m.number(above)
    for _ in range(steps):
        far, below = m.less(end, y), m.sub(y, one)
        product = m.choose(far, m.mul(product, below), product)
        y = m.choose(far, below, y)
    return y, product


def lgamma(m: Arithmetic[V], x: V) -> V:
    """ln |gamma(x)|; infinite at 0, -1, -2 and so on."""
    z, one, infinity = m.abs(x), m.number(1.0), m.number(math.inf)
    reflected = m.less(x, m.number(REFLECTED))
    start = coefficients.STIRLING_FROM[m.digits]
    small, far = m.less(z, m.number(SMALL)), m.less(m.number(start), z)
    y, product = _moved(m, z, LARGE, math.ceil(start - LARGE))
    y = m.choose(small, m.add(one, m.choose(reflected, z, x)), y)
    log = m.log(m.choose(small, z, m.choose(far, z, product)))
    core = m.mul(m.mul(m.sub(y, one), m.sub(y, m.number(2.0))),
                 m.polynomial(m.sub(y, m.number(1.5)), coefficients.LGAMMA[m.digits]))
    near = m.choose(small, m.sub(core, log), m.add(core, log))
    inverse = m.div(one, z)
    rest = m.mul(inverse, m.polynomial(m.mul(inverse, inverse), coefficients.STIRLING[m.digits]))
    constant = m.number((math.log(2 * math.pi) - 1) / 2)
    large = m.fma(m.sub(z, m.number(0.5)), m.sub(log, one), m.add(constant, rest))
    value = m.choose(far, large, near)
    sine = m.abs(sinpi(m, z))
    below = m.sub(m.log(m.div(m.number(math.pi), m.mul(z, sine))), value)
    below = m.choose(m.equal(sine, m.number(0.0)), infinity, below)
    return m.choose(m.equal(z, infinity), infinity, m.choose(reflected, below, value))


def tgamma(m: Arithmetic[V], x: V) -> V:
    """gamma(x), (x - 1)! of whole numbers; NaN at -1, -2 and so on. Large ones are products of two factors, as the reflected
    may be numbers where gamma(-x) is infinite."""
    one, zero, size = m.number(1.0), m.number(0.0), m.abs(x)
    z = m.at_most(size, OVERFLOWS[m.digits])
    start = coefficients.STIRLING_FROM[m.digits]
    small, far = m.less(z, m.number(0.5)), m.less(m.number(start), z)
    y, product = _moved(m, z, 3.0, math.ceil(start - 3))
    y = m.choose(small, m.add(one, x), y)
    inverse = m.polynomial(m.sub(y, m.number(1.5)), coefficients.RGAMMA[m.digits])
    near = m.div(product, m.mul(inverse, m.choose(small, x, one)))
    root = m.pow(z, m.fma(z, m.number(0.5), m.number(-0.25)))
    large = m.mul(root, m.mul(m.exp(m.neg(z)), m.polynomial(m.div(one, z), coefficients.GAMMA[m.digits])))
    first, second = m.choose(far, root, one), m.choose(far, large, near)
    ratio = m.div(m.number(-math.pi), m.mul(size, sinpi(m, size)))
    below = m.div(m.div(ratio, first), second)
    negative = m.less(x, m.number(-0.5))
    whole = m.both(m.less(x, zero), m.equal(m.trunc(x), x))
    return m.choose(whole, m.number(math.nan), m.choose(negative, below, m.mul(first, second)))
