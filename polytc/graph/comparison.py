"""How far a result is from what is expected, and how far it may be."""

from __future__ import annotations

import numpy as np

TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-10}
"""Bytes of a float type -> allowed difference, relative to the largest magnitude of the result. All else must be equal."""


def allowed_error(dtype: np.dtype) -> float:
    """What a result of that type may be off, relative to its largest magnitude."""
    return TOLERANCES.get(dtype.itemsize, 0.0) if dtype.kind == "f" else 2e-2 if dtype.name == "bfloat16" else 0.0


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
