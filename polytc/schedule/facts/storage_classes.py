"""Storage that temporaries share whose lives are apart: each place in an order of steps needs what is alive there.

    T0 lives in steps 0..3, T1 in 2..5, T2 in 4..7   ->   T0 and T2 share, T1 has its own

By the order in which lives begin, each takes the storage that is free and wastes least, or new one (left edge algorithm:
Hashimoto & Stevens, Wire Routing by Optimizing Channel Assignment, DAC 1971).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Life:
    """name: of a temporary; first, last: the steps that use it; bytes: that it has; like: what only those of one kind share,
    such as the type of elements."""

    name: str
    first: int
    last: int
    bytes: int
    like: Hashable = None


def classes(lives: Iterable[Life]) -> tuple[tuple[Life, ...], ...]:
    """The temporaries that share storage, in the order of their lives."""
    found: list[list[Life]] = []
    for x in sorted(lives, key=lambda x: (x.first, x.last, x.name)):
        free = [c for c in found if c[-1].last < x.first and c[0].like == x.like]
        if free:
            min(free, key=lambda c: abs(max(y.bytes for y in c) - x.bytes)).append(x)
        else:
            found.append([x])
    return tuple(map(tuple, found))


def needed(lives: Iterable[Life]) -> int:
    """Bytes of all storage."""
    return sum(max(x.bytes for x in c) for c in classes(lives))
