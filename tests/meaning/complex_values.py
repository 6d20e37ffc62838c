"""Complex numbers: numpy's arithmetic, with a bound of the distance in the plane.

A product, a quotient and a function are inexact from the start, as their parts may be rounded in several ways; where a part is
infinite or NaN, nothing is known. What their operands' errors make of them is bounded to first order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.meaning import types, values
from tests.meaning.values import Bound, Value

PLACES = 8.0
"""Roundings of the size of a result that a quotient or a function may be off."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "conj": np.conj, "real": np.real, "imag": np.imag, "abs": np.abs, "angle": np.angle, "exp": np.exp, "sqrt": np.sqrt,
    "isnan": np.isnan, "isinf": np.isinf}
NAMES = frozenset(("conj", "real", "imag", "angle"))
"""Those that real numbers have not."""


def size(a: np.ndarray) -> np.ndarray:
    return np.abs(a.astype(np.complex128))


def _error(a: Value) -> Any:
    return 0.0 if a.error is None else a.error


def _bounded(v: np.ndarray, error: Any) -> Bound:
    return values.some(np.where(np.isfinite(v), np.broadcast_to(error, v.shape), np.inf))


def arithmetic(op: str, f: Callable[..., Any], a: Value, b: Value, to: str) -> Value:
    """`a op b` for two values of a complex type."""
    with np.errstate(all="ignore"):
        v = np.asarray(f(a.data, b.data)).astype(types.computed(to), copy=False)
        unit, own = float(np.finfo(v.dtype).eps), size(v)
        if op in "+-":
            error = _error(a) + _error(b)
            return Value(v, to, error=_bounded(v, error + unit * own * (error > 0)))
        if op == "*":
            error = size(a.data) * _error(b) + size(b.data) * _error(a) + _error(a) * _error(b) + 4 * unit * (
                size(a.data) * size(b.data))
        else:
            error = (_error(a) + own * _error(b)) / np.maximum(size(b.data) - _error(b), 0.0) + PLACES * unit * own
    return Value(v, to, error=_bounded(v, error))


def applied(fn: str, a: Value, to: str) -> Value:
    """A function of a value of a complex type."""
    with np.errstate(all="ignore"):
        v = np.asarray(FUNCTIONS[fn](a.data))
        if fn in ("isnan", "isinf"):
            return Value(v, "bool", error=values._unknown(a.error))
        if fn == "conj":
            return Value(v, to, error=a.error)
        part = types.part_of(to)
        if fn in ("real", "imag"):
            return Value(v, part, error=a.error)
        unit, error = float(np.finfo(v.dtype).eps), _error(a)
        apart = {"abs": lambda: error, "angle": lambda: error / np.maximum(size(a.data) - error, 0.0),
                 "exp": lambda: np.abs(v) * np.expm1(error), "sqrt": lambda: error / np.abs(v)}[fn]()
        split = (fn in ("angle", "sqrt")) & (a.data.real < 0) & (np.abs(a.data.imag) <= error) & (error > 0)
        known = np.where(split, np.inf, np.where(np.asarray(error) > 0, 2 * apart, 0.0)) + PLACES * unit * np.abs(v)
    return Value(v, part if fn in ("abs", "angle") else to, error=_bounded(v, known))


def of_real(fn: str, a: Value) -> tuple[str, Value | None]:
    """A function that only complex numbers have, of a real value: that itself, or 0; None where it is the angle."""
    if fn in ("conj", "real"):
        return a.type, a
    if fn == "imag":
        return a.type, Value(np.zeros_like(a.data), a.type, a.weak, None)
    return a.type, None
