"""Where each intermediate value lies: offsets in one arena, reused as soon as a value is dead."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polytc import errors
from polytc.machine import ALIGNMENT

errors.register(E612="value that does not fit into memory")


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a system of POSIX, or it does not say
        return 1 << 47


LARGEST = _physical()
"""Bytes: no value of a model may be larger. The memory of this machine, or what a processor can address."""


@dataclass(frozen=True)
class Life:
    """A value of `bytes` bytes that step `first` writes and step `last` is the last to read."""

    name: str
    bytes: int
    first: int
    last: int

    def meets(self, other: Life) -> bool:
        """Are both alive in some step?"""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """offsets: name -> bytes from the start, a multiple of ALIGNMENT. bytes: size of the whole."""

    offsets: dict[str, int]
    bytes: int


def plan(lives: Iterable[Life]) -> Arena:
    """Place values so that no two that are alive together overlap. Largest first, each into the tightest gap that holds it."""
    every = sorted(lives, key=lambda v: (-v.bytes, v.first, v.name))
    sizes = [_rounded(life.bytes) for life in every]
    together = _alive_together(every)
    starts = [-1] * len(every)
    for k, others in enumerate(together):
        busy = sorted((starts[n], starts[n] + sizes[n]) for n in others if starts[n] >= 0)
        starts[k] = _tightest(busy, sizes[k])
    return Arena({life.name: start for life, start in zip(every, starts)},
                 max((start + size for start, size in zip(starts, sizes)), default=0))


def _alive_together(lives: Sequence[Life]) -> list[list[int]]:
    """For each value, the others that are alive in some step of its life."""
    found: list[list[int]] = [[] for _ in lives]
    alive: list[int] = []
    for k in sorted(range(len(lives)), key=lambda n: lives[n].first):
        alive = [n for n in alive if lives[n].last >= lives[k].first]
        for n in alive:
            found[n].append(k)
        found[k] += alive
        alive.append(k)
    return found


def _rounded(size: int) -> int:
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


def _tightest(busy: list[tuple[int, int]], size: int) -> int:
    """Start of the smallest gap of at least `size` between busy ranges, or the end of the last one."""
    best, best_gap, end = None, 0, 0
    for start, stop in busy:
        gap = start - end
        if gap >= size and (best is None or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, stop)
    return end if best is None else best


@dataclass(frozen=True)
class Slots:
    """numbers: name -> its buffer; bytes: of each buffer."""

    numbers: dict[str, int]
    bytes: tuple[int, ...]


def share(lives: Iterable[Life]) -> Slots:
    """Give values buffers of their own, no two that are alive together the same one, for memory that has no parts. Largest
    first, each into the smallest buffer that is free and holds it."""
    users: list[list[Life]] = []
    numbers: dict[str, int] = {}
    for life in sorted(lives, key=lambda v: (-v.bytes, v.first, v.name)):
        # buffers are made in order of size: the last that is free is the tightest
        free = [n for n, others in enumerate(users) if not any(life.meets(o) for o in others)]
        number = free[-1] if free else len(users)
        if not free:
            users.append([])
        users[number].append(life)
        numbers[life.name] = number
    return Slots(numbers, tuple(_rounded(own[0].bytes) for own in users))
