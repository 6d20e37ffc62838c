"""The arithmetic of definitions in numpy, and what the reference and `interp` call: every function that numpy lacks."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from polytc.functions.table import DEFINITIONS


@dataclass(frozen=True)
class Numbers:
    """An Arithmetic of arrays of `dtype`, float32 or float64."""

    dtype: np.dtype

    @property
    def digits(self) -> int:
        return 24 if self.dtype.itemsize == 4 else 53

    def number(self, x: float) -> Any:
        return self.dtype.type(x)

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def sub(self, a: Any, b: Any) -> Any:
        return a - b

    def mul(self, a: Any, b: Any) -> Any:
        return a * b

    def div(self, a: Any, b: Any) -> Any:
        return a / b

    def neg(self, a: Any) -> Any:
        return -a

    def abs(self, a: Any) -> Any:
        return np.abs(a)

    def sqrt(self, a: Any) -> Any:
        return np.sqrt(a)

    def trunc(self, a: Any) -> Any:
        return np.trunc(a)

    def round(self, a: Any) -> Any:
        return np.rint(a)

    def copysign(self, size: Any, sign: Any) -> Any:
        return np.copysign(size, sign)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return a * b + c

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        """In f64 a*b as the sum of two numbers; exact for errors of products (T. J. Dekker, Numerische Mathematik 18, 1971)."""
        if self.digits == 24:
            return (np.multiply(a, b, dtype=np.float64) + c).astype(np.float32)
        product = a * b
        (p, q), (r, s) = _halves(a), _halves(b)
        error = ((p * r - product) + p * s + q * r) + q * s
        total = product + c
        behind = total - product
        exact = total + (((product - (total - behind)) + (c - behind)) + error)
        return np.where(np.isfinite(exact), exact, total)

    def polynomial(self, x: Any, coefficients: Sequence[float]) -> Any:
        total = self.number(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = total * x + self.number(c)
        return total

    def less(self, a: Any, b: Any) -> Any:
        return a < b

    def equal(self, a: Any, b: Any) -> Any:
        return a == b

    def both(self, a: Any, b: Any) -> Any:
        return a & b

    def choose(self, cond: Any, a: Any, b: Any) -> Any:
        return np.where(cond, a, b)

    def at_most(self, a: Any, high: float) -> Any:
        return np.where(a > high, self.number(high), a)

    def exp(self, a: Any) -> Any:
        return np.exp(a)

    def exp2(self, a: Any) -> Any:
        return np.exp2(a)

    def log(self, a: Any) -> Any:
        return np.log(a)

    def cbrt(self, a: Any) -> Any:
        return np.cbrt(a)

    def pow(self, a: Any, b: Any) -> Any:
        return np.power(a, b)

    def fmod(self, a: Any, b: Any) -> Any:
        return np.fmod(a, b)


def _halves(a: Any) -> tuple[Any, Any]:
    """A sum of two numbers of 26 bits."""
    shifted = a * 134217729.0
    high = shifted - (shifted - a)
    return high, a - high


def _floats(args: Sequence[Any]) -> tuple[list[np.ndarray], np.dtype]:
    """Arrays of the type that is computed with, and the type of the result: halves are computed in f32."""
    common = np.result_type(*args)
    if common.kind != "f" and common.name != "bfloat16":
        common = np.dtype(np.float64)
    wide = common if common.itemsize >= 4 else np.dtype(np.float32)
    return [np.asarray(a).astype(wide) for a in args], common


def _defined(name: str, *args: Any) -> Any:
    """A function of DEFINITIONS."""
    arrays, result = _floats(args)
    with np.errstate(all="ignore"):
        return np.asarray(DEFINITIONS[name](Numbers(arrays[0].dtype), *arrays)).astype(result)[()]


def nextafter(a: Any, b: Any) -> Any:
    """The next number from a towards b; of halves in f32."""
    arrays, result = _floats((a, b))
    return np.nextafter(*arrays).astype(result)[()]


def ldexp(a: Any, n: Any) -> Any:
    """a * 2^n, rounded once, for n cut off to a whole number; NaN for NaN."""
    arrays, result = _floats((a, n))
    powers = np.clip(np.nan_to_num(arrays[1]), -9999, 9999).astype(np.int32)
    return np.where(np.isnan(arrays[1]), np.nan, np.ldexp(arrays[0], powers)).astype(result)[()]


def logb(a: Any) -> Any:
    """The exponent e of a = 2^e m, 1 <= m < 2; -inf of 0."""
    arrays, result = _floats((a,))
    exponent = (np.frexp(arrays[0])[1] - 1).astype(arrays[0].dtype)
    special = np.where(arrays[0] == 0, -np.inf, np.abs(arrays[0]))
    return np.where(np.isfinite(arrays[0]) & (arrays[0] != 0), exponent, special).astype(result)[()]


def fma(a: Any, b: Any, c: Any) -> Any:
    """a*b + c with one rounding."""
    dtype = np.asarray(a).dtype
    if dtype.itemsize < 8:
        return np.asarray(_odd_sum(np.multiply(a, b, dtype=np.float64), np.asarray(c, np.float64))).astype(dtype)[()]
    return np.vectorize(_fma64, otypes=[np.float64])(a, b, c)[()]


def _odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b; of the two numbers around a sum that f64 does not hold the odd one, which rounds to a narrower type as the sum."""
    total = np.asarray(a + b)
    behind = total - a
    rest = (a - (total - behind)) + (b - behind)
    odd = np.isfinite(total) & (rest != 0) & (total.view(np.int64) & 1 == 0)
    return np.where(odd, np.nextafter(total, np.copysign(np.inf, rest)), total)


def _fma64(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else a * b + c
    except OverflowError:
        return math.copysign(math.inf, exact)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: functools.partial(_defined, name) for name in DEFINITIONS},
    "nextafter": nextafter, "ldexp": ldexp, "logb": logb, "fma": fma,
}
"""name -> function of numbers or arrays of one type; the result has that type."""
