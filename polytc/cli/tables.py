"""Tables that the commands print."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.console import Console
from rich.table import Table


def console() -> Console:
    """Where results go. A pipe gets plain text, as wide as it needs."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=160)


def print_arrays(arrays: Mapping[str, np.ndarray]) -> None:
    """One line an array: shape, type and a summary of its values."""
    table = Table("name", "shape", "type", "min", "max", "mean")
    for name, array in arrays.items():
        summary = [f"{f(array):.6g}" if array.size else "-" for f in (np.min, np.max, np.mean)]
        table.add_row(name, "x".join(map(str, array.shape)) or "scalar", str(array.dtype), *summary)
    console().print(table)


def largest_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest magnitude that is expected; equal NaNs and infinities do not differ."""
    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    with np.errstate(all="ignore"):
        a, b = found.astype(np.float64), expected.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        difference = np.where(same, 0.0, np.abs(a - b))
        finite = np.abs(b[np.isfinite(b)])
        scale = float(finite.max()) if finite.size else 0.0
    worst = float(np.max(difference))
    return float("inf") if np.isnan(worst) else worst / (scale or 1.0)
