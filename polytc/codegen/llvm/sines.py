"""Sine and cosine of f32, computed in f64 after a reduction by multiples of pi/2.

Right to the last place for arguments up to 10^9; a vector with a larger one, an infinity or NaN goes to the C library, lane by
lane.
"""

from __future__ import annotations

from collections.abc import Callable

from polytc.codegen.llvm import ir, memory
from polytc.codegen.llvm.vectormath import FORMATS, Math
from polytc.lang.scalars import F64

LIMIT = 1e9
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
"""pi/2 as the sum of two doubles."""

SINE = (-0.16666666644040354, 0.0083333293050932285, -0.00019839253543006821, 2.7172731621210556e-6)
"""(sin(r) - r) / r^3 in powers of r^2 on |r| <= pi/4; minimax."""

COSINE = (-0.49999999999635911, 0.041666666566506506, -0.0013888880954078009, 2.4798967826732135e-5, -2.717269367045458e-7)
"""(cos(r) - 1) / r^2, likewise."""


def emit(fn: ir.Function, name: str, x: ir.Value, library: Callable[[], ir.Value]) -> ir.Value:
    """'sin' or 'cos' of a float or a vector of floats. library: the same value, slowly, for any argument."""
    lanes = ir.lanes_of(x.type)
    small = fn.compare("fcmp olt", fn.intrinsic("fabs", (x,)), ir.constant(LIMIT, x.type))
    if lanes > 1:
        small = fn.call(f"llvm.vector.reduce.and.{ir.mangle(small.type)}", "i1", (small,))
    return memory.guarded(fn, small, lambda: _reduced(fn, x, 1 if name == "cos" else 0), library)


def _reduced(fn: ir.Function, x: ir.Value, shift: int) -> ir.Value:
    """sin(x + shift * pi/2)."""
    m = Math(fn, FORMATS[F64], ir.vector("double", ir.lanes_of(x.type)))
    wide = fn.convert("fpext", x, "double")
    whole, n = m.nearest(m.mul(wide, m.number(1 / HALF_PI[0])))
    high, low = (m.number(-part) for part in HALF_PI)
    r = m.fma(whole, low, m.fma(whole, high, wide))
    z = m.mul(r, r)
    sine = m.fma(m.mul(r, z), m.polynomial(z, SINE), r)
    cosine = m.fma(z, m.polynomial(z, COSINE), m.number(1.0))
    quadrant = fn.binary("add", n, m.whole(shift)) if shift else n
    odd = fn.compare("icmp ne", fn.binary("and", quadrant, m.whole(1)), m.whole(0))
    sign = fn.binary("shl", fn.binary("and", quadrant, m.whole(2)), m.whole(62))
    value = fn.binary("xor", m.bits(fn.choose(odd, cosine, sine)), sign)
    result = fn.convert("fptrunc", m.from_bits(value), "float")
    if shift:
        return result
    return fn.choose(fn.compare("fcmp oeq", x, ir.constant(0.0, x.type)), x, result)  # keeps -0
