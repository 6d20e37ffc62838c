"""Recipes of com.microsoft's operators on quantised tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.graph.random_models.builder import BYTES, Builder, Shape
from tests.graph.random_models.float_recipes import window

PAIRS = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]
"""Types of which ONNX Runtime has products."""


def scale(b: Builder, shape: Shape = ()) -> str:
    return b.given(b.filled(np.float32, shape, lambda r, s: r.integers(1, 40, s) / r.choice([512, 1000, 64])), 75)


def zero(b: Builder, t: Any, shape: Shape = (), low: int | None = None) -> str:
    info = np.iinfo(t)
    return b.given(b.filled(t, shape, lambda r, s: r.integers(info.min, info.max + 1, s)), 75)


def quantised(b: Builder, t: Any, shape: Shape, optional: bool = True) -> list[str]:
    """A tensor with its scale and zero point, which may be left out."""
    return [b.tensor(t, shape), scale(b), zero(b, t) if not optional or b.c.likely(75) else ""]


def element_wise(b: Builder) -> None:
    t, s = b.c.of(BYTES), b.shape(1, 4)
    other = s[b.c.below(len(s)):] if b.c.likely(40) else tuple(1 if b.c.likely(20) else n for n in s)
    first, second = b.c.of([(s, other), (other, s)])
    b.node(b.c.of(["QLinearAdd", "QLinearMul"]), [*quantised(b, t, first), *quantised(b, t, second), scale(b),
           zero(b, t) if b.c.likely(75) else ""], (t, s))


def activation(b: Builder) -> None:
    t, s = b.c.of(BYTES), b.shape(0, 4)
    op = b.c.of(["QLinearSigmoid", "QLinearLeakyRelu"])
    b.node(op, [*quantised(b, t, s), scale(b), zero(b, t) if b.c.likely(75) else ""], (t, s),
           **({"alpha": b.c.of([0.01, 0.5, -0.25])} if op == "QLinearLeakyRelu" else {}))


def softmax(b: Builder) -> None:
    t, s = b.c.of(BYTES), b.shape(1, 4)
    b.node("QLinearSoftmax", [*quantised(b, t, s), b.constant(np.float32(1 / 256)),
             b.constant(t(0 if t is np.uint8 else -128))],
           (t, s), axis=b.c.between(-len(s), len(s) - 1), opset=b.c.of([13, 12]))


def average_pool(b: Builder) -> None:
    t, last, rank = b.c.of(BYTES), b.c.below(2), b.c.of([2, 2, 1, 3])
    kernel, channels = [b.c.between(1, 3) for _ in range(rank)], b.positive(17)
    extents = [b.positive(8) + 3 for _ in range(rank)]
    s = (b.positive(3), *extents, channels) if last else (b.positive(3), channels, *extents)
    own = window(b, rank)
    if "pads" in own:
        own["pads"] = [min(p, kernel[k % rank] - 1) for k, p in enumerate(own["pads"])]
    b.node("QLinearAveragePool", [*quantised(b, t, s), scale(b), zero(b, t) if b.c.likely(75) else ""], (t, rank + 2),
           kernel_shape=kernel, channels_last=last, ceil_mode=b.c.below(2), count_include_pad=b.c.below(2), **own)


def global_pool(b: Builder) -> None:
    t, last, rank = b.c.of(BYTES), b.c.below(2), b.c.of([2, 2, 1, 3])
    s = tuple(b.positive(8) for _ in range(rank + 2))
    b.node("QLinearGlobalAveragePool", [*quantised(b, t, s, False), scale(b), zero(b, t)], (t, rank + 2), channels_last=last)


def reduce(b: Builder) -> None:
    t, s = b.c.of(BYTES), b.shape(1, 4)
    axes, keep = sorted(b.c.shuffled(range(len(s)))[:b.c.between(1, len(s))]), b.c.below(2)
    axes = [a - len(s) if b.c.likely(30) else a for a in axes]
    rank = len(s) if keep else len(s) - len(axes)
    b.node("ReduceSumInteger", [b.tensor(t, s)], (np.int32 if t is np.int8 else np.uint32, rank), axes=axes, keepdims=keep)


def concat(b: Builder) -> None:
    t, s = b.c.of(BYTES), b.shape(1, 4)
    axis = b.c.below(len(s))
    given = [scale(b), zero(b, t)]
    for _ in range(b.c.between(1, 3)):
        given += quantised(b, t, (*s[:axis], b.size(8), *s[axis + 1:]), False)
    b.node("QLinearConcat", given, (t, len(s)), axis=b.c.of([axis, axis - len(s)]))


def where(b: Builder) -> None:
    t, s = b.c.of(BYTES), b.shape(1, 3)
    parts = [s, s[1:] if b.c.likely(30) else s, tuple(1 if b.c.likely(20) else n for n in s)]
    b.node("QLinearWhere", [b.tensor(np.bool_, parts[0]), *quantised(b, t, parts[1], False), *quantised(b, t, parts[2], False),
           scale(b), zero(b, t)], (t, s))


def gemm(b: Builder) -> None:
    (ta, tb), (m, n, k) = b.c.of(PAIRS), (b.size(17), b.size(17), b.size())
    x, y, columns = b.c.below(2), b.c.below(2), b.c.likely(30)
    real = b.c.likely(40)
    w, wide = b.tensor(tb, (n, k) if y else (k, n)), (n,) if columns else ()
    c = b.maybe(lambda: b.tensor(np.int32, b.c.of([(n,), (m, n), (1, n)]), lambda r, s: r.integers(-500, 500, s)))
    b.node("QGemm", [b.tensor(ta, (k, m) if x else (m, k)), scale(b), zero(b, ta), w, scale(b, wide), zero(b, tb, wide), c,
                     *([] if real else [scale(b), zero(b, ta)])], (np.float32 if real else ta, (m, n)), transA=x, transB=y,
           alpha=b.c.of([1.0, 0.5]))


def integer_product(b: Builder) -> None:
    ta, tb, batch, (m, n, k) = b.c.of(BYTES), b.c.of(BYTES), b.shape(0, 2), (b.size(17), b.size(17), b.size())
    wide = b.c.of([(), (n,), (1,)])
    bias = b.maybe(lambda: b.tensor(np.float32, (n,)))
    if b.c.likely(50):
        b.node("DynamicQuantizeMatMul", [b.tensor(np.float32, (*batch, m, k)), b.tensor(tb, (k, n)), scale(b, wide),
                                         b.maybe(lambda: zero(b, tb, wide)), bias], (np.float32, (*batch, m, n)))
        return
    a, weights = b.tensor(ta, (*batch, m, k)), b.c.of([(k, n), (*batch, k, n)])
    # ONNX Runtime (1.32) adds a bias of batches of weights with a scale for each column more or less than once
    bias = "" if len(weights) > 2 else bias
    b.node("MatMulIntegerToFloat", [a, b.tensor(tb, weights), scale(b), scale(b, wide), b.maybe(lambda: zero(b, ta)),
                                    b.maybe(lambda: zero(b, tb, wide)), bias],
           (np.float32, (*batch, m, n)))


def linear(b: Builder) -> None:
    t, s = b.c.of([*BYTES, np.int16, np.uint16]), b.shape(0, 4)
    axis = b.c.below(len(s)) if s and b.c.likely(40) else None
    wide = () if axis is None else (s[axis],)
    own = {} if axis is None else {"axis": b.c.of([axis, axis - len(s)])}
    z = b.maybe(lambda: zero(b, t, wide), 75) if t is np.uint8 else zero(b, t, wide)
    if b.c.likely(50):
        b.node("QuantizeLinear", [b.tensor(np.float32, s), scale(b, wide), z], (t, s), **own)
    else:
        b.node("DequantizeLinear", [b.tensor(t, s), scale(b, wide), z], (np.float32, s), **own)


def convolution(b: Builder) -> None:
    (t, tw), last, group = b.c.of(PAIRS), b.c.below(2), b.c.of([1, 1, 2, 3])
    rank = b.c.of([2, 2, 1])
    ins, outs = group * b.positive(5), group * b.positive(5)
    kernel, extents = [b.c.between(1, 3) for _ in range(rank)], [b.positive(8) + 4 for _ in range(rank)]
    s = (b.positive(3), *extents, ins) if last else (b.positive(3), ins, *extents)
    own = window(b, rank) | ({"group": group} if group > 1 else {}) | ({"dilations": [2] * rank} if b.c.likely(20) else {})
    wide = (outs,) if b.c.likely(40) else ()
    bias = b.maybe(lambda: b.constant(b.filled(np.int32, (outs,), lambda r, q: r.integers(-900, 900, q))))
    zeros = b.constant(b.filled(tw, wide, lambda r, q: np.full(q, r.integers(0, 9))))
    b.node("QLinearConv", [*quantised(b, t, s, False), b.tensor(tw, (outs, ins // group, *kernel)), scale(b, wide), zeros,
             scale(b),
                           zero(b, t), bias], (t, rank + 2), channels_last=last, **own)


def max_pool(b: Builder) -> None:
    t, kernel = b.c.of(BYTES), [b.c.between(1, 3), b.c.between(1, 3)]
    own = window(b, 2)
    if "pads" in own:
        own["pads"] = [min(p, kernel[k % 2] - 1) for k, p in enumerate(own["pads"])]
    b.node("NhwcMaxPool", [b.tensor(t, (b.positive(3), b.positive(8) + 3, b.positive(8) + 3, b.positive(17)))], (t, 4),
           kernel_shape=kernel, ceil_mode=b.c.below(2), **own)


def gathered(b: Builder) -> None:
    block, rows = b.c.of([16, 32]), b.positive(8)
    columns = block * b.c.between(1, 3)
    at = b.tensor(b.c.of([np.int64, np.int32]), b.shape(0, 2), lambda r, s: r.integers(-rows, rows, s))
    zeros = b.maybe(lambda: b.constant(b.filled(np.uint8, (rows, columns // block))))
    b.node("GatherBlockQuantized", [b.constant(b.filled(np.uint8, (rows, columns))), at,
                                    b.constant(b.filled(np.float32, (rows, columns // block))), zeros], (np.float32, None),
           bits=8, block_size=block, gather_axis=0, quantize_axis=1)


RECIPES = [element_wise, element_wise, activation, softmax, average_pool, global_pool, reduce, concat, where, gemm,
         integer_product,
           linear, convolution, max_pool, gathered]
