"""Products, normalisations, integers, mixtures of experts, movement: beside ONNX Runtime, and where it has no kernel for
processors, beside numpy."""

from __future__ import annotations

import itertools
from math import erf
from typing import Any

import numpy as np

from tests.graph.onnx.contrib.cases import Case, R, S, U, f, q

sigmoid = lambda x: 1 / (1 + np.exp(-x))
gelu = lambda x: (x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2).astype(np.float32)
tanh_gelu = lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + .044715 * x**3))) / 2


def swiglu(gate: np.ndarray, up: np.ndarray | None = None, activation_alpha: float = 1.0, activation_beta: float = 0.0,
           limit: float = 0.0) -> list[np.ndarray]:
    g, u = np.split(gate, 2, -1) if up is None else (gate, up)
    if limit > 0:
        g, u = np.minimum(g, limit), np.clip(u, -limit, limit)
    return [g * sigmoid(activation_alpha * g) * (u + activation_beta)]


ACTIVATIONS = [
    Case("GemmFastGelu", [f(3, 4), f(4, 5), f(5)], error=1e-4,
         reference=lambda x, w, b: [tanh_gelu(x @ w + b).astype(np.float32)]),
    Case("BiasSplitGelu", [f(2, 3, 16), f(16)], reference=lambda x,
        b: [np.split(x + b, 2, -1)[0] * gelu(np.split(x + b, 2, -1)[1])]),
    Case("BiasAdd", [f(2, 3, 4), f(4), f(2, 3, 4)], reference=lambda x, b, s: [x + b + s]),
    Case("BiasDropout", [f(3, 4), f(4), f(3, 4)], reference=lambda x, b, r: [x + b + r]),
    Case("BiasSoftmax", [f(2, 3, 4), f(1, 3, 4)], {"axis": 2, "is_inner_broadcast": 0}, reference=lambda x, b, **k: [
        np.exp(x + b) / np.exp(x + b).sum(-1, keepdims=True)]),
    Case("ScaledSiLU", [f(3, 8)], {"alpha": .7}), Case("ScaledSiLU", [f(3, 8), np.float32(1.3)]),
    Case("GatedAdd", [f(3, 8), f(3, 8), f(3, 1)]),
    Case("SwiGLU", [f(3, 8)], {"activation_alpha": 1.7, "activation_beta": 1.0, "limit": .8}, reference=swiglu),
    Case("SwiGLU", [f(3, 8), f(3, 8)], reference=swiglu),
]

CONV: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1] * 4}


def nhwc_conv(x: np.ndarray, w: np.ndarray, b: np.ndarray, z: np.ndarray | None = None, activation: str = "", **own: Any
              ) -> list[np.ndarray]:
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = sum(np.einsum("nhwc,mc->nhwm", wide[:, i:i + x.shape[1], j:j + x.shape[2]], w[:, :, i, j])
            for i, j in itertools.product(range(3), repeat=2)) + b
    y = y if z is None else y + z
    return [(np.maximum(y, 0) if activation else y).astype(np.float32)]


PRODUCTS = [
    Case("FusedMatMul", [f(4, 3, 5), f(3, 5, 6)], {"transBatchA": 1}), Case("FusedMatMul", [f(3, 4, 5), f(5, 3, 6)], {
        "transBatchB": 1}),
    Case("FusedMatMul", [f(5, 3, 4), f(3, 5, 6)], {"transBatchA": 1, "transA": 1, "alpha": .5}),
    Case("TransposeMatMul", [f(2, 4, 3), f(2, 4, 5)], {"transA": 1}),
    Case("FusedMatMulActivation", [f(3, 4), f(4, 5)], {"activation": "Relu", "alpha": .5}, reference=lambda a, b, **k: [
        np.maximum(a @ b / 2, 0)]),
    Case("NhwcConv", [f(2, 5, 6, 3), f(4, 3, 3, 3), f(4)], CONV, reference=nhwc_conv),
    Case("NhwcFusedConv", [f(2, 5, 6, 3), f(4, 3, 3, 3), f(4), f(2, 5, 6, 4)], {**CONV, "activation": "Relu"},
         reference=nhwc_conv),
    Case("NhwcMaxPool", [q(1, 6, 6, 3)], {**CONV, "strides": [2, 2]}),
    Case("ConvTransposeWithDynamicPads", [f(1, 3, 5, 5), f(3, 4, 3, 3), np.int64([1, 1, 1, 0]), f(4)], {"strides": [2, 2]},
         stored=3),
    Case("MatMulIntegerToFloat", [q(3, 4), q(4, 5), np.float16(.02), np.float16(.01), U, U, f(5).astype(np.float16)],
         error=2e-3),
    Case("MulInteger", [q(3, 4), U, q(4), np.uint8(7)], reference=lambda a, za, b, zb: [
        (a.astype(np.int32) - za) * (b.astype(np.int32) - zb)]),
    Case("MatMulInteger16", [q(3, 4, dtype=np.int16) // 64, q(4, 5, dtype=np.int16) // 64], step=0),
    Case("ReduceSumInteger", [q(3, 4)], {"axes": [1], "keepdims": 0}, reference=lambda x,
        **k: [x.astype(np.int32).sum(1, dtype=np.int32)]),
    Case("QLinearReduceMean", [q(3, 4), S, U, np.float32(.03), U], {"axes": [1], "keepdims": 1}, reference=lambda x, s, z, t,
        y, **k: [
        np.clip(np.rint(((x.astype(np.float32) - z) * s).mean(1, keepdims=True) / t) + y, 0, 255).astype(np.uint8)]),
    Case("QLinearSoftmax", [q(3, 4, 2), np.float32(.05), U, np.float32(1 / 256), np.uint8(0)], {"axis": 1, "opset": 11},
        stored=4),
    Case("QLinearAveragePool", [q(1, 8, 8, 3), S, U, S, U], {"kernel_shape": [3, 3], "pads": [1] * 4, "channels_last": 1},
        stored=4),
    Case("QLinearGlobalAveragePool", [q(1, 8, 8, 3), S, U, S, U], {"channels_last": 1}, stored=4),
    Case("QLinearConv", [q(1, 8, 8, 3), S, U, q(4, 3, 3, 3, dtype=np.int8), np.float32(.01), np.int8(0), np.float32(.1), U,
                         R.integers(-900, 900, 4).astype(np.int32)], {**CONV, "channels_last": 1}, stored=8),
    Case("QLinearConv", [q(1, 3, 8, 8), S, U, q(4, 3, 3, 3, dtype=np.int8), f(4)**2 / 50 + np.float32(.001),
        np.zeros(4, np.int8),
                         np.float32(.1), U], CONV, stored=7),
    Case("QuantizeLinear", [f(3, 8) * 900, np.float32(.05), np.uint16(30000)]), Case("DequantizeLinear",
        [q(3, 8, dtype=np.int16), S,
         np.int16(9)]),
]


def group_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, groups: int, activation: int = 0, channels_last: int = 1,
               epsilon: float = 1e-5) -> list[np.ndarray]:
    y = x if channels_last else x.transpose(0, 2, 3, 1)
    parts = y.reshape(*y.shape[:3], groups, -1)
    mean, var = (m(parts, axis=(1, 2, 4), keepdims=True) for m in (np.mean, np.var))
    z = ((parts - mean) / np.sqrt(var + epsilon)).reshape(y.shape) * gamma + beta
    z = z * sigmoid(z) if activation else z
    return [z if channels_last else z.transpose(0, 3, 1, 2)]


def skip_group_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, skip: np.ndarray, bias: np.ndarray | None = None,
                    **own: Any) -> list[np.ndarray]:
    wide = skip if skip.ndim == 4 else skip[:, None, None]
    total = x + wide + (0 if bias is None else bias)
    return [*group_norm(total, gamma, beta, **own), total]


NORMS = [
    Case("GroupNorm", [f(2, 3, 4, 8), f(8), f(8)], {"groups": 2, "activation": 1}, reference=group_norm),
    Case("GroupNorm", [f(2, 8, 3, 4), f(8), f(8)], {"groups": 4, "activation": 0, "channels_last": 0}, reference=group_norm),
    Case("SkipGroupNorm", [f(2, 3, 4, 8), f(8), f(8), f(2, 3, 4, 8), f(8)], {"groups": 2, "activation": 1}, 2,
         reference=skip_group_norm),
    Case("SkipGroupNorm", [f(2, 3, 4, 8), f(8), f(8), f(2, 8)], {"groups": 2, "activation": 0}, 2, reference=skip_group_norm),
    Case("GatedRMSNorm", [f(2, 3, 16), f(8), f(2, 3, 16)]), Case("GatedRMSNorm", [f(2, 3, 8), f(8), f(2, 3, 8)], {
        "activation": "sigmoid"}),
    Case("BranchwiseRMSNorm", [f(2, 3, 4, 8), f(4, 8)]), Case("BranchwiseRMSNorm", [f(2, 3, 32), f(32)], {"num_branches": 4}),
    Case("BranchwiseRMSNorm", [f(2, 3, 4, 8)]), Case("BranchwiseRMSNorm", [f(2, 3, 4, 8), f(8)]),
    Case("QEmbedLayerNormalization", [
        R.integers(0, 9, (2, 5)).astype(np.int32), R.integers(0, 2, (2, 5)).astype(np.int32), q(9, 8), q(6, 8), q(2,
            8), q(8), q(8),
        np.int32([[1, 1, 1, 0, 0], [1] * 5]), S, S, S, S, S, U, U, U, U, U], outputs=2, error=1e-4, stored=10),
]


def experts(x: np.ndarray, router: np.ndarray, w1: np.ndarray, b1: np.ndarray | None, w2: np.ndarray, b2: np.ndarray | None,
            w3: np.ndarray | None = None, b3: np.ndarray | None = None, k: int = 1, activation_type: str = "relu",
            normalize_routing_weights: int = 0, **own: Any) -> list[np.ndarray]:
    rows, out = x.reshape(-1, x.shape[-1]), np.zeros(x.shape, np.float32).reshape(-1, x.shape[-1])
    p = np.exp(router - router.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    for t, row in enumerate(rows):
        chosen = np.argsort(-p[t])[:k]
        weights = p[t][chosen] / (p[t][chosen].sum() if normalize_routing_weights else 1)
        for e, w in zip(chosen, weights, strict=True):
            h = w1[e] @ row + (0 if b1 is None else b1[e])
            if w3 is not None:
                h = h * sigmoid(h) * (w3[e] @ row)
            elif activation_type == "silu":
                h = h * sigmoid(h)
            out[t] += w * (w2[e] @ h + (0 if b2 is None else b2[e]))
    return [out.reshape(x.shape)]


EXPERTS = [
    Case("MoE", [f(6, 8), f(6, 4), f(4, 12, 8), f(4, 12), f(4, 8, 12), f(4, 8)], {"k": 2}),
    Case("MoE", [f(2, 3, 8), f(6, 4), f(4, 12, 8), "", f(4, 8, 12)], {"k": 2, "activation_type": "gelu",
         "normalize_routing_weights": 1}, error=1e-3),
    Case("MoE", [f(6, 8), f(6, 4), f(4, 24, 8), f(4, 24), f(4, 8, 12), f(4, 8)], {
            "k": 1, "activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0,
            "swiglu_limit": 7.0}),
    Case("MoE", [f(6, 8), f(6, 4), f(4, 12, 8), "", f(4, 8, 12), "", f(4, 12, 8)], {"k": 2, "activation_type": "swiglu"},
         reference=experts),
    Case("MoE", [f(6, 8), f(6, 4), f(4, 12, 8), f(4, 12), f(4, 8, 12), f(4, 8)], {"k": 3, "activation_type": "silu"},
         reference=experts),
]


def n_grams(ids: np.ndarray, scores: np.ndarray, ngram_size: int) -> list[np.ndarray]:
    out = scores.copy()
    for b, row in enumerate(ids.tolist()):
        end = row[len(row) - ngram_size + 1:]
        for i in range(len(row) - ngram_size + 1):
            if row[i:i + ngram_size - 1] == end:
                out[b, row[i + ngram_size - 1]] = -np.inf
    return [out]


def crops(x: np.ndarray, rois: np.ndarray, images: np.ndarray, size: np.ndarray, extrapolation_value: float = 0.0, **own: Any
          ) -> list[np.ndarray]:
    """Point by point, between the four pixels around it."""
    (_, c, h, w), (ch, cw) = x.shape, size
    out = np.full((len(rois), c, ch, cw), extrapolation_value, np.float32)
    for r, i, j in itertools.product(range(len(rois)), range(ch), range(cw)):
        y1, x1, y2, x2 = (float(v) for v in rois[r])
        y = y1 * (h - 1) + i * (y2 - y1) * (h - 1) / (ch - 1) if ch > 1 else (y1 + y2) / 2 * (h - 1)
        z = x1 * (w - 1) + j * (x2 - x1) * (w - 1) / (cw - 1) if cw > 1 else (x1 + x2) / 2 * (w - 1)
        if 0 <= y <= h - 1 and 0 <= z <= w - 1:
            a, b = int(y), int(z)
            m, n = min(a + 1, h - 1), min(b + 1, w - 1)
            image, s, t = x[images[r]], y - a, z - b
            out[r, :, i, j] = (image[:, a, b] * (1 - t) + image[:, a, n] * t) * (1 - s) + (image[:, m, b] * (1 - t)
                + image[:, m, n] * t) * s
    return [out]


MOVEMENT = [
    Case("ExpandDims", [f(3, 4), np.int32(1)], stored=1), Case("ExpandDims", [f(3, 4), np.int32(-1)], stored=1),
    Case("Range", [np.float32(1), np.float32(4), np.float32(.5)], stored=3), Case("Range", [np.int64([2]), np.int64([6])],
        stored=2),
    Case("Pad", [f(3, 4), np.int64([[0, 1, 2, 0]]), np.float32([.5])], {"mode": "constant"}, stored=2),
    Case("Pad", [f(3, 4), np.int64([1, 1, 2, 0])], {"mode": "reflect"}, stored=1),
    Case("Unique", [np.float32([2, 1, 1, 3, 4, 3])], outputs=3, step=0),
    Case("CDist", [f(3, 4), f(5, 4)], {"metric": "euclidean"}, error=1e-4), Case("CDist", [f(3, 4), f(5, 4)], error=1e-4),
    Case("GridSample", [f(1, 2, 5, 6), f(1, 3, 4, 2)], {"mode": "bilinear", "padding_mode": "border", "align_corners": 1}),
    Case("GridSample", [f(1, 2, 5, 6), f(1, 3, 4, 2)], {"mode": "bicubic"}, error=1e-4),
    Case("GatherND", [f(3, 4), np.int32([[0, 1], [2, 3]])]), Case("UnfoldTensor", [f(3, 8)], {"dim": 1, "size": 3, "step": 2}),
    Case("UnfoldTensor", [f(7, 3, 2)], {"dim": 0, "size": 4}),
    Case("TorchEmbedding", [f(9, 4), R.integers(0, 9, (2, 3))], reference=lambda w, i: [w[i]]),
    Case("IsAllFinite", [f(3, 4), f(2)], reference=lambda *a, **k: [np.array(True)]),
    Case("IsAllFinite", [f(3, 4), np.float32([1, np.inf])], reference=lambda *a, **k: [np.array(False)]),
    Case("IsAllFinite", [np.float32([1, np.inf])], {"isnan_only": 1}, reference=lambda *a, **k: [np.array(True)]),
    Case("ComplexMul", [f(3, 4, 2), f(3, 4, 2)], reference=lambda a, b: [pairs(whole(a) * whole(b))]),
    Case("ComplexMulConj", [f(3, 4, 2), f(3, 4, 2)], reference=lambda a, b: [pairs(whole(a) * whole(b).conj())]),
    Case("Rfft", [f(3, 8)], {"onesided": 1, "normalized": 0, "signal_ndim": 1}, error=1e-4,
         reference=lambda x, **k: [pairs(np.fft.rfft(x))]),
    Case("Irfft", [f(3, 5, 2)], {"onesided": 1, "normalized": 0, "signal_ndim": 1}, error=1e-4,
         reference=lambda x, **k: [np.fft.irfft(real_ends(x)).astype(np.float32)]),
    Case("SampleOp", [f(3, 4)]),
    Case("WordConvEmbedding", [np.int32([[1, 2, 3, 4, 5], [2, 1, 3, 0, 0], [3, 1, 2, 1, 0]]), f(6, 1, 3, 4), f(6), f(9, 4)],
        stored=3),
    Case("CropAndResize", [f(2, 3, 5, 6), np.float32([[0, 0, 1, 1], [.1, .2, .7, .9], [-.2, .3, 1.3, .8]]), np.int32([0, 1, 1]),
                           np.int32([3, 4])], {"extrapolation_value": .5}, stored=1, reference=crops),
    Case("CropAndResize", [f(2, 3, 5, 6), np.float32([[.1, .2, .7, .9]]), np.int32([1]), np.int32([1, 4])], stored=1,
        reference=crops),
    Case("NGramRepeatBlock", [np.int64([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]]), f(2, 6)], {"ngram_size": 3}),
    Case("NGramRepeatBlock", [np.int64([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]]), f(2, 6)], {"ngram_size": 2}, reference=n_grams),
    Case("NGramRepeatBlock", [np.int64([[1, 2, 3, 1, 2]]), f(1, 6)], {"ngram_size": 1}, reference=n_grams),
    Case("Inverse", [f(4, 4)], error=1e-3), Case("Inverse", [f(2, 3, 5, 5)], error=1e-3), Case("Inverse", [f(3, 1, 1)]),
    Case("Inverse", [np.float32([[0, 1], [1, 0]])]),
]


def whole(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + 1j * x[..., 1]


def pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1).astype(np.float32)


def real_ends(x: np.ndarray) -> np.ndarray:
    """The spectrum of a real signal: its first and last frequency have no imaginary part."""
    return whole(x) - 1j * np.where(np.isin(np.arange(x.shape[-2]), (0, x.shape[-2] - 1)), x[..., 1], 0)


CASES = [*ACTIVATIONS, *PRODUCTS, *NORMS, *EXPERTS, *MOVEMENT]
