"""How far a result is from what is expected, and how far it may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-10}
"""Bytes of a float type -> allowed difference, relative to the largest magnitude of the result. All else must be equal."""


def allowed_error(dtype: np.dtype) -> float:
    """What a result of that type may be off, relative to its largest magnitude."""
    return TOLERANCES.get(dtype.itemsize, 0.0) if dtype.kind == "f" else 2e-2 if dtype.name == "bfloat16" else 0.0


def worst(found: Sequence[Any], expected: Sequence[Any]) -> tuple[float, float]:
    """The largest error of some values, arrays or sequences of them, and the largest that is allowed."""
    pairs = list(_arrays(found, expected))
    return (max((largest_error(a, b) for a, b in pairs), default=0.0),
            max((allowed_error(b.dtype) for _, b in pairs), default=0.0))


def _arrays(found: Any, expected: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of two values of one structure the arrays that stand at one place; of others something that differs."""
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple) and len(found) == len(expected):
        for a, b in zip(found, expected, strict=True):
            yield from _arrays(a, b)
    elif isinstance(expected, np.ndarray | np.generic) and isinstance(found, np.ndarray | np.generic):
        yield np.asarray(found), np.asarray(expected)
    elif found is not None or expected is not None:
        yield np.zeros(1), np.zeros(0)


def largest_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest magnitude that is expected; infinite for other shapes and types. Equal
    NaNs and infinities do not differ."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    if not expected.size:
        return 0.0
    if expected.dtype.kind in "OSU":
        return 0.0 if np.array_equal(found, expected) else float("inf")
    with np.errstate(all="ignore"):
        a, b = found.astype(np.float64), expected.astype(np.float64)
        same = (found == expected) | (np.isnan(a) & np.isnan(b))
        difference = np.where(same, 0.0, np.abs(a - b))
        finite = np.abs(b[np.isfinite(b)])
    worst = float(np.max(difference))
    scale = float(finite.max()) if finite.size else 0.0
    return float("inf") if np.isnan(worst) else worst / (scale or 1.0)
