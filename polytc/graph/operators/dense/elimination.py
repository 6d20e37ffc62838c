"""Operators made of elimination steps."""

from __future__ import annotations

import math

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Site, View


def determinant(site: Site) -> Lowering:
    shape = site.shape(0)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise site.misfit("a determinant needs square matrices")
    batch = math.prod(shape[:-2])
    if not batch or not shape[-1]:
        return Known(np.ones(shape[:-2], site.dtype(0).numpy))
    if shape[-1] == 1:
        return View(0, shape[:-2])
    return (View(0, (batch, shape[-1], shape[-1]), "x"), Apply("elimination.Det", ("x",), ("d",), attrs={"n": shape[-1]}),
            View("d", shape[:-2]))


def inverse(site: Site) -> Lowering:
    shape = site.shape(0)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise site.misfit("an inverse needs square matrices")
    flat = (math.prod(shape[:-2]), shape[-1], shape[-1])
    return View(0, flat, "x"), Apply("elimination.Inverse", ("x",), ("y",), attrs={"n": shape[-1]}), View("y", shape)


ROWS: dict[str, Binder] = {"Det": determinant, "com.microsoft::Inverse": inverse}
