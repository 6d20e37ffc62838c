"""Numbers of one type at many points, with a bound of how far what is licensed may be from them.

A value is what IEEE arithmetic in the types of the program gives, operation by operation as written. Its `error` is 0 (None)
unless something is licensed: the order of a sum, one rounding for a product and a sum, the last places of a function. What
follows from an inexact value is bounded to first order; what cannot be bounded has an infinite error, and counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.meaning import types

Number = int | float | bool | complex
Bound = np.ndarray | None


@dataclass(frozen=True)
class Value:
    """data: in the computed type. weak: made of numbers and indices alone. number: of a constant. error: see above; slack: the
    rounding of a product, which a sum may leave out."""

    data: np.ndarray
    type: str
    weak: bool = False
    number: Number | None = None
    error: Bound = None
    slack: Bound = None

    @property
    def kind(self) -> tuple[str, bool]:
        return self.type, self.weak


def constant(n: Number) -> Value:
    """A literal: conditions are strong, numbers are weak."""
    if isinstance(n, bool | np.bool_):
        return Value(np.asarray(bool(n)), "bool", number=bool(n))
    if isinstance(n, int):
        small = -2 ** 63 <= n < 2 ** 63
        return Value(np.asarray(n if small else 0, np.int64), "i64", True, n)
    if isinstance(n, complex):
        return Value(np.asarray(n, np.complex128), "c128", True, n)
    return Value(np.asarray(n, np.float64), "f64", True, n)


def largest(*bounds: Bound) -> Bound:
    known = [b for b in bounds if b is not None]
    return None if not known else known[0] if len(known) == 1 else np.maximum.reduce(np.broadcast_arrays(*known))


def added(*bounds: Bound) -> Bound:
    known = [b for b in bounds if b is not None]
    return None if not known else sum(known[1:], known[0])


def some(bound: Any) -> Bound:
    """None for no error anywhere; what is not a number has no bound."""
    bound = np.where(np.isnan(bound), np.inf, bound)
    return bound if bound.any() else None


def spacing(v: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The distance of the next number of the type."""
    with np.errstate(all="ignore"):
        parts = np.finfo(dtype).dtype if dtype.kind == "c" else dtype
        return np.nan_to_num(np.spacing(np.abs(v).astype(parts)).astype(np.float64), nan=0.0, posinf=0.0)


def rounded(v: np.ndarray, error: Bound) -> Bound:
    """The error of a result whose operands have that error: it may be rounded another way."""
    return None if error is None else some(error + spacing(v, v.dtype) * (error > 0))


def cast(a: Value, to: str) -> Value:
    """The value in another type."""
    if a.type == to:
        return replace(half(a), weak=False)
    dtype = types.computed(to)
    if types.UNKNOWN in (a.type, to):
        return Value(np.zeros(a.data.shape, dtype), to)
    error, v = a.error, a.data
    assert types.is_complex(to) or v.dtype.kind != "c", "no cast makes complex numbers real"
    if to in types.HALVES:
        return _halved(a, to)
    if v.dtype.kind == "f" and dtype.kind in "iu":
        whole = np.trunc(v)
        low, high = (-2.0 ** 63, 2.0 ** 63) if dtype.kind == "u" else (float(np.iinfo(dtype).min), np.iinfo(dtype).max + 1.0)
        if dtype.kind == "u":
            high = np.iinfo(dtype).max + 1.0
        held = (whole >= low) & (whole < high)
        if error is not None:
            held &= (np.trunc(v - error) == whole) & (np.trunc(v + error) == whole)
        safe = np.where(held, whole, 0)
        made = np.where(safe >= 2.0 ** 63, safe, 0).astype(np.uint64) + np.where(safe < 2.0 ** 63, safe, 0).astype(
            np.int64).astype(np.uint64) if dtype.kind == "u" else safe
        return Value(np.asarray(made).astype(dtype), to, error=some(np.where(held, 0.0, np.inf)))
    if dtype.kind == "b":
        sure = None if error is None else some(np.where((error > 0) & (np.abs(v.astype(np.float64)) <= error), np.inf, 0.0))
        return Value(v != 0, to, error=sure)
    made = v.astype(dtype)
    if dtype.kind in "fc" and error is not None:
        error = rounded(made, np.broadcast_to(error, made.shape))
    return Value(made, to, error=error, slack=a.slack if dtype.kind in "fc" and v.dtype.kind in "fc" else None)


def _halved(a: Value, to: str) -> Value:
    """Rounded to a half, kept in f32."""
    half = types.stored(to)
    with np.errstate(all="ignore"):
        made = a.data.astype(np.float32).astype(half).astype(np.float32) if a.data.dtype != np.float64 else \
            a.data.astype(half).astype(np.float32)
    inexact = a.data.dtype.kind == "f" and a.data.dtype == np.float64 and np.asarray(
        a.data.astype(np.float32).astype(half).astype(np.float32) != made)
    error = added(a.error, a.slack)
    if error is not None:
        error = error + half_spacing(made, to) * (error > 0)
    if inexact is not False and inexact.any():  # by way of f32 it is rounded twice
        error = largest(error, np.where(inexact, half_spacing(made, to), 0.0))
    return Value(made, to, error=None if error is None else some(np.broadcast_to(error, made.shape)))


def half_spacing(v: np.ndarray, name: str) -> np.ndarray:
    """The distance of the next half; infinite from the largest one on."""
    bits, least = (11, 2.0 ** -24) if name == "f16" else (8, 2.0 ** -133)
    a = np.abs(v.astype(np.float64))
    with np.errstate(all="ignore"):
        step = np.maximum(np.exp2(np.floor(np.log2(np.where(a > 0, a, 1.0))) + 1 - bits), least)
    return np.where(np.isfinite(a), np.where(a >= (65000 if name == "f16" else 3e38), np.inf, step), 0.0)


def half(a: Value) -> Value:
    """A value of a half type, rounded to it."""
    return _halved(replace(a, type="f32"), a.type) if a.type in types.HALVES else a


def stored_as(a: Value, name: str) -> Value:
    """A value as a tensor of halves holds it: rounded, or not yet."""
    inexact = _halved(replace(a, error=None, slack=None), name).data != a.data
    inexact &= np.isfinite(a.data)
    if not inexact.any():
        return replace(a, type=name)
    error = np.where(inexact, half_spacing(a.data, name), 0.0)
    return replace(a, type=name, error=largest(added(a.error, a.slack), error), slack=None)


def settled(a: Value, name: str, halves: str) -> Value:
    """What a tensor holds of its accumulator, see Stored: a temporary of halves rounds it to f32 only."""
    if name not in types.HALVES or halves == "output":
        return cast(a, name)
    v = cast(a, "f32")
    return stored_as(v, name) if halves == "open" else replace(v, type=name)


def select(c: Value, a: Value, b: Value, to: str) -> Value:
    """a where c, else b, both of one type."""
    data = np.where(c.data, a.data, b.data)
    none = np.zeros(())

    def of(x: Bound, y: Bound) -> Bound:
        return None if x is None and y is None else np.where(c.data, none if x is None else x, none if y is None else y)
    error = of(a.error, b.error)
    if c.error is not None:
        apart = np.abs(a.data.astype(wide(a.data)) - b.data.astype(wide(b.data))) if types.is_float(to) else np.where(
            a.data == b.data, 0.0, np.inf)
        either = np.nan_to_num(apart, nan=np.inf, posinf=np.inf) + (0 if (m := largest(a.error, b.error)) is None else m)
        error = some(np.where(c.error > 0, either, 0.0 if error is None else error))
    return Value(data, to, error=error, slack=of(a.slack, b.slack))


def compared(f: Callable[..., Any], a: Value, b: Value) -> Value:
    """A comparison of two values of one type; which way it goes is unknown where their errors overlap."""
    data, error = f(a.data, b.data), added(a.error, b.error)
    if error is not None:
        near = np.abs(a.data.astype(wide(a.data)) - b.data.astype(wide(b.data))) <= error
        near |= ~np.isfinite(error)
        error = some(np.where(near & (error > 0), np.inf, 0.0))
    return Value(data, "bool", error=error)


def wide(v: np.ndarray) -> type:
    """numpy's type for distances of such numbers."""
    return np.complex128 if v.dtype.kind == "c" else np.float64


def product(x: np.ndarray, y: np.ndarray, made: np.ndarray) -> Bound:
    """How far the rounded product may be from the exact one."""
    wide = np.longdouble if made.dtype == np.float64 else np.float64
    with np.errstate(all="ignore"):
        exact = x.astype(wide) * y.astype(wide) == made.astype(wide)
    return None if exact.all() else some(np.where(exact | ~np.isfinite(made), 0.0, spacing(made, made.dtype)))


def arithmetic(op: str, f: Callable[..., Any], a: Value, b: Value, to: str, precise: bool) -> Value:
    """`a op b` for two values of the type `to`."""
    x, y = a.data, b.data
    with np.errstate(all="ignore"):
        v = np.asarray(f(x, y)).astype(types.computed(to), copy=False)
        if v.dtype.kind != "f":
            return Value(v, to, error=_unknown(a.error, b.error))
        error, slack = None, None
        if op in "+-":
            error = rounded(v, added(a.error, b.error, a.slack, b.slack))
        elif op == "*":
            error = None if a.error is None and b.error is None else rounded(v, _scaled(x, b.error) + _scaled(y, a.error))
            slack = None if precise else product(x, y, v)
        elif op == "/" and (a.error is not None or b.error is not None):
            down = np.maximum(np.abs(y.astype(np.float64)) - (0.0 if b.error is None else b.error), 0.0)
            error = rounded(v, ((0.0 if a.error is None else a.error) + _scaled(v, b.error)) / down)
        elif op in ("//", "%"):
            error = _unknown(a.error, b.error)
    return Value(v, to, error=error, slack=slack)


def _scaled(x: np.ndarray, error: Bound) -> Any:
    if error is None:
        return np.zeros(())
    return np.where(error == 0, 0.0, np.abs(x.astype(np.float64)) * error) + np.where(np.isinf(error), np.inf, 0.0)


def _unknown(*bounds: Bound) -> Bound:
    """Where any of them is inexact nothing is known."""
    found = largest(*bounds)
    return None if found is None else some(np.where(found > 0, np.inf, 0.0))
