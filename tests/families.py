"""Programs by family, for OpenCL's drivers: the language's table, and larger ones that make tiles, groups and barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from language.program import Arrays, Program, normal
from language.programs import PROGRAMS
from language.tc import PROGRAMS as TC

A = np.ndarray


def whole(**shapes: tuple[int, ...]) -> Any:
    """f32 inputs that are small integers: sums of them are exact in any order."""
    return lambda rng: {n: rng.integers(-4, 5, s).astype("f4") for n, s in shapes.items()}


def _mixed(rng: np.random.Generator) -> Arrays:
    return {"H": rng.standard_normal(131).astype("f2"), "Q": rng.integers(-128, 128, 131).astype("i1"),
            "W": rng.integers(0, 1 << 16, 131).astype("u2"), "L": rng.integers(-9, 10, 131), "D": rng.standard_normal(131),
            "B": rng.integers(0, 2, 131).astype(bool)}


def _mixes(h: A, q: A, w: A, l: A, d: A, b: A) -> tuple[A, ...]:
    with np.errstate(over="ignore"):
        return h * np.float16(1.5), b & (q > 3), q * q, w + w, d * 0.5 + l, np.where(b, l // 3, l % 3)


def _conv(x: A, w: A) -> A:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    return np.einsum("chwrs,mcrs->mhw", np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2)), w)


def _strided(x: A, w: A) -> A:
    windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5), (1, 2))[:, ::2, ::2]
    return np.einsum("chwrs,mcrs->mhw", windows, w)


def _normalised(x: A) -> tuple[A, A]:
    y = x - x.max(1, keepdims=True)
    s = y.sum(1, keepdims=True)
    return y, y * s + s


def _recurrence(x: A) -> A:
    found = x.copy()
    for t in range(1, len(x)):
        found[t] = 0.5 * found[t - 1] + x[t]
    return found


POWER = """def power(f32[N,N] A, inout f32[N] x, f32[T] w) -> (x) {
    for t in 0:T {
        y[i] +=! A[i,j] * x[j]
        n +=! y[i] * y[i]
        x[i] = w[t] * y[i] / sqrt(n)
    }
}"""
CONJUGATE = """def conjugate(f32[N,N] A, f32[T] w, inout f32[N] x, inout f32[N] r) -> (x, r) {
    p[i] = r[i]
    rr += r[i] * r[i]
    for t in 0:T {
        q[i] +=! A[i,j] * p[j]
        pq +=! p[i] * q[i]
        a = rr / pq
        x[i] += a * p[i]
        r[i] -= a * q[i] * w[t]
        new +=! r[i] * r[i]
        p[i] = r[i] + new / rr * p[i]
        rr = new
    }
}"""
GRAM_SCHMIDT = """def orthogonal(inout f32[M,N] A, inout f32[N,N] R) -> (A, R) {
    for k in 0:N {
        s +=! A[i,k] * A[i,k]
        R[k,k] = sqrt(s)
        A[i,k] = A[i,k] / R[k,k]
        R[k,j] +=! A[i,k] * A[i,j]  where j in k+1:N
        A[i,j] -= A[i,k] * R[k,j]   where j in k+1:N
    }
}"""
SQUARES = """def squares(inout f32[N,N] A, f32[T] w) -> (A) {
    for t in 0:T {
        C[i,j] +=! A[i,k] * A[k,j]
        A[i,j] = C[i,j] * w[t]
    }
}"""
MEANS = """def means(f32[N,D] X, inout f32[K,D] C, f32[T] w) -> (C) {
    for t in 0:T {
        d[n,k] +=! (X[n,e] - C[k,e]) * (X[n,e] - C[k,e])
        (m[n], a[n]) argmin=! (d[n,k], k)
        S[k,e] +=! a[n] == k ? X[n,e] : 0         where k in 0:K
        c[k] +=! a[n] == k ? f32(1) : f32(0)      where k in 0:K
        C[k,e] = w[t] * S[k,e] / max(c[k], f32(1))
    }
}"""

BLOCKS = """def eliminate(inout f32[N,N] A) -> (A) {
    for b in 0:N//8-1 {
        for k in 8*b:8*b+8 {
            A[i,k] = A[i,k] / A[k,k]        where i in k+1:N
            A[i,j] -= A[i,k] * A[k,j]       where i in k+1:N, j in k+1:8*b+8
        }
        for k in 8*b:8*b+8 {
            A[i,j] -= A[i,k] * A[k,j]       where i in k+1:8*b+8, j in 8*b+8:N
        }
        A[i,j] -= A[i,8*b+k] * A[8*b+k,j]   where k in 0:8, i in 8*b+8:N, j in 8*b+8:N
    }
}"""
TRIANGLE = """def triangle(f32[N,K] A, inout f32[N,N] D) -> (D) {
    C[i,j] += A[i,k] * A[j,k]    where j <= i
    D[i,j] = C[i,j] + 2*D[i,j]   where j <= i
}"""


def _power(a: A, x: A, w: A) -> A:
    for factor in w:
        y = a @ x
        x = factor * y / np.sqrt(y @ y)
    return x


def _conjugate(a: A, w: A, x: A, r: A) -> tuple[A, A]:
    p, rr = r.copy(), r @ r
    for factor in w:
        q = a @ p
        step = rr / (p @ q)
        x, r = x + step * p, r - step * q * factor
        p, rr = r + r @ r / rr * p, r @ r
    return x, r


def _orthogonal(a: A, r: A) -> tuple[A, A]:
    for k in range(a.shape[1]):
        r[k, k] = np.sqrt(a[:, k] @ a[:, k])
        a[:, k] /= r[k, k]
        r[k, k+1:] = a[:, k] @ a[:, k+1:]
        a[:, k+1:] -= np.outer(a[:, k], r[k, k+1:])
    return a, r


def _squares(a: A, w: A) -> A:
    for factor in w:
        a = a @ a * factor
    return a


def _eliminated(a: A) -> A:
    for k in range(len(a) - 8):
        a[k+1:, k] /= a[k, k]
        a[k+1:, k+1:] -= np.outer(a[k+1:, k], a[k, k+1:])
    return a


def _triangle(a: A, d: A) -> A:
    return np.tril(a @ a.T + 2 * d) + np.triu(d, 1)


def _means(x: A, c: A, w: A) -> A:
    for factor in w:
        nearest = ((x[:, None] - c) ** 2).sum(2).argmin(1)
        c = np.stack([factor * x[nearest == k].sum(0) / max((nearest == k).sum(), 1) for k in range(len(c))])
    return c


def _definite(rng: np.random.Generator) -> Arrays:
    x = rng.standard_normal((67, 67)).astype("f4")
    return {"A": x @ x.T / 67 + np.eye(67, dtype="f4"), "w": np.ones(3, "f4"), "x": np.zeros(67, "f4"),
            "r": rng.standard_normal(67).astype("f4")}


EXTRA = (
    Program("power iteration", POWER, normal(A=(45, 45), x=(45,), w=(3,)), _power),
    Program("conjugate gradients", CONJUGATE, _definite, _conjugate, tolerance=1e-4),
    Program("gram-schmidt", GRAM_SCHMIDT, normal(A=(70, 19), R=(19, 19)), _orthogonal, tolerance=1e-4),
    Program("squares of a matrix", SQUARES, whole(A=(19, 19), w=(2,)), _squares),
    Program("k-means", MEANS, lambda rng: {"X": (rng.standard_normal((150, 6)) + rng.integers(0, 3, (150, 1)) * 9).astype("f4"),
                                           "C": rng.standard_normal((9, 6)).astype("f4") * 9, "w": np.ones(2, "f4")}, _means),
    Program("elimination by blocks", BLOCKS, lambda rng: {"A": rng.random((40, 40)).astype("f4") + 40 * np.eye(40, dtype="f4")},
            _eliminated),
    Program("triangle of a product", TRIANGLE, whole(A=(41, 21), D=(41, 41)), _triangle),
    Program("triangular operand", "C[i,j] += A[k,i]*B[k,j] where k > i", whole(A=(41, 41), B=(41, 27)),
            lambda a, b: (np.tril(a, -1).T @ b)[:40]),
    Program("odd rows", "C[i,j] = max(A[i,j] * v[j], 0) + (i % 2 == 0 ? A[i,j] : v[j])", normal(A=(13, 29), v=(29,)),
            lambda a, v: np.maximum(a * v, 0) + np.where(np.arange(13)[:, None] % 2 == 0, a, v)),
    Program("a long vector", "C[i] = exp(A[i]) * tanh(B[i])", normal(A=(4501,), B=(4501,)),
            lambda a, b: np.exp(a) * np.tanh(b)),
    Program("a strided convolution", "O[m,h,w] += W[m,c,r,s]*X[c,2*h+r,2*w+s] where h in 0:9, w in 0:19",
            whole(X=(3, 21, 41), W=(10, 3, 5, 5)), _strided),
    Program("few tiles, long sums", "C[i,j] += A[i,k]*B[k,j]; D[i,j] = max(C[i,j], 0)", whole(A=(9, 256), B=(256, 21)),
            lambda a, b: np.maximum(a @ b, 0)),
    Program("sums of rows", "y[i] += x[i,j]", whole(x=(5, 213)), lambda x: x.sum(1)),
    Program("sums of columns", "y[j] += x[i,j]", whole(x=(300, 5)), lambda x: x.sum(0)),
    Program("sum of all", "s += x[i]", whole(x=(4500,)), lambda x: x.sum()),
    Program("least of rows, product of columns", "m[i] min= x[i,j]; p[j] *= 1 + x[i,j] / 64", normal(x=(33, 70)),
            lambda x: (x.min(1), (1 + x / 64).prod(0))),
    Program("normalised rows", "m[i] max= x[i,j]; y[i,j] = x[i,j] - m[i]; s[i] += y[i,j]\n"
            "z[i,j] = y[i,j]*s[i] + s[i] -> (y, z)",
            whole(x=(33, 19)), _normalised),
    Program("partial tiles", "C[i,j] += A[i,k]*B[k,j]", whole(A=(37, 21), B=(21, 29)), lambda a, b: a @ b),
    Program("tiles of both", "C[i,j] += A[k,i]*B[j,k]; D[i,j] = max(C[i,j] + v[j], 0) -> (D)",
            whole(A=(70, 67), B=(75, 70), v=(75,)), lambda a, b, v: np.maximum(a.T @ b.T + v, 0)),
    Program("padded image", "O[m,h,w] += (X[c,h+r-1,w+s-1] else 0)*W[m,c,r,s] where h in 0:9, w in 0:19",
            whole(X=(3, 9, 19), W=(9, 3, 3, 3)), _conv),
    Program("turned and not", "B[i,j] = A[j,i] + A[i,j]", whole(A=(37, 37)), lambda a: a + a.T),
    Program("three axes turned", "B[k,i,j] = A[i,j,k]", whole(A=(9, 35, 33)), lambda a: a.transpose(2, 0, 1)),
    Program("scattered sums", "def f(f32[50,7] X, i32[50] I) -> (f32[13,7] S) { S[I[i],j] += X[i,j] }",
            lambda rng: {"X": rng.integers(-4, 5, (50, 7)).astype("f4"), "I": np.r_[12, rng.integers(0, 13, 49)].astype("i4")},
            lambda x, i: np.stack([x[i == n].sum(0) for n in range(13)])),
    Program("recurrence", "def f(f32[N] X) -> (Y) {\n Y[i] = X[i]\n for t in 1:N { Y[t] = 0.5 * Y[t-1] + X[t] }\n}",
            normal(X=(77,)), _recurrence),
    Program("places of the largest", "(M[i], J[i]) argmax= (X[i,j], j)", whole(X=(3, 70)), lambda x: (x.max(1), x.argmax(1))),
    Program("place of the least of all", "(m, j) argmin= (X[i], i)", whole(X=(999,)), lambda x: (x.min(), x.argmin())),
    Program("types", "def many(f16[N] H, i8[N] Q, u16[N] W, i64[N] L, f64[N] D, bool[N] B) -> (a, b, c, d, e, f) {\n"
            "a[i] = H[i] * f16(1.5); b[i] = B[i] && Q[i] > 3; c[i] = Q[i] * Q[i]; d[i] = W[i] + W[i]\n"
            "e[i] = D[i] * 0.5 + L[i]; f[i] = B[i] ? L[i] // 3 : L[i] % 3 }", _mixed, _mixes, tolerance=1e-7),
    Program("sums of halves", "y[i] += A[i,j] * B[j]", lambda rng: {n: rng.integers(-3, 4, s).astype("f2") for n, s in (
            ("A", (19, 65)), ("B", (65,)))}, lambda a, b: a @ b),
)

_OF = {
    "elementwise": ["odd rows", "a long vector"],
    "reductions": ["sums of rows", "sums of columns", "sum of all", "least of rows, product of columns", "tc moments"],
    "normalisations": ["softmax", "layernorm", "normalised rows", "tc group normalization"],
    "products": ["matmul", "batched, transposed, bias, relu", "partial tiles", "tiles of both", "few tiles, long sums",
                 "int8 matmul, zero points, requantised"],
    "products of layers": ["tc matmul", "tc tmm", "tc tbmm", "tc sgemm", "tc kronecker", "tc C3", "tc MLP1", "tc MLP3"],
    "convolutions": ["strided, dilated conv", "padded conv", "grouped conv, 5-d", "grouped conv, flat", "depthwise conv",
                     "transposed conv", "padded image", "a strided convolution", "tc conv2d", "tc strided conv2d",
                     "tc group convolution", "tc WaveNet block"],
    "pools": ["max and average pool, partial windows", "tc average pooling", "tc max pooling"],
    "transpositions": ["concat", "pixel shuffle", "turned and not", "three axes turned"],
    "gathers and scatters": ["embedding bag", "histogram", "CSR matrix-vector product", "tc 1LUT", "tc 2LUT", "scattered sums"],
    "scans": ["prefix sum", "prefix sum, for", "recurrence"],
    "loops": ["jacobi-2d, time loop", "cholesky", "lu", "floyd-warshall"],
    "loops around reductions": ["power iteration", "conjugate gradients", "gram-schmidt", "squares of a matrix", "k-means",
                                "elimination by blocks"],
    "triangles": ["causal attention", "syrk", "trmm", "triangle of a product", "triangular operand"],
    "tuples": ["argmax", "places of the largest", "place of the least of all"],
    "types": ["tc types", "types", "sums of halves"],
}
_BY_NAME = {p.name: p for p in (*PROGRAMS, *TC, *EXTRA)}

FAMILIES = {family: tuple(_BY_NAME.pop(name) for name in names) for family, names in _OF.items()}
"""Each program once."""
OTHERS = tuple(_BY_NAME)
"""Names of programs that belong to no family yet."""
LIKE_OTHERS = frozenset({
    "triangle of a product", "elimination by blocks", "tiles of both", "tc WaveNet block", "tc strided conv2d", "tc conv2d",
    "tc group convolution", "padded conv", "tc MLP1", "tc kronecker", "tc sgemm", "tc tmm"})
"""Programs that compile long and whose family has quicker ones of their kind."""


def quick(family: str) -> list[Program]:
    """Its programs without those."""
    found = [p for p in FAMILIES[family] if p.name not in LIKE_OTHERS]
    assert found
    return found
