"""How loops run: `block0` and `thread1` are loops over work-groups and work-items along an axis, others have a name only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

MAPPED = ("block", "thread")
"""What has axes: work-groups, and work-items of a group."""
AXES = range(3)


@dataclass(frozen=True)
class Kind:
    """name: one of codegen.loops.LoopKind, '' while it is open; axis: of a grid's loop, else None. It prints as it is written
    in a program's ranges and in the marks of a schedule: 'vector', 'block0'."""

    name: str
    axis: int | None = None

    def __str__(self) -> str:
        return self.name if self.axis is None else f"{self.name}{self.axis}"


@cache
def kind(text: str) -> Kind:
    """The kind that prints so."""
    return next((Kind(name, axis) for name in MAPPED for axis in AXES if text == f"{name}{axis}"), Kind(text))


def is_group(text: str) -> bool:
    """Does a loop of the kind run over work-groups?"""
    return kind(text).name == "block"


def is_item(text: str) -> bool:
    """Does a loop of the kind run over the work-items of a group?"""
    return kind(text).name == "thread"


def is_mapped(text: str) -> bool:
    """Does a loop of the kind run over a grid, of work-groups or of items?"""
    return kind(text).axis is not None


def group(axis: int) -> str:
    """The kind of a loop over work-groups."""
    return str(Kind("block", axis))


def item(axis: int) -> str:
    """The kind of a loop over work-items."""
    return str(Kind("thread", axis))


GROUPS, ITEMS = tuple(map(group, AXES)), tuple(map(item, AXES))
AT_ONCE = ("parallel", "vector", "reduce", *GROUPS, *ITEMS)
"""Kinds of loops whose iterations may run at once."""
MATRIX = "matrix"
"""The kind of the loops of a product of two tiles, which a matrix unit does at once where there is one; else they run in
order."""
IN_ORDER = ("sequential", MATRIX)
"""Kinds of loops that may carry a dependence."""
KINDS = ("sequential", "parallel", "unroll", "vector", "reduce", MATRIX, *GROUPS, *ITEMS)
"""Kinds that a mark may name."""
