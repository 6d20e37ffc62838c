"""The rows of benchmarks/cliffs.py: programs as users first write them, each beside what does the same fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Run = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """ours: the plain form; peers: what it is compared with, by name, other forms of it in polytc among them. goal: of its time
    over that of the fastest peer. exact: do the results have to be equal, bit for bit? compared: are they at all?"""

    name: str
    ours: Run
    peers: dict[str, Run]
    goal: float
    exact: bool = False
    compared: bool = True


def rng(seed: int = 7) -> np.random.Generator:
    """Random numbers that are the same each time."""
    return np.random.default_rng(seed)


def floats(*shape: int, seed: int = 7, dtype: Any = np.float32) -> np.ndarray:
    """An array of them."""
    return rng(seed).standard_normal(shape).astype(dtype)
