"""Memory of what is computed once: zeroed, on cache lines, apart from one another, given back when nobody uses it."""

from __future__ import annotations

import gc
import itertools
from threading import Thread

import numpy as np
import pytest

from polytc.machine import ALIGNMENT
from polytc.native.aligned import LARGE
from polytc.native.huge_pages import HUGE, MAPPING_BYTES, OWN_MAPPING_BYTES, lasting_bytes

SIZES = (1, LARGE - 1, LARGE, LARGE + 1, OWN_MAPPING_BYTES - 1, OWN_MAPPING_BYTES, OWN_MAPPING_BYTES + 5, MAPPING_BYTES + 1)


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    first, second = sorted((x.ctypes.data, x.nbytes) for x in (a, b))
    return first[0] + first[1] > second[0]


@pytest.mark.parametrize("size", SIZES)
def test_zeroed_and_on_a_cache_line(size: int) -> None:
    for _ in range(3):
        a = lasting_bytes(size)
        assert a.nbytes == size
        assert a.ctypes.data % ALIGNMENT == 0
        assert not a.any()
        a[:] = 255


def test_arrays_lie_apart_whatever_their_sizes() -> None:
    arrays = [lasting_bytes(size) for size in SIZES for _ in range(6)]
    for n, a in enumerate(arrays):
        a[:] = n
        assert all(not overlap(a, b) for b in arrays[:n])
    assert all((a == n).all() for n, a in enumerate(arrays))


def test_arrays_share_a_region() -> None:
    first, second = (lasting_bytes(LARGE) for _ in range(2))
    if second.ctypes.data - first.ctypes.data != LARGE:  # the region was full
        first, second = second, lasting_bytes(LARGE)
    assert second.ctypes.data - first.ctypes.data == LARGE


def test_large_arrays_start_on_a_huge_page() -> None:
    assert lasting_bytes(OWN_MAPPING_BYTES).ctypes.data % HUGE == 0


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_what_nobody_uses_is_given_back() -> None:
    before = resident()
    arrays = [lasting_bytes(OWN_MAPPING_BYTES // 2) for _ in range(40)]
    for a in arrays:
        a[:] = 1
    assert resident() - before >= 19 * OWN_MAPPING_BYTES
    del arrays, a
    gc.collect()
    assert resident() - before <= 2 * OWN_MAPPING_BYTES


def test_threads_get_memory_of_their_own() -> None:
    found: list[np.ndarray] = []

    def work() -> None:
        found.extend(lasting_bytes(LARGE) for _ in range(50))
    threads = [Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    addresses = sorted(a.ctypes.data for a in found)
    assert len(addresses) == 200
    assert all(b - a >= LARGE for a, b in itertools.pairwise(addresses))
