"""Copies on cache lines: made when needed, shared while used, and known by what they are copies of."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

from polytc.machine import ALIGNMENT
from polytc.native.aligned import LARGE, aligned_bytes, aligned_copy, origin, usable


def unaligned(count: int, by: int) -> np.ndarray:
    return aligned_bytes(4 * count + by)[by:].view(np.float32)


@pytest.mark.parametrize("count", [1000, LARGE])
def test_copies_are_shared_and_know_their_origin(count: int) -> None:
    a = unaligned(count, 4)
    a[:] = np.arange(count)
    assert usable(a) is a
    copy = aligned_copy(a)
    assert copy.ctypes.data % ALIGNMENT == 0
    np.testing.assert_array_equal(copy, a)
    view = copy.reshape(2, -1)
    del copy
    assert aligned_copy(a).ctypes.data == view.ctypes.data
    assert origin(view) is a
    assert origin(a) is a
    b = unaligned(count, 1)
    assert origin(usable(b)) is not usable(b)


@pytest.mark.part(2)
@pytest.mark.parametrize("count", [1000, LARGE])
def test_nothing_is_known_of_copies_that_are_gone(count: int) -> None:
    a = unaligned(count, 4)
    copy = aligned_copy(a)
    address = copy.ctypes.data
    del copy
    gc.collect()
    again = np.ndarray((4,), np.uint8, (ctypes.c_uint8 * 4).from_address(address))
    assert origin(again) is again
    copies = [aligned_copy(a) for _ in range(3)]
    assert len({c.ctypes.data for c in copies}) == 1
    assert origin(copies[0]) is a
