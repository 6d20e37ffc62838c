"""Exponentials, logarithms, tanh, sigmoid and erf without branches, so that vectors stay vectors.

The polynomials are minimax fits (Remez exchange on the functions named beside them, weighted by the relative error of the
result). Errors measured by the tests: at most 3 units in the last place of f32, 4 of f64. Nothing here carries fast-math flags:
the splitting of constants into high and low parts relies on the order of operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polytc.codegen.llvm import ir
from polytc.lang.scalars import F32, F64, DType


@dataclass(frozen=True)
class Format:
    """Of a float type. mantissa, bias: of its encoding. exp: (e^r - 1 - r) / r^2 on |r| <= ln(2)/2.
    log: (2 atanh(s) - 2 s) / s^3 in powers of s^2 on |s| <= 0.172. low, high: beyond them e^x is 0 and infinite.
    ln2: ln(2) in two parts, the first with trailing zeros so that its products with exponents are exact."""

    integer: str
    mantissa: int
    bias: int
    exp: tuple[float, ...]
    log: tuple[float, ...]
    low: float
    high: float
    ln2: tuple[float, float]
    saturated: float


_F32 = Format(
    "i32", 23, 127,
    (0.499999981, 0.166665427, 0.0416672039, 0.00836664677, 0.00138824958),
    (0.666667817, 0.39975591, 0.299394689),
    -104.0, 89.0, (0.693145751953125, 1.42860682030941723212e-6), 10.0)
_F64 = Format(
    "i64", 52, 1023,
    (0.500000000000000528, 0.166666666666665878, 0.041666666666575388, 0.00833333333339041696, 0.00138888889320513953,
     0.00019841269717595548, 0.0000248015046507632555, 2.75574082252417983e-6, 2.76262986476670529e-7, 2.50537785004683555e-8),
    (0.666666666666666631, 0.400000000000051267, 0.285714285692423469, 0.2222222264455618, 0.181817746241750408,
     0.1538717507217145, 0.132475742465650382, 0.132787888808548598),
    -746.0, 710.0, (0.693147180369123816490, 1.90821492927058770002e-10), 22.0)
FORMATS = {F32: _F32, F64: _F64}

ERF_NEAR = (0.128379167, -0.376126258, 0.112835851, -0.026853812, 0.00518832773, -0.000801019401, 7.85386265e-5)
"""erf(x) / x - 1 in powers of x^2 on |x| <= 1."""

ERF_FAR = (-0.000227064501, -1.12784236, -0.636239223, -0.105589283, 0.0236651947, -0.00371432933, 0.000357215349,
           -1.56624529e-5)
"""ln(1 - erf(x)) in powers of x on 1 <= x <= 4."""


def has(name: str, dtype: DType) -> bool:
    """Whether the function is here for this type."""
    return dtype in FORMATS and name in _FUNCTIONS and (name != "erf" or dtype == F32)


def emit(fn: ir.Function, name: str, args: Sequence[ir.Value], dtype: DType) -> ir.Value:
    """The value of a function that `has`."""
    return _FUNCTIONS[name](Math(fn, FORMATS[dtype], args[0].type), args[0])


@dataclass
class Math:
    """Floating point on values of one type."""

    fn: ir.Function
    format: Format
    type: str

    @property
    def integer(self) -> str:
        return ir.vector(self.format.integer, ir.lanes_of(self.type))

    def number(self, x: float) -> ir.Value:
        return ir.constant(x, self.type)

    def whole(self, x: int) -> ir.Value:
        return ir.constant(x, self.integer)

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.binary("fadd", a, b)

    def sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.binary("fsub", a, b)

    def mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.binary("fmul", a, b)

    def div(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.binary("fdiv", a, b)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a*b + c, in one rounding where that is cheap."""
        return self.fn.intrinsic("fmuladd", (a, b, c))

    def neg(self, a: ir.Value) -> ir.Value:
        return self.fn.emit(self.type, f"fneg {a}")

    def abs(self, a: ir.Value) -> ir.Value:
        return self.fn.intrinsic("fabs", (a,))

    def polynomial(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """Horner's rule, coefficients from the constant up."""
        result = self.number(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.number(c))
        return result

    def limit(self, a: ir.Value, low: float, high: float) -> ir.Value:
        """a between two numbers; NaN stays NaN."""
        top = self.number(high)
        a = self.fn.choose(self.fn.compare("fcmp olt", top, a), top, a)
        bottom = self.number(low)
        return self.fn.choose(self.fn.compare("fcmp ogt", bottom, a), bottom, a)

    def bits(self, a: ir.Value) -> ir.Value:
        return self.fn.emit(self.integer, f"bitcast {a} to {self.integer}")

    def from_bits(self, a: ir.Value) -> ir.Value:
        return self.fn.emit(self.type, f"bitcast {a} to {self.type}")

    def nearest(self, a: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The nearest whole number as a float and as an integer, for moderate a: a sum that leaves no bits for a fraction."""
        magic = self.number(1.5 * 2.0**self.format.mantissa)
        shifted = self.add(a, magic)
        return self.sub(shifted, magic), self.fn.binary("sub", self.bits(shifted), self.bits(magic))

    def power_of_two(self, n: ir.Value) -> ir.Value:
        """2**n for an integer n of a normal number."""
        biased = self.fn.binary("add", n, self.whole(self.format.bias))
        return self.from_bits(self.fn.binary("shl", biased, self.whole(self.format.mantissa)))

    def scale(self, a: ir.Value, n: ir.Value) -> ir.Value:
        """a * 2**n, in two steps so that results may be subnormal or overflow."""
        half = self.fn.binary("ashr", n, self.whole(1))
        return self.mul(self.mul(a, self.power_of_two(half)), self.power_of_two(self.fn.binary("sub", n, half)))

    def expm1_reduced(self, r: ir.Value) -> ir.Value:
        """e^r - 1 for |r| <= ln(2)/2."""
        return self.fma(self.mul(r, r), self.polynomial(r, self.format.exp), r)

    def reduce(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """x = n ln(2) + r: (r, n)."""
        whole, n = self.nearest(self.mul(x, self.number(1 / math.log(2))))
        high, low = (self.number(-c) for c in self.format.ln2)
        return self.fma(whole, low, self.fma(whole, high, x)), n


def _exp(m: Math, x: ir.Value) -> ir.Value:
    r, n = m.reduce(m.limit(x, m.format.low, m.format.high))
    return m.scale(m.add(m.expm1_reduced(r), m.number(1.0)), n)


def _exp2(m: Math, x: ir.Value) -> ir.Value:
    x = m.limit(x, -(m.format.bias + m.format.mantissa + 2.0), m.format.bias + 2.0)
    whole, n = m.nearest(x)
    fraction = m.sub(x, whole)
    # fraction * ln 2 in two parts, the second added behind the series.
    r = m.mul(fraction, m.number(math.log(2)))
    return m.scale(m.add(m.expm1_reduced(r), m.number(1.0)), n)


def _expm1(m: Math, x: ir.Value) -> ir.Value:
    """2 (s (e^r - 1) + (s - 1/2)) with s = 2^(n-1); far below 0 it is -1."""
    r, n = m.reduce(m.limit(x, -45.0, m.format.high))
    s = m.power_of_two(m.fn.binary("sub", n, m.whole(1)))
    value = m.fma(m.expm1_reduced(r), s, m.sub(s, m.number(0.5)))
    doubled = m.add(value, value)
    small = m.fn.compare("fcmp olt", m.abs(x), m.number(2.0**-m.format.mantissa))
    return m.fn.choose(small, x, doubled)  # keeps -0


def _split(m: Math, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2): (e, f). x is positive; subnormal numbers are scaled first."""
    f = m.format
    tiny = m.fn.compare("fcmp olt", x, m.number(2.0 ** (1 - f.bias)))
    bits = m.bits(m.fn.choose(tiny, m.mul(x, m.number(2.0**f.mantissa)), x))
    root = int(math.sqrt(0.5) * 2.0 ** (f.mantissa + 1)) & ((1 << f.mantissa) - 1) | (f.bias - 1) << f.mantissa
    above = m.fn.binary("sub", bits, m.whole(root))
    e = m.fn.binary("ashr", above, m.whole(f.mantissa))
    mantissa = m.fn.binary("add", m.fn.binary("and", above, m.whole((1 << f.mantissa) - 1)), m.whole(root))
    e = m.fn.choose(tiny, m.fn.binary("sub", e, m.whole(f.mantissa)), e)
    return m.fn.convert("sitofp", e, ir.element(m.type)), m.sub(m.from_bits(mantissa), m.number(1.0))


def _log1p_reduced(m: Math, f: ir.Value) -> tuple[ir.Value, ir.Value]:
    """ln(1 + f) = f - c: (f, c), with s = f / (2 + f) and c = s (f - s^2 (2 atanh(s) - 2 s) / s^3)."""
    s = m.div(f, m.add(f, m.number(2.0)))
    z = m.mul(s, s)
    return f, m.mul(s, m.sub(f, m.mul(z, m.polynomial(z, m.format.log))))


def _edges(m: Math, x: ir.Value, value: ir.Value) -> ir.Value:
    """The logarithm of 0 is -infinity, of infinity infinity, of NaN and negative numbers NaN."""
    infinity = m.number(math.inf)
    value = m.fn.choose(m.fn.compare("fcmp ueq", x, infinity), x, value)
    value = m.fn.choose(m.fn.compare("fcmp olt", x, m.number(0.0)), m.number(math.nan), value)
    return m.fn.choose(m.fn.compare("fcmp oeq", x, m.number(0.0)), m.number(-math.inf), value)


def _log(m: Math, x: ir.Value) -> ir.Value:
    e, f = _split(m, x)
    f, c = _log1p_reduced(m, f)
    high, low = (m.number(part) for part in m.format.ln2)
    small = m.fma(e, low, m.neg(c))
    return _edges(m, x, m.fma(e, high, m.add(f, small)))


def _scaled_log(scale: float, power: float) -> Callable[[Math, ir.Value], ir.Value]:
    """scale * ln(x) = power * e + scale * ln(1 + f)."""
    def emit_log(m: Math, x: ir.Value) -> ir.Value:
        e, f = _split(m, x)
        f, c = _log1p_reduced(m, f)
        value = m.mul(m.sub(f, c), m.number(scale))
        return _edges(m, x, m.fma(e, m.number(power), value))
    return emit_log


def _log1p(m: Math, x: ir.Value) -> ir.Value:
    """ln(u) + (x - (u - 1)) / u for the rounded sum u = 1 + x."""
    one = m.number(1.0)
    u = m.add(one, x)
    rest = m.sub(x, m.sub(u, one))
    usable = m.fn.compare("fcmp one", rest, m.number(0.0))
    finite = m.fn.compare("fcmp olt", x, m.number(math.inf))
    usable = m.fn.binary("and", usable, finite)
    corrected = m.add(_log(m, u), m.div(rest, u))
    value = m.fn.choose(usable, corrected, _log(m, u))
    small = m.fn.compare("fcmp olt", m.abs(x), m.number(2.0 ** -(m.format.mantissa + 1)))
    return m.fn.choose(small, x, value)


def _tanh(m: Math, x: ir.Value) -> ir.Value:
    """t / (t + 2) with t = e^(2|x|) - 1, which is 1 for large x."""
    size = m.limit(m.abs(x), 0.0, m.format.saturated)
    t = _expm1(m, m.add(size, size))
    return m.fn.intrinsic("copysign", (m.div(t, m.add(t, m.number(2.0))), x))


def _sigmoid(m: Math, x: ir.Value) -> ir.Value:
    one = m.number(1.0)
    return m.div(one, m.add(one, _exp(m, m.neg(x))))


def _erf(m: Math, x: ir.Value) -> ir.Value:
    """A series near 0; 1 - e^(polynomial) far from it."""
    size = m.abs(x)
    near = m.fma(x, m.polynomial(m.mul(x, x), ERF_NEAR), x)
    exponent = m.polynomial(m.limit(size, 0.0, 4.0), ERF_FAR)
    far = m.fn.intrinsic("copysign", (m.sub(m.number(1.0), _exp(m, exponent)), x))
    return m.fn.choose(m.fn.compare("fcmp olt", size, m.number(1.0)), near, far)


_FUNCTIONS: dict[str, Callable[[Math, ir.Value], ir.Value]] = {
    "exp": _exp, "exp2": _exp2, "expm1": _expm1, "log": _log, "log2": _scaled_log(1 / math.log(2), 1.0),
    "log10": _scaled_log(1 / math.log(10), math.log10(2)), "log1p": _log1p, "tanh": _tanh, "sigmoid": _sigmoid, "erf": _erf,
}
