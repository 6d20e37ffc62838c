"""Stencils, convolutions and their gradients, borders, loops over time, factorisations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import polytc
from cliff_rows import Row, floats, rng

HEAT = """def heat(inout f32[N,N] A) {
    for t in 0:50 {
        B[i,j] = 0.25*(A[i-1,j] + A[i+1,j] + A[i,j-1] + A[i,j+1])    where i in 1:N-1, j in 1:N-1
        A[i,j] = B[i,j]                                              where i in 1:N-1, j in 1:N-1
    }
}"""
CHOLESKY = """def cholesky(inout f64[N,N] A) {
    for k in 0:N {
        A[k,k] = sqrt(A[k,k])
        A[i,k] = A[i,k] / A[k,k]            where i in k+1:N
        A[i,j] -= A[i,k] * A[j,k]           where i in k+1:N, j in k+1:i+1
    }
}"""


def rows(threads: int) -> Iterator[Row]:
    """All of them."""
    yield from _borders(threads)
    yield from _gradients(threads)
    yield from _attention(threads)
    x = floats(3002, 4002)
    blur = "T[i,j] = (X[i,j] + X[i,j+1] + X[i,j+2])/3; Y[i,j] = (T[i,j] + T[i+1,j] + T[i+2,j])/3"
    auto, apart, one = (polytc.compile(blur, threads=threads, fusion=f) for f in (None, "min", "max"))
    yield Row("3x3 box blur, two statements", lambda: auto(x),
              {"fusion min": lambda: apart(x), "fusion max": lambda: one(x)}, 1.05)
    grid = floats(512, 512)
    heat = polytc.compile(HEAT, threads=threads)
    yield Row("heat 512^2, 50 steps, copied back", lambda: heat(grid.copy()), {"numpy": lambda: _heat(grid)}, 1.0)
    half = floats(256, 256, dtype=np.float64)
    matrix = half @ half.T + 256*np.eye(256)
    factor = polytc.compile(CHOLESKY, threads=threads)
    yield Row("Cholesky 256", lambda: np.tril(factor(matrix.copy())), {"LAPACK": lambda: np.linalg.cholesky(matrix)}, 1.6)


def _heat(grid: np.ndarray) -> np.ndarray:
    a, b = grid.copy(), grid.copy()
    for _ in range(50):
        np.add(a[:-2, 1:-1], a[2:, 1:-1], out=b[1:-1, 1:-1])
        b[1:-1, 1:-1] += a[1:-1, :-2]
        b[1:-1, 1:-1] += a[1:-1, 2:]
        b[1:-1, 1:-1] *= 0.25
        a, b = b, a
    return a


def _borders(threads: int) -> Iterator[Row]:
    cells = (rng().random((1024, 1024)) < .3).astype(np.uint8)
    count = ("N[i,j] += {} where a in 0:3, b in 0:3, i in 0:1024, j in 0:1024; "
             "Y[i,j] = u8(N[i,j] == 3 || N[i,j] - X[i,j] == 3)")
    periodic = polytc.compile(count.format("X[(i+a+1023)%1024, (j+b+1023)%1024]"), threads=threads)
    guarded = polytc.compile(count.format("(X[i+a-1, j+b-1] else 0)"), threads=threads)
    yield Row("Game of Life, periodic by %", lambda: periodic(cells), {"guarded": lambda: guarded(cells)}, 1.2, compared=False)
    x, table = floats(1024, 1024), np.clip(np.arange(-1, 1025), 0, 1023)
    box = "where i in 0:1024, j in 0:1024, a in 0:3, b in 0:3"
    clamped = polytc.compile(f"Y[i,j] += X[T[i+a], T[j+b]] {box}", threads=threads)
    padded = polytc.compile(f"Y[i,j] += (X[i+a-1, j+b-1] else 0) {box}", threads=threads)
    yield Row("borders clamped by a table", lambda: clamped(x, table), {"guarded": lambda: padded(x)}, 1.2, compared=False)


def _gradients(threads: int) -> Iterator[Row]:
    w, g = floats(64, 64, 3, 3), floats(1, 64, 56, 56, seed=1)
    scatter = polytc.compile("D[n,c,h+r,w+s] += W[m,c,r,s]*G[n,m,h,w]", threads=threads)
    gather = polytc.compile("D[n,c,y,x] += W[m,c,r,s]*(G[n,m,y-r,x-s] else 0) where y in 0:58, x in 0:58", threads=threads)
    yield Row("gradient of a convolution, scattered", lambda: scatter(w, g), {"gathered": lambda: gather(w, g)}, 1.1)
    frames, window = floats(2000, 512), floats(512, seed=1)
    overlap = polytc.compile("Y[128*t + k] += F[t,k]*w[k]", threads=threads)
    gathered = polytc.compile("Y[i] += (F[i//128 - q, i%128 + 128*q] else 0)*w[i%128 + 128*q] where q in 0:4, i in 0:256384",
                              threads=threads)
    yield Row("overlap-add", lambda: overlap(frames, window), {"gathered": lambda: gathered(frames, window)}, 1.1)


def _attention(threads: int) -> Iterator[Row]:
    q, k, v = (floats(8, 512, 64, seed=n) for n in range(3))
    text = ("S[h,i,j] += Q[h,i,d]*K[h,j,d]{w}; M[h,i] max= S[h,i,j]{w}; E[h,i,j] = exp(S[h,i,j] - M[h,i]){w}; "
            "Z[h,i] += E[h,i,j]{w}; O[h,i,d] += E[h,i,j]*V[h,j,d]{w}; Y[h,i,d] = O[h,i,d]/Z[h,i]")
    causal, full = (polytc.compile(text.format(w=w), threads=threads) for w in (" where j <= i", ""))
    yield Row("causal attention in statements", lambda: causal(q, k, v), {"the full square": lambda: full(q, k, v)}, 0.7,
              compared=False)
