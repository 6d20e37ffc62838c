"""Plans of one graph for several sizes, from which kernels for all of them follow (see opening.py).

    inputs x: f32[batch, 3, height, 224], a run with batch 1 and height 224
    ->  plans for (1, 224), (1, 1184), (1, 227): a size of 1 stays 1, as it makes other programs (axes disappear)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from polytc.errors import CompileError
from polytc.graph.ir import Value
from polytc.graph.plan import Array, Plan

LEAST = 16
"""Code is made to be fast for sizes from here, whatever sizes the first run has."""

FAR = (960, 240, 96, 32)
"""What one size is moved by, the first that the graph allows: multiples of many strides; tables of positions may be short."""

NEAR = (3, 5, 7, 11, 13)
"""What all sizes are moved by at once, each by another number, or else by the same times 32."""

Types = Mapping[str, Array | None]


def sizes_of(inputs: Sequence[Value], types: Types) -> dict[str, int]:
    """The sizes of a run: named extents of inputs by name; unknown ones are called after their place."""
    found: dict[str, int] = {}
    for v, k, name in _open(inputs):
        t = types.get(v.name)
        if t is not None and k < len(t.shape):
            found[name] = t.shape[k]
    return found


def types_at(inputs: Sequence[Value], types: Types, sizes: Mapping[str, int]) -> dict[str, Array | None]:
    """The types of the inputs for other sizes."""
    found = dict(types)
    for v, k, name in _open(inputs):
        t = found.get(v.name)
        if t is not None and name in sizes:
            found[v.name] = replace(t, shape=(*t.shape[:k], sizes[name], *t.shape[k + 1:]))
    return found


def _open(inputs: Sequence[Value]) -> Iterator[tuple[Value, int, str]]:
    for v in inputs:
        for k, d in enumerate(v.shape or ()):
            if not isinstance(d, int):
                yield v, k, d or f"{v.name}[{k}]"


def plans(sizes: Mapping[str, int], typical: Mapping[str, int], build: Callable[[Mapping[str, int]], Plan]) -> list[Plan]:
    """Plans for sizes around these, the first for those that code should be fast for. build: the plan for some sizes, which may
    raise CompileError. [] where the sizes are all 1, or no others are allowed.
    """
    free = [n for n, v in sizes.items() if v > 1]
    base = {n: typical.get(n, max(v, LEAST)) if n in free else v for n, v in sizes.items()}
    start = _built(build, base, None) if free else None
    if start is None and free:
        base = dict(sizes)
        start = _built(build, base, None)
    if start is None:
        return []
    found = [start]
    for name in free:
        found += _first(build, [{**base, name: base[name] + far} for far in FAR], start)
    steps = {n: NEAR[k % len(NEAR)] for k, n in enumerate(free)}
    found += _first(build, [{**base, **{n: base[n] + step * m for n, step in steps.items()}} for m in (1, 32)], start)
    return found if len(found) > 2 else []


def _first(build: Callable[[Mapping[str, int]], Plan], points: Sequence[Mapping[str, int]], like: Plan) -> list[Plan]:
    """The plan for the first point that is allowed and whose plan has the same calls."""
    for point in points:
        plan = _built(build, point, like)
        if plan is not None:
            return [plan]
    return []


def _built(build: Callable[[Mapping[str, int]], Plan], point: Mapping[str, int], like: Plan | None) -> Plan | None:
    try:
        plan = build(point)
    except CompileError:
        return None
    same = like is None or [c.outputs for c in plan.calls] == [c.outputs for c in like.calls]
    return plan if same else None
