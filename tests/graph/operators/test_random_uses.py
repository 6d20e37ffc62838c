"""Random attributes and shapes of the operators with the most of them, against ONNX Runtime."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import helper

import polytc


@dataclass
class Use:
    """inputs: None where left out; stored: numbers of those that are in the model."""

    op: str
    inputs: list[np.ndarray | None]
    attributes: dict[str, Any]
    stored: tuple[int, ...] = ()
    outputs: int = 1
    opset: int = 21


@dataclass
class Dice:
    """r: choices; n: elements."""

    r: random.Random
    n: np.random.Generator

    def f(self, *shape: int) -> np.ndarray:
        return self.n.standard_normal(shape).astype(np.float32)

    def some(self, count: int, low: int, high: int) -> list[int]:
        return [self.r.randint(low, high) for _ in range(count)]

    def padding(self, n: int, most: int) -> dict[str, Any]:
        kind = self.r.choice(["none", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"])
        if kind == "pads":
            return {"pads": self.some(2 * n, 0, most)}
        return {} if kind == "none" else {"auto_pad": kind}


def pool(d: Dice) -> Use:
    n, op = d.r.choice([1, 2, 2, 3]), d.r.choice(["MaxPool", "AveragePool", "LpPool"])
    kernel = d.some(n, 2, 3)
    a = {"kernel_shape": kernel, "strides": d.some(n, 1, 2), **d.padding(n, 1)}
    if "auto_pad" not in a:
        a |= {"dilations": d.some(n, 1, 2), "ceil_mode": d.r.randint(0, 1)}
    a |= {"AveragePool": {"count_include_pad": d.r.randint(0, 1)}, "LpPool": {"p": d.r.randint(1, 3)}, "MaxPool": {}}[op]
    x = d.f(d.r.randint(1, 2), d.r.randint(1, 3), *d.some(n, 5, 9))
    if op == "MaxPool" and d.r.random() < 0.5:
        return Use(op, [x], a | {"storage_order": d.r.randint(0, 1)}, outputs=2)
    return Use(op, [x], a)


def convolution(d: Dice) -> Use:
    n, groups, c, m = d.r.choice([1, 2, 2, 3]), d.r.choice([1, 1, 2, 3]), d.r.randint(1, 2), d.r.randint(1, 2)
    a = {"group": groups, "strides": d.some(n, 1, 3), **d.padding(n, 2)}
    if a.get("auto_pad", "VALID") == "VALID":
        a["dilations"] = d.some(n, 1, 2)
    inputs = [d.f(d.r.randint(1, 2), c * groups, *d.some(n, 5, 8)), d.f(m * groups, c, *d.some(n, 1, 3)), d.f(m * groups)]
    return Use("Conv", inputs[:d.r.randint(2, 3)], a, d.r.choice([(), (1,)]))


def transposed(d: Dice) -> Use:
    n, groups, c, m = d.r.choice([1, 2, 2, 3]), d.r.choice([1, 1, 2]), d.r.randint(1, 2), d.r.randint(1, 2)
    kernel, strides, image = d.some(n, 3, 4), d.some(n, 1, 3), d.some(n, 2, 5)
    a: dict[str, Any] = {"group": groups, "strides": strides}
    kind = d.r.choice(["plain", "dilated", "pads", "SAME_UPPER", "SAME_LOWER", "shape"])
    if kind == "dilated":
        a |= {"dilations": d.some(n, 1, 2), "output_padding": [d.r.randint(0, s - 1) for s in strides]}
    elif kind == "pads":
        a |= {"pads": d.some(2 * n, 0, 1), "output_padding": [d.r.randint(0, s - 1) for s in strides]}
    elif kind == "shape":
        a["output_shape"] = [s * (x - 1) + k + d.r.randint(-2, 0) for s, x, k in zip(strides, image, kernel)]
    elif kind != "plain":
        a["auto_pad"] = kind
    inputs = [d.f(d.r.randint(1, 2), c * groups, *image), d.f(c * groups, m, *kernel), d.f(m * groups)]
    return Use("ConvTranspose", inputs[:d.r.randint(2, 3)], a, d.r.choice([(), (1,)]))


def pad(d: Dice) -> Use:
    shape = d.some(d.r.randint(1, 3), 2, 5)
    mode = d.r.choice(["constant", "edge", "wrap", "reflect"])
    pads = [min(p, shape[i % len(shape)] - 1) for i, p in enumerate(d.some(2 * len(shape), 0 if mode == "reflect" else -1, 3))]
    return Use("Pad", [d.f(*shape), np.array(pads)], {"mode": mode}, (1,))


def cut(d: Dice) -> Use:
    shape = d.some(d.r.randint(1, 3), 1, 6)
    axes = d.r.sample(range(len(shape)), d.r.randint(1, len(shape)))
    k = len(axes)
    ends = [d.r.choice([d.r.randint(-8, 8), 2**62, -2**62]) for _ in axes]
    steps = [d.r.choice([-3, -2, -1, 1, 2, 3]) for _ in axes]
    lists = (d.some(k, -8, 8), ends, axes, steps)
    return Use("Slice", [d.f(*shape), *map(np.array, lists)], {}, (1, 2, 3, 4))


def resize(d: Dice) -> Use:
    n = d.r.choice([1, 2])
    mode = d.r.choice(["nearest", "linear", "cubic"] if n == 2 else ["nearest", "linear"])
    a = {"mode": mode, "coordinate_transformation_mode": d.r.choice(["half_pixel", "asymmetric", "align_corners"])}
    if mode == "nearest":
        a["nearest_mode"] = d.r.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    return Use("Resize", [d.f(1, 1, *d.some(n, 2, 6)), None, None, np.array([1, 1, *d.some(n, 1, 9)])], a, (3,))


def scatter(d: Dice) -> Use:
    shape = d.some(d.r.randint(1, 3), 1, 5)
    axis = d.r.randrange(len(shape))
    places = [d.r.randint(1, e) for e in shape]
    places[axis] = d.r.randint(1, 6)
    a = {"axis": axis, "reduction": d.r.choice(["none", "add", "mul", "max", "min"])}
    return Use("ScatterElements", [d.f(*shape), d.n.integers(-shape[axis], shape[axis], places), d.f(*places)], a)


def grid(d: Dice) -> Use:
    n = d.r.choice([2, 2, 3])
    a = {"mode": d.r.choice(["nearest", "linear", "cubic"] if n == 2 else ["nearest", "linear"]),
         "padding_mode": d.r.choice(["zeros", "border", "reflection"]), "align_corners": d.r.randint(0, 1)}
    batch = d.r.randint(1, 2)
    places = d.n.uniform(-1.6, 1.6, (batch, *d.some(n, 1, 4), n)).astype(np.float32)
    return Use("GridSample", [d.f(batch, 2, *d.some(n, 2, 5)), places], a)


def regions(d: Dice) -> Use:
    count = d.r.randint(1, 3)
    low = d.n.uniform(0, 3, (count, 2))
    corners = np.concatenate([low, low + d.n.uniform(0.1, 4, (count, 2))], 1).astype(np.float32)
    a = {"output_height": d.r.randint(1, 3), "output_width": d.r.randint(1, 3), "sampling_ratio": d.r.randint(0, 2),
         "coordinate_transformation_mode": d.r.choice(["half_pixel", "output_half_pixel"]),
         "spatial_scale": d.r.choice([1.0, 0.5])}
    return Use("RoiAlign", [d.f(2, 2, *d.some(2, 4, 8)), corners, d.n.integers(0, 2, count)], a)


KINDS: list[Callable[[Dice], Use]] = [pool, convolution, transposed, pad, cut, resize, scatter, grid, regions]


def check(kind: Callable[[Dice], Use], seed: int, target: str, build: Any, runtime: Any) -> None:
    use = kind(Dice(random.Random(seed), np.random.default_rng(seed)))
    names = ["" if a is None else f"x{i}" for i, a in enumerate(use.inputs)]
    arrays = {n: a for n, a in zip(names, use.inputs, strict=True) if a is not None}
    stored = {names[i]: arrays[names[i]] for i in use.stored}
    feeds = {n: a for n, a in arrays.items() if n not in stored}
    outputs = [f"y{i}" for i in range(use.outputs)]
    model = build([helper.make_node(use.op, names, outputs, **use.attributes)], feeds, outputs, stored, use.opset)
    results = polytc.load_onnx(model).compile(target=target, threads=1, strict=True).run(None, feeds)
    for got, wanted in zip(results, runtime(model, feeds), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), use
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5, err_msg=str(use))


@pytest.mark.part(6)
@pytest.mark.parametrize("kind", KINDS)
def test_random_uses(kind: Callable[[Dice], Use], build, runtime) -> None:
    for seed in range(12):
        check(kind, seed, "evaluate", build, runtime)


@pytest.mark.long
@pytest.mark.parametrize("target", ["evaluate", "cpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_more_random_uses(kind: Callable[[Dice], Use], target: str, build, runtime) -> None:
    for seed in range(100, 100 + (100 if target == "evaluate" else 20)):
        check(kind, seed, target, build, runtime)
