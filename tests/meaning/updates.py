"""What statements do to the elements of tensors, and how far a licensed order of doing it may lead."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.meaning import types, values
from tests.meaning.expressions import Stored
from tests.meaning.values import Bound, Value

_UFUNC = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum, "&": np.bitwise_and, "|": np.bitwise_or,
          "^": np.bitwise_xor}


def fresh(name: str, hull: tuple[tuple[int, int], ...], accumulator: str | None, start: str | None) -> Stored:
    """A tensor before the program. start: the update whose identity it holds; without one, its elements are unknown until they
    are written."""
    shape = tuple(max(high - low + 1, 0) for low, high in hull)
    dtype = types.computed(accumulator or name)
    data = np.full(shape, 0 if start is None else types.identity(start, accumulator or name), dtype)
    return Stored(name, tuple(low for low, _ in hull), data, None if start else np.full(shape, np.inf))


def flat(t: Stored, places: list[np.ndarray], n: int) -> np.ndarray:
    """The elements at some coordinates, by number."""
    found = np.zeros(n, np.int64)
    for p, lo, extent in zip(places, t.lower, t.data.shape):
        found = found * extent + (p - lo)
    return found


def assign(t: Stored, at: np.ndarray, v: Value) -> None:
    if t.type in types.HALVES and t.halves == "open":
        v = values.stored_as(v, t.type)
    t.data.reshape(-1)[at] = v.data.astype(t.data.dtype, copy=False)
    t.error, t.slack = _put(t.error, t, at, v.error), _put(t.slack, t, at, v.slack)


def _put(bound: Bound, t: Stored, at: np.ndarray, new: Bound) -> Bound:
    if bound is None and new is None:
        return None
    made = np.zeros(t.data.shape) if bound is None else bound.copy()
    made.reshape(-1)[at] = 0.0 if new is None else new
    return values.some(made) if made.size else None


def update(t: Stored, at: np.ndarray, v: Value, op: str, precise: bool) -> None:
    """`t[at] op= v`, one instance after another."""
    memory = t.data.reshape(-1)
    x = np.broadcast_to(v.data.astype(memory.dtype, copy=False), at.shape)
    new = values.added(v.error, None if op not in "+*" else v.slack)
    error = _bound(t, memory, at, x, new, op, precise)
    _UFUNC[op].at(memory, at, x)
    t.error, t.slack = error, _put(t.slack, t, at, None)
    if t.type in types.HALVES and t.halves == "open" and types.computed(t.type) == t.data.dtype:
        held = values.stored_as(Value(t.data, "f32", error=t.error), t.type)
        t.error = held.error


def _bound(t: Stored, memory: np.ndarray, at: np.ndarray, x: np.ndarray, new: Bound, op: str, precise: bool) -> Bound:
    """The error of all elements behind an update."""
    size = memory.shape
    old = np.zeros(size) if t.error is None else t.error.reshape(-1).copy()
    terms = np.broadcast_to(0.0 if new is None else new, at.shape)
    if memory.dtype.kind == "c":
        return _complex_bound(t, memory, at, x, terms, old, precise) if op == "+" else \
            _product_bound(t, memory, at, x, terms, old)
    if memory.dtype.kind != "f" or op in ("min", "max"):
        np.maximum.at(old, at, np.where(np.isinf(terms), np.inf, terms) if memory.dtype.kind == "f" else terms)
        return values.some(old.reshape(t.data.shape))
    digits = np.finfo(memory.dtype).nmant + 1
    given, held = np.where(np.isfinite(x), x, 0).astype(np.float64), np.where(np.isfinite(memory), memory, 0).astype(np.float64)
    if op == "+":
        total, count = np.abs(held), np.zeros(size)
        np.add.at(total, at, np.abs(given))
        exact = not terms.any() and (precise or any(
            whole(given, k) and whole(held[at], k) and total.max(initial=0) * 2.0 ** k <= 2.0 ** digits for k in (0, 10)))
        np.add.at(old, at, terms)
        if not exact:
            np.add.at(count, at, 1)
            old += np.where(count > 0, (count + 4) * total * 2.0 ** -digits, 0.0)
        return values.some(old.reshape(t.data.shape))
    total = np.maximum(np.abs(held), 1.0)
    np.multiply.at(total, at, np.maximum(np.abs(given), 1.0))
    if not terms.any() and not old[at].any() and (precise or whole(given, 0) and total.max(initial=0) <= 2.0 ** digits):
        return t.error
    relative = np.where(old > 0, old / np.abs(held), 0.0)
    np.add.at(relative, at, np.where(terms > 0, terms / np.abs(given), 0.0) + 2.0 ** -digits)
    final = np.abs(held)
    np.multiply.at(final, at, np.abs(given))
    error = np.where(relative > 0, 2 * relative * final, 0.0)
    large = total > np.finfo(memory.dtype).max  # in another order it may have been infinite on the way
    return values.some(np.where(large & (not precise), np.inf, error).reshape(t.data.shape))


def _complex_bound(t: Stored, memory: np.ndarray, at: np.ndarray, x: np.ndarray, terms: np.ndarray, old: np.ndarray,
                   precise: bool) -> Bound:
    """The same for sums of complex numbers, whose parts may be summed in any order."""
    digits = np.finfo(memory.dtype).nmant + 1
    given, held = (np.where(np.isfinite(a), a, 0).astype(np.complex128) for a in (x, memory))
    total, count = np.abs(held), np.zeros(memory.shape)
    np.add.at(total, at, np.abs(given))
    exact = not terms.any() and (precise or all(whole(part, 0) for a in (given, held[at]) for part in (a.real, a.imag))
                                 and total.max(initial=0) <= 2.0 ** digits)
    np.add.at(old, at, np.where(np.isfinite(x), terms, np.inf))
    if not exact:
        np.add.at(count, at, 1)
        old += np.where(count > 0, 2 * (count + 4) * total * 2.0 ** -digits, 0.0)
    return values.some(old.reshape(t.data.shape))


def _product_bound(t: Stored, memory: np.ndarray, at: np.ndarray, x: np.ndarray, terms: np.ndarray, old: np.ndarray) -> Bound:
    """The same for products of complex numbers, in any order: sizes multiply, relative errors add up. Where a product is 0 or
    leaves the finite numbers, on the way too, nothing is known."""
    digits = np.finfo(memory.dtype).nmant + 1
    given, held = (np.abs(np.where(np.isfinite(a), a, np.nan).astype(np.complex128)) for a in (x, memory))
    final, most, least, relative = held.copy(), np.maximum(held, 1.0), np.minimum(held, 1.0), old / held
    np.multiply.at(final, at, given)
    np.multiply.at(most, at, np.maximum(given, 1.0))
    np.multiply.at(least, at, np.minimum(given, 1.0))
    np.add.at(relative, at, terms / given + 4 * 2.0 ** -digits)
    info, known = np.finfo(memory.dtype), np.zeros(memory.shape, bool)
    known[:] = (most < info.max) & (least > info.tiny) & (relative < 0.1)
    touched = np.zeros(memory.shape, bool)
    touched[at] = True
    return values.some(np.where(touched, np.where(known, 2 * relative * final, np.inf), old).reshape(t.data.shape))


def whole(x: np.ndarray, k: int) -> bool:
    """Are all of these whole numbers when multiplied by 2**k?"""
    scaled = x * 2.0 ** k
    return bool((scaled == np.floor(scaled)).all())


def moved(elements: np.ndarray, source: Stored, target: Stored) -> np.ndarray:
    """Elements of one tensor as those of another one at the same places, which has them all."""
    places = np.unravel_index(elements, source.data.shape) if source.data.ndim else ()
    return flat(target, [p + low for p, low in zip(places, source.lower, strict=True)], elements.size)


def chosen(at: np.ndarray, key: Value, op: str, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a tuple reduction: the elements that some instance meets, the instance that wins in each, and whether that is sure.
    The first NaN wins over all, then the extreme value, then the first one."""
    key = values.half(key)
    x = np.broadcast_to(key.data, at.shape)
    error = np.broadcast_to(0.0 if key.error is None else key.error, at.shape)
    if x.dtype.kind == "f":
        rank = np.where(np.isnan(x), np.inf, x if op == "max" else -x)
        rank = np.lexsort((np.arange(len(at)), -rank, ~np.isnan(x), at))
    else:
        order: Any = np.argsort(x, kind="stable")
        place = np.empty(len(x), np.int64)
        place[order] = np.cumsum(np.r_[0, np.diff(x[order].astype(object)) != 0]) if len(x) else 0
        rank = np.lexsort((np.arange(len(at)), -place if op == "max" else place, at))
    first = np.r_[True, at[rank][1:] != at[rank][:-1]] if len(at) else np.zeros(0, bool)
    winners = rank[first]
    sure = np.ones(size, bool)
    if key.error is not None:
        best, slack = np.zeros(size), np.zeros(size)
        best[at[winners]], slack[at[winners]] = x[winners], error[winners]
        is_winner = np.zeros(len(at), bool)
        is_winner[winners] = True
        near = ~is_winner & (np.abs(x - best[at]) <= error + slack[at]) & (error + slack[at] > 0)
        sure[at[near]] = False
    return at[winners], winners, sure
