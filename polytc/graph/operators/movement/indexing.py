"""Operators that read at places which other values name, and masks made from places."""

from __future__ import annotations

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Site
from polytc.graph.operators.elements.elementwise import TYPES
from polytc.graph.operators.index_packs import indices, ranges, spell
from polytc.graph.operators.movement.movement import move


def gather(site: Site) -> Lowering:
    shape, places = site.shape(0), site.shape(1)
    axis = site.axis(site.attr("axis", 0), len(shape))
    site.within(1, site.along(0, axis))
    before, at, after = indices(axis, "a"), indices(len(places), "j"), indices(len(shape) - axis - 1, "c")
    result = spell([*before, *at, *after])
    single = site.value(1)
    if single is not None and single.size == 1 and np.prod(shape) > shape[axis]:
        extents = [*shape[:axis], *places, *shape[axis + 1:]]
        return move(0, [*before, *at, *after], [*before, str(int(single.reshape(-1)[0]) % shape[axis]), *after],
                    ranges([*before, *at, *after], extents))
    return Apply("movement.Gather", (0, 1), spell={
        "y": result, "x": spell([*before, f"I[{spell(at)}] % {shape[axis]}", *after])})


def gather_elements(site: Site) -> Lowering:
    axis = site.axis(site.attr("axis", 0), site.rank(0))
    site.within(1, site.along(0, axis))
    names = indices(site.rank(0))
    places = [f"I[{spell(names)}] % {site.shape(0)[axis]}" if a == axis else n for a, n in enumerate(names)]
    return Apply("movement.Gather", (0, 1), spell={"y": spell(names), "x": spell(places)})


def gather_nd(site: Site) -> Lowering:
    """The last axis of the second input holds one number for each indexed axis."""
    shape, places, batch = site.shape(0), site.shape(1), site.attr("batch_dims", 0)
    depth = places[-1]
    site.within(1, *(site.along(0, batch + d) for d in range(depth)))
    lead = indices(batch, "b")
    at = indices(len(places) - 1 - batch, "j")
    after = indices(len(shape) - batch - depth, "c")
    picked = [f"I[{spell([*lead, *at, str(d)])}] % {shape[batch + d]}" for d in range(depth)]
    return Apply("movement.Gather", (0, 1), spell={"y": spell([*lead, *at, *after]), "x": spell([*lead, *picked, *after])})


def one_hot(site: Site) -> Lowering:
    rank = site.rank(0)
    axis = site.axis(site.attr("axis", -1), rank + 1)
    if site.shape(2) != (2,):
        raise site.misfit("the third input must be two numbers")
    return Apply("movement.OneHot", (0, 2), attrs={"n": site.ints(1, "depth")[0]}, packs={"i": axis, "j": rank - axis})


def triangle(site: Site) -> Lowering:
    shift = site.ints(1, "k")[0] if site.has(1) else 0
    return Apply(f"movement.Trilu{'Upper' if site.attr('upper', 1) else 'Lower'}{'Bool' if site.dtype(0).kind == 'b' else ''}",
                 (0,), attrs={"k": shift})


def eye_like(site: Site) -> Lowering:
    dtype = TYPES[site.attr("dtype")].numpy if site.attr("dtype") in TYPES else site.dtype(0).numpy
    rows, columns = site.shape(0)
    return Known(np.eye(rows, columns, site.attr("k", 0), dtype=dtype))


ROWS: dict[str, Binder] = {
    "Gather": gather, "GatherElements": gather_elements, "GatherND": gather_nd, "OneHot": one_hot, "Trilu": triangle,
    "EyeLike": eye_like}
