"""Hosts of CUDA and HIP with several variants of a program of open sizes, on the processor."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from polytc.export import cuda, variants
from polytc.targets.cuda.target import CudaTarget
from tests import cuda_here
from tests.export.test_cuda_folder import DIALECTS, Host
from tests.export.test_refusals import library, session  # noqa: F401
from tests.export.variants_here import POINTS, SM90, multiples_of, product, program


@pytest.mark.part(2)
@pytest.mark.skipif(cuda_here.COMPILER is None, reason="there is no C++ compiler")
@DIALECTS
def test_cuda_and_hip(dialect: cuda.Dialect, tmp_path: Path) -> None:
    points = POINTS[1:]
    cuda.write(variants.of_program(program(), CudaTarget(SM90), "host", typical=points), SM90, tmp_path, dialect)
    host = Host(tmp_path, f"host.{dialect.ending}")
    host.code.host_estimate.restype = ctypes.c_double
    first = ctypes.c_void_p(host.code.host_create(None))
    seen: set[str] = set()
    observer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int)(
        lambda data, kernel, stream, ended: seen.add(kernel.decode().split("_")[1]))
    host.code.host_observe(first, observer, None)

    def run(sizes: Sequence[int]) -> None:
        a, b, expected = product(sizes)
        found, given = np.full_like(expected, np.nan), [ctypes.c_int64(n) for n in sizes]
        seen.clear()
        assert host.code.host_run(first, *given, *(ctypes.c_void_p(x.ctypes.data) for x in (a, b, found))) == 0
        np.testing.assert_array_equal(found, expected)
        assert seen == {f"v{host.code.host_variant(first, *given)}"}
    sizes = [(1, 1, 1), (37, 19, 5), (40, 600, 3)]
    for number in (*range(len(points)), -1):
        assert host.code.host_force(first, number) == 0
        for s in sizes:
            run(s)
            assert number in (-1, host.code.host_variant(first, *map(ctypes.c_int64, s)))
    taken = {host.code.host_variant(None, *map(ctypes.c_int64, p.values())) for p in points}
    assert taken == set(range(len(points)))
    for bad in ((0, 5, 5), (5, 5, 0), (1 << 40, 1, 1)):
        assert host.code.host_variant(None, *map(ctypes.c_int64, bad)) == -1
        assert host.code.host_run(first, *map(ctypes.c_int64, bad), *[ctypes.c_void_p(0)] * 3) == 2
    assert host.code.host_force(first, len(points)) == 2
    host.code.host_release(first)


@pytest.mark.skipif(cuda_here.COMPILER is None, reason="there is no C++ compiler")
def test_arrays_that_begin_anywhere_have_a_variant(tmp_path: Path) -> None:
    """That of multiples has accesses of 16 bytes."""
    cuda.write(multiples_of(4, POINTS[0]), SM90, tmp_path)
    host = Host(tmp_path, "host.cu")
    made, sizes = ctypes.c_void_p(host.code.host_create(None)), (64, 96, 128)
    seen: set[str] = set()
    observer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int)(
        lambda data, kernel, stream, ended: seen.add(kernel.decode().split("_")[1]))
    host.code.host_observe(made, observer, None)
    a, b, expected = product(sizes)
    given = [ctypes.c_int64(n) for n in sizes]
    for first in (0, 4):
        memory = [np.zeros(x.size + 64, np.float32) for x in (a, b, expected)]
        starts = [(-m.ctypes.data // 4) % 16 + first // 4 for m in memory]
        views = [m[s:s + x.size].reshape(x.shape) for m, s, x in zip(memory, starts, (a, b, expected), strict=True)]
        views[0][...], views[1][...] = a, b
        seen.clear()
        pointers = [ctypes.c_void_p(v.ctypes.data) for v in views]
        assert host.code.host_enqueue(made, None, *given, *pointers) == 0
        np.testing.assert_array_equal(views[2], expected)
        assert seen == ({"v0"} if first else {f"v{host.code.host_variant(made, *given)}"})
        host.code.host_force(made, 1)
        assert host.code.host_enqueue(made, None, *given, *pointers) == (2 if first else 0)
        host.code.host_force(made, -1)
    assert host.code.host_variant(made, *given) == 1
    host.code.host_release(made)
