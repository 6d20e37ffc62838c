"""Estimates: seconds on a machine, as the sum of named parts.

    Estimate(arithmetic=9e-7, second=4e-7)          prints 1.3 us: arithmetic 0.9, second 0.4

Counts of cycles become seconds by the clock of the machine. Estimates of different kinds, as of a register tile, of a launch
and of a parallel region, can be compared and added up.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter

from polytc.machine.records import Machine

LEVELS = ("first", "second", "third")
"""The caches, by the names of their parts of an estimate and of their costs."""


@dataclass(frozen=True)
class Estimate:
    """Seconds. first, second, third, memory: for bytes that come from that cache, and from memory; launches: starting kernels;
    barriers: items of a group that wait for each other; threads: starting threads, and waiting for the last."""

    arithmetic: float = 0.0
    first: float = 0.0
    second: float = 0.0
    third: float = 0.0
    memory: float = 0.0
    launches: float = 0.0
    barriers: float = 0.0
    threads: float = 0.0

    @property
    def seconds(self) -> float:
        """All parts together."""
        return sum(_values(self))

    @property
    def told(self) -> str:
        """The sum alone, `1.3 us`."""
        return str(self).split(":")[0]

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(*map(float.__add__, _values(self), _values(other)))

    def __mul__(self, times: float) -> Estimate:
        return Estimate(*(x * times for x in _values(self)))

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Estimate:
        return Estimate(*(x / divisor for x in _values(self)))

    def __str__(self) -> str:
        whole = self.seconds
        scale, unit = next(((s, u) for s, u in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")) if whole >= s), (1e-9, "ns"))
        parts = [f"{n} {_short(v / scale)}" for n, v in zip(_NAMES, _values(self), strict=True) if v >= 0.005 * whole > 0]
        return f"{_short(whole / scale)} {unit}{': ' if parts else ''}{', '.join(parts)}"


_NAMES = tuple(f.name for f in fields(Estimate))
_values = attrgetter(*_NAMES)


def _short(number: float) -> str:
    """With two digits, and no exponent."""
    return f"{number:.0f}" if number >= 100 else f"{number:.2g}"


def arithmetic(machine: Machine, cycles: float) -> Estimate:
    """Cycles of one core, beside memory."""
    return Estimate(arithmetic=cycles / machine.clock)


def moved(machine: Machine, count: float, size: float) -> Estimate:
    """So many bytes that come from the smallest memory that holds `size` bytes."""
    level = level_of(machine, size)
    spent = count * machine.costs.of_byte(level, len(machine.caches)) / machine.clock
    return Estimate(**{LEVELS[min(level, 2)] if level < len(machine.caches) else "memory": spent})


def streamed(machine: Machine, size: int) -> Estimate:
    """So many bytes that are read once, from the cache behind the first in half of which they fit."""
    fitting = (n for n, cache in enumerate(machine.caches) if n and 2 * size <= cache.bytes)
    level = min(next(fitting, len(LEVELS)), len(LEVELS))
    spent = size / machine.costs.stream(level) / machine.clock
    return Estimate(**{LEVELS[level] if level < len(LEVELS) else "memory": spent})


def strips(machine: Machine, rows: float) -> Estimate:
    """So many rows of narrow strips of tensors behind the second cache."""
    return Estimate(memory=rows * machine.costs.traffic.strip / machine.clock)


def level_of(machine: Machine, size: float) -> int:
    """The first cache that holds so many bytes, 0 the smallest; the number of caches if none does."""
    return next((n for n, cache in enumerate(machine.caches) if size <= cache.bytes), len(machine.caches))


def regions(machine: Machine, count: float) -> Estimate:
    """So many parallel regions."""
    return Estimate(threads=count * machine.costs.threads.region / machine.clock)


def of_all_units(machine: Machine, count: float) -> Estimate:
    """So many bytes from and to a device's memory, by all its units."""
    return Estimate(memory=count / (machine.costs.groups.memory * machine.cores))


def longer(a: Estimate, b: Estimate) -> Estimate:
    """Of two things that go on beside each other."""
    return max(a, b, key=lambda e: e.seconds)
