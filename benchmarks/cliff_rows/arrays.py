"""Arrays that are views of others, and reductions that pick, count and sort."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Iterator

import numpy as np

import polytc
from cliff_rows import Row, floats, rng


def rows(threads: int) -> Iterator[Row]:
    """All of them."""
    yield from _views(threads)
    yield from _ends(threads)
    yield from _places(threads)
    yield from _picks(threads)


def _views(threads: int) -> Iterator[Row]:
    a = floats(2000, 2000)
    total = polytc.compile("S[i] += A[i,j]", threads=threads)
    yield Row("sums of the rows of A.T", lambda: total(a.T), {"numpy": lambda: a.T.sum(axis=1)}, 1.2)
    image = floats(1, 224, 224, 64)
    channel = polytc.compile("M[c] += X[n,c,h,w]", threads=threads)
    view = image.transpose(0, 3, 1, 2)
    yield Row("channel sums of an NHWC view", lambda: channel(view), {"numpy": lambda: view.sum(axis=(0, 2, 3))}, 1.2)
    x, y = floats(2_000_000), floats(2_000_000, seed=1)
    dot = polytc.compile("d += x[i]*y[i]", threads=threads)
    yield Row("dot of x[::2], y[::2]", lambda: dot(x[::2], y[::2]), {"numpy": lambda: np.dot(x[::2], y[::2])}, 1.2)
    scaled, large = polytc.compile("B[i,j] = A[i,j]*2 + 1", threads=threads), np.empty((2000, 4000), np.float32)
    yield Row("into out[:, ::2]", lambda: scaled(a, out=large[:, ::2]), {
        "numpy": lambda: np.add(np.multiply(a, 2, out=large[:, 1::2]), 1, out=large[:, 1::2])}, 1.2)
    yield _behind_a_gap(threads)
    b, c = floats(512, 512, seed=1), floats(512, 512, seed=2)
    product = polytc.compile("C[i,j] += A[i,k]*B[k,j]", threads=threads)
    yield Row("A[:512, :512] @ B", lambda: product(a[:512, :512], b), {"numpy": lambda: a[:512, :512] @ b}, 1.2)
    yield Row("A.T @ B", lambda: product(b.T, c), {"numpy": lambda: b.T @ c}, 1.2)


def _behind_a_gap(threads: int) -> Row:
    """Memory that nobody may touch lies before the array: guarded reads must not go there, and need not pay for it."""
    shape, gap = (1000, 100), 1 << 20
    shifted = polytc.compile("Y[i,j] = (X[i-300,j] else 0) where i in 0:1000, j in 0:100", threads=threads)
    memory = np.frombuffer(mmap.mmap(-1, 2 * gap), np.uint8)
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(gap), 0)
    behind = memory[gap:gap + 4 * shape[0] * shape[1]].view(np.float32).reshape(shape)
    inside = floats(3000, 100)[1000:2000]
    behind[...] = inside
    return Row("rows shifted behind a gap in memory", lambda: shifted(behind), {"no gap": lambda: shifted(inside)}, 1.1,
               exact=True)


def _ends(threads: int) -> Iterator[Row]:
    """Reads far beside an array, behind a guard or in a branch, where there may be no memory at all."""
    x, y = floats(4_000_000), floats(2_000_000, seed=1)
    moved = np.zeros(6_000_000, np.float32)
    shift = polytc.compile("D[i] = (x[i-2000000] else 0) where i in 0:6000000", threads=threads)
    yield Row("shift by 2e6 into zeros", lambda: shift(x, out=moved), {
        "numpy": lambda: np.concatenate([np.zeros(2_000_000, np.float32), x], out=np.empty_like(moved))}, 1.2, exact=True)
    joined = np.empty_like(moved)
    for name, text in (("a guard", "D[i] = (x[i] else (y[i-4000000] else 0)) where i in 0:6000000"),
                       ("a choice", "D[i] = i < 4000000 ? x[i] : y[i-4000000]")):
        both = polytc.compile(text, threads=threads)
        yield Row(f"x behind y by {name}", functools.partial(both, x, y, out=joined), {
            "numpy": lambda: np.concatenate([x, y], out=np.empty_like(joined))}, 1.2, exact=True)
    ahead = polytc.compile("D[i] = i > 0 ? x[i] - x[i-1] : x[i]", threads=threads)
    yield Row("differences with a first one", lambda: ahead(x), {"numpy": lambda: np.diff(x, prepend=np.float32(0))}, 1.0,
              exact=True)


def _places(threads: int) -> Iterator[Row]:
    """Results in shifted and reversed places, reads backwards and through digits of an index."""
    a, b = floats(512, 512), floats(512, 512, seed=1)
    plain, moved, back = (polytc.compile(f"{left} += A[i,k]*B[k,j]", threads=threads)
                          for left in ("C[i,j]", "C[i+1,j+1]", "C[511-i,511-j]"))
    yield Row("product into C[i+1,j+1]", lambda: moved(a, b), {"C[i,j]": lambda: plain(a, b)}, 1.1, exact=True)
    yield Row("product into C[511-i,511-j]", lambda: back(a, b)[::-1, ::-1], {"C[i,j]": lambda: plain(a, b)}, 1.2)
    turn = polytc.compile("D[i,j] = A[j,1999-i]", threads=threads)
    large, turned = floats(2000, 2000), np.empty((2000, 2000), np.float32)
    yield Row("a quarter turn, 2000", lambda: turn(large, out=turned), {"numpy": lambda: np.rot90(large).copy()}, 1.0,
              exact=True)
    x, y = floats(1_000_000), floats(1_000_000, seed=1)
    dot = polytc.compile("s += x[i]*y[999999-i]", threads=threads)
    yield Row("dot of x and y backwards", lambda: dot(x, y), {"numpy": lambda: np.dot(x, y[::-1])}, 1.0)
    both, joined = polytc.compile("D[i] = i % 2 == 0 ? x[i//2] : y[i//2]", threads=threads), np.empty(2_000_000, np.float32)
    yield Row("x and y interleaved", lambda: both(x, y, out=joined), {"numpy": lambda: np.stack([x, y], 1).ravel()}, 1.0,
              exact=True)
    nibbles, vector = rng().integers(0, 256, (4096, 2048)).astype(np.uint8), floats(4096)
    digits = polytc.compile("y[i] += f32((i32(W[i,k//2]) >> (4*(k%2))) & 15)*x[k] where k in 0:4096", threads=threads)
    terms = polytc.compile("y[i] += f32(i32(W[i,q]) & 15)*x[2*q] + f32(i32(W[i,q]) >> 4)*x[2*q+1]", threads=threads)
    yield Row("weights of four bits by vector", lambda: digits(nibbles, vector),
              {"two terms": lambda: terms(nibbles, vector)}, 1.5)
    scales = floats(4096, 128, seed=2)
    scaled = polytc.compile("y[i] += f32((i32(W[i,k//2]) >> (4*(k%2))) & 15)*s[i,k//32]*x[k] where k in 0:4096",
                            threads=threads)
    yield Row("the same with a scale for each 32", lambda: scaled(nibbles, scales, vector),
              {"without scales": lambda: digits(nibbles, vector)}, 1.5, compared=False)


def _picks(threads: int) -> Iterator[Row]:
    a = floats(1000, 1000)
    rowwise = polytc.compile("(M[i], I[i]) argmax= (A[i,j], j)", threads=threads)
    yield Row("argmax of rows, 1000^2", lambda: rowwise(a).I, {"numpy": lambda: a.argmax(axis=1)}, 1.2, exact=True)
    columns = polytc.compile("(M[j], I[j]) argmax= (A[i,j], i)", threads=threads)
    yield Row("argmax of columns, 1000^2", lambda: columns(a).I, {"numpy": lambda: a.argmax(axis=0)}, 1.2, exact=True)
    triangle, y = np.tril(a), floats(1000, seed=1)
    lower = polytc.compile("Y[i] += A[i,k]*y[k] where k <= i", threads=threads)
    yield Row("A*y, lower triangle, 1000", lambda: lower(triangle, y), {"numpy, the square": lambda: triangle @ y}, 1.2)
    sums = polytc.compile("S[i] += A[i,k] where k <= i", threads=threads)
    yield Row("sums of a triangle, 1000", lambda: sums(triangle), {"numpy, the square": lambda: triangle.sum(1)}, 1.0)
    long = floats(1_000_000, dtype=np.float64)
    least = polytc.compile("(m, I) argmin= (x[i], i)", threads=threads)
    yield Row("argmin f64, 1e6", lambda: least(long).I, {"numpy": long.argmin}, 1.2, exact=True)
    keys = rng().integers(0, 256, 1_000_000)
    histogram = polytc.compile("def histogram(i64[N] k) -> (i64[256] H) { H[k[i]] += i64(1) }", threads=threads)
    yield Row("histogram i64, 1e6", lambda: histogram(keys), {"bincount": lambda: np.bincount(keys, minlength=256)}, 1.2,
              exact=True)
    few = rng().permutation(4000).astype(np.float32)
    rank = polytc.compile("R[i] += i64(x[j] < x[i])", threads=threads)
    yield Row("rank by counting, 4000", lambda: rank(few), {"argsort": lambda: np.argsort(np.argsort(few))}, 1.2)
