"""Casts between types: what fits not, wraps."""

from __future__ import annotations

import numpy as np
import pytest

import polytc


@pytest.mark.part(2)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("count", [1, 6, 33])
def test_floats_below_zero_wrap_in_unsigned_types(targets: tuple[str, ...], dtype: str, count: int) -> None:
    numbers = np.array([-1, -2.5, 3.7, 1e19, 5, 0])
    expected = np.array([2 ** 64 - 1, 2 ** 64 - 2, 3, int(np.dtype(dtype).type(1e19)), 5, 0], np.uint64)
    for target in targets:
        found = polytc.run("Y[i] = u64(X[i])", X=np.resize(numbers, count).astype(dtype), target=target)
        np.testing.assert_array_equal(found, np.resize(expected, count))
