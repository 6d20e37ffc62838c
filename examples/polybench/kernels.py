"""The kernels by name: text, sizes, arguments, and which part of the results is determined."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from examples.polybench.initial import INITIAL

FOLDER = Path(__file__).parent
SIZES = ("MINI", "SMALL", "MEDIUM", "LARGE", "EXTRALARGE")

INDEPENDENT = (13, 37, 103, 503, 1000)
"""gramschmidt's first columns that do not depend on those before them, by size. What it makes of the next one is
rounding errors divided by rounding errors, or 0/0."""


@dataclass(frozen=True)
class Kernel:
    """name: PolyBench's. text: the program; its inputs and outputs have PolyBench's names. results: the outputs that PolyBench
    prints; others are its scratch. extents: of each size parameter the values for SIZES."""

    name: str
    text: str
    results: tuple[str, ...]
    extents: Mapping[str, list[int]]

    def sizes(self, size: str) -> dict[str, int]:
        """Of a problem size, one of SIZES: N -> 2000."""
        return {name: values[SIZES.index(size)] for name, values in self.extents.items()}

    def arguments(self, size: str) -> dict[str, Any]:
        """Fresh arrays, which the program may overwrite, and numbers, by name."""
        return INITIAL[self.name](**self.sizes(size))

    def determined(self, size: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The results, as far as they depend on the order of operations by no more than rounding errors.

        arrays: at least the results; their elements in order, whatever their shape.
        """
        results = {name: arrays[name] for name in self.results}
        if self.name != "gramschmidt":
            return results
        columns, N = INDEPENDENT[SIZES.index(size)], self.sizes(size)["N"]
        return {"R": results["R"].reshape(-1, N)[:columns], "Q": results["Q"].reshape(-1, N)[:, :columns]}


def _read() -> dict[str, Kernel]:
    table = tomllib.loads((FOLDER / "kernels.toml").read_text(encoding="utf-8"))
    return {name: Kernel(name, (FOLDER / f"{name}.ein").read_text(encoding="utf-8"), tuple(row.pop("results")), row)
            for name, row in table.items()}


KERNELS = _read()
"""By name, in PolyBench's order."""
