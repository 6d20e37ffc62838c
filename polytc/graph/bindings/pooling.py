"""Pooling over windows and over whole images."""

from __future__ import annotations

import math

import numpy as np

from polytc.graph.binding import Apply, Binder, Lowering, Site
from polytc.graph.bindings.spelling import ranges, spell
from polytc.graph.bindings.windows import Windows, sliding


def _windows(site: Site) -> Windows:
    kernel = site.attr("kernel_shape")
    if kernel is None or site.rank(0) < 3:
        raise site.misfit("pooling needs kernel_shape and an input of rank 3 or more")
    return sliding(site, tuple(kernel))


def maximum(site: Site) -> Lowering:
    w = _windows(site)
    if len(site.node.outputs) > 1 and site.node.outputs[1]:
        return _with_places(site, w)
    return Apply("pooling.MaxPool", (0,), attrs=w.attrs("kernel", "stride", "dilation", "pad", "out"))


def _with_places(site: Site, w: Windows) -> Lowering:
    """The second output: the place of each maximum in the input; storage_order 1 counts the first spatial axis fastest."""
    shape, axes = site.shape(0), range(site.rank(0) - 2)
    read = [f"{w.stride[a]}*h{a} + {w.dilation[a]}*r{a} - {w.before[a]}" for a in axes]
    inside = [f"{x} >= 0, {x} < {shape[a + 2]}" for a, x in zip(axes, read)]
    order = list(axes) if site.attr("storage_order", 0) == 0 else list(axes)[::-1]
    place = f"(n*{shape[1]} + c)"
    for a in order:
        place = f"({place}*{shape[a + 2]} + ({read[a]}))"
    names = ["n", "c", *(f"h{a}" for a in axes)]
    box = ranges([*names, *(f"r{a}" for a in axes)], [*shape[:2], *w.out, *w.kernel])
    return Apply("pooling.MaxPoolPlaces", (0,), (0, 1), spell={
        "y": spell(names), "x": spell(["n", "c", *read]), "place": place, "ranges": spell([box, *inside])})


def average(site: Site) -> Lowering:
    """A sum, and a weight for each place if windows at the border count fewer elements."""
    w = _windows(site)
    included = bool(site.attr("count_include_pad", 0))
    counts = np.ones((), np.int64)
    for a, extent in enumerate(site.shape(0)[2:]):
        places = w.stride[a] * np.arange(w.out[a])[:, None] + w.dilation[a] * np.arange(w.kernel[a])[None, :] - w.before[a]
        low, high = (-w.before[a], extent + w.after[a]) if included else (0, extent)
        counts = np.multiply.outer(counts, ((places >= low) & (places < high)).sum(1))
    total = Apply("pooling.SumPool", (0,), ("t",), attrs=w.attrs("kernel", "stride", "dilation", "pad", "out"))
    if counts.min() == counts.max():
        return total, Apply("linear.Scale", ("t",), attrs={"alpha": 1.0 / float(counts.flat[0])})
    weights = (1.0 / counts).astype(site.dtype(0).numpy)
    return total, Apply("pooling.Weigh", ("t", weights))


def power(site: Site) -> Lowering:
    attrs = _windows(site).attrs("kernel", "stride", "dilation", "pad", "out")
    return Apply("pooling.PowerPool", (0,), attrs={**attrs, "p": site.attr("p", 2)})


def global_average(site: Site) -> Lowering:
    return Apply("pooling.GlobalAveragePool", (0,), attrs={"count": math.prod(site.shape(0)[2:])},
                 packs={"r": site.rank(0) - 2, "k": site.rank(0) - 2})


def global_maximum(site: Site) -> Lowering:
    return Apply("pooling.GlobalMaxPool", (0,), packs={"r": site.rank(0) - 2, "k": site.rank(0) - 2})


def global_power(site: Site) -> Lowering:
    kernel = list(site.shape(0)[2:])
    n = len(kernel)
    return Apply("pooling.PowerPool", (0,), attrs={"kernel": kernel, "stride": [1] * n, "dilation": [1] * n, "pad": [0] * n,
                                                   "out": [1] * n, "p": site.attr("p", 2)})


ROWS: dict[str, Binder] = {"MaxPool": maximum, "AveragePool": average, "LpPool": power, "GlobalAveragePool": global_average,
                           "GlobalMaxPool": global_maximum, "GlobalLpPool": global_power}
