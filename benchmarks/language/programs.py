"""The table of programs that the language must be able to say; design: one line each, run on every target."""

from __future__ import annotations

from typing import Any

import numpy as np

from language.program import Arrays, Program, normal

A = np.ndarray
Rng = np.random.Generator


def _conv(x: A, w: A, stride: int = 1, dilation: int = 1) -> A:
    span = (w.shape[-1] - 1) * dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, (span, span), (-2, -1))
    windows = windows[..., ::stride, ::stride, ::dilation, ::dilation]
    return np.einsum("nchwrs,mcrs->nmhw", windows, w)


def _padded(x: A, w: A) -> A:
    return _conv(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), w, 2)


def _grouped(x: A, w: A) -> A:
    half = x.shape[1] // 2
    return np.concatenate([_conv(x[:, :half], w[:w.shape[0] // 2]), _conv(x[:, half:], w[w.shape[0] // 2:])], 1)


def _transposed(x: A, w: A) -> A:
    n, _, h, k = x.shape
    out = np.zeros((n, w.shape[1], 2 * h + 1, 2 * k + 1), x.dtype)
    for r in range(3):
        for s in range(3):
            out[:, :, r:r + 2 * h:2, s:s + 2 * k:2] += np.einsum("nchw,cm->nmhw", x, w[:, :, r, s])
    return out


def _pool(x: A) -> tuple[A, A]:
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    zero = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    ones = np.pad(np.ones_like(x), ((0, 0), (1, 1), (1, 1)))

    def windows(a: A) -> A:
        return np.lib.stride_tricks.sliding_window_view(a, (3, 3), (1, 2))[:, ::2, ::2]
    return windows(wide).max((-1, -2)), windows(zero).sum((-1, -2)) / windows(ones).sum((-1, -2))


def _softmax(x: A) -> A:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layernorm(x: A, g: A, b: A) -> A:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b


def _attention(q: A, k: A, v: A) -> A:
    scores = np.where(np.tri(q.shape[1], dtype=bool), np.einsum("hsd,htd->hst", q, k) / 4, -np.inf)
    return _softmax(scores) @ v


def _histogram(b: A) -> A:
    return np.bincount(b, minlength=10).astype("i4")


def _jacobi(a: A) -> A:
    for _ in range(4):
        b = a.copy()
        b[1:-1, 1:-1] = (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 5
        a = b
    return a


def _trmm(a: A, b: A) -> A:
    return np.tril(a) @ b


def _lu(a: A) -> A:
    for k in range(len(a)):
        a[k + 1:, k] /= a[k, k]
        a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
    return a


def _cholesky(a: A) -> A:
    return np.tril(np.linalg.cholesky(a)) + np.triu(a, 1)


def _positive(rng: Rng) -> Arrays:
    x = rng.standard_normal((9, 9))
    return {"A": x @ x.T + 9 * np.eye(9)}


def _dominant(rng: Rng) -> Arrays:
    return {"A": rng.standard_normal((9, 9)) + 9 * np.eye(9)}


def _floyd(d: A) -> A:
    for k in range(len(d)):
        d = np.minimum(d, d[:, k, None] + d[None, k])
    return d


def _sparse(rng: Rng) -> Arrays:
    dense = rng.standard_normal((7, 9)) * (rng.random((7, 9)) < 0.4)
    rows, cols = np.nonzero(dense)
    return {"v": dense[rows, cols].astype("f4"), "col": cols.astype("i4"),
            "rp": np.searchsorted(rows, np.arange(8)).astype("i4"),
            "x": rng.standard_normal(9).astype("f4")}


def _csr(v: A, col: A, rp: A, x: A) -> A:
    return np.array([sum(v[p] * x[col[p]] for p in range(rp[i], rp[i + 1])) for i in range(len(rp) - 1)], "f4")


def _quantised(rng: Rng) -> Arrays:
    return {"a": rng.integers(-128, 128, (7, 33)).astype("i1"), "b": rng.integers(-128, 128, (33, 9)).astype("i1")}


def _requantise(a: A, b: A) -> A:
    total = (a.astype("i4") - 3) @ (b.astype("i4") + 5)
    return np.clip(np.round(total * np.float32(0.002)) + 7, -128, 127).astype("i1")


def _ids(**rest: Any) -> Any:
    return lambda rng: {n: rng.integers(0, high, shape).astype("i4") if isinstance(high, int) else
                        rng.standard_normal(shape).astype("f4") for n, (shape, high) in rest.items()}


PROGRAMS = (
    Program("matmul", "C[i,j] += A[i,k] * B[k,j]", normal(A=(13, 17), B=(17, 19)), lambda a, b: a @ b),
    Program("batched, transposed, bias, relu", "T[b,i,j] += A[b,i,k] * B[b,j,k]; D[b,i,j] = max(T[b,i,j] + v[j], 0)",
            normal(A=(2, 5, 7), B=(2, 9, 7), v=(9,)), lambda a, b, v: np.maximum(a @ b.swapaxes(1, 2) + v, 0)),
    Program("strided, dilated conv", "O[n,m,h,w] += I[n,c,S*h+D*r,S*w+D*s] * W[m,c,r,s]",
            normal(I=(1, 3, 11, 12), W=(4, 3, 3, 3)),
            lambda i, w: _conv(i, w, 2, 2), {"S": 2, "D": 2}),
    Program("padded conv", "O[n,m,h,w] += (I[n,c,2*h+r-1,2*w+s-1] else 0) * W[m,c,r,s] where h in 0:5, w in 0:5",
            normal(I=(1, 3, 9, 10), W=(4, 3, 3, 3)), _padded),
    Program("grouped conv, 5-d", "O[n,g,m,h,w] += I[n,g,c,h+r,w+s] * W[g,m,c,r,s]",
            normal(I=(1, 2, 3, 7, 7), W=(2, 4, 3, 3, 3)),
            lambda i, w: np.stack([_conv(i[:, g], w[g]) for g in range(2)], 1)),
    Program("grouped conv, flat", "O[n,m,h,w] += I[n, c + 3*(m//4), h+r,w+s] * W[m,c,r,s] where m in 0:8, c in 0:3",
            normal(I=(1, 6, 7, 7), W=(8, 3, 3, 3)), _grouped),
    Program("depthwise conv", "O[n,c,h,w] += I[n,c,h+r,w+s] * W[c,r,s]", normal(I=(1, 3, 8, 9), W=(3, 3, 3)),
            lambda i, w: np.concatenate([_conv(i[:, [c]], w[None, None, c]) for c in range(3)], 1)),
    Program("transposed conv", "O[n,m,2*h+r,2*w+s] += I[n,c,h,w] * W[c,m,r,s]", normal(I=(1, 3, 4, 5), W=(3, 4, 3, 3)),
            _transposed),
    Program("max and average pool, partial windows",
            "P[c,h,w] max= I[c,2*h+r-1,2*w+s-1] else identity where r in 0:3, s in 0:3, h in 0:5, w in 0:6\n"
            "T[c,h,w] += (I[c,2*h+r-1,2*w+s-1] else 0) where r in 0:3, s in 0:3, h in 0:5, w in 0:6\n"
            "N[h,w] += 1.0 where h in 0:5, w in 0:6, r in 0:3, s in 0:3, 2*h+r >= 1, 2*h+r <= 9, 2*w+s >= 1, 2*w+s <= 11\n"
            "Q[c,h,w] = T[c,h,w] / f32(N[h,w])\n-> (P, Q)", normal(I=(2, 9, 11)), _pool),
    Program("softmax", "Y = softmax(X)", normal(X=(9, 37)), _softmax),
    Program("layernorm", "m[i] += X[i,k] / X.shape[1]; v[i] += (X[i,k]-m[i]) * (X[i,k]-m[i]) / X.shape[1]\n"
            "Y[i,j] = (X[i,j]-m[i]) * rsqrt(v[i] + 1e-5) * g[j] + b[j]", normal(X=(9, 24), g=(24,), b=(24,)), _layernorm),
    Program("causal attention", "P[h,s,t] += Q[h,s,d] * K[h,t,d] / 4 where t <= s\nM[h,s] max= P[h,s,t] where t <= s\n"
            "E[h,s,t] += exp(P[h,s,t] - M[h,s]) where t <= s\nZ[h,s] += E[h,s,t] where t <= s\n"
            "O[h,s,d] += E[h,s,t] * V[h,t,d] where t <= s\nY[h,s,d] = O[h,s,d] / Z[h,s]",
            normal(Q=(2, 11, 16), K=(2, 11, 16), V=(2, 11, 16)), _attention),
    Program("embedding bag", "O[b,d] += T[I[b,k], d]", _ids(T=((20, 6), None), I=((5, 4), 20)), lambda t, i: t[i].sum(1)),
    Program("histogram", "def hist(i32[N] b) -> (i32[10] H) { H[b[i]] += 1 }", _ids(b=((40,), 10)), _histogram),
    Program("prefix sum", "def scan(f32[N] X) -> (f32[N] P) { P[i] += X[k] where k <= i }", normal(X=(50,)), np.cumsum),
    Program("prefix sum, for", "def scan(f32[N] X) -> (f32[N] P) {\n P[i] = X[i]\n for t in 1:N { P[t] = P[t-1] + X[t] }\n}",
            normal(X=(50,)), np.cumsum),
    Program("argmax", "(M[i], J[i]) argmax= (X[i,j], j)", normal(X=(9, 20)), lambda x: (x.max(1), x.argmax(1))),
    Program("jacobi-2d, time loop", "def jacobi(inout f32[N,N] A) -> (A) {\n for t in 0:4 {\n"
            "  B[i,j] = (A[i,j] + A[i-1,j] + A[i+1,j] + A[i,j-1] + A[i,j+1]) / 5 where i in 1:N-1, j in 1:N-1\n"
            "  A[i,j] = B[i,j] where i in 1:N-1, j in 1:N-1\n }\n}", normal(A=(12, 12)), _jacobi),
    Program("syrk", "C[i,j] += A[i,k] * A[j,k] where j <= i", normal(A=(13, 9)), lambda a: np.tril(a @ a.T)),
    Program("trmm", "C[i,j] += A[i,k] * B[k,j] where k <= i", normal(A=(13, 13), B=(13, 9)), _trmm),
    Program("cholesky", "def cholesky(inout f64[N,N] A) -> (A) {\n for k in 0:N {\n  A[k,k] = sqrt(A[k,k])\n"
            "  A[i,k] = A[i,k] / A[k,k] where i in k+1:N\n  A[i,j] += -A[i,k] * A[j,k] where i in k+1:N, j in k+1:i+1\n }\n}",
            _positive, _cholesky),
    Program("lu", "def lu(inout f64[N,N] A) -> (A) {\n for k in 0:N {\n  A[i,k] = A[i,k] / A[k,k] where i in k+1:N\n"
            "  A[i,j] += -A[i,k] * A[k,j] where i in k+1:N, j in k+1:N\n }\n}", _dominant, _lu),
    Program("floyd-warshall", "def floyd(inout f32[N,N] D) -> (D) {\n"
            " for k in 0:N { for i in 0:N { for j in 0:N { D[i,j] = min(D[i,j], D[i,k] + D[k,j]) } } }\n}",
            lambda rng: {"D": rng.random((9, 9)).astype("f4") * (1 - np.eye(9, dtype="f4"))}, _floyd),
    Program("CSR matrix-vector product", "y[i] += v[p] * x[col[p]] where p in rp[i]:rp[i+1]", _sparse, _csr),
    Program("int8 matmul, zero points, requantised",
            "T[i,j] += (i32(a[i,k]) - 3) * (i32(b[k,j]) + 5)\nY[i,j] = i8(clamp(round(f32(T[i,j]) * 0.002) + 7, -128, 127))",
            _quantised, _requantise),
    Program("concat", "O[i,j] = A[i,j]; O[i+5,j] = B[i,j]", normal(A=(5, 7), B=(4, 7)), lambda a, b: np.concatenate([a, b])),
    Program("pixel shuffle", "O[c,h,w] = I[4*c + 2*(h%2) + w%2, h//2, w//2]", normal(I=(8, 3, 5)),
            lambda i: i.reshape(2, 2, 2, 3, 5).transpose(0, 3, 1, 4, 2).reshape(2, 6, 10)),
)
