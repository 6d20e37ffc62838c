"""Operators that write to places which other values name."""

from __future__ import annotations

import math

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Site, View
from polytc.graph.operators.index_packs import indices, spell
from polytc.graph.operators.movement.movement import padded

_REDUCTIONS = ("none", "add", "mul", "max", "min")


def _entry(site: Site) -> str:
    reduction = site.attr("reduction", "none")
    if reduction not in _REDUCTIONS:
        raise site.misfit(f"the reduction {reduction!r}; known are {', '.join(_REDUCTIONS)}")
    if reduction != "none" and site.dtype(0).kind == "b":
        raise site.unsupported(f"the reduction {reduction!r} of booleans")
    return f"scattering.Scatter_{reduction}"


def scatter_elements(site: Site) -> Lowering:
    """Y[.., I[i], ..] = U[i]: one axis is named by I, the others are those of I."""
    shape, places = site.shape(0), site.shape(1)
    axis = site.axis(site.attr("axis", 0), len(shape))
    if len(places) != len(shape) or site.shape(2) != places or any(
            p > e for a, (p, e) in enumerate(zip(places, shape)) if a != axis):
        raise site.misfit("indices and updates need one shape, no larger than the data besides the axis")
    entry = _entry(site)
    if not math.prod(places) or not math.prod(shape):
        return View(0, shape)
    site.within(1, site.along(0, axis))
    names = indices(len(shape))
    to = [f"J[{spell(names)}]" if a == axis else n for a, n in enumerate(names)]
    return (Apply("scattering.Places", (1,), ("j",), attrs={"n": shape[axis]}),
            Apply(entry, (0, "j", 2), spell={"y": spell(indices(len(shape), "y")), "u": spell(names), "to": spell(to)}))


def scatter_nd(site: Site) -> Lowering:
    """The last axis of I holds one number for each of the first axes of the data."""
    shape, places = site.shape(0), site.shape(1)
    if not places or places[-1] > len(shape) or site.shape(2) != places[:-1] + shape[places[-1]:]:
        raise site.misfit("the updates need the shape of the indices without the last axis, then that of the parts of the data")
    entry, depth = _entry(site), places[-1]
    if not math.prod(site.shape(2)) or not math.prod(shape):
        return View(0, shape)
    at, after = indices(len(places) - 1, "j"), indices(len(shape) - depth, "c")
    extents = np.array(shape[:depth], np.int64)
    site.within(1, *(site.along(0, d) for d in range(depth)))
    spelling = {"y": spell(indices(len(shape), "y")), "u": spell([*at, *after]),
                "to": spell([*(f"J[{spell([*at, str(d)])}]" for d in range(depth)), *after])}
    return (Apply("scattering.PlacesByAxis", (1, extents), ("j",)), Apply(entry, (0, "j", 2), spell=spelling))


def max_unpool(site: Site) -> Lowering:
    """Each element goes to the row-major place, in the image that was pooled, that its index names; the rest is zero."""
    shape, n = site.shape(0), site.rank(0) - 2
    kernel = [int(k) for k in site.attr("kernel_shape")]
    strides, pads = site.attr("strides") or [1] * n, site.attr("pads") or [0] * 2 * n
    pooled = (*shape[:2], *((shape[a + 2] - 1) * strides[a] + kernel[a] - pads[a] - pads[a + n] for a in range(n)))
    asked = tuple(site.ints(2, "output_shape")) if site.has(2) else pooled
    if len(asked) != n + 2 or min(asked[:2]) < 0 or min(asked[2:], default=1) < 1:
        raise site.misfit(f"the result cannot have the shape {list(asked)}")
    site.within(1, (0, math.prod(pooled), "the image that was pooled"))
    names = indices(n + 2)
    zeros = f"Y[p] = {site.dtype(0)}(0) where p in 0:{math.prod(pooled)}"
    flat = Apply("scattering.MaxUnpool", (0, 1), ("flat",), spell={
        "zeros": zeros, "to": f"J[{spell(names)}]", "at": spell(names)})
    if asked == pooled:
        return flat, View("flat", pooled)
    return flat, View("flat", pooled, "image"), padded(site.dtype(0), "image", [0] * (n + 2), asked)


ROWS: dict[str, Binder] = {"ScatterElements": scatter_elements, "Scatter": scatter_elements, "ScatterND": scatter_nd,
                           "MaxUnpool": max_unpool}
