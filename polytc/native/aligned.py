"""Arrays that start on a cache line, and copies of arrays that do not, of which it is known what they are copies of."""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable

import numpy as np

from polytc.machine import ALIGNMENT

LARGE = 1 << 16
"""Bytes: of copies that lie in pages of their own."""

_COPIES: dict[int, tuple[weakref.ref[np.ndarray], weakref.ref[np.ndarray]]] = {}
"""id of an array -> it, and the memory of its copy, as long as that is used."""

_ORIGINS: dict[int, weakref.ref[np.ndarray]] = {}
"""Address of a copy -> what it is a copy of."""


def aligned_bytes(size: int, make: Callable[..., np.ndarray] = np.zeros) -> np.ndarray:
    """Memory whose address is a multiple of ALIGNMENT: zeroed, or as `make` makes it."""
    return _from_line(make(size + ALIGNMENT, np.uint8), size)


def _from_line(raw: np.ndarray, size: int) -> np.ndarray:
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start:start + size]


def usable(a: np.ndarray) -> np.ndarray:
    """`a` itself if code may read it where it is, fast or not; else a copy as `aligned_copy` makes it."""
    return a if plain(a) and a.flags.aligned else aligned_copy(a)


def plain(a: np.ndarray) -> bool:
    """Are the elements one after another, and as this machine has them, if maybe at odd addresses?"""
    return a.flags.c_contiguous and a.dtype.isnative


def aligned_copy(a: np.ndarray) -> np.ndarray:
    """`a` itself if it is aligned and contiguous already; else a copy, which is shared as long as somebody uses it. The
    contents of `a` must not change."""
    if a.flags.c_contiguous and a.ctypes.data % ALIGNMENT == 0 and a.dtype.isnative:
        return a
    source, memory = (reference() for reference in _COPIES.get(id(a), (_nothing, _nothing)))
    if source is not a or memory is None:
        memory = _copied(a)
    return _from_line(memory, a.nbytes).view(a.dtype.newbyteorder("=")).reshape(a.shape)


def _nothing() -> None:
    return None


def _copied(a: np.ndarray) -> np.ndarray:
    """Memory that holds the elements of `a`, which is noted down until it is freed."""
    memory = _pages(a.nbytes + ALIGNMENT)
    own = _from_line(memory, a.nbytes)
    np.copyto(own.view(a.dtype.newbyteorder("=")).reshape(a.shape), a)
    key, address = id(a), own.ctypes.data

    def forget(reference: weakref.ref[np.ndarray]) -> None:
        _ORIGINS.pop(address, None)
        if _COPIES.get(key, (None, None))[1] is reference:
            del _COPIES[key]
    _COPIES[key] = weakref.ref(a), weakref.ref(memory, forget)
    _ORIGINS[address] = weakref.ref(a)
    return memory


def _pages(size: int) -> np.ndarray:
    """Memory straight from the system, to which it returns at once: of what is freed otherwise, C keeps much."""
    return np.frombuffer(mmap.mmap(-1, size), np.uint8) if size >= LARGE else np.empty(size, np.uint8)


def origin(a: np.ndarray) -> np.ndarray:
    """What an array is a copy of, if `aligned_copy` made it; else the array itself."""
    found = _ORIGINS.get(a.ctypes.data)
    source = found() if found is not None else None
    return source if source is not None else a
