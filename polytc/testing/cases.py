"""Programs that a target has to compute, each beside what numpy makes of it.

Together they have every operator, type and statement of the language, and what a Loop AST can hold: guards, loops that run
backwards or not at all, bounds that vary, reductions of every operator, gathers, scatters, recurrences, several results.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polytc.program.scalars import DTYPES

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    """A program and its meaning. shapes, dtypes: of its inputs, which are f32 where nothing else is said. below: integer
    inputs have numbers from 0 up to it, and from -below where they are signed; `indices` names those that have none below 0.
    P is in ascending order.
    reference: a function of the inputs by name."""

    name: str
    text: str
    shapes: Shapes
    reference: Callable[..., Any]
    dtypes: Mapping[str, str] = field(default_factory=dict)
    below: int = 9
    indices: tuple[str, ...] = ()

    def inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Arrays for the program, the same for the same seed."""
        rng = np.random.default_rng(seed)
        return {n: self._array(n, shape, DTYPES[self.dtypes.get(n, "f32")].numpy, rng) for n, shape in self.shapes.items()}

    def expected(self, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        """What numpy makes of the arrays."""
        with np.errstate(all="ignore"):
            found = self.reference(**inputs)
        return tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))

    def _array(self, name: str, shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            low = 0 if dtype.kind == "u" or name in self.indices else -self.below
            drawn = rng.integers(low, self.below, shape).astype(dtype)
            return np.sort(drawn) if name == "P" else drawn
        return rng.normal(size=shape).astype(dtype)

    def __str__(self) -> str:
        return self.name


def _convolution(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    padded = np.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, W.shape[2:], (2, 3))
    return np.einsum("nchwrs,mcrs->nmhw", windows, W)


def _softmax(X: np.ndarray) -> np.ndarray:
    e = np.exp(X - X.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _heat(X: np.ndarray) -> np.ndarray:
    H = [X]
    for _ in range(4):
        around = np.pad(H[-1], 1)
        H.append(around[:-2] / 4 + H[-1] / 2 + around[2:] / 4)
    return np.array(H)


def _substitution(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = b[i] - L[i, :i] @ x[:i] / 8
    return x


def _backwards(A: np.ndarray) -> np.ndarray:
    H = A.copy()
    for t in range(len(A) - 2, -1, -1):
        H[t] = np.float32(0.5) * H[t + 1] + A[t]
    return H


def _scattered(X: np.ndarray, I: np.ndarray) -> np.ndarray:
    out = np.zeros(16, X.dtype)
    np.add.at(out, I, X)
    return out


def _segments(X: np.ndarray, P: np.ndarray) -> np.ndarray:
    return np.array([X[a:b].sum() for a, b in itertools.pairwise(P)], X.dtype)


STRAIGHT: tuple[Case, ...] = (
    Case("copy", "B[i,j] = A[j,i]", {"A": (5, 7)}, lambda A: A.T),
    Case("one element", "B[] = A[2]", {"A": (5,)}, lambda A: A[2]),
    Case("reversed", "B[i] = A[12-i] where i in 0:13", {"A": (13,)}, lambda A: A[::-1]),
    Case("arithmetic", "C[i] = (A[i] + 2*B[i]) / (B[i]*B[i] + 1) - A[i]", {"A": (37,), "B": (37,)},
         lambda A, B: (A + 2 * B) / (B * B + 1) - A),
    Case("several results", "def several(A) -> (C, D, S) { C[i] = A[i] + 1; D[i] = C[i] * A[i]; S += D[i] }", {"A": (19,)},
         lambda A: (A + 1, (A + 1) * A, ((A + 1) * A).sum())),
    Case("integers", "B[i] = A[i] * 3 - A[i] // 4 + A[i] % 5", {"A": (33,)}, lambda A: A * 3 - A // 4 + A % 5,
         {"A": "i32"}, 1000),
    Case("integers wrap", "B[i] = A[i] * A[i] + A[i]", {"A": (33,)}, lambda A: A * A + A, {"A": "i32"}, 2**31),
    Case("bytes", "C[i] = A[i] * B[i] + A[i]", {"A": (70,), "B": (70,)}, lambda A, B: A * B + A, {"A": "u8", "B": "u8"}, 255),
    Case("wide integers", "B[i] = A[i] // 7 + A[i] % 7 * A[i]", {"A": (9,)}, lambda A: A // 7 + A % 7 * A, {"A": "i64"}, 2**40),
    Case("bits", "B[i] = (A[i] & 12) | (A[i] ^ 5) | (A[i] << 2) | (A[i] >> 3) | ~A[i]", {"A": (21,)},
         lambda A: (A & 12) | (A ^ 5) | (A << 2) | (A >> 3) | ~A, {"A": "i32"}, 10**6),
    Case("casts", "B[i] = f32(i32(A[i] * 10)) + f32(A[i] > 0)", {"A": (23,)},
         lambda A: (A * 10).astype(np.int32).astype(np.float32) + (A > 0)),
    Case("conditions", "B[i] = A[i] > 0 && A[i] < 1 || A[i] == 2 ? A[i] : -A[i]", {"A": (41,)},
         lambda A: np.where((A > 0) & (A < 1) | (A == 2), A, -A)),
    Case("logic", "C[i] = !A[i] || B[i]", {"A": (11,), "B": (11,)}, lambda A, B: ~A | B, {"A": "bool", "B": "bool"}),
    Case("functions", "B[i] = exp(-abs(A[i])) + sqrt(A[i]*A[i] + 1) + tanh(A[i]) + max(A[i], 0.5) + floor(A[i])", {"A": (29,)},
         lambda A: np.exp(-abs(A)) + np.sqrt(A * A + 1) + np.tanh(A) + np.maximum(A, np.float32(0.5)) + np.floor(A)),
    Case("more functions", "B[i] = log(abs(A[i]) + 1) + sin(A[i]) * cos(A[i]) + pow(abs(A[i]), 1.5) + round(A[i])",
         {"A": (29,)}, lambda A: np.log(abs(A) + 1) + np.sin(A) * np.cos(A) + abs(A) ** np.float32(1.5) + np.round(A)),
    Case("doubles", "C[i,j] += A[i,k] * B[k,j]", {"A": (5, 6), "B": (6, 7)}, lambda A, B: A @ B, {"A": "f64", "B": "f64"}),
    Case("halves", "B[i] = A[i] * A[i] + 1", {"A": (35,)},
         lambda A: (A.astype(np.float32) * A.astype(np.float32) + 1).astype(np.float16), {"A": "f16"}),
    Case("sum", "S += A[i,j]", {"A": (31, 17)}, lambda A: A.sum()),
    Case("sums of rows", "S[i] += A[i,j]", {"A": (7, 50)}, lambda A: A.sum(1)),
    Case("sums of columns", "S[j] += A[i,j]", {"A": (50, 7)}, lambda A: A.sum(0)),
    Case("products, least and largest", "P[i] *= A[i,j]; L[i] min= A[i,j]; M[i] max= A[i,j]", {"A": (6, 9)},
         lambda A: (A.prod(1), A.min(1), A.max(1))),
    Case("reductions of bits", "P[i] &= A[i,j]; L[i] |= A[i,j]; M[i] ^= A[i,j]", {"A": (6, 9)},
         lambda A: (np.bitwise_and.reduce(A, 1), np.bitwise_or.reduce(A, 1), np.bitwise_xor.reduce(A, 1)), {"A": "i32"}, 10**6),
    Case("place of the largest", "(M[i], J[i]) argmax= (A[i,j], j)", {"A": (6, 40)},
         lambda A: (A.max(1), A.argmax(1).astype(np.int64))),
    Case("no elements", "S[i] += A[i,j]", {"A": (4, 0)}, lambda A: A.sum(1)),
    Case("matrix product", "C[i,j] += A[i,k] * B[k,j]", {"A": (33, 21), "B": (21, 37)}, lambda A, B: A @ B),
    Case("transposed product", "C[i,j] += A[k,i] * B[j,k]", {"A": (19, 20), "B": (21, 19)}, lambda A, B: A.T @ B.T),
    Case("batched product", "C[b,i,j] += A[b,i,k] * B[b,k,j]", {"A": (3, 9, 11), "B": (3, 11, 10)}, lambda A, B: A @ B),
    Case("product of bytes", "C[i,j] += i32(A[i,k]) * i32(B[k,j])", {"A": (17, 40), "B": (40, 18)},
         lambda A, B: A.astype(np.int32) @ B.astype(np.int32), {"A": "u8", "B": "i8"}, 120),
    Case("matrix and vector", "y[i] += A[i,j] * x[j]", {"A": (40, 41), "x": (41,)}, lambda A, x: A @ x),
    Case("triangle", "C[i] += A[i,j] where j <= i", {"A": (18, 18)}, lambda A: np.tril(A).sum(1)),
    Case("window", "B[i] += A[i+k] * w[k]", {"A": (40,), "w": (5,)}, lambda A, w: np.correlate(A, w)),
    Case("padded convolution", "O[n,m,h,w] += (X[n,c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:9, w in 0:10",
         {"X": (2, 3, 9, 10), "W": (4, 3, 3, 3)}, _convolution),
    Case("strides", "B[i] = A[2*i+1] where i in 0:9", {"A": (20,)}, lambda A: A[1:18:2]),
    Case("largest of pairs", "B[i,j] max= A[2*i+r, 2*j+s] where r in 0:2, s in 0:2", {"A": (8, 10)},
         lambda A: A.reshape(4, 2, 5, 2).max((1, 3))),
    Case("remainders", "B[i] = A[i % 5] + A[(i + 3) // 4] where i in 0:16", {"A": (5,)},
         lambda A: A[np.arange(16) % 5] + A[(np.arange(16) + 3) // 4]),
    Case("softmax", "def softmax(X) -> (Y) {\n M[i] max= X[i,j]\n E[i,j] = exp(X[i,j] - M[i])\n Z[i] += E[i,j]\n"
         "Y[i,j] = E[i,j] / Z[i] }", {"X": (9, 33)}, _softmax),
    Case("gather", "B[i,j] = A[I[i], j]", {"A": (9, 6), "I": (14,)}, lambda A, I: A[I], {"I": "i64"}, indices=("I",)),
    Case("scatter", "B[j] = 0 where j in 0:16; B[I[i]] += X[i]", {"X": (30,), "I": (30,)}, _scattered,
         {"I": "i32"}, 16, ("I",)),
)
"""Programs without `for`."""

LOOPS: tuple[Case, ...] = (
    Case("prefix sums", "for t in 0:20 { P[t] = (P[t-1] else 0) + A[t] }", {"A": (20,)}, lambda A: np.cumsum(A)),
    Case("a recurrence backwards", "for t in 9:-1:-1 { H[t,i] = 0.5 * (H[t+1,i] else 0) + A[t,i] }",
         {"A": (10, 6)}, _backwards),
    Case("steps of time", "H[0,i] = X[i]; for t in 1:5 {"
         "H[t,i] = (H[t-1,i-1] else 0) / 4 + H[t-1,i] / 2 + (H[t-1,i+1] else 0) / 4 }", {"X": (30,)}, _heat),
    Case("forward substitution", "for i in 0:12 { S[i] += L[i,j] * x[j] where j < i; x[i] = b[i] - (S[i] else 0) / 8 }",
         {"L": (12, 12), "b": (12,)}, _substitution),
    Case("sums of segments", "S[s] += X[i] where i in P[s]:P[s+1]", {"X": (20,), "P": (5,)}, _segments,
         {"P": "i32"}, 20, ("P",)),
)
"""Programs with `for`, or with ranges in memory."""

CASES = STRAIGHT + LOOPS
