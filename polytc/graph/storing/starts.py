"""The models that a process found on disk instead of compiling them: one for each set of shapes, the most recent ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polytc.graph.ir import Graph
from polytc.graph.storing import stored
from polytc.graph.storing.stored import Choices, Loaded, Start
from polytc.runtime.lru_cache import LRUCache

Shapes = Mapping[str, Sequence[int]]
_Key = tuple[tuple[str, tuple[int, ...]], ...]


class Starts:
    """Of one graph with its options. False if there are none. Not to be used by two threads at once."""

    def __init__(self, graph: Graph, choices: Choices) -> None:
        self._graph, self._choices = graph, choices
        self._found: LRUCache[_Key, Start] = LRUCache(choices.kept)
        self._loaded = Loaded()
        self._last: Start | None = None

    def __len__(self) -> int:
        return len(self._found)

    def find(self, shapes: Shapes) -> Start | None:
        """The model for these shapes of all inputs, if some process compiled it."""
        key = tuple((n, tuple(map(int, s))) for n, s in shapes.items())
        found = self._found.get(key)
        if found is None:
            found = stored.start(self._graph, self._choices, shapes, self._loaded)
            if found is not None:
                self._found.put(key, found)
        self._last = found if found is not None else self._last
        return found

    def shapes(self) -> list[Shapes]:
        """For which there are some, the most recently used last."""
        return [dict(key) for key, _ in self._found.items()]

    def again(self) -> Starts:
        """The same with memory of their own for intermediate values."""
        other = Starts(self._graph, self._choices)
        other._loaded = self._loaded
        for key, found in self._found.items():
            other._last = other._found.put(key, found.again())
        return other

    def try_fast_path(self, feeds: Mapping[str, Any]) -> list[np.ndarray] | None:
        """All outputs as fresh arrays; None, with nothing done, where the arrays are not of the kind of the last run."""
        return self._last.try_fast_path(feeds) if self._last is not None else None
