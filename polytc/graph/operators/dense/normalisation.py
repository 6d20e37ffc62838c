"""Normalisations by mean and deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Site, Step
from polytc.graph.operators.elements.elementwise import kept, narrowed
from polytc.graph.operators.index_packs import broadcast, fits, indices, spell


def batch(site: Site) -> Lowering:
    """With known statistics one multiplication and one addition for an element."""
    epsilon = site.attr("epsilon", 1e-5)
    channels = site.shape(0)[1] if site.rank(0) > 1 else 1
    if any(site.shape(i) != (channels,) for i in range(1, 5)):
        raise site.misfit(f"scale, bias, mean and variance of {channels} channels must be {channels} numbers each")
    if site.attr("training_mode", 0):
        return _training(site, epsilon)
    statistics = [s for i in range(1, 5) if (s := site.value(i)) is not None]
    if len(statistics) < 4:
        return Apply("normalisation.BatchNormalization", (0, 1, 2, 3, 4), attrs={"epsilon": epsilon})
    scale, shift = folded(statistics, epsilon)
    dtype = site.dtype(0)
    if dtype.is_half:  # rounded to halves, the shift alone would be off by as much as the result, and may overflow
        return narrowed(site, Apply("normalisation.Affine", (0, scale.astype(np.float32), shift.astype(np.float32))))
    return Apply("normalisation.Affine", (0, scale.astype(dtype.numpy), shift.astype(dtype.numpy)))


def _training(site: Site, epsilon: float) -> Lowering:
    outputs = [*site.node.outputs, "", ""][:3]
    names = tuple(i if name else f"unused{i}" for i, name in enumerate(outputs))
    mixed = site.dtype(1) != site.dtype(0) or site.dtype(3) != site.dtype(0)
    spelling = {"type": site.dtype(0).name if mixed else "", "stype": site.dtype(3).name if mixed else ""}
    return Apply("normalisation.BatchNormalizationTraining", (0, 1, 2, 3, 4), names, attrs={
        "count": math.prod(site.shape(0)) // site.shape(0)[1], "epsilon": epsilon, "momentum": site.attr("momentum", 0.9)},
        spell=spelling)


def folded(statistics: Sequence[np.ndarray], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """(a, b) with a*x + b == (x - mean) / sqrt(variance + epsilon) * scale + bias, in double precision.

    statistics: scale, bias, mean, variance.
    """
    scale, bias, mean, variance = statistics
    a = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return a, bias - mean * a


def layer(site: Site) -> Lowering:
    rank = site.rank(0)
    axis = site.axis(site.attr("axis", -1), rank)
    names = indices(rank)
    for i in range(1, 3):
        if site.has(i) and not fits(site.shape(i), site.shape(0)):
            raise site.misfit("scale and bias must broadcast to the shape of the input")
    attrs = {"count": math.prod(site.shape(0)[axis:]), "epsilon": site.attr("epsilon", 1e-5)}
    spelling = {"x": spell(names), "y": spell(names[:axis]), "s": spell(broadcast(names, site.shape(1)))}
    if site.has(2):
        main = Apply("normalisation.LayerNormalizationBias", (0, 1, 2), attrs=attrs,
                     spell={**spelling, "b": spell(broadcast(names, site.shape(2)))})
    else:
        main = Apply("normalisation.LayerNormalization", (0, 1), attrs=attrs, spell=spelling)
    steps: list[Step] = [main]
    asked = [i for i, name in enumerate(site.node.outputs) if i and name]
    if asked:
        kept = {**spelling, "k": spell(names[:axis] + ["0"] * (rank - axis))}
        outputs = tuple(i if i in asked else f"unused{i}" for i in (1, 2))
        steps.append(Apply("normalisation.Moments", (0,), outputs, attrs=attrs, spell=kept))
    return tuple(steps)


def root_mean_square(site: Site) -> Lowering:
    rank = site.rank(0)
    axis = site.axis(site.attr("axis", -1), rank)
    names = indices(rank)
    return Apply("normalisation.RMSNormalization", (0, 1), attrs={
        "count": math.prod(site.shape(0)[axis:]), "epsilon": site.attr("epsilon", 1e-5)}, spell={
        "x": spell(names), "y": spell(names[:axis]), "s": spell(broadcast(names, site.shape(1)))})


def mean_variance(site: Site) -> Lowering:
    names = indices(site.rank(0))
    axes = {site.axis(a, len(names)) for a in site.attr("axes", [0, 2, 3])}
    return Apply("normalisation.MeanVarianceNormalization", (0,), attrs={"count": math.prod(site.shape(0)[a] for a in axes)},
                 spell={"x": spell(names), "y": spell(n for i, n in enumerate(names) if i not in axes)})


def _grouped(site: Site, groups: int, by_group: bool) -> Lowering:
    shape = site.shape(0)
    if shape[1] and (groups < 1 or shape[1] % groups):
        raise site.misfit(f"{shape[1]} channels do not divide into {groups} groups")
    size = shape[1] // groups
    return Apply("normalisation.GroupNormalization", (0, 1, 2), attrs={
        "count": size * math.prod(shape[2:]), "epsilon": site.attr("epsilon", 1e-5), "G": groups, "C": size},
        spell={"w": "g" if by_group else "g*C + c"})


def instance(site: Site) -> Lowering:
    return _grouped(site, site.shape(0)[1], by_group=False)


def group(site: Site) -> Lowering:
    """Opset 18 had one scale and bias a group; since opset 21 there is one a channel."""
    return _grouped(site, site.attr("num_groups"), by_group=site.opset < 21)


def local_response(site: Site) -> Lowering:
    """Channels that no window reaches count for nothing, however large the window is said to be."""
    size, farthest = site.attr("size"), site.shape(0)[1] - 1
    if size < 1:
        raise site.misfit(f"the attribute 'size' is {size}, a window of channels has at least one")
    before, after = min((size - 1) // 2, farthest), min(size // 2, farthest)
    return Apply("normalisation.LRN", (0,), attrs={
        "size": size, "before": before, "taps": before + 1 + after, "alpha": site.attr("alpha", 1e-4),
        "beta": site.attr("beta", 0.75), "bias": site.attr("bias", 1.0)})


ROWS: dict[str, Binder] = {
    "BatchNormalization": kept(batch), "LayerNormalization": kept(layer), "RMSNormalization": kept(root_mean_square),
    "MeanVarianceNormalization": mean_variance, "InstanceNormalization": instance, "GroupNormalization": group,
    "LRN": local_response}
