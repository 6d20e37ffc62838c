"""Recipes of com.microsoft's operators on floats: each adds one node, with random types, shapes, attributes and optional
inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.graph.onnx.contrib import test_random
from tests.graph.random_models.builder import FLOATS, NUMBERS, Builder


def gelu(b: Builder) -> None:
    t, s, op = b.c.of(FLOATS), b.shape(0, 4), b.c.of(["Gelu", "QuickGelu", "FastGelu", "ScaledSiLU"])
    t = _known_well(op, t)
    b.node(op, [b.tensor(t, s)], (t, s))


def _known_well(op: str, t: Any) -> Any:
    """The type, and f32 for f64 where ONNX Runtime computes with constants of six digits."""
    return np.float32 if op == "FastGelu" and t is np.float64 else t


def gelu_with_alpha(b: Builder) -> None:
    t, s = b.c.of(FLOATS), b.shape(1, 4)
    b.node("QuickGelu", [b.tensor(t, s)], (t, s), alpha=b.c.of([1.0, 1.702, 0.0, -0.5, 3.0]))


def bias_gelu(b: Builder) -> None:
    t, s, op = b.c.of(FLOATS), b.shape(1, 4), b.c.of(["BiasGelu", "FastGelu"])
    t = _known_well(op, t)
    b.node(op, [b.tensor(t, s), b.tensor(t, s[-1:])], (t, s))


def matmul(b: Builder) -> None:
    t, batch = b.c.of(FLOATS), b.shape(0, 2)
    m, n, k = b.size(), b.size(), b.size()
    flips = {name: b.c.below(2) for name in ("transA", "transB")}
    batches = {name: b.c.below(2) if len(batch) and b.c.likely(30) else 0 for name in ("transBatchA", "transBatchB")}

    def operand(rows: int, columns: int, flip: int, moved: int) -> tuple[int, ...]:
        rows, columns = (columns, rows) if flip else (rows, columns)
        return (rows, *batch, columns) if moved else (*batch, rows, columns)

    a = operand(m, k, flips["transA"], batches["transBatchA"])
    w = operand(k, n, flips["transB"], batches["transBatchB"])
    own: dict[str, Any] = {**flips, **batches, "alpha": b.c.of([1.0, 0.125, -2.0, 0.0])}
    b.node("FusedMatMul", [b.tensor(t, a), b.tensor(t, w)], (t, (*batch, m, n)), **own)


def transposed_matmul(b: Builder) -> None:
    t, batch, (m, n, k) = b.c.of(FLOATS), b.shape(0, 2), (b.size(), b.size(), b.size())
    x, y = b.c.below(2), b.c.below(2)
    b.node("TransposeMatMul", [b.tensor(t, (*batch, *((k, m) if x else (m, k)))), b.tensor(t, (n, k) if y else (k, n))],
           (t, (*batch, m, n)), transA=x, transB=y, alpha=b.c.of([1.0, 0.5]))


def gemm(b: Builder) -> None:
    t, (m, n, k) = b.c.of([np.float32, np.float32, np.float64]), (b.size(), b.size(), b.size())
    x, y = b.c.below(2), b.c.below(2)
    c = b.maybe(lambda: b.tensor(t, b.c.of([(n,), (m, n), (1,), (m, 1), (1, n), ()])))
    own: dict[str, Any] = {"activation": b.c.of(["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid", "Softplus"])}
    own |= {"activation_alpha": b.c.of([0.1, 0.5])} if own["activation"] in ("LeakyRelu", "Elu", "HardSigmoid") else {}
    own |= {"activation_beta": 0.4} if own["activation"] == "HardSigmoid" else {}
    b.node("FusedGemm", [b.tensor(t, (k, m) if x else (m, k)), b.tensor(t, (n, k) if y else (k, n)), c], (t, (m, n)), transA=x,
           transB=y, alpha=b.c.of([1.0, 0.5, 2.0]), beta=b.c.of([1.0, 0.5, 0.0]), **own)


def window(b: Builder, rank: int) -> dict[str, Any]:
    """Attributes of a window, some of them left out."""
    own: dict[str, Any] = {}
    if b.c.likely(50):
        own["strides"] = [b.c.between(1, 3) for _ in range(rank)]
    if b.c.likely(30):
        own["auto_pad"] = b.c.of(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    if b.c.likely(50) and "auto_pad" not in own:
        own["pads"] = [b.c.between(0, 1) for _ in range(2 * rank)]
    return own


def convolution(b: Builder) -> None:
    t, rank, group = np.float32, b.c.of([2, 1, 3]), b.c.of([1, 1, 2, 4])
    batch, ins, outs = b.size(3), group * b.positive(4), group * b.positive(5)
    kernel = [b.c.between(1, 3) for _ in range(rank)]
    extents = tuple(b.positive(8) + 5 for _ in range(rank))
    own = window(b, rank) | ({"group": group} if group != 1 or b.c.likely(50) else {})
    if b.c.likely(50):
        own["kernel_shape"] = kernel
    if b.c.likely(30):
        own["dilations"] = [b.c.between(1, 2) for _ in range(rank)]
    x = b.tensor(t, (batch, ins, *extents))
    w, bias = b.tensor(t, (outs, ins // group, *kernel)), b.maybe(lambda: b.tensor(t, (outs,)))
    act = b.c.of(["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid", ""])
    params = {"LeakyRelu": [0.1], "Clip": [-1.0, 1.5], "HardSigmoid": [0.2, 0.5]}.get(act)
    own |= ({"activation": act} if act else {}) | ({"activation_params": params} if params else {})
    b.node("FusedConv", [x, w, bias], (t, rank + 2), **own)


def transposed_convolution(b: Builder) -> None:
    batch, ins, outs, (p, q) = b.positive(3), b.positive(4), b.positive(4), (b.c.between(1, 3), b.c.between(1, 3))
    pads = b.maybe(lambda: b.given(np.int64([b.c.below(2) for _ in range(4)]), 60))
    b.node("ConvTransposeWithDynamicPads", [b.tensor(np.float32, (batch, ins, b.positive(7) + 2, b.positive(7) + 2)),
           b.tensor(np.float32, (ins, outs, p, q)), pads, b.maybe(lambda: b.tensor(np.float32, (outs,)))], (np.float32, 4),
           strides=[b.c.between(1, 2), b.c.between(1, 2)], kernel_shape=[p, q])


def skip_norm(b: Builder) -> None:
    t, simple = b.c.of(FLOATS[:8]), b.c.likely(50)
    s = (b.size(4), b.size(8), b.positive(33)) if b.c.likely(70) else (b.size(8), b.positive(33))
    skip = b.c.of([s, s, (1, *s[1:]), s[1:]]) if len(s) == 3 else s
    given = [b.tensor(t, s), b.tensor(t, skip), b.tensor(t, s[-1:])]
    given += [] if simple else [b.maybe(lambda: b.tensor(t, s[-1:]), 70)]
    given += [b.maybe(lambda: b.tensor(t, s[-1:]))]
    b.node("SkipSimplifiedLayerNormalization" if simple else "SkipLayerNormalization", given, (t, s),
           *([None, None, (t, s)] if b.c.likely(50) else []), epsilon=b.c.of([1e-5, 1e-3, 1e-12, 0.1]))


def embed_norm(b: Builder) -> None:
    t, batch, length, hidden = np.float32, b.positive(4), b.positive(8), b.positive(17)
    ids = b.tensor(np.int32, (batch, length), lambda r, s: r.integers(0, 9, s))
    segments = b.maybe(lambda: b.tensor(np.int32, (batch, length), lambda r, s: r.integers(0, 2, s)), 60)
    mask = b.maybe(lambda: b.tensor(np.int32, (batch, length), lambda r, s: np.arange(s[1])[None] <
                                    r.integers(1, s[1] + 1, s[0])[:, None]), 50)
    at = b.maybe(lambda: b.tensor(np.int32, (batch, length), lambda r, s: r.integers(0, length, s)), 30)
    given = [ids, segments, b.tensor(t, (9, hidden)), b.tensor(t, (length + b.c.below(3), hidden)),
             b.tensor(t, (2, hidden)) if segments else "", b.tensor(t, (hidden,)), b.tensor(t, (hidden,)), mask, at]
    results = [(t, (batch, length, hidden)), (np.int32, 1) if mask or b.c.likely(50) else None]
    results += [(t, (batch, length, hidden))] if b.c.likely(40) else []
    b.node("EmbedLayerNormalization", given, *results, epsilon=b.c.of([1e-12, 1e-5]), **(
        {"mask_index_type": b.c.of([0, 1])} if mask or b.c.likely(30) else {}))


def fast_gemm(b: Builder) -> None:
    pieces = (b.size(), b.size(), b.size())
    t, (m, n, k) = np.float32, pieces
    b.node("FusedMatMul", [b.tensor(t, (m, k)), b.tensor(t, (k, n))], (t, (m, n)))
    value = b.values[-1].name
    b.node("BiasGelu", [value, b.tensor(t, (n,))], (t, (m, n)))


def trilu(b: Builder) -> None:
    t, s = b.c.of([np.float32, np.int64, np.float64, np.bool_]), b.shape(2, 4)
    b.node("Trilu", [b.tensor(t, s), b.maybe(lambda: b.given(np.int64(b.c.between(-4, 4)), 50))], (t, s),
           **({"upper": b.c.below(2)} if b.c.likely(70) else {}))


def expand_dims(b: Builder) -> None:
    t, s = b.c.of(NUMBERS), b.shape(0, 3)
    b.node("ExpandDims", [b.tensor(t, s), b.given(np.int32(b.c.between(-len(s) - 1, len(s))), 70)], (t, len(s) + 1))


def distances(b: Builder) -> None:
    t, k = b.c.of([np.float32, np.float64]), b.size(17)
    m, n = b.size(17), b.size(17)
    b.node("CDist", [b.tensor(t, (m, k)), b.tensor(t, (n, k))], (t, (m, n)), metric=b.c.of(["sqeuclidean", "euclidean"]))


def numbers(b: Builder) -> None:
    t = b.c.of([np.float32, np.float64, np.int16, np.int32, np.int64])
    start, count, step = b.c.between(-5, 5), b.c.between(-2, 20), b.c.of([1, 2, -1, 3])
    given = [t(start), t(start + count * step)] + ([t(step)] if b.c.likely(60) or step != 1 else [])
    b.node("Range", [b.given(x, 60) for x in given], (t, 1))


def padding(b: Builder) -> None:
    t, s = b.c.of([np.float32, np.float64]), b.shape(1, 3)
    mode = b.c.of(["constant", "constant", "edge", "reflect"])
    pads = np.int64([b.c.between(-1 if mode == "constant" else 0, 2) for _ in range(2 * len(s))])
    value = b.maybe(lambda: b.given(t(1.5).reshape(1) if b.c.likely(50) else t(1.5), 60)) if mode == "constant" else ""
    b.node("Pad", [b.tensor(t, s), b.given(pads, 70), value], (t, len(s)), mode=mode)


def unique(b: Builder) -> None:
    t = np.float32
    b.node("Unique", [b.tensor(t, (b.size(),), lambda r, s: r.integers(0, 6, s))], (t, 1), (np.int64, 1), (np.int64, 1))


def unfold(b: Builder) -> None:
    t, s = b.c.of(NUMBERS[:4]), b.shape(1, 3)
    dim = b.c.below(len(s))
    b.node("UnfoldTensor", [b.tensor(t, s)], (t, len(s) + 1), dim=b.c.of([dim, dim - len(s)]),
           size=b.c.between(1, max(1, s[dim])), step=b.c.between(1, 3))


def finite(b: Builder) -> None:
    def fill(r: np.random.Generator, s: tuple[int, ...]) -> np.ndarray:
        return r.choice([1, 2, 3, 4, 5, 6, 7, np.inf, np.nan], s) if r.random() < .5 else r.standard_normal(s)
    t, own = b.c.of([np.float32, np.float64]), b.c.of([{}, {"isinf_only": 1}, {"isnan_only": 1}])
    given = [b.tensor(t, b.shape(0, 3), fill) for _ in range(b.c.between(1, 3))]
    b.node("IsAllFinite", given, (np.bool_, 0), **own)


def grid_sample(b: Builder) -> None:
    n, h, w = b.positive(3), b.positive(7), b.positive(7)
    b.node("GridSample", [b.tensor(np.float32, (n, b.positive(3), b.positive(8), b.positive(8))),
                          b.tensor(np.float32, (n, h, w, 2))], (np.float32, 4), mode=b.c.of(["bilinear", "nearest", "bicubic"]),
           padding_mode=b.c.of(["zeros", "border", "reflection"]), align_corners=b.c.below(2))


def crop(b: Builder) -> None:
    n, rois = b.positive(3), b.size(5)
    b.node("CropAndResize", [b.tensor(np.float32, (n, b.positive(3), b.positive(8), b.positive(8))),
                             b.tensor(np.float32, (rois, 4), lambda r, s: r.uniform(-.2, 1.2, s)),
                             b.tensor(np.int32, (rois,), lambda r, s: r.integers(0, n, s)),
                             b.constant(np.int32([b.positive(5), b.positive(5)]))], (np.float32, 4),
           mode=b.c.of(["bilinear", "nearest"]), extrapolation_value=b.c.of([0.0, 2.5]))


def gather_nd(b: Builder) -> None:
    t, s = b.c.of([np.float32, np.int64, np.float64]), tuple(b.positive(8) for _ in range(b.c.between(1, 3)))
    depth, outer = b.c.between(1, len(s)), b.shape(1, 2)
    extents = np.array(s[:depth])
    at = b.tensor(b.c.of([np.int64, np.int32]), (*outer, depth), lambda r, q: r.integers(-extents, extents, q))
    b.node("GatherND", [b.tensor(t, s), at], (t, (*outer, *s[depth:])))


def ngrams(b: Builder) -> None:
    batch, length, words = b.positive(3), b.positive(13), b.c.between(2, 6)
    b.node("NGramRepeatBlock", [b.tensor(np.int64, (batch, length), lambda r, s: r.integers(0, words, s)),
                                b.tensor(np.float32, (batch, words))], (np.float32, (batch, words)),
                                         ngram_size=b.c.between(1, 4))


def known_family(b: Builder) -> None:
    """Attention and its like, and weights of a few bits: the generators of test_random, one of whose inputs a node may make."""
    name = b.c.of(sorted(test_random.FAMILIES))
    case = test_random.FAMILIES[name](b.random())
    given = []
    for k, x in enumerate(case.inputs):
        array = np.asarray(x)
        if isinstance(x, str):
            given.append("")
        elif k == 0 and array.dtype == np.float32 and b.c.likely(50):
            given.append(b.tensor(np.float32, array.shape))
        else:
            given.append(b.given(array, 70 if array.dtype.kind in "iu" else 30))
    count = case.outputs if isinstance(case.outputs, int) else len(case.outputs)
    b.node(case.op, given, *[(np.float32, None)] * count, shown=1 if case.cut is not None else 99, **case.attributes)


RECIPES = [gelu, gelu_with_alpha, bias_gelu, matmul, transposed_matmul, gemm, convolution, transposed_convolution,
           skip_norm, embed_norm, fast_gemm, trilu, expand_dims, distances, numbers, padding, unique, unfold, finite,
                    grid_sample,
           crop, gather_nd, ngrams, known_family, known_family]
