"""Plans of one graph for several sizes, from which kernels for all of them follow (see running/open_kernels.py).

    inputs x: f32[batch, 3, height, 224], a run with batch 1 and height 224
    ->  plans for (1, 224), (1, 1184), (1, 227): a size of 1 stays 1, as it makes other programs (axes disappear)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from polytc.errors import CompileError
from polytc.graph.ir import Value
from polytc.graph.plan import Array, Plan

SMALLEST_TYPICAL = 16
"""Code is made to be fast for sizes from here, whatever sizes the first run has."""

FAR = (960, 240, 96, 32)
"""What one size is moved by, the first that the graph allows: multiples of many strides; tables of positions may be short."""

NEAR = (3, 5, 7, 11, 13)
"""What all sizes are moved by at once, each by another number, or else by the same times 32."""

NEAREST = (1, 3)
"""What each size is moved by besides, where that is allowed."""

SMALL = (12, 5, 3, 2, 1, -1, -2, -3)
"""Moves that are tried last, where a size is confined to a few numbers."""

PARTS = (2, 4)
"""What each size is divided by besides: quotients by a size hardly change where it is large."""

UNKNOWN = 24
"""Extents without names that a graph may have, so that its samples do not take long to find."""

Types = Mapping[str, Array | None]
Build = Callable[[Mapping[str, int]], Plan]
T = TypeVar("T")


def sizes_of(inputs: Sequence[Value], types: Types) -> dict[str, int]:
    """The sizes of a run: named extents of inputs by name; unknown ones are called after their place, or as an equal one is."""
    return {name: types_of(types, v).shape[k] for v, k, name in _open(inputs, types)}


def types_at(inputs: Sequence[Value], types: Types, sizes: Mapping[str, int]) -> dict[str, Array | None]:
    """The types of the inputs for other sizes."""
    found = dict(types)
    for v, k, name in _open(inputs, types):
        t = types_of(found, v)
        found[v.name] = replace(t, shape=(*t.shape[:k], sizes.get(name, t.shape[k]), *t.shape[k + 1:]))
    return found


def pattern(inputs: Sequence[Value], types: Types) -> tuple[object, ...]:
    """What runs have in common that the same samples serve: which extents are open and which of them are the same, and the
    sizes that stay as they are."""
    return tuple((v.name, k, name, n if n <= 1 else None) for v, k, name in _open(inputs, types)
                 for n in [types_of(types, v).shape[k]])


def types_of(types: Types, v: Value) -> Array:
    found = types[v.name]
    assert found is not None, f"samples: {v} is no tensor"
    return found


def _open(inputs: Sequence[Value], types: Types) -> Iterator[tuple[Value, int, str]]:
    """The open extents: inputs, dimensions, names of sizes."""
    named: list[tuple[Value, int, str]] = []
    unknown: list[tuple[Value, int]] = []
    for v in inputs:
        t = types.get(v.name)
        if t is None:
            continue
        for k, d in enumerate((None,) * len(t.shape) if v.shape is None else v.shape[:len(t.shape)]):
            if isinstance(d, str) and d:
                named.append((v, k, d))
            elif d is None or d == "":
                unknown.append((v, k))
    yield from named
    names = {types_of(types, v).shape[k]: name for v, k, name in reversed(named)}
    for v, k in unknown if len(unknown) <= UNKNOWN else ():
        n = types_of(types, v).shape[k]
        yield v, k, names.setdefault(n, f"{v.name}[{k}]") if n > 1 else f"{v.name}[{k}]"


def plans(sizes: Mapping[str, int], typical: Mapping[str, int], build: Build) -> list[Plan]:
    """Plans for sizes around these, the first for those that code should be fast for. build: the plan for some sizes, which may
    raise CompileError. [] where the sizes are all 1, or no others are allowed.
    """
    first: list[Plan] = []

    def made(point: Mapping[str, int]) -> Plan | None:
        """The plan, if it has the calls that the first one has."""
        try:
            plan = build(point)
        except CompileError:
            return None
        first.append(plan)
        return plan if [c.outputs for c in plan.calls] == [c.outputs for c in first[0].calls] else None
    return samples(sizes, typical, made, FAR)


def points(sizes: Mapping[str, int], typical: Mapping[str, int], allowed: Callable[[Mapping[str, int]], bool]
           ) -> list[Mapping[str, int]]:
    """Sizes around these in a region of them, the first ones those that code should be fast for; [] as in `plans`. Multiples
    tell little of quotients: some are odd. Sizes moved one by one tell little of products: some are moved together, and far."""
    found: list[Mapping[str, int]] = samples(
        sizes, typical, lambda point: dict(point) if allowed(point) else None, (*FAR, *SMALL))
    moved = [{**found[0], n: found[0][n] + step} for n, step in itertools.product(found[0] if found else (), NEAREST)]
    moved += [{**found[0], n: found[0][n] // part} for n, part in itertools.product(found[0] if found else (), PARTS)]
    ends = [{n: end(point[n] for point in found) for n in sizes} for end in (max, min) if found]
    for point in (*moved, *ends):
        found += [point] if point not in found and allowed(point) else []
    return found


def samples(sizes: Mapping[str, int], typical: Mapping[str, int], build: Callable[[Mapping[str, int]], T | None],
            far: Sequence[int]) -> list[T]:
    """What is built for sizes around these. build: None where sizes are not allowed; far: what one size is moved by."""
    free = [n for n, v in sizes.items() if v > 1]
    wanted = {n: typical.get(n, max(v, SMALLEST_TYPICAL)) if n in free else v for n, v in sizes.items()}
    base, start = _start(free, [wanted, sizes], build)
    if start is None:
        return []
    ways = _ways(free, base, build, far)
    if base != wanted:  # sizes that depend on each other can only be raised together
        wanted = _sum(base, {way: max((typical[n] - base[n] for n in way if n in typical),
                                      default=max(0, SMALLEST_TYPICAL - min(base[n] for n in way))) for way, _ in ways})
        higher = build(wanted) if wanted != base else None
        if higher is not None:
            base, start, ways = wanted, higher, _ways(free, wanted, build, far)
    steps = {way: NEAR[k % len(NEAR)] for k, (way, _) in enumerate(ways)}
    together = [_sum(base, {way: step * m for way, step in steps.items()}) for m in (1, 32)]
    found = [start, *(made for _, made in ways), *_first(build, together)]
    return found if len(found) > 2 else []


def _start(free: Sequence[str], places: Sequence[Mapping[str, int]], build: Callable[[Mapping[str, int]], T | None]
           ) -> tuple[Mapping[str, int], T | None]:
    """The first point that is allowed, with what is built for it; none where nothing is free."""
    for point in places if free else ():
        made = build(point)
        if made is not None:
            return point, made
    return {}, None


def _ways(free: Sequence[str], base: Mapping[str, int], build: Callable[[Mapping[str, int]], T | None], far: Sequence[int]
          ) -> list[tuple[tuple[str, ...], T]]:
    """How each size can be moved: alone, or, where that is not allowed, with another one, as the extent of a cache is with the
    extent of a mask. With what is built for that."""
    found: list[tuple[tuple[str, ...], T]] = []
    for name in free:
        for way in ((name,), *((name, other) for other in free if other != name)):
            if any(set(way) == set(known) for known, _ in found):
                break
            made = _first(build, [_sum(base, {way: step}) for step in far])
            if made:
                found.append((way, made[0]))
                break
    return found


def _sum(base: Mapping[str, int], moves: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    """The sizes after some moves."""
    return {n: v + sum(step for way, step in moves.items() if n in way) for n, v in base.items()}


def _first(build: Callable[[Mapping[str, int]], T | None], places: Sequence[Mapping[str, int]]) -> list[T]:
    """What is built for the first point that is allowed."""
    for point in places:
        made = build(point)
        if made is not None:
            return [made]
    return []
