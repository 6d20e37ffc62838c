"""Views of memory in strides, as the C-contiguous arrays that their elements lie in.

    a = np.ones((100, 80))
    a.T            lies in    (100, 80),    element i, j at j, i
    a[:, 20:60]    lies in    (100, 80),    element i, j at i, j + 20
    a[::2, ::-1]   lies in    (50, 2, 80),  element i, j at i, 0, 79 - j

A program for such an array (program/inputs/strides.py) reads it where it is, without a copy.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np

from polytc.program.places import Place

SMALLEST = 1 << 15
"""Bytes of an array at least: smaller ones are copied in less time than anything else takes."""


def lying_in(a: np.ndarray) -> tuple[Place, np.ndarray] | None:
    """The contiguous array that an array lies in, and where; None for one that is small, or overlaps itself, or whose memory
    is not known to be as large as that array would be."""
    size, steps = a.itemsize, a.strides
    if a.nbytes < SMALLEST or not a.flags.aligned or any(s % size for s in steps):
        return None
    single = [d for d, n in enumerate(a.shape) if n == 1]
    order = sorted((d for d, n in enumerate(a.shape) if n > 1 and steps[d]), key=lambda d: -abs(steps[d]))
    if not order:
        return None
    units = [abs(steps[d]) // size for d in order]
    if any(outer % inner or outer < inner * a.shape[d] for (outer, inner), d in zip(pairwise(units), order[1:], strict=True)):
        return None
    extents = [a.shape[order[0]], *(outer // inner for outer, inner in pairwise(units)), units[-1]]
    axes: list[int | None] = [*single, *order, None]
    if units[-1] == 1:
        extents.pop()
        axes.pop()
    shape = (*(1 for _ in single), *extents)
    ends = tuple(a.shape[d] - 1 if d is not None and steps[d] < 0 and a.shape[d] > 1 else None for d in axes)
    tight = prod(shape) == prod(a.shape[d] for d in order)
    exact = tight and len(single) + len(order) == a.ndim
    found = _tight(a, shape, [*single, *order]) if tight else _within(a, shape, axes)
    return (Place(shape, tuple(axes), found[1], ends, exact), found[0]) if found is not None else None


def _forwards(a: np.ndarray) -> np.ndarray:
    """The array with all its strides positive, and without what is repeated."""
    return a[tuple(slice(None, None, -1) if s < 0 else slice(0, 1) if s == 0 else slice(None) for s in a.strides)]


def _tight(a: np.ndarray, shape: tuple[int, ...], order: list[int]) -> tuple[np.ndarray, tuple[int, ...]] | None:
    forwards = _forwards(a)
    repeated = [d for d in range(a.ndim) if d not in order]
    found = forwards.transpose([*order, *repeated]).reshape(shape)
    contiguous = found.flags.c_contiguous and np.may_share_memory(found, a)
    return (found, (0,) * len(shape)) if contiguous else None


def _within(a: np.ndarray, shape: tuple[int, ...], axes: list[int | None]) -> tuple[np.ndarray, tuple[int, ...]] | None:
    """The array within the memory that its owner has: from its first element on, or so much before that the end is inside."""
    owner = a.base
    while isinstance(owner, np.ndarray) and isinstance(owner.base, np.ndarray):
        owner = owner.base
    if not isinstance(owner, np.ndarray) or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        return None
    size, first = a.itemsize, _forwards(a).ctypes.data - owner.ctypes.data
    before = max(0, -(-(first + size * prod(shape) - owner.nbytes) // size))
    if first < 0 or before * size > first:
        return None
    starts, rest = list[int](), before
    for extent in reversed(shape):
        starts.append(rest % extent)
        rest //= extent
    starts.reverse()
    leading = next(k for k, extent in enumerate(shape) if extent > 1)
    counts = [1 if d is None else a.shape[d] for d in axes]
    if rest or starts[leading] or any(s + n > e for s, n, e in zip(starts, counts, shape, strict=True)):
        return None
    flat = (owner if owner.flags.c_contiguous else owner.T).reshape(-1).view(np.uint8)
    begin = first - before * size
    memory = flat[begin:begin + size * prod(shape)].view(a.dtype).reshape(shape)
    return memory, tuple(starts)
