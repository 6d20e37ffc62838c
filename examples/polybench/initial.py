"""PolyBench/C 4.2.1's initial values: for each kernel a function from its sizes to the arguments of its program.

Tensors that a program computes afresh have none. Where PolyBench leaves elements undefined, they are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Arguments = dict[str, Any]


def _matrix(rows: int, columns: int, formula: Callable[[Any, Any], Any]) -> np.ndarray:
    """formula: of the row and the column, integers."""
    i, j = np.ogrid[:rows, :columns]
    return np.ascontiguousarray(np.broadcast_to(formula(i, j), (rows, columns)), np.float64)


def _vector(extent: int, formula: Callable[[Any], Any]) -> np.ndarray:
    return np.asarray(formula(np.arange(extent)), np.float64)


def correlation(M: int, N: int) -> Arguments:
    return {"data": _matrix(N, M, lambda i, j: i * j / M + i)}


def covariance(M: int, N: int) -> Arguments:
    return {"data": _matrix(N, M, lambda i, j: i * j / M)}


def two_products(NI: int, NJ: int, NK: int, NL: int) -> Arguments:
    return {"alpha": 1.5, "beta": 1.2,
            "A": _matrix(NI, NK, lambda i, j: (i * j + 1) % NI / NI),
            "B": _matrix(NK, NJ, lambda i, j: i * (j + 1) % NJ / NJ),
            "C": _matrix(NJ, NL, lambda i, j: (i * (j + 3) + 1) % NL / NL),
            "D": _matrix(NI, NL, lambda i, j: i * (j + 2) % NK / NK)}


def three_products(NI: int, NJ: int, NK: int, NL: int, NM: int) -> Arguments:
    return {"A": _matrix(NI, NK, lambda i, j: (i * j + 1) % NI / (5 * NI)),
            "B": _matrix(NK, NJ, lambda i, j: (i * (j + 1) + 2) % NJ / (5 * NJ)),
            "C": _matrix(NJ, NM, lambda i, j: i * (j + 3) % NL / (5 * NL)),
            "D": _matrix(NM, NL, lambda i, j: (i * (j + 2) + 2) % NK / (5 * NK))}


def atax(M: int, N: int) -> Arguments:
    return {"A": _matrix(M, N, lambda i, j: (i + j) % N / (5 * M)), "x": _vector(N, lambda i: 1 + i / N)}


def bicg(M: int, N: int) -> Arguments:
    return {"A": _matrix(N, M, lambda i, j: i * (j + 1) % N / N),
            "p": _vector(M, lambda i: i % M / M), "r": _vector(N, lambda i: i % N / N)}


def doitgen(NQ: int, NR: int, NP: int) -> Arguments:
    i, j, k = np.ogrid[:NR, :NQ, :NP]
    return {"A": (i * j + k) % NP / NP, "C4": _matrix(NP, NP, lambda i, j: i * j % NP / NP)}


def mvt(N: int) -> Arguments:
    return {"x1": _vector(N, lambda i: i % N / N), "x2": _vector(N, lambda i: (i + 1) % N / N),
            "y_1": _vector(N, lambda i: (i + 3) % N / N), "y_2": _vector(N, lambda i: (i + 4) % N / N),
            "A": _matrix(N, N, lambda i, j: i * j % N / N)}


def gemm(NI: int, NJ: int, NK: int) -> Arguments:
    return {"alpha": 1.5, "beta": 1.2,
            "C": _matrix(NI, NJ, lambda i, j: (i * j + 1) % NI / NI),
            "A": _matrix(NI, NK, lambda i, j: i * (j + 1) % NK / NK),
            "B": _matrix(NK, NJ, lambda i, j: i * (j + 2) % NJ / NJ)}


def gemver(N: int) -> Arguments:
    return {"alpha": 1.5, "beta": 1.2, "A": _matrix(N, N, lambda i, j: i * j % N / N),
            "u1": _vector(N, lambda i: i), "v1": _vector(N, lambda i: (i + 1) / N / 4),
            "u2": _vector(N, lambda i: (i + 1) / N / 2), "v2": _vector(N, lambda i: (i + 1) / N / 6),
            "y": _vector(N, lambda i: (i + 1) / N / 8), "z": _vector(N, lambda i: (i + 1) / N / 9)}


def gesummv(N: int) -> Arguments:
    return {"alpha": 1.5, "beta": 1.2, "A": _matrix(N, N, lambda i, j: (i * j + 1) % N / N),
            "B": _matrix(N, N, lambda i, j: (i * j + 2) % N / N), "x": _vector(N, lambda i: i % N / N)}


def symm(M: int, N: int) -> Arguments:
    """Above its diagonal A holds a number that would show in the results."""
    return {"alpha": 1.5, "beta": 1.2, "C": _matrix(M, N, lambda i, j: (i + j) % 100 / M),
            "A": _matrix(M, M, lambda i, j: np.where(j <= i, (i + j) % 100 / M, -999)),
            "B": _matrix(M, N, lambda i, j: (N + i - j) % 100 / M)}


def syr2k(M: int, N: int) -> Arguments:
    return {"alpha": 1.5, "beta": 1.2, "C": _matrix(N, N, lambda i, j: (i * j + 3) % N / M),
            "A": _matrix(N, M, lambda i, j: (i * j + 1) % N / N), "B": _matrix(N, M, lambda i, j: (i * j + 2) % M / M)}


def syrk(M: int, N: int) -> Arguments:
    return {"alpha": 1.5, "beta": 1.2, "C": _matrix(N, N, lambda i, j: (i * j + 2) % M / M),
            "A": _matrix(N, M, lambda i, j: (i * j + 1) % N / N)}


def trmm(M: int, N: int) -> Arguments:
    return {"alpha": 1.5, "A": np.tril(_matrix(M, M, lambda i, j: (i + j) % M / M), -1) + np.eye(M),
            "B": _matrix(M, N, lambda i, j: (N + i - j) % N / N)}


def _positive(N: int) -> np.ndarray:
    """A symmetric positive definite matrix: the square of a lower triangular one."""
    factor = np.tril(_matrix(N, N, lambda i, j: 1 - j / N), -1) + np.eye(N)
    return factor @ factor.T


def cholesky(N: int) -> Arguments:
    return {"A": _positive(N)}


def durbin(N: int) -> Arguments:
    return {"r": _vector(N, lambda i: N + 1 - i)}


def gramschmidt(M: int, N: int) -> Arguments:
    return {"A": _matrix(M, N, lambda i, j: i * j % M / M * 100 + 10), "R": np.zeros((N, N)), "Q": np.zeros((M, N))}


def lu(N: int) -> Arguments:
    return {"A": _positive(N)}


def ludcmp(N: int) -> Arguments:
    return {"A": _positive(N), "b": _vector(N, lambda i: (i + 1) / N / 2 + 4)}


def trisolv(N: int) -> Arguments:
    return {"L": np.tril(_matrix(N, N, lambda i, j: (i + N - j + 1) * 2 / N)), "b": _vector(N, lambda i: i)}


def deriche(W: int, H: int) -> Arguments:
    i, j = np.ogrid[:W, :H]
    return {"alpha": np.float32(0.25), "imgIn": ((313 * i + 991 * j) % 65536).astype(np.float32) / np.float32(65535)}


def floyd_warshall(N: int) -> Arguments:
    i, j = np.ogrid[:N, :N]
    missing = ((i + j) % 13 == 0) | ((i + j) % 7 == 0) | ((i + j) % 11 == 0)
    return {"path": np.where(missing, 999, i * j % 7 + 1).astype(np.int32)}


def nussinov(N: int) -> Arguments:
    return {"seq": ((np.arange(N) + 1) % 4).astype(np.int8), "table": np.zeros((N, N), np.int32)}


def adi(TSTEPS: int, N: int) -> Arguments:
    return {"T": TSTEPS, "u": _matrix(N, N, lambda i, j: (i + N - j) / N)}


def fdtd_2d(TMAX: int, NX: int, NY: int) -> Arguments:
    return {"fict": _vector(TMAX, lambda t: t),
            "ex": _matrix(NX, NY, lambda i, j: i * (j + 1) / NX), "ey": _matrix(NX, NY, lambda i, j: i * (j + 2) / NY),
            "hz": _matrix(NX, NY, lambda i, j: i * (j + 3) / NX)}


def heat_3d(TSTEPS: int, N: int) -> Arguments:
    i, j, k = np.ogrid[:N, :N, :N]
    values = (i + j + (N - k)) * 10 / N
    return {"T": TSTEPS, "A": values, "B": values.copy()}


def jacobi_1d(TSTEPS: int, N: int) -> Arguments:
    return {"T": TSTEPS, "A": _vector(N, lambda i: (i + 2) / N), "B": _vector(N, lambda i: (i + 3) / N)}


def jacobi_2d(TSTEPS: int, N: int) -> Arguments:
    return {"T": TSTEPS, "A": _matrix(N, N, lambda i, j: (i * (j + 2) + 2) / N),
            "B": _matrix(N, N, lambda i, j: (i * (j + 3) + 3) / N)}


def seidel_2d(TSTEPS: int, N: int) -> Arguments:
    return {"T": TSTEPS, "A": _matrix(N, N, lambda i, j: (i * (j + 2) + 2) / N)}


INITIAL: Mapping[str, Callable[..., Arguments]] = {
    "correlation": correlation, "covariance": covariance,
    "2mm": two_products, "3mm": three_products, "atax": atax, "bicg": bicg, "doitgen": doitgen, "mvt": mvt,
    "gemm": gemm, "gemver": gemver, "gesummv": gesummv, "symm": symm, "syr2k": syr2k, "syrk": syrk, "trmm": trmm,
    "cholesky": cholesky, "durbin": durbin, "gramschmidt": gramschmidt, "lu": lu, "ludcmp": ludcmp, "trisolv": trisolv,
    "deriche": deriche, "floyd-warshall": floyd_warshall, "nussinov": nussinov,
    "adi": adi, "fdtd-2d": fdtd_2d, "heat-3d": heat_3d, "jacobi-1d": jacobi_1d, "jacobi-2d": jacobi_2d, "seidel-2d": seidel_2d,
}
"""By PolyBench's names, in its order."""
