"""Random numbers. With a seed they are those of onnx's reference evaluator, known before the run and the same in each; without
one, numpy draws new ones at each run."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Ref, Routine, Site, Step, View
from polytc.graph.operators.elements.elementwise import TYPES
from polytc.graph.operators.index_packs import spell


def _seed(site: Site) -> int | None:
    seed = site.attr("seed")
    return None if seed is None or math.isnan(seed) else int(seed)


def generator(normal: bool, like: bool) -> Binder:
    """A row of RandomNormal, RandomUniform and those that take their shape from an input."""
    def bind(site: Site) -> Lowering:
        shape = site.shape(0) if like else tuple(site.attr("shape"))
        kind = TYPES.get(site.attr("dtype", 0), site.dtype(0) if like else TYPES[1]).numpy
        low, high = site.attr("low", 0.0), site.attr("high", 1.0)
        factor, shift = (site.attr("scale", 1.0), site.attr("mean", 0.0)) if normal else (high - low, low)

        def draw(stream: np.random.RandomState) -> np.ndarray:
            numbers = np.asarray(stream.randn(*shape) if normal else stream.rand(*shape)).astype(kind)
            return np.asarray(numbers * kind.type(factor) + kind.type(shift), kind)
        return _drawn(site, draw)
    return bind


def _drawn(site: Site, draw: Callable[[np.random.RandomState], np.ndarray]) -> Known | Routine:
    seed = _seed(site)
    if seed is None:
        return Routine(lambda *_: [draw(np.random.RandomState())], ())
    return Known(draw(np.random.RandomState(seed)))


def bernoulli(site: Site) -> Lowering:
    target = TYPES.get(site.attr("dtype", 0), site.dtype(0))
    seed = _seed(site)
    if seed is None:
        return Routine(lambda x: [(np.random.RandomState().random_sample(x.shape) < x).astype(target.numpy)], (0,))
    numbers = np.asarray(np.random.RandomState(seed).random_sample(site.shape(0)))
    return Apply("random.Bernoulli", (0, numbers), spell={"type": target.name})


def multinomial(site: Site) -> Lowering:
    batch, classes = site.shape(0)
    target = TYPES[site.attr("dtype", 6)]
    shape, seed = (batch, site.attr("sample_size", 1)), _seed(site)
    if seed is None:
        return Routine(lambda x: [_classes(x, np.random.RandomState().random_sample(shape)).astype(target.numpy)], (0,))
    numbers = np.random.RandomState(seed).random_sample(shape)
    return Apply("random.Multinomial", (0, numbers), attrs={"last": classes - 1}, spell={"type": target.name})


def _classes(x: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The class that each number falls into, x being logarithms of the classes' weights."""
    ends = np.cumsum(np.exp(x.astype(np.float64) - x.max(1, keepdims=True)), 1)
    places: np.ndarray = (ends[:, None, :-1] <= numbers[:, :, None] * ends[:, None, -1:]).sum(2)
    return places


def dropout(site: Site) -> Lowering:
    """At inference every element passes; the mask, if asked for, says so. In training some do, and are scaled up."""
    shape = site.shape(0)
    masked = len(site.node.outputs) > 1 and bool(site.node.outputs[1])
    training = bool(site.known(2, "training_mode").reshape(-1)[0]) if site.has(2) else False
    ratio = site.value(1) if site.has(1) else np.float32(0.5)
    if not training or ratio is not None and not np.any(ratio):
        mask = Known(np.ones(shape, bool if site.opset >= 10 else site.dtype(0).numpy), 1)
        return (View(0, shape), mask) if masked else View(0, shape)
    seed = _seed(site)
    if seed is None:
        return Routine(_dropped, (0, 1))
    numbers = np.asarray(np.random.RandomState(seed).uniform(0, 1, shape))
    chance: Ref = 1 if site.has(1) else np.array(0.5, site.dtype(0).numpy)
    spelling = {"r": spell("0" for _ in (site.shape(1) if site.has(1) else ()))}
    steps: list[Step] = [Apply("random.Dropout", (0, numbers, chance), spell=spelling)]
    if masked:
        steps.append(Apply("random.Kept", (numbers, chance), (1,), spell=spelling))
    return tuple(steps)


def _dropped(x: np.ndarray, ratio: np.ndarray | None) -> list[np.ndarray]:
    chance = 0.5 if ratio is None else float(ratio.reshape(-1)[0])
    mask = np.random.RandomState().random_sample(x.shape) >= chance
    scaled = x.astype(np.promote_types(x.dtype, np.float32)) / (1 - chance)
    return [np.where(mask, scaled, 0).astype(x.dtype), mask]


ROWS: dict[str, Binder] = {
    "RandomNormal": generator(normal=True, like=False), "RandomUniform": generator(normal=False, like=False),
    "RandomNormalLike": generator(normal=True, like=True), "RandomUniformLike": generator(normal=False, like=True),
    "Bernoulli": bernoulli, "Multinomial": multinomial, "Dropout": dropout}
