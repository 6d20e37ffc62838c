"""Operators that only give the same elements another shape, or a result that shapes alone decide."""

from __future__ import annotations

import math

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Site, View
from polytc.graph.operators.index_packs import indices, ranges
from polytc.graph.operators.movement.movement import move
from polytc.program.scalars import I64


def same(site: Site) -> Lowering:
    return View(0, site.shape(0))


def reshape(site: Site) -> Lowering:
    """0 copies an extent of the input (unless allowzero), -1 takes what remains."""
    asked = site.ints_of("shape", 1) or []
    shape, size = site.shape(0), math.prod(site.shape(0))
    if not site.attr("allowzero", 0):
        asked = [shape[i] if d == 0 and i < len(shape) else d for i, d in enumerate(asked)]
    rest = math.prod(d for d in asked if d != -1)
    result = tuple((size // rest if rest else 0) if d == -1 else d for d in asked)
    if math.prod(result) != size:
        raise site.misfit(f"{size} elements cannot take the shape {list(asked)}")
    return View(0, result)


def flatten(site: Site) -> Lowering:
    axis = site.attr("axis", 1)
    axis = axis if axis == site.rank(0) else site.axis(axis, site.rank(0))
    shape = site.shape(0)
    return View(0, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def squeeze(site: Site) -> Lowering:
    shape = site.shape(0)
    given = site.ints_of("axes", 1)
    axes = {i for i, d in enumerate(shape) if d == 1} if given is None else {site.axis(a, len(shape)) for a in given}
    if any(shape[a] != 1 for a in axes):
        raise site.misfit(f"an axis of {sorted(axes)} is not of extent 1")
    return View(0, tuple(d for i, d in enumerate(shape) if i not in axes))


def unsqueeze(site: Site) -> Lowering:
    given = site.ints_of("axes", 1) or []
    rank = site.rank(0) + len(given)
    axes = {site.axis(a, rank) for a in given}
    if len(axes) != len(given):
        raise site.misfit(f"the axes {given} name one twice")
    old = iter(site.shape(0))
    return View(0, tuple(1 if i in axes else next(old) for i in range(rank)))


def filled(site: Site) -> Lowering:
    """A value everywhere. Where the shape is known the result is, but for one that follows from traced sizes."""
    shape = site.ints(0, "shape")
    value = np.asarray(site.attr("value", np.zeros(1, np.float32))).reshape(-1)[:1].reshape(())
    names = indices(len(shape))
    return move(value, names, [], ranges(names, shape))


def steps(site: Site) -> Lowering:
    """Integers at equal distances, as many as traced sizes say."""
    start, limit, delta = (site.ints(i, name)[0] for i, name in enumerate(("start", "limit", "delta")))
    if site.dtype(0) != I64:
        raise site.unsupported("no range of integers, between sizes")
    return Apply("movement.Steps", (0, 2), attrs={"n": max(-((start - limit) // delta), 0)})


def by_value(site: Site) -> Lowering:
    """Shapes and ranges: onnx's own evaluator computes the result as soon as all inputs are known."""
    for i, name in enumerate(site.node.inputs):
        site.known(i, name)
    raise AssertionError("a node with known inputs is folded before it is bound")


ROWS: dict[str, Binder] = {
    "ConstantOfShape": filled, "Range": steps, "HannWindow": by_value, "HammingWindow": by_value,
    "BlackmanWindow": by_value, "MelWeightMatrix": by_value,
    "Identity": same, "Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze, "Unsqueeze": unsqueeze}
