"""Operators that read between the elements of an image: GridSample, RoiAlign, DeformConv, and what makes their grids."""

from __future__ import annotations

import math

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Ref, Site, Step, View
from polytc.graph.operators.index_packs import indices, ranges, spell
from polytc.graph.operators.windows import axis_list
from polytc.program.scalars import DType

_TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


def _wide(dtype: DType) -> str:
    """The float type that samples are computed in."""
    return "f64" if dtype.name == "f64" else "f32"


def _finished(dtype: DType, steps: list[Step]) -> Lowering:
    """Steps that end with an Apply of a wide float result, converted to `dtype`."""
    last = steps[-1]
    assert isinstance(last, Apply)
    if dtype.name == _wide(dtype):
        return (*steps[:-1], Apply(last.entry, last.inputs, (0,), last.attrs, last.packs, last.spell))
    return (*steps, Apply(f"elementwise.Cast_{dtype.name}", (last.outputs[0],)))


def _reflected(x: str, low: float, high: float) -> str:
    """x mirrored at both ends, as often as it takes."""
    width = high - low
    if width == 0:
        return f"{low} + 0 * ({x})"
    turn = f"(({x}) - ({low})) % {2 * width}"
    return f"{low} + ({turn} <= {width} ? {turn} : {2 * width} - {turn})"


def _axis_places(n: int, mode: str, padding: str, corners: bool, point: str, box: dict[str, int], wide: str) -> dict[str, str]:
    """The texts of sampling.GridPlaces for an axis of n elements. box: the indices of a sample and their extents.

    Points of cubic samples stay where they are, only the elements around them are padded, as in torch and ONNX Runtime.
    """
    names = list(box)
    low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
    at, h = f"P[{spell(names)}]", spell(names)
    moved = {"zeros": at, "border": f"clamp({at}, 0, {n - 1})", "reflection": _reflected(at, low, high)}[padding]
    inside = at if _TAPS[mode] == 4 else moved
    if inside != at:
        inside = f"({at} < {low} || {at} > {high} ? {inside} : {at})"
    v, d = f"V[{h}, t]", f"D[{h}]"
    place = f"i64({_reflected(v, low, high)})" if padding == "reflection" else v
    weight = {1: "1", 2: f"(t == 0 ? 1 - {d} : {d})", 4: _cubic(d)}[_TAPS[mode]]
    if padding == "zeros":
        weight = f"({v} >= 0 && {v} < {n} ? {weight} : 0)"
    return {"h": h, "point": f"round({point})" if mode == "nearest" else point, "inside": inside,
            "place": f"clamp({place}, 0, {n - 1})", "weight": f"{wide}({weight})",
            "box": ranges(box.keys(), box.values())}


def _cubic(d: str) -> str:
    """Weights of the elements t = 0..3 at distances 1 + d, d, 1 - d, 2 - d, with the coefficient -0.75."""
    def near(x: str) -> str:
        return f"((1.25*({x}) - 2.25)*({x})*({x}) + 1)"

    def far(x: str) -> str:
        return f"(((-0.75*({x}) + 3.75)*({x}) - 6)*({x}) + 3)"
    return f"(t == 0 ? {far(f'1 + {d}')} : t == 1 ? {near(d)} : t == 2 ? {near(f'1 - {d}')} : {far(f'2 - {d}')})"


def grid_sample(site: Site) -> Lowering:
    """For each spatial axis the places and weights that the grid asks for, then the weighted sum of all combinations."""
    image, grid, n = site.shape(0), site.shape(1), site.rank(0) - 2
    mode, padding = site.attr("mode", "bilinear" if site.opset < 20 else "linear"), site.attr("padding_mode", "zeros")
    if mode not in _TAPS or padding not in ("zeros", "border", "reflection"):
        raise site.misfit(f"mode {mode!r} with padding_mode {padding!r}")
    if len(grid) != n + 2 or grid[-1] != n or grid[0] != image[0]:
        raise site.misfit("the grid needs a place for each sample, with a number for each spatial axis")
    corners, names = bool(site.attr("align_corners", 0)), ["n", *indices(n, "h")]
    steps: list[Step] = []
    tables: list[Ref] = []
    for a, extent in enumerate(image[2:]):
        value = f"G[{spell([*names, str(n - 1 - a)])}]"
        point = f"({value} + 1) / 2 * {extent - 1}" if corners else f"(({value} + 1) * {extent} - 1) / 2"
        texts = _axis_places(extent, mode, padding, corners, point, dict(zip(names, grid[:-1])), _wide(site.dtype(0)))
        steps.append(Apply("sampling.GridPlaces", (1,), (f"i{a}", f"w{a}"), attrs={"taps": _TAPS[mode]}, spell=texts))
        tables += [f"i{a}", f"w{a}"]
    at, last = [f"{spell(names)}, t{a}" for a in range(n)], image[1] >= CHANNELS
    places, samples = [f"I{a}[{at[a]}]" for a in range(n)], spell([*names, "c"] if last else ["n", "c", *names[1:]])
    if last:
        steps.append(_channels_last(n))
    steps.append(Apply("sampling.Sample", ("last" if last else 0, *tables), ("s" if last else "y",), spell={
        "tables": spell(f"I{a}, W{a}" for a in range(n)), "y": samples,
        "x": spell(["n", *places, "c"] if last else ["n", "c", *places]),
        "weights": " * ".join(f"W{a}[{at[a]}]" for a in range(n))}))
    if last:
        steps.append(Apply("movement.Permute", ("s",), ("y",), spell={"x": samples, "y": spell(["n", "c", *names[1:]])}))
    return _finished(site.dtype(0), steps)


def affine_grid(site: Site) -> Lowering:
    """Places of the result's elements in the image, in shares from -1 to 1, x first."""
    extents = site.ints(1, "size")[2:]
    if site.shape(0)[1:] != (len(extents), len(extents) + 1) or len(extents) not in (2, 3):
        raise site.misfit("theta needs two rows of three, or three rows of four, numbers for each image")
    shares: list[Ref] = []
    for e in extents:
        k = np.arange(e)
        share = (2 * k / (e - 1) - 1 if e > 1 else k - 1.0) if site.attr("align_corners", 0) else (2 * k + 1) / e - 1
        shares.append(share.astype(site.dtype(0).numpy))
    return Apply(f"sampling.AffineGrid{len(extents)}", (0, *shares))


# ---- regions of interest

def roi_align(site: Site) -> Lowering:
    """Samples between the elements. Where a region decides how many, tables hold as many as the whole image needs."""
    image, regions = site.shape(0), site.value(1)
    mode = site.attr("mode", "avg")
    if len(image) != 4 or mode not in ("avg", "max"):
        raise site.misfit(f"mode {mode!r} for an input of rank {len(image)}")
    site.within(2, site.along(0, 0, back=False))
    ratio, scale = int(site.attr("sampling_ratio", 0)), float(site.attr("spatial_scale", 1.0))
    usual = "half_pixel" if site.opset >= 16 else "output_half_pixel"
    half = site.attr("coordinate_transformation_mode", usual) == "half_pixel"
    steps: list[Step] = []
    for a, (extent, key) in enumerate(zip(image[2:], ("output_height", "output_width"))):
        parts = int(site.attr(key, 1))
        samples = ratio or math.ceil(extent / parts) + 1
        if regions is not None and not ratio:
            sizes = (regions[:, 3 - a] - regions[:, 1 - a]) * scale
            samples = max(1, math.ceil(sizes.max() / parts) + 1)
        count = str(ratio) if ratio else f"min(i64(ceil(L[r] / {parts})), {samples})"
        attrs = {"n": extent, "parts": parts, "scale": scale, "offset": 0.5 if half else 0.0, "samples": samples,
                 "a": 1 - a, "b": 3 - a}
        steps.append(Apply("sampling.RoiPlaces", (1,), (f"i{a}", f"w{a}", f"c{a}"), attrs=attrs, spell={
            "extent": "E[r]" if half else "max(E[r], 1)", "count": f"{count} + 0 * i64(R[r, 0])" if ratio else count}))
    last, at, number = image[1] >= CHANNELS, "I[r, p, s, t], J[r, q, u, v]", f"B[r] % {max(image[0], 1)}"
    if last:
        steps.append(_channels_last(2))
    steps.append(Apply(
        "sampling.RoiAverage" if mode == "avg" else "sampling.RoiMaximum",
        ("last" if last else 0, 2, "i0", "w0", "c0", "i1", "w1", "c1"), ("s" if last else "y",),
        spell={"y": "r, p, q, c", "x": f"{number}, {at}, c"} if last else {"y": "r, c, p, q", "x": f"{number}, c, {at}"}))
    if last:
        steps.append(Apply("movement.Permute", ("s",), ("y",), spell={"x": "r, p, q, c", "y": "r, c, p, q"}))
    return _finished(site.dtype(0), steps)


CHANNELS = 16
"""So many fill a vector: then images are read with their channels last, all of them at once at each place."""


def _channels_last(n: int) -> Step:
    """The image, of n spatial axes, with its channels last, as `last`."""
    h = indices(n, "h")
    return Apply("movement.Permute", (0,), ("last",), spell={"x": spell(["n", "c", *h]), "y": spell(["n", *h, "c"])})


def max_roi_pool(site: Site) -> Lowering:
    """Regions are rows of image number, x and y of the first element, x and y of the last."""
    heights, widths = site.attr("pooled_shape")
    scale, image = float(site.attr("spatial_scale", 1.0)), site.shape(0)
    steps = [Apply("sampling.RoiBins", (1,), (f"a{a}", f"e{a}"), attrs={
        "n": image[2 + a], "parts": parts, "scale": scale, "a": 2 - a, "b": 4 - a})
        for a, parts in enumerate((heights, widths))]
    return (*steps, Apply("sampling.MaxRoiPool", (0, 1, "a0", "e0", "a1", "e1")))


# ---- deformable convolution

def deformable(site: Site) -> Lowering:
    """Samples at the windows' places moved by offsets, times the mask, then the products of a convolution."""
    image, weights, n = site.shape(0), site.shape(1), site.rank(0) - 2
    groups, parts = site.attr("group", 1), site.attr("offset_group", 1)
    kernel, out = weights[2:], site.shape(2)[2:]
    stride, dilation = axis_list(site, "strides", n, 1), axis_list(site, "dilations", n, 1)
    pads = axis_list(site, "pads", 2 * n, 0)
    if n < 1 or len(weights) != n + 2 or image[1] != weights[1] * groups or image[1] % parts or (
            site.shape(2)[1] != parts * n * math.prod(kernel)):
        raise site.misfit(f"image, weights and offsets do not fit {groups} groups and {parts} offset groups")
    k, h = indices(n, "k"), indices(n, "h")
    names = ["n", "o", *k, *h]
    box = dict(zip(names, [image[0], parts, *kernel, *out]))
    steps: list[Step] = [View(2, (image[0], parts, *kernel, n, *out), "offsets")]
    tables: list[Ref] = []
    for a, extent in enumerate(image[2:]):
        moved = f"G[{spell(['n', 'o', *k, str(a), *h])}]"
        point = f"{moved} + ({stride[a]}*{h[a]} + {dilation[a]}*{k[a]} - {pads[a]})"
        texts = _axis_places(extent, "linear", "zeros", True, point, box, _wide(site.dtype(0)))
        steps.append(Apply("sampling.GridPlaces", ("offsets",), (f"i{a}", f"w{a}"), attrs={"taps": 2}, spell=texts))
        tables += [f"i{a}", f"w{a}"]
    last = image[1] >= CHANNELS and parts == 1
    if last:
        steps.append(_channels_last(n))
    table = spell(["n", "0" if last else f"c // {image[1] // parts}", *k, *h])
    at = [f"{table}, t{a}" for a in range(n)]
    places, samples = [f"I{a}[{at[a]}]" for a in range(n)], ["n", *h, *k, "c"] if last else ["n", "c", *k, *h]
    steps.append(Apply("sampling.Sample", ("last" if last else 0, *tables), ("s",), spell={
        "tables": spell(f"I{a}, W{a}" for a in range(n)), "y": spell(samples),
        "x": spell(["n", *places, "c"] if last else ["n", "c", *places]),
        "weights": " * ".join(f"W{a}[{at[a]}]" for a in range(n))}))
    source = "s"
    if site.has(4):
        steps += [View(4, (image[0], parts, *kernel, *out), "mask"),
                  Apply("sampling.Masked", ("s", "mask"), ("m",), spell={"y": spell(samples), "m": table})]
        source = "m"
    steps.append(Apply("sampling.DeformedProducts", (source, 1), ("p",), attrs={
        "G": groups, "M": weights[0] // groups, "C": weights[1]}, spell={
        "s": spell(s if s != "c" else "g*C + c" for s in samples), "k": spell(k), "h": spell(h)}))
    if site.has(3):
        steps.append(Apply("convolution.Bias", ("p", 3), ("b",)))
    return _finished(site.dtype(0), steps)


ROWS: dict[str, Binder] = {"GridSample": grid_sample, "AffineGrid": affine_grid, "RoiAlign": roi_align,
                           "MaxRoiPool": max_roi_pool, "DeformConv": deformable}
