"""Launches in the order in which they are made: those in loops of the host, in each iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from polytc.codegen.target import Launch
from polytc.program import extents


class LaunchInstance(NamedTuple):
    """One launch. number: of the Launch; values: of the loops' variables around it."""

    number: int
    values: Mapping[str, int]


def in_order(launches: Sequence[Launch], numbers: Mapping[str, int]) -> Iterator[LaunchInstance]:
    """The launches as they follow one another. numbers: values of the sizes that are not fixed."""
    return _below(tuple(enumerate(launches)), 0, dict(numbers), {})


def _below(some: Sequence[tuple[int, Launch]], depth: int, numbers: dict[str, int], values: Mapping[str, int]
           ) -> Iterator[LaunchInstance]:
    """depth: loops around, which are under way; numbers: of the sizes, and of these loops."""
    for repeat, run in groupby(some, key=lambda x: x[1].loops[depth] if len(x[1].loops) > depth else None):
        inside = tuple(run)
        if repeat is None:
            yield from (LaunchInstance(n, values) for n, _ in inside)
            continue
        for value in range(extents.at(repeat.lower, numbers), extents.at(repeat.upper, numbers), repeat.step):
            yield from _below(inside, depth + 1, numbers | {repeat.var: value}, {**values, repeat.var: value})
