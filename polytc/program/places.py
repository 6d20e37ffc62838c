"""Where the elements of an array lie in another one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where the elements of an array lie in another one. shape: of that. axes: for each of its dimensions the axis of the array
    whose index counts there, None for none; starts: what is added to that index; ends: where an index runs backwards, its last
    value, None elsewhere. exact: does every element of the one have its own place in the other, and each place an element?"""

    shape: tuple[int, ...]
    axes: tuple[int | None, ...]
    starts: tuple[int, ...]
    ends: tuple[int | None, ...]
    exact: bool
