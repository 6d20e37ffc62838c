"""Memory for what is computed once and read in every run, such as the packed weights of a model: in huge pages.

Weights stream through the caches in each run. In pages of 4 KiB each sixty-fourth line waits until its address is translated,
and the processor's prefetching stops there; in pages of 2 MiB it does not. So that a page serves several arrays, they lie in
mappings one behind another; a mapping goes back to the system when the last array in it is gone.
"""

from __future__ import annotations

import mmap
import weakref
from contextlib import suppress

import numpy as np

from polytc.machine import ALIGNMENT
from polytc.native import forks
from polytc.native.aligned import LARGE, aligned_bytes

HUGE = 2 << 20
"""Bytes of a huge page, on x86-64 and with pages of 4 KiB on aarch64."""
MAPPING_BYTES = 32 << 20
"""Bytes of a mapping that arrays share. What nobody touched takes no memory."""
OWN_MAPPING_BYTES = 8 << 20
"""Bytes of an array from which on it has a mapping of its own."""


class _Region:
    """A mapping that is filled from its start. whole: None when all of its arrays are gone; end: of those, in bytes."""

    def __init__(self) -> None:
        self.whole: weakref.ref[mmap.mmap] | None = None
        self.end = 0
        self.lock = forks.Lock()

    def take(self, size: int) -> np.ndarray:
        """The next bytes, or the first ones of a new mapping if they do not fit."""
        with self.lock:
            whole = self.whole() if self.whole is not None else None
            if whole is None or self.end + size > len(whole):
                whole = _mapping(MAPPING_BYTES)
                self.whole, self.end = weakref.ref(whole), _start(whole)
            start, self.end = self.end, self.end + -(-size // ALIGNMENT) * ALIGNMENT
            return np.frombuffer(whole, np.uint8)[start:start + size]


_SHARED = _Region()


def lasting_bytes(size: int) -> np.ndarray:
    """Memory on a cache line, zeroed."""
    if size < LARGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return aligned_bytes(size)
    if size < OWN_MAPPING_BYTES:
        return _SHARED.take(size)
    whole = _mapping(size + HUGE)
    start = _start(whole)
    with suppress(OSError):  # a huge page for the last bytes would take memory for those that are not there
        whole.madvise(mmap.MADV_NOHUGEPAGE, start + size // HUGE * HUGE)
    return np.frombuffer(whole, np.uint8)[start:start + size]


def _mapping(size: int) -> mmap.mmap:
    """Fresh memory, in huge pages if the system has them."""
    whole = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # memory to be shared seldom has huge pages
    with suppress(OSError):  # a system without them
        whole.madvise(mmap.MADV_HUGEPAGE)
    return whole


def _start(whole: mmap.mmap) -> int:
    """Where its first huge page begins."""
    return -np.frombuffer(whole, np.uint8).ctypes.data % HUGE
