"""Choices: the one source of chance of the generator, so that hypothesis, a seed or a list of numbers can decide.

Every decision is a number below n, and 0 is the simplest: lists name their plainest entry first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """taken: what has been decided so far, which `replayed` decides again."""

    def __init__(self, source: Callable[[int], int]) -> None:
        self._source = source
        self.taken: list[int] = []

    def below(self, n: int) -> int:
        value = self._source(n)
        self.taken.append(value)
        return value

    def between(self, low: int, high: int) -> int:
        """low to high, both included."""
        return low + self.below(high - low + 1)

    def of(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def likely(self, percent: int) -> bool:
        """False is the simplest."""
        return self.below(100) >= 100 - percent

    def shuffled(self, items: Sequence[T]) -> list[T]:
        rest, found = list(items), []
        while rest:
            found.append(rest.pop(self.below(len(rest))))
        return found

    def some(self, items: Sequence[T], most: int) -> list[T]:
        """Different ones, at most so many."""
        return self.shuffled(items)[:self.below(min(most, len(items)) + 1)]


def seeded(seed: int) -> Choices:
    return Choices(random.Random(seed).randrange)


def replayed(numbers: Sequence[int]) -> Choices:
    """What was `taken`, changed at will: numbers too large are cut, missing ones are 0."""
    rest = iter(numbers)
    return Choices(lambda n: min(next(rest, 0), n - 1))
