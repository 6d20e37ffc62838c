"""Timing of several functions against one another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Seconds of the calls of one function."""

    median: float
    best: float
    calls: int


def interleaved(functions: Mapping[str, Callable[[], object]], seconds: float = 1.0, rounds: int = 5) -> dict[str, Times]:
    """Call the functions in turns, so that whatever else the machine does meets all of them alike.

    seconds: roughly how long to measure all in all.  rounds: at least so many calls of each, after one that is not counted.
    """
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for f in functions.values():
        f()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or any(len(t) < rounds for t in taken.values()):
        for name, f in functions.items():
            start = time.perf_counter()
            f()
            taken[name].append(time.perf_counter() - start)
    return {name: Times(statistics.median(t), min(t), len(t)) for name, t in taken.items()}


def duration(seconds: float) -> str:
    """A time as text, e.g. '1.24 ms'."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
