"""Resize and Upsample: along each axis a place of the result is a weighted sum of a few places of the input, which tables
computed here name. Copies by whole factors need no table."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Ref, Site, Step, View
from polytc.graph.operators.index_packs import indices, ranges, spell
from polytc.graph.operators.movement.movement import move


@dataclass(frozen=True)
class _Axis:
    """old, new: extents; scale: new / old as the model gives it; begin, end: the part of the axis that is read, in shares."""

    number: int
    old: int
    new: int
    scale: float
    begin: float = 0.0
    end: float = 1.0

    @property
    def changes(self) -> bool:
        return self.new != self.old or not math.isclose(self.scale, 1) or (self.begin, self.end) != (0, 1)


TRANSFORMS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
              "tf_half_pixel_for_nn")
"""Words of coordinate_transformation_mode; the last one is of opset 11 alone."""


def resize(site: Site) -> Lowering:
    """Opset 10 has scales as input 1; since opset 11 roi, scales and sizes are inputs 1, 2 and 3."""
    scales_at, sizes_at = (1, 99) if site.opset < 11 else (2, 3)
    mode, transform = site.attr("mode", "nearest"), site.attr(
        "coordinate_transformation_mode", "asymmetric" if site.opset < 11 else "half_pixel")
    if transform not in TRANSFORMS:
        raise site.misfit(f"coordinate_transformation_mode {transform!r} is unknown")
    axes = _axes(site, scales_at, sizes_at)
    if transform == "tf_crop_and_resize":
        share, n = site.known(1, "roi").reshape(-1), len(axes)
        if len(share) != 2 * n:
            raise site.misfit(f"roi has {len(share)} numbers, {2 * n} are needed")
        axes = [replace(a, begin=float(share[i]), end=float(share[i + n])) for i, a in enumerate(axes)]
    return _resized(site, [a for a in axes if a.changes], mode, transform)


def upsample(site: Site) -> Lowering:
    scales = site.attr("scales") or [float(s) for s in site.known(1, "scales").reshape(-1)]
    _one_each(site, "scales", scales, site.rank(0))
    axes = [_Axis(i, e, int(np.floor(e * s)), s) for i, (e, s) in enumerate(zip(site.shape(0), scales))]
    return _resized(site, [a for a in axes if a.changes], site.attr("mode", "nearest"), "asymmetric")


def _one_each(site: Site, name: str, given: list[float] | list[int], count: int) -> None:
    if len(given) != count:
        raise site.misfit(f"{len(given)} {name} for {count} axes")


def _axes(site: Site, scales_at: int, sizes_at: int) -> list[_Axis]:
    shape = site.shape(0)
    chosen = [site.axis(a, len(shape)) for a in site.attr("axes") or range(len(shape))]
    if site.has(sizes_at) and site.known(sizes_at, "sizes").size:
        if site.opset >= 13 and site.has(scales_at) and site.known(scales_at, "scales").size:
            raise site.misfit("both sizes and scales are given")
        sizes = site.ints(sizes_at, "sizes")
        _one_each(site, "sizes", sizes, len(chosen))
        scales = [size / shape[a] for size, a in zip(sizes, chosen)]
        policy = site.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            scale = min(scales) if policy == "not_larger" else max(scales)
            scales = [scale] * len(chosen)
            sizes = [int(scale * shape[a] + 0.5) for a in chosen]
    else:
        scales = [float(s) for s in site.known(scales_at, "scales").reshape(-1)]
        _one_each(site, "scales", scales, len(chosen))
        if not all(0 < s < math.inf for s in scales):
            raise site.misfit(f"the scales {scales} are not all positive")
        sizes = [int(np.floor(shape[a] * s)) for a, s in zip(chosen, scales)]
    return [_Axis(a, shape[a], size, scale) for a, size, scale in zip(chosen, sizes, scales)]


def _resized(site: Site, axes: list[_Axis], mode: str, transform: str) -> Lowering:
    if not axes:
        return View(0, site.shape(0))
    if any(a.new < 1 for a in axes):
        shape = list(site.shape(0))
        for a in axes:
            shape[a.number] = max(a.new, 0)
        return Known(np.zeros(shape, site.dtype(0).numpy))
    places = [_coordinates(a, transform) for a in axes]
    if mode == "nearest":
        tables = [_nearest(site, a, x) for a, x in zip(axes, places)]
        factors = [_factor(a, t) for a, t in zip(axes, tables)]
        if all(factors) and transform != "tf_crop_and_resize":
            return _copied(site, axes, [f for f in factors if f])
        if transform != "tf_crop_and_resize":
            return _picked(site, axes, tables)
        taps = [(t[:, None], np.ones((len(t), 1))) for t in tables]
    elif mode in ("linear", "bilinear", "cubic"):
        taps = [_weighted(site, a, x, "cubic" if mode == "cubic" else "linear") for a, x in zip(axes, places)]
    else:
        raise site.misfit(f"mode {mode!r}; 'nearest', 'linear' and 'cubic' are known")
    if transform != "tf_crop_and_resize":
        return _interpolated(site, axes, taps, None)
    outside = [(x < 0) | (x > a.old - 1) for a, x in zip(axes, places)]
    taps = [(t, np.where(o[:, None], 0, w)) for (t, w), o in zip(taps, outside)]
    return _interpolated(site, axes, taps, outside)


def _coordinates(a: _Axis, transform: str) -> np.ndarray:
    """Where each place of the result lies on the axis of the input."""
    x = np.arange(a.new, dtype=np.float64)
    if transform == "asymmetric":
        return x / a.scale
    if transform == "align_corners":
        length = a.scale * a.old  # not rounded, as the operator's definition has it
        return x * (a.old - 1) / (length - 1) if a.new > 1 else np.zeros(1)
    if transform == "tf_crop_and_resize":
        start, length = a.begin * (a.old - 1), (a.end - a.begin) * (a.old - 1)
        return start + (x * length / (a.scale * a.old - 1) if a.new > 1 else np.full(1, length / 2))
    if transform == "pytorch_half_pixel" and a.new == 1:
        return np.zeros(1)
    if transform == "half_pixel_symmetric":
        centre = a.old / 2 * (1 - a.new / (a.scale * a.old))
        return centre + (x + 0.5) / a.scale - 0.5
    return (x + 0.5) / a.scale - 0.5


def _nearest(site: Site, a: _Axis, x: np.ndarray) -> np.ndarray:
    rounding = site.attr("nearest_mode", "round_prefer_floor" if site.opset >= 11 else "floor")
    table = {"round_prefer_floor": np.ceil(x - 0.5), "round_prefer_ceil": np.floor(x + 0.5), "floor": np.floor(x),
             "ceil": np.ceil(x)}[rounding]
    clipped: np.ndarray = np.clip(table, 0, a.old - 1).astype(np.int64)
    return clipped


def _factor(a: _Axis, table: np.ndarray) -> str | None:
    """The table as a formula of the index h: a whole quotient or multiple."""
    h = np.arange(a.new)
    if a.new % a.old == 0 and np.array_equal(table, h // (a.new // a.old)):
        return f"//{a.new // a.old}"
    if a.old % a.new == 0 and np.array_equal(table, h * (a.old // a.new)):
        return f"*{a.old // a.new}"
    return None


def _copied(site: Site, axes: list[_Axis], factors: list[str]) -> Step:
    """Enlarging writes `factor` copies beside each other, so that both sides stay affine."""
    names, left, right = indices(site.rank(0)), indices(site.rank(0)), indices(site.rank(0))
    bounds = dict(zip(names, site.shape(0)))
    for a, factor in zip(axes, factors):
        number, name = int(factor.lstrip("/*")), names[a.number]
        if factor.startswith("*"):
            right[a.number], bounds[name] = f"{number}*{name}", a.new
        else:
            left[a.number], bounds[f"p{a.number}"] = f"{number}*{name} + p{a.number}", number
    return move(0, left, right, ranges(bounds.keys(), bounds.values()))


def _picked(site: Site, axes: list[_Axis], tables: list[np.ndarray]) -> Step:
    """Each element is the one that the tables of its places name."""
    names = indices(site.rank(0))
    read = list(names)
    for k, a in enumerate(axes):
        read[a.number] = f"I{k}[{names[a.number]}]"
    return Apply("movement.Picked", (0, *tables), spell={
        "tables": spell(f"I{k}" for k in range(len(tables))), "y": spell(names), "x": spell(read)})


def _weighted(site: Site, a: _Axis, x: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The places that each element is made of, and their weights; antialias widens the kernel where the axis shrinks."""
    shrink = min(a.scale, 1.0) if site.attr("antialias", 0) else 1.0
    base = np.ceil(x) - 1
    first = math.floor(-(2 if kind == "cubic" else 1) / shrink) + 1
    places = base[:, None] + np.arange(first, 2 - first)
    distance = np.abs(places - x[:, None]) * shrink
    weights = np.clip(1 - distance, 0, 1) if kind == "linear" else _keys(distance, site.attr("cubic_coeff_a", -0.75))
    if site.attr("exclude_outside", 0):
        weights = np.where((places < 0) | (places >= a.old), 0, weights)
    total = weights.sum(1, keepdims=True)
    return np.clip(places, 0, a.old - 1).astype(np.int64), weights / np.where(total == 0, 1, total)


def _keys(d: np.ndarray, c: float) -> np.ndarray:
    """The kernel of cubic convolution at distance d (Keys, Cubic convolution interpolation, 1981)."""
    inner = ((c + 2) * d - (c + 3)) * d * d + 1
    outer = ((c * d - 5 * c) * d + 8 * c) * d - 4 * c
    return np.where(d <= 1, inner, np.where(d < 2, outer, 0.0))


def _interpolated(site: Site, axes: list[_Axis], taps: list[tuple[np.ndarray, np.ndarray]],
                  outside: list[np.ndarray] | None) -> Lowering:
    """One axis after the other, in f32 or f64. outside: elements of each axis that become the extrapolation value."""
    steps: list[Apply] = []
    dtype = site.dtype(0)
    wide = np.float64 if dtype.bytes == 8 or dtype.is_int and dtype.bytes == 4 else np.float32
    beyond = float(site.attr("extrapolation_value", 0.0))
    exact = all((w == w.astype(bool)).all() and w.shape[1] == 1 for _, w in taps)  # each element is one of the input
    for i, (a, (places, weights)) in enumerate(zip(axes, taps)):
        names = indices(site.rank(0))
        read, written = list(names), list(names)
        read[a.number], written[a.number] = "I[h, t]", "h"
        source: Ref = steps[-1].outputs[0] if steps else 0
        table = weights.astype(dtype.numpy if exact and dtype.kind != "b" else wide)
        spelling = {"x": spell(read), "y": spell(written)}
        if outside and beyond and outside[i].any():
            extra = np.where(outside[i], beyond, 0).astype(table.dtype)
            steps.append(Apply("movement.InterpolateWithin", (source, places, table, extra), (f"t{a.number}",), spell=spelling))
        else:
            steps.append(Apply("movement.Interpolate", (source, places, table), (f"t{a.number}",), spell=spelling))
    if not (exact and dtype.kind != "b") and dtype.numpy != wide:
        if dtype.is_int:
            limits = np.iinfo(dtype.numpy)
            attrs = {"low": limits.min, "high": limits.max}
            steps.append(Apply("movement.Rounded", (steps[-1].outputs[0],), ("r",), attrs=attrs))
        return (*steps, Apply(f"elementwise.Cast_{dtype.name}", (steps[-1].outputs[0],)))
    return (*steps[:-1], replace(steps[-1], outputs=(0,)))


ROWS: dict[str, Binder] = {"Resize": resize, "Upsample": upsample}
