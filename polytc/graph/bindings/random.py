"""Random numbers. With a seed they are those of onnx's reference evaluator, known before the run."""

from __future__ import annotations

import math

import numpy as np

from polytc.graph.binding import Apply, Binder, Known, Lowering, Ref, Site, Step, View
from polytc.graph.bindings.elementwise import TYPES
from polytc.graph.bindings.spelling import spell


def _stream(site: Site) -> np.random.RandomState:
    """The generator of a seeded node."""
    seed = site.attr("seed")
    if seed is None or math.isnan(seed):
        raise site.unsupported("random numbers without a seed", "give the node the attribute 'seed'")
    return np.random.RandomState(int(seed))


def generator(normal: bool, like: bool) -> Binder:
    """A row of RandomNormal, RandomUniform and those that take their shape from an input."""
    def bind(site: Site) -> Lowering:
        shape = site.shape(0) if like else tuple(site.attr("shape"))
        dtype = TYPES.get(site.attr("dtype", 0), site.dtype(0) if like else TYPES[1])
        stream = _stream(site)
        numbers = np.asarray(stream.randn(*shape) if normal else stream.rand(*shape)).astype(dtype.numpy)
        low, high = site.attr("low", 0.0), site.attr("high", 1.0)
        factor, shift = (site.attr("scale", 1.0), site.attr("mean", 0.0)) if normal else (high - low, low)
        kind = numbers.dtype.type
        return Known(np.asarray(numbers * kind(factor) + kind(shift), dtype.numpy))
    return bind


def bernoulli(site: Site) -> Lowering:
    target = TYPES.get(site.attr("dtype", 0), site.dtype(0))
    return Apply("random.Bernoulli", (0, np.asarray(_stream(site).random_sample(site.shape(0)))), spell={"type": target.name})


def multinomial(site: Site) -> Lowering:
    batch, classes = site.shape(0)
    target = TYPES[site.attr("dtype", 6)]
    numbers = _stream(site).random_sample((batch, site.attr("sample_size", 1)))
    return Apply("random.Multinomial", (0, numbers), attrs={"last": classes - 1}, spell={"type": target.name})


def dropout(site: Site) -> Lowering:
    """At inference every element passes; the mask, if asked for, says so. In training some do, and are scaled up."""
    shape = site.shape(0)
    masked = len(site.node.outputs) > 1 and bool(site.node.outputs[1])
    training = bool(site.known(2, "training_mode").reshape(-1)[0]) if site.has(2) else False
    ratio = site.value(1) if site.has(1) else np.float32(0.5)
    if not training or ratio is not None and not np.any(ratio):
        mask = Known(np.ones(shape, bool if site.opset >= 10 else site.dtype(0).numpy), 1)
        return (View(0, shape), mask) if masked else View(0, shape)
    numbers = np.asarray(_stream(site).uniform(0, 1, shape))
    chance: Ref = 1 if site.has(1) else np.array(0.5, site.dtype(0).numpy)
    spelling = {"r": spell("0" for _ in (site.shape(1) if site.has(1) else ()))}
    steps: list[Step] = [Apply("random.Dropout", (0, numbers, chance), spell=spelling)]
    if masked:
        steps.append(Apply("random.Kept", (numbers, chance), (1,), spell=spelling))
    return tuple(steps)


ROWS: dict[str, Binder] = {
    "RandomNormal": generator(normal=True, like=False), "RandomUniform": generator(normal=False, like=False),
    "RandomNormalLike": generator(normal=True, like=True), "RandomUniformLike": generator(normal=False, like=True),
    "Bernoulli": bernoulli, "Multinomial": multinomial, "Dropout": dropout}
