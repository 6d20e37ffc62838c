"""Operators that choose elements by their values."""

from __future__ import annotations

import functools

import numpy as np

from polytc.graph.binding import Binder, Routine, Site
from polytc.graph.plan import Array
from polytc.lang.scalars import I64


def top_k(site: Site) -> Routine:
    """The largest or smallest elements of an axis, the lower index first among equals; NaN counts as the largest number."""
    axis = site.axis(site.attr("axis", -1), site.rank(0))
    largest = bool(site.attr("largest", 1))
    if site.opset < 10:
        return Routine(functools.partial(_top, site.attr("k"), axis, largest), (0,), _top_types(site, axis, site.attr("k")))
    k = site.value(1)
    types = _top_types(site, axis, int(k.item())) if k is not None else ()
    return Routine(lambda x, k: _top(int(k.item()), axis, largest, x), (0, 1), types)


def _top_types(site: Site, axis: int, k: int) -> tuple[Array, ...]:
    shape = (*site.shape(0)[:axis], k, *site.shape(0)[axis + 1:])
    return Array(site.dtype(0), shape), Array(I64, shape)


def _top(k: int, axis: int, largest: bool, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = x.swapaxes(axis, -1)
    if not 0 <= k <= rows.shape[-1]:
        raise ValueError(f"{k} elements are asked for, of {rows.shape[-1]}")
    places = _best(rows, k, largest)
    values = np.take_along_axis(rows, places, -1)
    return np.ascontiguousarray(values.swapaxes(axis, -1)), np.ascontiguousarray(places.swapaxes(axis, -1), np.int64)


def _best(rows: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """Positions of the k first elements of each row in order."""
    n = rows.shape[-1]
    if n >= 64 and 0 < 8 * k <= n and rows.size:
        found = _by_columns(np.ascontiguousarray(rows).reshape(-1, n), k, largest)
        if found is not None:
            return found.reshape(*rows.shape[:-1], k)
    if n < 64 or k == 0 or 4 * k > n or rows.size == 0 or rows.dtype.kind not in "iu" and np.isnan(rows).any():
        return _order(rows, largest)[..., :k]
    chosen = _chosen(rows, k, largest)
    return np.take_along_axis(chosen, _order(np.take_along_axis(rows, chosen, -1), largest), -1)


def _by_columns(rows: np.ndarray, k: int, largest: bool) -> np.ndarray | None:
    """Positions of the k first elements of each row in order; None where NaN or many equal numbers call for another way.

    Each row is laid out as a table. The best elements of its columns are few, and the k-th best of them is a limit that at
    least k elements reach: only those that do are sorted.
    """
    count, n = rows.shape
    height = min(8, n // (4 * k))
    width = n // height
    best, table = (np.max if largest else np.min), rows[:, :height * width].reshape(count, height, width)
    tops = np.concatenate([best(table, 1), rows[:, height * width:]], 1)
    if rows.dtype.kind not in "iu" and np.isnan(tops).any():
        return None
    last = tops.shape[1] - k if largest else k - 1
    limit = np.partition(tops, last, -1)[:, last:last + 1]
    flat = ((rows >= limit) if largest else (rows <= limit)).reshape(-1).nonzero()[0]
    if len(flat) > 4 * k * count:
        return None
    row, values = flat // n, rows.reshape(-1)[flat]
    order = np.lexsort((-flat, values, -row))[::-1] if largest else np.lexsort((flat, values, row))
    reached = np.bincount(row, minlength=count)
    starts = np.cumsum(reached) - reached
    return flat[order[starts[:, None] + np.arange(k)]] - np.arange(count)[:, None] * n


def _order(rows: np.ndarray, largest: bool) -> np.ndarray:
    """A stable order of each row; downwards, by sorting the reversed row upwards and reading the result backwards."""
    if not largest:
        return np.argsort(rows, -1, kind="stable")
    return rows.shape[-1] - 1 - np.argsort(rows[..., ::-1], -1, kind="stable")[..., ::-1]


def _chosen(rows: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """Positions of the k first elements of each row, upwards: all beyond the k-th, and as many of its equals as fit."""
    place = rows.shape[-1] - k if largest else k - 1
    last = np.partition(rows, place, -1)[..., place:place + 1] if k else rows[..., :1]
    beyond = (rows > last) if largest else (rows < last)
    equal = rows == last
    room = k - beyond.sum(-1, keepdims=True)
    kept = beyond | equal & (np.cumsum(equal, -1) <= room)
    return np.nonzero(kept)[-1].reshape(*rows.shape[:-1], k)


def non_zero(site: Site) -> Routine:
    """Coordinates of the elements that are not zero, one row for each axis."""
    return Routine(_non_zero, (0,))


def _non_zero(x: np.ndarray) -> list[np.ndarray]:
    """Row-major places, then their coordinates, the last axis first."""
    flat = (x.reshape(-1) if x.dtype == bool else x.reshape(-1) != 0).nonzero()[0]
    found = np.empty((x.ndim, len(flat)), np.int64)
    for axis in range(x.ndim - 1, 0, -1):
        before = flat // x.shape[axis]
        np.subtract(flat, before * x.shape[axis], out=found[axis])
        flat = before
    if x.ndim:
        found[0] = flat
    return [found]


def compress(site: Site) -> Routine:
    """The elements whose condition is true; a condition that ends early is false beyond."""
    axis = site.attr("axis")
    axis = None if axis is None else site.axis(axis, site.rank(0))
    return Routine(lambda x, condition: [np.compress(condition, x, axis)], (0, 1))


def unique(site: Site) -> Routine:
    """Distinct elements, or slices along an axis, upwards or in the order in which they appear first; where each is first,
    which of them each element is, and how often each occurs."""
    axis = site.attr("axis")
    axis = None if axis is None else site.axis(axis, site.rank(0))
    return Routine(functools.partial(_unique, axis, bool(site.attr("sorted", 1))), (0,))


def _unique(axis: int | None, upwards: bool, x: np.ndarray) -> list[np.ndarray]:
    values, first, which, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    which = which.reshape(-1)
    if not upwards:
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values, first, counts, which = np.take(values, order, axis or 0), first[order], counts[order], rank[which]
    return [values, first.astype(np.int64), which.astype(np.int64), counts.astype(np.int64)]


ROWS: dict[str, Binder] = {"TopK": top_k, "NonZero": non_zero, "Compress": compress, "Unique": unique}
