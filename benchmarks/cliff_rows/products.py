"""Products of three and more tensors in one statement, sums with factors, plain products of any size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from opt_einsum import contract

import polytc
from cliff_rows import Row, floats


def rows(threads: int) -> Iterator[Row]:
    """All of them."""
    for n in (300, 20):
        a, b, c, d = (floats(n, n, seed=k) for k in range(4))
        chain = polytc.compile("Y[i,m] += A[i,j]*B[j,k]*C[k,l]*D[l,m]", threads=threads)
        yield Row(f"A*B*C*D, {n}", partial(chain, a, b, c, d), {"multi_dot": partial(np.linalg.multi_dot, [a, b, c, d])}, 1.2)
    s, t, x = floats(1000, 1000), floats(1000, 1000, seed=1), floats(1000, seed=2)
    thin = polytc.compile("Y[i] += A[i,j]*B[j,k]*x[k]", threads=threads)
    yield Row("A*B*x, 1000", lambda: thin(s, t, x), {"numpy": lambda: s @ (t @ x)}, 1.2)
    p, w, q = floats(200, 64), floats(64, 64, seed=1), floats(200, 64, seed=2)
    form = polytc.compile("Z[i,j] += X[i,k]*W[k,l]*Y[j,l]", threads=threads)
    yield Row("X W Y', 200x64", lambda: form(p, w, q), {"numpy": lambda: p @ w @ q.T}, 1.2)
    g, u, v, z = floats(20, 20, 20), floats(60, 20, seed=1), floats(60, 20, seed=2), floats(60, 20, seed=3)
    tucker = polytc.compile("T[i,j,k] += G[a,b,c]*U[i,a]*V[j,b]*W[k,c]", threads=threads)
    yield Row("Tucker 60^3", lambda: tucker(g, u, v, z), {"opt_einsum": lambda: contract("abc,ia,jb,kc->ijk", g, u, v, z)}, 1.2)
    cube, left, right = floats(100, 100, 100), floats(100, 16, seed=1), floats(100, 16, seed=2)
    mttkrp = polytc.compile("M[i,r] += T[i,j,k]*B[j,r]*C[k,r]", threads=threads)
    yield Row("MTTKRP 100^3 x 16", partial(mttkrp, cube, left, right),
              {"opt_einsum": partial(contract, "ijk,jr,kr->ir", cube, left, right)}, 1.2)
    yield from _factors(threads)
    yield from _plain(threads)


def _factors(threads: int) -> Iterator[Row]:
    e, v, z = abs(floats(8, 256, 256)), floats(8, 256, 64, seed=1), abs(floats(8, 256, seed=2)) + 1
    inside = polytc.compile("O[h,i,d] += E[h,i,j]*V[h,j,d]/Z[h,i]", threads=threads)
    after = polytc.compile("T[h,i,d] += E[h,i,j]*V[h,j,d]; O[h,i,d] = T[h,i,d]/Z[h,i]", threads=threads)
    yield Row("+= E*V/Z[h,i]", lambda: inside(e, v, z), {"divided afterwards": lambda: after(e, v, z)}, 1.1)
    x, g = floats(256, 512), floats(256, 384, seed=1)
    gradient = polytc.compile("D[i,o] += X[b,i]*G[b,o]", threads=threads)
    yield Row("D[i,o] += X[b,i]*G[b,o]", lambda: gradient(x, g), {"numpy": lambda: x.T @ g}, 1.1)


def _plain(threads: int) -> Iterator[Row]:
    for m, n, k in ((384, 384, 384), (300, 211, 417), (300, 417, 211), (96, 320, 256), (1, 3001, 3001), (4, 2000, 2000),
                    (8, 4096, 4096), (16, 3000, 3000), (64, 1000, 1000)):  # rows, columns, terms
        a, b = floats(m, k), floats(k, n, seed=1)
        product = polytc.compile("C[i,j] += A[i,k]*B[k,j]", threads=threads)
        yield Row(f"matmul {m}x{n}x{k}", partial(product, a, b), {"numpy": partial(np.matmul, a, b)}, 1.0)
