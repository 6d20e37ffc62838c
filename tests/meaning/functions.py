"""The intrinsics: what they compute in f64, and what inexact arguments make of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.functions import exact
from tests.meaning import types, values
from tests.meaning.values import Value

PLACES = 8.0
"""Units of the last place that a function may be off on any target."""

_erf = np.vectorize(math.erf, otypes=[np.float64])

SMOOTH: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "rsqrt": lambda a: 1 / np.sqrt(a), "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf, "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "pow": np.power, **{n: exact.DOUBLE[n] for n in (
        "exp10", "rcbrt", "sinpi", "cospi", "erfc", "erfcx", "erfinv", "erfcinv", "normcdf", "normcdfinv", "lgamma", "tgamma",
        "hypot", "fma", "fdim")}}
EXACT: dict[str, Callable[..., Any]] = {
    "sqrt": np.sqrt, "fmod": np.fmod, "min": np.minimum, "max": np.maximum, "abs": np.abs, "sign": np.sign, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "clamp": lambda a, b, c: np.minimum(np.maximum(a, b), c),
    "copysign": np.copysign, "nextafter": np.nextafter, "remainder": exact.DOUBLE["remainder"], "logb": exact.DOUBLE["logb"],
    "ldexp": lambda a, n: np.where(np.isnan(n), n, np.ldexp(a, np.clip(np.nan_to_num(n), -9999, 9999).astype(np.int32)))}
PREDICATES = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit}
BROKEN = frozenset(("fmod", "remainder", "copysign", "nextafter", "ldexp", "logb"))
"""What an inexact argument makes of them is not known."""
NEEDS_FLOAT = frozenset({*SMOOTH, *BROKEN, "sqrt", *PREDICATES}) - {"pow", "fmod"}
NAMES = frozenset((*SMOOTH, *EXACT, *PREDICATES))
C_NAMES = {"fmax": "max", "fmin": "min", "fabs": "abs", "rint": "round", "nearbyint": "round", "scalbn": "ldexp"}

_STEPS = frozenset(("floor", "ceil", "trunc", "round", "sign"))

_FOLDED: dict[str, Callable[..., Any]] = {
    "exp": math.exp, "log": math.log, "log2": math.log2, "sqrt": math.sqrt, "min": min, "max": max, "abs": abs,
    "tanh": math.tanh, "pow": lambda a, b: a ** b, "clamp": lambda a, low, high: min(max(a, low), high)}


def applied(fn: str, args: list[Value], to: str) -> Value:
    """An intrinsic of arguments that have the type `to`."""
    data = [a.data for a in args]
    bounds = [a.error for a in args]
    with np.errstate(all="ignore"):
        if fn in PREDICATES:
            v = PREDICATES[fn](data[0])
            unknown = None if bounds[0] is None else values.some(np.where(np.isinf(bounds[0]), np.inf, 0.0))
            return Value(v, "bool", error=unknown)
        if not types.is_float(to):
            v = np.asarray((SMOOTH | EXACT)[fn](*data)).astype(types.computed(to), copy=False)
            return Value(v, to, error=values._unknown(*bounds))
        if fn in EXACT:
            return _exact(fn, args, to)
        wide = [d.astype(np.float64) for d in data]
        exact = np.asarray(SMOOTH[fn](*wide))
        v = exact.astype(types.computed(to))
        near = np.maximum(np.abs(v), 1 + np.abs(wide[0]) * np.log1p(np.abs(wide[0]))).astype(v.dtype) if fn == "lgamma" else v
        error = PLACES * np.maximum(values.spacing(near, v.dtype), np.finfo(v.dtype).tiny)
        error = np.where(np.isfinite(v), error, 0.0) + _reach(SMOOTH[fn], wide, bounds, exact)
        error = np.where(np.isnan(v) & (values.added(*bounds) is None), 0.0, error)
    return Value(v, to, error=values.some(error))


def _exact(fn: str, args: list[Value], to: str) -> Value:
    """Functions without a rounding, and sqrt."""
    data, bounds = [a.data for a in args], [a.error for a in args]
    v = np.asarray(EXACT[fn](*data)).astype(types.computed(to), copy=False)
    error = values.largest(*bounds)
    if error is None:
        return Value(v, to)
    if fn in BROKEN:
        return Value(v, to, error=values._unknown(*bounds))
    if fn in ("sqrt", *_STEPS):
        apart = _reach(EXACT[fn], [d.astype(np.float64) for d in data], bounds, v.astype(np.float64))
        return Value(v, to, error=values.some(apart) if fn in _STEPS else values.rounded(v, apart))
    return Value(v, to, error=values.some(np.broadcast_to(error, v.shape)))


def _reach(f: Callable[..., Any], args: list[np.ndarray], bounds: list[values.Bound], at: np.ndarray) -> Any:
    """The largest distance of f at the ends of the arguments' bounds, and half as much again."""
    if all(b is None for b in bounds):
        return np.zeros(())
    ends = [[a] if b is None else [a - b, a + b] for a, b in zip(args, bounds, strict=True)]
    far = [np.abs(f(*x) - at) for x in itertools.product(*ends)]
    return 1.5 * np.nan_to_num(np.maximum.reduce(np.broadcast_arrays(*far)), nan=np.inf, posinf=np.inf)


def folded(fn: str, args: list[values.Number], to: str) -> Value | None:
    """An intrinsic of numbers; None where it is left to run time."""
    if fn not in _FOLDED or any(a != a for a in args):
        return None
    try:
        found = _FOLDED[fn](*((float(a) for a in args) if types.is_float(to) else args))
    except (ArithmeticError, ValueError):
        return None
    return None if isinstance(found, complex) else values.constant(float(found) if types.is_float(to) else found)
