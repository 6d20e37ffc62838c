"""Pooling over windows and over whole images."""

from __future__ import annotations

import math

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Site, Step
from polytc.graph.operators.elements.elementwise import narrowed
from polytc.graph.operators.index_packs import ranges, spell
from polytc.graph.operators.windows import Windows, sliding
from polytc.program.scalars import F32


def _windows(site: Site) -> Windows:
    kernel = site.attr("kernel_shape")
    if kernel is None or site.rank(0) < 3:
        raise site.misfit("pooling needs kernel_shape and an input of rank 3 or more")
    w = sliding(site, tuple(kernel), cropping=True)
    reach = [d * (k - 1) + 1 for k, d in zip(w.kernel, w.dilation)]
    if any(p >= r for p, r in zip((*w.before, *w.after), [*reach, *reach])):
        raise site.misfit(f"the pads {[*w.before, *w.after]} are not below the extents of the window, {reach}")
    return w


def maximum(site: Site) -> Lowering:
    w = _windows(site).clipped(site.shape(0)[2:])
    if len(site.node.outputs) > 1 and site.node.outputs[1]:
        return _with_places(site, w)
    return _axis_by_axis("pooling.MaxPool", w, site.shape(0)[2:], 0)


def _axis_by_axis(entry: str, w: Windows, extents: tuple[int, ...], output: int | str) -> tuple[Step, ...]:
    """A window of all axes at once; or of one axis after another, the first one first, where that combines much fewer elements:
    for each place k + s*k of two axes instead of k*k."""
    names = ("kernel", "stride", "dilation", "pad", "out")
    n = len(w.kernel)
    alone = [_one_axis(w, a, (*w.out[:a], *extents[a:])) for a in range(n)]
    work = sum(k * math.prod(each.out) for k, each in zip(w.kernel, alone))
    if 2 * work > math.prod(w.kernel) * math.prod(w.out):
        return (Apply(entry, (0,), (output,), attrs=w.attrs(*names)),)
    values: list[int | str] = [0, *(f"axis{a}" for a in range(n - 1))]
    results: list[int | str] = [*values[1:], output]
    return tuple(Apply(entry, (value,), (result,), attrs=each.attrs(*names))
                 for value, result, each in zip(values, results, alone))


def _one_axis(w: Windows, a: int, extents: tuple[int, ...]) -> Windows:
    """The windows of axis `a` alone, over an input of these extents."""
    def only(numbers: tuple[int, ...], other: int) -> tuple[int, ...]:
        return tuple(x if i == a else other for i, x in enumerate(numbers))
    out = tuple(w.out[a] if i == a else e for i, e in enumerate(extents))
    return Windows(only(w.kernel, 1), only(w.stride, 1), only(w.dilation, 1), only(w.before, 0), only(w.after, 0), out)


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
    spans = [(-w.before[a], extent + w.after[a]) if included else (0, extent) for a, extent in enumerate(site.shape(0)[2:])]
    counts = np.full((1,) * len(spans), math.prod(w.kernel))
    if not all(w.inside(a, low, high) for a, (low, high) in enumerate(spans)):
        counts = np.ones((), np.int64)
        for a, (low, high) in enumerate(spans):
            counts = np.multiply.outer(counts, w.counts(a, low, high))
    w = w.clipped(site.shape(0)[2:])
    if site.dtype(0).bytes >= 4:
        total = _axis_by_axis("pooling.SumPool", w, site.shape(0)[2:], "t")
    else:  # sums of 16 bits are rounded once
        total = (Apply("pooling.SumPool", (0,), ("t",), attrs=w.attrs("kernel", "stride", "dilation", "pad", "out")),)
    if counts.min() == counts.max() > 0:
        return *total, Apply("linear.Share", ("t",), attrs={"count": int(counts.flat[0])})
    numbers = counts.astype((F32 if site.dtype(0).is_half else site.dtype(0)).numpy)  # the mean of no elements is 0 / 0
    weighed = Apply("pooling.Weigh", ("t", numbers))
    return *total, *(narrowed(site, weighed) if site.dtype(0).is_half else (weighed,))


def power(site: Site) -> Lowering:
    attrs = _windows(site).clipped(site.shape(0)[2:]).attrs("kernel", "stride", "dilation", "pad", "out")
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
