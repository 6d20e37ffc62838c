"""Operators that choose elements by their values."""

from __future__ import annotations

import functools

import numpy as np

from polytc.graph.operators.binding import Binder, Routine, Site
from polytc.graph.operators.routines import native_top_k
from polytc.graph.plan import Array
from polytc.program.scalars import I64


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
    n = rows.shape[-1]
    if not 0 <= k <= n:
        raise ValueError(f"{k} elements are asked for, of {n}")
    if k and rows.size:
        found = _first(np.ascontiguousarray(rows).reshape(-1, n), k, largest)
    else:
        found = np.empty((0, k), x.dtype), np.empty((0, k), np.int64)
    values, places = (a.reshape(*rows.shape[:-1], k) for a in found)
    return np.ascontiguousarray(values.swapaxes(axis, -1)), np.ascontiguousarray(places.swapaxes(axis, -1))


def _first(rows: np.ndarray, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The k first elements of each row in order, and their places."""
    if native_top_k.has(rows.dtype):
        return native_top_k.select(rows, k, largest)
    if rows.dtype == np.uint64:
        wide = (rows ^ np.uint64(1 << 63)).view(np.int64)
    else:
        wide = rows.astype(np.int64 if rows.dtype.kind in "iu" else np.float32)
    _, places = native_top_k.select(wide, k, largest)
    return np.take_along_axis(rows, places, -1), places


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
