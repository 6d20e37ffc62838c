"""Programs of open sizes whose exports have several variants, for the tests of which these are and of what hosts do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import polytc
from polytc.export import bundle, planning, variants
from polytc.export.bundle import Bundle
from polytc.machine import DEVICES
from polytc.program.program import Program
from polytc.targets.opencl import launch_times
from polytc.targets.opencl.target import OpenCLTarget
from tests.export.test_refusals import library, session  # noqa: F401

SM90 = DEVICES["nvidia-sm90"]
MATMUL, SHAPES = "C[i,j] += A[i,k]*B[k,j]", {"A": ("I", "K"), "B": ("K", "J")}
POINTS = [{"I": 2048, "K": 2048, "J": 2048}, {"I": 64, "K": 64, "J": 64}, {"I": 64, "K": 16384, "J": 64},
          {"I": 4096, "K": 4096, "J": 1}]
ODD = [(1, 1, 1), (37, 19, 5), (127, 131, 67), (128, 64, 64), (5, 1000, 1), (1, 257, 31), (64, 5, 1)]
SOFTMAX = """def rows(f32[n,m] X, f32[m] b) -> (Y) {
    S[i,j] = X[i,j]*2 + b[j]
    M[i] max= S[i,j]
    T[i] += exp(S[i,j] - M[i])
    Y[i,j] = exp(S[i,j] - M[i]) / T[i]
}"""


def program(text: str = MATMUL, shapes: Mapping[str, Sequence[Any]] = SHAPES) -> Program:
    return polytc.build(text, dict(shapes))


def of(text: str = MATMUL, shapes: Mapping[str, Sequence[Any]] = SHAPES, points: Sequence[Mapping[str, int]] = POINTS,
       name: str = "host", **given: Any) -> Bundle:
    asked = repr((text, shapes, points, name, sorted(given.items())))
    if asked not in _MADE:
        _MADE[asked] = variants.of_program(program(text, shapes), OpenCLTarget(SM90), name, typical=points, **given)
    return _MADE[asked]


_MADE: dict[str, Bundle] = {}
"""By what was asked for: many tests look at the same bundles."""


def product(sizes: Sequence[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r, (i, k, j) = np.random.default_rng(seed), sizes
    a, b = (r.integers(-4, 5, shape).astype(np.float32) for shape in ((i, k), (k, j)))
    return a, b, (a.astype(np.float64) @ b).astype(np.float32)


def seconds(v: Bundle, point: Mapping[str, int]) -> float:
    low = v.units[0].lowered
    found = v.model.launches if v.model is not None else launch_times.of_source(low.source, low.rewritten, SM90, {})
    assert found is not None
    return planning.seconds(low, found, point, SM90)


def multiples_of(divisor: int, point: Mapping[str, int], text: str = MATMUL, shapes: Mapping[str, Sequence[Any]] = SHAPES
                 ) -> Bundle:
    """A plan for all sizes, and one for multiples."""
    built, target = program(text, shapes), OpenCLTarget(SM90)
    (plain,) = planning.of_points(built, target, [point], [point])
    whole = variants.of_multiple(built, target, point, divisor, [point])
    assert whole is not None
    return variants._bundle(built, target, "host", [plain, whole], bundle.limits(built))
