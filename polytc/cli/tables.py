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
