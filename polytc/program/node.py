"""Nodes of expressions: frozen dataclasses that remember what was found out about them, as the terms of a Program and the
expressions of the Loop AST do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def node(cls: type[C]) -> type[C]:
    """A frozen dataclass that computes its hash once: passes keep expressions in dictionaries, and a tree is hashed in time
    proportional to its size. The class inherits `__slots__` with `_hash` in it. The hash is no field, so that no pickle carries
    it into a process with other hashes of strings."""
    made = dataclass(frozen=True, slots=True)(cls)
    compute = made.__hash__

    def cached(self: Any) -> int:
        try:
            return self._hash
        except AttributeError:
            value = compute(self)
            object.__setattr__(self, "_hash", value)
            return value

    made.__hash__ = cached  # type: ignore[method-assign]
    return made
