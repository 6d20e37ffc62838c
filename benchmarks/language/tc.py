"""Operators that the paper on Tensor Comprehensions lists (Vasilache et al., 2018), in its notation, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from language.program import Arrays, Program, normal

A = np.ndarray


def _windows(x: A, kh: int, kw: int, stride: int = 1) -> A:
    """[..., h, w, r, s]: all windows of the last two axes."""
    return np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (-2, -1))[..., ::stride, ::stride, :, :]


def _moments(x: A) -> tuple[A, A]:
    return x.mean(1), (x * x).mean(1) - x.mean(1) ** 2


def _group_norm(x: A, gamma: A, beta: A) -> A:
    g, d = x.shape[1:3]
    mean, var = x.mean((2, 3, 4), keepdims=True), x.var((2, 3, 4), keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * gamma.reshape(1, g, d, 1, 1) + beta.reshape(1, g, d, 1, 1)


def _layer(x: A, w: A, b: A) -> A:
    return np.maximum(x @ w.T + b, 0)


def _mlp3(x: A, w: A, b: A, w2: A, b2: A, w3: A, b3: A) -> A:
    return _layer(_layer(_layer(x, w, b), w2, b2), w3, b3)


def _wavenet(data: A, fw: A, fb: A, gw: A, gb: A, rw: A, rb: A, sw: A, sb: A) -> tuple[A, A, A]:
    past, now = data[:, :, :-2], data[:, :, 2:]

    def dilated(w: A, b: A) -> A:
        return np.einsum("oi,bit->bot", w[:, :, 0], past) + np.einsum("oi,bit->bot", w[:, :, 1], now) + b[None, :, None]

    z = np.tanh(dilated(fw, fb)) / (1 + np.exp(-dilated(gw, gb)))
    residual = np.einsum("oi,bit->bot", rw, z) + rb[None, :, None] + now
    return z, residual, np.einsum("oi,bit->bot", sw, z) + sb[None, :, None]


def _tables(rng: np.random.Generator, count: int) -> Arrays:
    found: dict[str, A] = {}
    for k in range(1, count + 1):
        found |= {f"LUT{k}": rng.standard_normal((30 + k, 9)).astype("f4"), f"I{k}": rng.integers(0, 30, (5, 7)).astype("i4")}
    return found


def _lookup(*pairs: A) -> Any:
    sums = tuple(pairs[k][pairs[k + 1]].sum(1) for k in range(0, len(pairs), 2))
    return sums if len(sums) > 1 else sums[0]


PROGRAMS = (
    Program("tc matmul", "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, r_k) * B(r_k, n) }",
            normal(A=(13, 17), B=(17, 19)), lambda a, b: a @ b),
    Program("tc tmm", "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m, n) +=! A(m, kk) * B(n, kk) }",
            normal(A=(13, 17), B=(19, 17)), lambda a, b: a @ b.T),
    Program("tc tbmm", "def tbmm(float(B,N,M) X, float(B,K,M) Y) -> (Z) { Z(b, n, k) +=! X(b, n, m) * Y(b, k, m) }",
            normal(X=(3, 7, 11), Y=(3, 9, 11)), lambda x, y: x @ y.swapaxes(1, 2)),
    Program("tc sgemm", "def sgemm(float a, float b, float(M,K) A, float(K,N) B, float(M,N) D) -> (C) {\n"
            "  T(i,j) +=! A(i,k) * B(k,j)\n  C(i,j) = a * T(i,j) + b * D(i,j) }",
            lambda rng: {"a": np.array(1.5, "f4"), "b": np.array(0.25, "f4"), **normal(A=(7, 9), B=(9, 11), D=(7, 11))(rng)},
            lambda a, b, x, y, d: a * (x @ y) + b * d),
    Program("tc conv2d", "def conv(float(N,C,H,W) I, float(M,C,KH,KW) W1) -> (O) {\n"
            "  O(n, m, h, w) +=! I(n, c, h + r_kh, w + r_kw) * W1(m, c, r_kh, r_kw) }",
            normal(I=(2, 3, 9, 10), W1=(4, 3, 3, 3)),
            lambda i, w: np.einsum("nchwrs,mcrs->nmhw", _windows(i, 3, 3), w)),
    Program("tc strided conv2d", "def conv(float(N,C,H,W) I, float(M,C,KH,KW) W1, int32 sh, int32 sw) -> (O) {\n"
            "  O(n, m, h, w) +=! I(n, c, sh * h + r_kh, sw * w + r_kw) * W1(m, c, r_kh, r_kw) }",
            normal(I=(2, 3, 9, 11), W1=(4, 3, 3, 3)),
            lambda i, w: np.einsum("nchwrs,mcrs->nmhw", _windows(i, 3, 3, 2), w), {"sh": 2, "sw": 2}),
    Program("tc group convolution", "def gconv(float(N,G,C,H,W) I, float(G,F,C,KH,KW) W1, float(G,F) B) -> (O) {\n"
            "  O(n, g, f, h, w) +=! I(n, g, c, h + kh, w + kw) * W1(g, f, c, kh, kw)\n"
            "  O(n, g, f, h, w) = O(n, g, f, h, w) + B(g, f) }",
            normal(I=(2, 3, 2, 6, 7), W1=(3, 4, 2, 3, 3), B=(3, 4)),
            lambda i, w, b: np.einsum("ngchwrs,gfcrs->ngfhw", _windows(i, 3, 3), w) + b[None, :, :, None, None]),
    Program("tc average pooling", "def avgpool(float(B,C,H,W) input) -> (output) {\n"
            "  output(b, c, h, w) +=! input(b, c, h * 2 + kh, w * 2 + kw) / 4 where kh in 0:2, kw in 0:2 }",
            normal(input=(2, 3, 8, 10)), lambda x: _windows(x, 2, 2, 2).mean((-1, -2))),
    Program("tc max pooling", "def maxpool(float(B,C,H,W) input) -> (output) {\n"
            "  output(b, c, h, w) max=! input(b, c, h * 2 + kh, w * 2 + kw) where kh in 0:2, kw in 0:2 }",
            normal(input=(2, 3, 8, 10)), lambda x: _windows(x, 2, 2, 2).max((-1, -2))),
    Program("tc moments", "def moments(float(N,K) I) -> (mean, var) {\n  mean(n) +=! I(n, r_k)\n"
            "  mean(n) = mean(n) / float(K)\n"
            "  var(n) +=! I(n, r_k) * I(n, r_k)\n  var(n) = var(n) / float(K) - mean(n) * mean(n) }",
            normal(I=(11, 40)), _moments),
    Program("tc group normalization", "def moments(float(N,G,D,H,W) I) -> (mean, var) {\n"
            "  mean(n, g) +=! I(n, g, r_d, r_h, r_w) / float(D * H * W)\n"
            "  var(n, g) +=! (I(n, g, r_d, r_h, r_w) - mean(n, g)) * (I(n, g, r_d, r_h, r_w) - mean(n, g))\n"
            "    / float(D * H * W) }\n"
            "def group_norm(float(N,G,D,H,W) I, float(G,D) gamma, float(G,D) beta) -> (O) {\n  (mean, var) = moments(I)\n"
            "  O(n, g, d, h, w) = gamma(g, d) * (I(n, g, d, h, w) - mean(n, g)) * rsqrt(var(n, g) + 1e-5) + beta(g, d) }",
            normal(I=(2, 3, 4, 5, 6), gamma=(3, 4), beta=(3, 4)), _group_norm),
    Program("tc kronecker", "def kronecker3(float(D0,N0) W0, float(D1,N1) W1, float(M,N0,N1) X) -> (Y, XW1) {\n"
            "  XW1(m, n0, d1) +=! X(m, n0, r_n1) * W1(d1, r_n1)\n  Y(m, d0, d1) +=! XW1(m, r_n0, d1) * W0(d0, r_n0) }",
            normal(W0=(4, 5), W1=(6, 7), X=(3, 5, 7)),
            lambda w0, w1, x: (np.einsum("mab,da,eb->mde", x, w0, w1), np.einsum("mab,eb->mae", x, w1))),
    Program("tc 1LUT", "def _1LUT(float(E1,D) LUT1, int32(B,L1) I1) -> (O1) {\n  O1(b, d) +=! LUT1(int32(I1(b, r_l)), d) }",
            lambda rng: _tables(rng, 1), _lookup),
    Program("tc 2LUT", "def _2LUT(float(E1,D) LUT1, int32(B,L1) I1, float(E2,D) LUT2, int32(B,L2) I2) -> (O1, O2) {\n"
            "  O1(b, d) +=! LUT1(I1(b, r_l1), d)\n  O2(b, d) +=! LUT2(I2(b, r_l2), d) }", lambda rng: _tables(rng, 2), _lookup),
    Program("tc C3", "def _C3(float(B,WX) I, float(WY,WX) W1) -> (C3) { C3(b, wy) +=! I(b, r_wx) * W1(wy, r_wx) }",
            normal(I=(9, 33), W1=(21, 33)), lambda i, w: i @ w.T),
    Program("tc MLP1", "def mlp1(float(B,M) I, float(O,N) W1, float(O) B1) -> (O1) {\n"
            "  O1(b, n) +=! I(b, r_m) * W1(n, r_m)\n  O1(b, n) = O1(b, n) + B1(n)\n  O1(b, n) = fmax(O1(b, n), 0) }",
            normal(I=(9, 33), W1=(21, 33), B1=(21,)), _layer),
    Program("tc MLP3", "def mlp3(float(B,N) I, float(O,N) W2, float(O) B2, float(P,O) W3, float(P) B3, float(Q,P) W4,"
            " float(Q) B4) -> (O2, O3, O4) {\n  O2(b, o) +=! I(b, n) * W2(o, n)\n  O2(b, o) = fmax(O2(b, o) + B2(o), 0)\n"
            "  O3(b, p) +=! O2(b, o) * W3(p, o)\n  O3(b, p) = fmax(O3(b, p) + B3(p), 0)\n"
            "  O4(b, q) +=! O3(b, p) * W4(q, p)\n  O4(b, q) = fmax(O4(b, q) + B4(q), 0) }",
            normal(I=(9, 20), W2=(16, 20), B2=(16,), W3=(12, 16), B3=(12,), W4=(5, 12), B4=(5,)),
            lambda i, w2, b2, w3, b3, w4, b4: (_layer(i, w2, b2), _layer(_layer(i, w2, b2), w3, b3),
                                               _mlp3(i, w2, b2, w3, b3, w4, b4))),
    Program("tc WaveNet block", """
        def wavenet(float(B,R,T) Data, float(R,R,2) FilterWeight, float(R) FilterBias, float(R,R,2) GateWeight,
                    float(R) GateBias, float(R,R) ResWeight, float(R) ResBias, float(S,R) SkipWeight,
                    float(S) SkipBias) -> (Z, Res, Skip) {
            F(b, d, t) +=! FilterWeight(d, r, r_k) * Data(b, r, t + 2 * r_k)
            G(b, d, t) +=! GateWeight(d, r, r_k) * Data(b, r, t + 2 * r_k)
            Z(b, d, t) = tanh(F(b, d, t) + FilterBias(d)) * sigmoid(G(b, d, t) + GateBias(d))
            Res(b, d, t) +=! Z(b, r, t) * ResWeight(d, r)
            Res(b, d, t) = Res(b, d, t) + ResBias(d) + Data(b, d, t + 2)
            Skip(b, s, t) +=! Z(b, r, t) * SkipWeight(s, r)
            Skip(b, s, t) = Skip(b, s, t) + SkipBias(s)
        }""",
            normal(Data=(2, 5, 12), FilterWeight=(5, 5, 2), FilterBias=(5,), GateWeight=(5, 5, 2), GateBias=(5,),
                   ResWeight=(5, 5), ResBias=(5,), SkipWeight=(7, 5), SkipBias=(7,)), _wavenet),
    Program("tc types", "def types(double(N) d, half(N) h, int32(N) i, uint8(N) u) -> (a, b) {\n"
            "  a(n) = d(n) * 2 + i(n)\n  b(n) = int32(u(n)) + i(n) * (h(n) > 0 ? 1 : 2) }",
            lambda rng: {"d": rng.standard_normal(9), "h": rng.standard_normal(9).astype("f2"),
                         "i": rng.integers(-9, 9, 9).astype("i4"), "u": rng.integers(0, 255, 9).astype("u1")},
            lambda d, h, i, u: (d * 2 + i, u.astype("i4") + i * np.where(h > 0, 1, 2))),
)
