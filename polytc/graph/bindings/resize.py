"""Resize and Upsample: along each axis a place of the result is a weighted sum of a few places of the input, which tables
computed here name. Copies by whole factors need no table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polytc.graph.binding import Apply, Binder, Lowering, Ref, Site, Step, View
from polytc.graph.bindings.movement import move
from polytc.graph.bindings.spelling import indices, ranges, spell


@dataclass(frozen=True)
class _Axis:
    """old, new: extents; scale: new / old as the model gives it."""

    number: int
    old: int
    new: int
    scale: float


def resize(site: Site) -> Lowering:
    """Opset 10 has scales as input 1; since opset 11 roi, scales and sizes are inputs 1, 2 and 3."""
    if site.attr("antialias", 0):
        raise site.unsupported("antialias")
    scales_at, sizes_at = (1, 99) if site.opset < 11 else (2, 3)
    mode, transform = site.attr("mode", "nearest"), site.attr(
        "coordinate_transformation_mode", "asymmetric" if site.opset < 11 else "half_pixel")
    if transform == "tf_crop_and_resize":
        raise site.unsupported(f"coordinate_transformation_mode {transform!r}")
    axes = _axes(site, scales_at, sizes_at)
    return _resized(site, [a for a in axes if a.new != a.old], mode, transform)


def upsample(site: Site) -> Lowering:
    scales = site.attr("scales") or [float(s) for s in site.known(1, "scales").reshape(-1)]
    axes = [_Axis(i, e, int(np.floor(e * s)), s) for i, (e, s) in enumerate(zip(site.shape(0), scales))]
    return _resized(site, [a for a in axes if a.new != a.old], site.attr("mode", "nearest"), "asymmetric")


def _axes(site: Site, scales_at: int, sizes_at: int) -> list[_Axis]:
    shape = site.shape(0)
    chosen = [site.axis(a, len(shape)) for a in site.attr("axes") or range(len(shape))]
    if site.has(sizes_at) and site.known(sizes_at, "sizes").size:
        sizes = site.ints(sizes_at, "sizes")
        scales = [size / shape[a] for size, a in zip(sizes, chosen)]
        policy = site.attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            scale = min(scales) if policy == "not_larger" else max(scales)
            scales = [scale] * len(chosen)
            sizes = [int(scale * shape[a] + 0.5) for a in chosen]
    else:
        scales = [float(s) for s in site.known(scales_at, "scales").reshape(-1)]
        sizes = [int(np.floor(shape[a] * s)) for a, s in zip(chosen, scales)]
    return [_Axis(a, shape[a], size, scale) for a, size, scale in zip(chosen, sizes, scales)]


def _resized(site: Site, axes: list[_Axis], mode: str, transform: str) -> Lowering:
    if not axes:
        return View(0, site.shape(0))
    if mode == "nearest":
        tables = [_nearest(site, a, _coordinates(a, transform)) for a in axes]
        factors = [_factor(a, t) for a, t in zip(axes, tables)]
        if all(factors):
            return _copied(site, axes, [f for f in factors if f])
        return _interpolated(site, axes, [(t[:, None], np.ones((len(t), 1))) for t in tables])
    if mode in ("linear", "bilinear"):
        taps = [_linear(a, _coordinates(a, transform)) for a in axes]
    elif mode == "cubic":
        taps = [_cubic(site, a, _coordinates(a, transform)) for a in axes]
    else:
        raise site.unsupported(f"mode {mode!r}")
    return _interpolated(site, axes, taps)


def _coordinates(a: _Axis, transform: str) -> np.ndarray:
    """Where each place of the result lies on the axis of the input."""
    x = np.arange(a.new, dtype=np.float64)
    if transform == "asymmetric":
        return x / a.scale
    if transform == "align_corners":
        length = a.scale * a.old  # not rounded, as the operator's definition has it
        return x * (a.old - 1) / (length - 1) if a.new > 1 else np.zeros(1)
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


def _linear(a: _Axis, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x = np.clip(x, 0, a.old - 1)
    low = np.floor(x).astype(np.int64)
    high = np.minimum(low + 1, a.old - 1)
    return np.stack([low, high], 1), np.stack([1 - (x - low), x - low], 1)


def _cubic(site: Site, a: _Axis, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys' cubic convolution."""
    c = site.attr("cubic_coeff_a", -0.75)
    base = np.floor(x)
    t = x - base
    places = base[:, None] + np.arange(-1, 3)
    near, far = np.stack([t, 1 - t], 1), np.stack([1 + t, 2 - t], 1)
    inner = ((c + 2) * near - (c + 3)) * near * near + 1
    outer = ((c * far - 5 * c) * far + 8 * c) * far - 4 * c
    weights = np.stack([outer[:, 0], inner[:, 0], inner[:, 1], outer[:, 1]], 1)
    if site.attr("exclude_outside", 0):
        weights = np.where((places < 0) | (places >= a.old), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, a.old - 1).astype(np.int64), weights


def _interpolated(site: Site, axes: list[_Axis], taps: list[tuple[np.ndarray, np.ndarray]]) -> Lowering:
    steps: list[Step] = []
    source: Ref = 0
    for a, (places, weights) in zip(axes, taps):
        names = indices(site.rank(0))
        read, written = list(names), list(names)
        read[a.number], written[a.number] = "I[h, t]", "h"
        output: int | str = 0 if a is axes[-1] else f"t{a.number}"
        steps.append(Apply("movement.Interpolate", (source, places, weights.astype(site.dtype(0).numpy)), (output,),
                           spell={"x": spell(read), "y": spell(written)}))
        source = output
    return tuple(steps)


ROWS: dict[str, Binder] = {"Resize": resize, "Upsample": upsample}
