"""A few numbers that tell an array from others, and those of the results of PolyBench's own C programs (checksums.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from examples.polybench.kernels import Kernel

FILE = Path(__file__).parent / "checksums.json"
"""kernel -> size -> result -> `checksum`; of gcc -O2, whose operations are those of the C text, in its order."""

EXACT = ("floyd-warshall", "nussinov")
"""The kernels that compute with integers."""


def tolerance(kernel: str) -> float:
    """What `deviation` may be where operations are done in another order. durbin amplifies rounding errors more and more."""
    if kernel in EXACT:
        return 1e-14  # the sums are exact, the weighted one is not
    return {"deriche": 1e-5, "durbin": 1e-6}.get(kernel, 1e-10)


def checksum(array: np.ndarray) -> list[float]:
    """The sum, the sum of magnitudes, a sum weighted by position, the least and the greatest element; computed in f64."""
    x = array.astype(np.float64).reshape(-1)
    weights = np.arange(x.size) * 7919 % 1009 / 1009
    return [float(n) for n in (x.sum(), abs(x).sum(), x @ weights, x.min(), x.max())]


def deviation(array: np.ndarray, expected: list[float]) -> float:
    """The largest difference of the numbers from the expected ones: of sums relative to that of magnitudes, of the extremes
    relative to the larger one. NaN where the array has NaNs."""
    found = checksum(array)
    scales = [expected[1]] * 3 + [max(abs(expected[3]), abs(expected[4]))] * 2
    return float(np.max([abs(f - e) / s if s else abs(f - e) for f, e, s in zip(found, expected, scales)]))


def stored() -> dict[str, dict[str, dict[str, list[float]]]]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def largest_deviation(kernel: Kernel, size: str, arrays: Mapping[str, np.ndarray]) -> float:
    """Of the kernel's determined results from those of the C program. Raises KeyError for sizes that were not kept."""
    expected = stored()[kernel.name][size]
    return max(deviation(array, expected[name]) for name, array in kernel.determined(size, arrays).items())


def keep(kernel: Kernel, size: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Store the numbers of a C program's results."""
    data = stored()
    data.setdefault(kernel.name, {})[size] = {name: checksum(array) for name, array in kernel.determined(size, arrays).items()}
    kernels = [f'"{k}": {{\n' + ",\n".join(f' "{s}": {json.dumps(results)}' for s, results in sizes.items()) + "\n}"
               for k, sizes in data.items()]
    FILE.write_text("{\n" + ",\n".join(kernels) + "\n}\n", encoding="utf-8")
