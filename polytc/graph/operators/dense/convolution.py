"""Convolutions and transposed convolutions of every spatial rank and group count."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Site, Step
from polytc.graph.operators.index_packs import indices, ranges, scaled, spell
from polytc.graph.operators.windows import axis_list, sliding

MOST_PHASES = 16
"""Small convolutions that a transposed one may become."""


def convolution(site: Site) -> Lowering:
    images, weights = site.shape(0), site.shape(1)
    groups = site.attr("group", 1)
    if len(images) < 3 or len(weights) != len(images):
        raise site.misfit("a convolution needs an image and weights of equal rank, at least 3")
    if images[1] != weights[1] * groups or weights[0] % groups:
        raise site.misfit(f"{images[1]} channels in {groups} groups do not fit these weights")
    attrs: dict[str, Any] = sliding(site, tuple(weights[2:])).attrs("stride", "dilation", "pad", "out")
    entry = "Conv"
    if groups > 1 and weights[:2] == (groups, 1):
        entry = "ConvDepthwise"
    elif groups > 1:
        entry = "ConvGroups"
        attrs |= {"G": groups, "M": weights[0] // groups, "C": weights[1]}
    return _with_bias(site, f"convolution.{entry}", attrs)


def _with_bias(site: Site, entry: str, attrs: dict[str, Any], spelling: dict[str, str] | None = None) -> Lowering:
    if not site.has(2):
        return Apply(entry, (0, 1), attrs=attrs, spell=spelling or {})
    return (Apply(entry, (0, 1), ("t",), attrs=attrs, spell=spelling or {}), Apply("convolution.Bias", ("t", 2)))


def transposed(site: Site) -> Lowering:
    """Each output place gathers its products, so that all places are independent."""
    images, weights = site.shape(0), site.shape(1)
    groups, n = site.attr("group", 1), len(images) - 2
    if n < 1 or len(weights) != len(images) or images[1] != weights[0] or weights[0] % groups:
        raise site.misfit(f"an image and weights in {groups} groups that do not fit")
    kernel = tuple(weights[2:])
    if list(site.attr("kernel_shape") or kernel) != list(kernel):
        raise site.misfit(f"the attribute 'kernel_shape' is {site.attr('kernel_shape')}, the weights have {list(kernel)}")
    stride, dilation = axis_list(site, "strides", n, 1), axis_list(site, "dilations", n, 1)
    before, out = _extents(site, kernel, stride, dilation)
    channels: dict[str, Any] = {"G": groups, "M": weights[1], "C": weights[0] // groups}
    if groups == 1 and all(x == 1 for x in images[2:]) and out == kernel and not any(before) and all(d == 1 for d in dilation):
        return _with_bias(site, "convolution.ConvTransposeTiles", {"stride": list(kernel)})  # one place: a product of matrices
    if all(s == 1 for s in stride):
        attrs = channels | {"dilation": list(dilation), "pad": list(before), "out": list(out)}
        return _with_bias(site, "convolution.ConvTransposeDilated", attrs)
    if any(d != 1 for d in dilation):
        return _scattered(site, channels, stride, dilation, before, out)
    if site.value(1) is not None and math.prod(stride) <= MOST_PHASES and all(
            s <= k and s <= o for s, k, o in zip(stride, kernel, out)):
        return _by_phases(site, channels, stride, before, out)
    places = [f"{s}*q{a} + p{a} < {o}" for a, (s, o) in enumerate(zip(stride, out)) if o % s]
    attrs = channels | {"stride": list(stride), "pad": list(before), "quotients": [-(-o // s) for o, s in zip(out, stride)],
                        "taps": [(k - 1) // s + 1 for k, s in zip(kernel, stride)]}
    return _with_bias(site, "convolution.ConvTranspose", attrs, {"places": spell(places)})


def _by_phases(site: Site, channels: dict[str, Any], stride: tuple[int, ...], before: tuple[int, ...], out: tuple[int, ...]
               ) -> Lowering:
    """Places s*q + p of one phase p see every s-th weight: each phase is a small ordinary convolution, its weights cut out
    beforehand, and the results are put beside each other."""
    n, weights = len(stride), site.value(1)
    assert weights is not None, "the caller has looked"
    kernel, (g, m, c) = weights.shape[2:], (channels["G"], channels["M"], channels["C"])
    turned = weights.reshape(g, c, m, *kernel).swapaxes(1, 2).reshape(g * m, c, *kernel)
    entry, grouped = ("convolution.ConvGroups", channels) if g > 1 else ("convolution.Conv", {})
    steps: list[Step] = []
    writes = []
    names = indices(n + 2)
    for k, phase in enumerate(itertools.product(*map(range, stride))):
        starts = [(p + b) % s for p, b, s in zip(phase, before, stride)]
        cut = turned[(slice(None), slice(None), *(slice(start, None, s) for start, s in zip(starts, stride)))]
        cut = np.ascontiguousarray(np.flip(cut, tuple(range(2, n + 2))))
        pads = [taps - 1 - (p + b) // s for taps, p, b, s in zip(cut.shape[2:], phase, before, stride)]
        extents = [-(-(o - p) // s) for o, p, s in zip(out, phase, stride)]
        attrs = {**grouped, "stride": [1] * n, "dilation": [1] * n, "pad": pads, "out": extents}
        steps.append(Apply(entry, (0, cut), (f"c{k}",), attrs=attrs))
        if site.has(2):
            steps.append(Apply("convolution.Bias", (f"c{k}", 2), (f"t{k}",)))
        places = [*names[:2], *(scaled(i, s, p) for i, s, p in zip(names[2:], stride, phase))]
        writes.append(f"Y[{spell(places)}] = X{k}[{spell(names)}]")
    inputs = tuple(f"{'t' if site.has(2) else 'c'}{k}" for k in range(len(writes)))
    return (*steps, Apply("movement.Assemble", inputs, spell={
        "inputs": spell(f"X{k}" for k in range(len(writes))), "writes": "; ".join(writes)}))


def _scattered(site: Site, channels: dict[str, Any], stride: tuple[int, ...], dilation: tuple[int, ...],
               before: tuple[int, ...], out: tuple[int, ...]) -> Lowering:
    """Stride and dilation together: products are added where they belong, which leaves holes of zeros."""
    places = [f"{s}*h{a} + {d}*r{a} - {b} >= 0, {s}*h{a} + {d}*r{a} - {b} < {o}"
              for a, (s, d, b, o) in enumerate(zip(stride, dilation, before, out))]
    attrs = channels | {"stride": list(stride), "dilation": list(dilation), "pad": list(before)}
    names = indices(len(out) + 2, "z")
    extents = (site.shape(0)[0], channels["G"] * channels["M"], *out)
    zeros = f"Y[{spell(names)}] = {site.dtype(0)}(0) where {ranges(names, extents)}"
    return _with_bias(site, "convolution.ConvTransposeScatter", attrs, {"places": spell(places), "zeros": zeros})


def _extents(site: Site, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
             ) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before each axis and extents of the result."""
    n, images = len(kernel), site.shape(0)[2:]
    extra = axis_list(site, "output_padding", n, 0)
    if any(not 0 <= e < max(s, d) for e, s, d in zip(extra, stride, dilation)):
        raise site.misfit(f"the attribute 'output_padding' is {list(extra)}, not less than the strides or dilations")
    full = tuple(s * (x - 1) + e + d * (k - 1) + 1 for s, x, e, d, k in zip(stride, images, extra, dilation, kernel))
    auto, wanted = site.attr("auto_pad", "NOTSET"), site.attr("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [x * s for x, s in zip(images, stride)]
    if wanted is None:
        pads = (0,) * 2 * n if auto == "VALID" else axis_list(site, "pads", 2 * n, 0)
        return pads[:n], tuple(f - pads[a] - pads[a + n] for a, f in enumerate(full))
    total = [max(f - w, 0) for f, w in zip(full, wanted[-n:])]
    before = tuple(t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total)
    return before, tuple(wanted[-n:])


ROWS: dict[str, Binder] = {"Conv": convolution, "ConvTranspose": transposed}
