"""A bounded dictionary that forgets what was not asked for for the longest time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """At most `most` values by key. Several threads may use it at once: each operation is whole or not at all."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, which counts as used now; None if there is none."""
        found = self._known.get(key)
        if found is not None:
            with suppress(KeyError):  # another thread has just forgotten it
                self._known.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> V:
        """Remember the value, and return it."""
        self._known[key] = value
        self._known.move_to_end(key)
        while len(self._known) > self.most:
            with suppress(KeyError):
                self._known.popitem(last=False)
        return value

    def items(self) -> list[tuple[K, V]]:
        """Keys and values, the most recently used last."""
        return list(self._known.items())

    def __len__(self) -> int:
        return len(self._known)
