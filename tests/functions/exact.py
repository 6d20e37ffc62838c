"""The functions of polytc.functions in 40 digits, by mpmath, and numbers to try them with."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np


def erfcinv(y: Any) -> Any:
    """By bisection of the logarithm of erfc, then Newton's steps."""
    y = mp.mpf(y)
    if y > 1:
        return -erfcinv(2 - y)
    if y > mp.mpf("0.05"):
        return mp.erfinv(1 - y)
    found = mp.sqrt(-mp.log(y))
    for _ in range(80):
        step = (mp.log(mp.erfc(found)) - mp.log(y)) * mp.erfc(found) * mp.exp(found**2) * mp.sqrt(mp.pi) / 2
        found += step
        if abs(step) < mp.mpf(10) ** -36 * abs(found):
            break
    return found


def erfinv(x: Any) -> Any:
    return mp.mpf(0) if x == 0 else mp.sign(x) * erfcinv(1 - abs(mp.mpf(x)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "erfc": mp.erfc, "erfcx": lambda x: mp.exp(x**2) * mp.erfc(x), "normcdf": lambda x: mp.erfc(-x / mp.sqrt(2)) / 2,
    "erfinv": erfinv, "erfcinv": erfcinv, "normcdfinv": lambda p: -mp.sqrt(2) * erfcinv(2 * p),
    "lgamma": lambda x: mp.log(abs(mp.gamma(x))), "tgamma": mp.gamma, "exp10": lambda x: mp.mpf(10) ** x,
    "sinpi": mp.sinpi, "cospi": mp.cospi, "rcbrt": lambda x: mp.sign(x) / mp.cbrt(abs(x)),
}
"""Of one number."""


def _hypot(x: float, y: float) -> float:
    return math.hypot(x, y)  # infinite where one is, whatever the other one is


def _guarded(f: Callable[..., float]) -> Callable[..., Any]:
    """For arrays; NaN where Python's math raises, and for NaN."""
    def one(*args: float) -> float:
        if f is not _hypot and any(a != a for a in args):
            return math.nan
        try:
            with mp.workdps(40):
                return float(f(*args))
        except (ValueError, ZeroDivisionError):
            return math.nan
        except OverflowError:
            return math.inf
    return np.vectorize(one, otypes=[np.float64])


def _in_digits(name: str, low: float, high: float, below: float, above: float) -> Callable[[float], float]:
    """A function of mpmath between two numbers, and what it is from them on."""
    return lambda x: below if x <= low else above if x >= high else FUNCTIONS[name](mp.mpf(x))


def _gamma(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else math.gamma(x)


def _ends(inverse: Callable[[Any], Any], low: float, high: float, at_low: float) -> Callable[[float], float]:
    return lambda x: at_low if x == low else -at_low if x == high else inverse(mp.mpf(x)) if low < x < high else math.nan


def _fma(a: float, b: float, c: float) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    found = Fraction(a) * Fraction(b) + Fraction(c)
    if abs(found) >= 2**1024 - 2**970:
        return math.copysign(math.inf, found)
    return float(found) if found else a * b + c


DOUBLE: dict[str, Callable[..., Any]] = {name: _guarded(f) for name, f in {
    "exp10": _in_digits("exp10", -400, 400, 0.0, math.inf),
    "rcbrt": lambda x: math.copysign(0.0, x) if math.isinf(x) else math.copysign(math.inf, x) if x == 0 else
    math.copysign(float(1 / mp.cbrt(abs(x))), x),
    "sinpi": lambda x: math.nan if math.isinf(x) else math.copysign(0.0, x) if x % 1 == 0 else mp.sinpi(x),
    "cospi": lambda x: math.nan if math.isinf(x) else 0.0 if x % 1 == 0.5 else mp.cospi(x),
    "erfc": math.erfc, "erfcx": _in_digits("erfcx", -40, math.inf, math.inf, 0.0),
    "normcdf": _in_digits("normcdf", -50, 50, 0.0, 1.0),
    "erfinv": _ends(erfinv, -1, 1, -math.inf), "erfcinv": _ends(erfcinv, 0, 2, math.inf),
    "normcdfinv": _ends(FUNCTIONS["normcdfinv"], 0, 1, -math.inf),
    "lgamma": lambda x: math.inf if x <= 0 and x == (x if math.isinf(x) else int(x)) else math.lgamma(x), "tgamma": _gamma,
    "logb": lambda x: -math.inf if x == 0 else math.inf if math.isinf(x) else math.frexp(x)[1] - 1,
    "hypot": _hypot, "fdim": lambda x, y: x - y if x > y else 0.0, "remainder": math.remainder, "nextafter": math.nextafter,
    "ldexp": lambda x, n: np.ldexp(x, int(max(-9999, min(9999, n)))), "fma": _fma,
}.items()}
"""name -> function of arrays of f64, by Python's math or mpmath, special values as C has them."""


def _powers(rng: np.random.Generator, low: float, high: float, count: int) -> np.ndarray:
    return np.exp2(rng.uniform(low, high, count))


def numbers(name: str, dtype: Any, count: int, seed: int = 0) -> np.ndarray:
    """Some of each range in which the function behaves differently; results are normal numbers."""
    rng, single = np.random.default_rng(seed), np.dtype(dtype) == np.float32
    digits = -23 if single else -52

    def even(low: float, high: float) -> np.ndarray:
        return rng.uniform(low, high, count)

    def powers(low: float, high: float) -> np.ndarray:
        return _powers(rng, low, high, count)
    parts = {
        "erfc": lambda: [even(-6, 6), even(0, 9 if single else 26), powers(-60, 0)],
        "erfcx": lambda: [even(-9 if single else -26, 10), powers(-60, 100), -powers(-60, 1)],
        "normcdf": lambda: [even(-12.9 if single else -37, 8), powers(-60, 0), -powers(-60, 0)],
        "erfinv": lambda: [even(-1, 1), 1 - powers(digits, 0), powers(-60, 0)],
        "erfcinv": lambda: [even(0, 2), powers(-120 if single else -1020, 0), 2 - powers(digits, 0), 1 - powers(-20, 0)],
        "normcdfinv": lambda: [even(0, 1), powers(-120 if single else -1020, -1), 1 - powers(digits, 0), 0.5 - powers(-20, -1)],
        "lgamma": lambda: [even(0, 12), powers(-60, 60), 1 + even(-0.01, 0.01), 2 + even(-0.01, 0.01), even(-0.5, 0)],
        "tgamma": lambda: [even(0, 34 if single else 171), even(0, 9), even(-30 if single else -160, 0), even(-5, 0),
                           powers(-60, 0)],
        "exp10": lambda: [even(-37 if single else -307, 38 if single else 308), even(-1, 1)],
        "rcbrt": lambda: [powers(-120, 120), -powers(-120, 120)],
    }.get(name, lambda: [even(-3, 3), even(-1000, 1000), powers(-60, 30)])()
    return np.concatenate(parts).astype(dtype)


def error(name: str, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The largest error in units of the last place, and where; of results that are normal numbers."""
    limits, worst = np.finfo(y.dtype), (0.0, 0.0)
    with mp.workdps(40):
        for a, b in zip(x, y, strict=True):
            exact = FUNCTIONS[name](mp.mpf(float(a)))
            if limits.tiny <= abs(exact) <= limits.max:
                unit = float(np.spacing(y.dtype.type(abs(float(exact)))))
                found = float("inf") if not np.isfinite(b) else float(abs(mp.mpf(float(b)) - exact) / mp.mpf(unit))
                worst = max(worst, (found, float(a)))
    return worst
