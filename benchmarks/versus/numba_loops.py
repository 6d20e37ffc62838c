"""The loops of some cases as Numba's users write them: inputs, then the output. Compiled by versus.peers.numba."""

from __future__ import annotations

import numba
import numpy as np

Array = np.ndarray


def muladd(A: Array, B: Array, C: Array, Y: Array) -> None:
    for i in numba.prange(A.shape[0]):
        Y[i] = A[i] + B[i] * C[i]


def softmax(X: Array, Y: Array) -> None:
    for i in numba.prange(X.shape[0]):
        largest = X[i, 0]
        for j in range(X.shape[1]):
            largest = max(largest, X[i, j])
        total = np.float32(0)
        for j in range(X.shape[1]):
            Y[i, j] = np.exp(X[i, j] - largest)
            total += Y[i, j]
        for j in range(X.shape[1]):
            Y[i, j] /= total


def row_sums(X: Array, Y: Array) -> None:
    for i in numba.prange(X.shape[0]):
        total = np.float32(0)
        for j in range(X.shape[1]):
            total += X[i, j]
        Y[i] = total


def column_sums(X: Array, Y: Array) -> None:
    Y[:] = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            Y[j] += X[i, j]


def transpose(X: Array, Y: Array) -> None:
    for i in numba.prange(Y.shape[0]):
        for j in range(Y.shape[1]):
            Y[i, j] = X[j, i]


def gather(T: Array, I: Array, Y: Array) -> None:
    for i in numba.prange(I.shape[0]):
        Y[i, :] = T[I[i], :]


def cumsum(X: Array, Y: Array) -> None:
    for i in numba.prange(X.shape[0]):
        total = np.float32(0)
        for j in range(X.shape[1]):
            total += X[i, j]
            Y[i, j] = total


def matmul(A: Array, B: Array, C: Array) -> None:
    for i in numba.prange(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = 0
        for k in range(A.shape[1]):
            a = C.dtype.type(A[i, k])
            for j in range(B.shape[1]):
                C[i, j] += a * B[k, j]
