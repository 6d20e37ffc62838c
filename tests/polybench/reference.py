"""PolyBench's kernels in NumPy, written from their definitions and independent of the programs in examples/polybench.

Each function takes the arguments of the program of its name, leaves them as they are, and returns the results in a dict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Results = dict[str, Array]


def correlation(data: Array) -> Results:
    centred = data - data.mean(axis=0)
    deviation = np.sqrt((centred ** 2).mean(axis=0))
    unit = centred / (np.sqrt(len(data)) * np.where(deviation <= 0.1, 1.0, deviation))
    corr = unit.T @ unit
    np.fill_diagonal(corr, 1.0)
    return {"corr": corr}


def covariance(data: Array) -> Results:
    centred = data - data.mean(axis=0)
    return {"cov": centred.T @ centred / (len(data) - 1)}


def two_products(alpha: float, beta: float, A: Array, B: Array, C: Array, D: Array) -> Results:
    return {"D": alpha * A @ B @ C + beta * D}


def three_products(A: Array, B: Array, C: Array, D: Array) -> Results:
    return {"G": (A @ B) @ (C @ D)}


def atax(A: Array, x: Array) -> Results:
    return {"y": A.T @ (A @ x)}


def bicg(A: Array, p: Array, r: Array) -> Results:
    return {"s": r @ A, "q": A @ p}


def doitgen(A: Array, C4: Array) -> Results:
    return {"A": A @ C4}


def mvt(x1: Array, x2: Array, y_1: Array, y_2: Array, A: Array) -> Results:
    return {"x1": x1 + A @ y_1, "x2": x2 + y_2 @ A}


def gemm(alpha: float, beta: float, C: Array, A: Array, B: Array) -> Results:
    return {"C": alpha * A @ B + beta * C}


def gemver(alpha: float, beta: float, A: Array, u1: Array, v1: Array, u2: Array, v2: Array, y: Array, z: Array) -> Results:
    updated = A + np.outer(u1, v1) + np.outer(u2, v2)
    return {"w": alpha * updated @ (beta * y @ updated + z)}


def gesummv(alpha: float, beta: float, A: Array, B: Array, x: Array) -> Results:
    return {"y": (alpha * A + beta * B) @ x}


def symm(alpha: float, beta: float, C: Array, A: Array, B: Array) -> Results:
    whole = np.tril(A) + np.tril(A, -1).T
    return {"C": alpha * whole @ B + beta * C}


def syr2k(alpha: float, beta: float, C: Array, A: Array, B: Array) -> Results:
    return {"C": np.where(_lower(len(C)), alpha * (A @ B.T + B @ A.T) + beta * C, C)}


def syrk(alpha: float, beta: float, C: Array, A: Array) -> Results:
    return {"C": np.where(_lower(len(C)), alpha * A @ A.T + beta * C, C)}


def _lower(extent: int) -> Array:
    return np.tri(extent, dtype=bool)


def trmm(alpha: float, A: Array, B: Array) -> Results:
    return {"B": alpha * (np.tril(A, -1).T + np.eye(len(A))) @ B}


def cholesky(A: Array) -> Results:
    return {"A": np.tril(np.linalg.cholesky(A)) + np.triu(A, 1)}


def durbin(r: Array) -> Results:
    """The solution of the Toeplitz system whose first column is 1, r[0], r[1] ... and whose right side is -r."""
    n = len(r)
    column = np.concatenate([[1.0], r[:-1]])
    i, j = np.ogrid[:n, :n]
    return {"y": np.linalg.solve(column[abs(i - j)], -r)}


def gramschmidt(A: Array, R: Array, Q: Array) -> Results:
    """Column by column, each made orthogonal to all those before it, one after the other."""
    A, R, Q = A.copy(), R.copy(), Q.copy()
    for k in range(A.shape[1]):
        for i in range(k):
            R[i, k] = Q[:, i] @ A[:, k]
            A[:, k] -= R[i, k] * Q[:, i]
        R[k, k] = np.linalg.norm(A[:, k])
        with np.errstate(invalid="ignore"):
            Q[:, k] = A[:, k] / R[k, k]
    return {"A": A, "R": R, "Q": Q}


def lu(A: Array) -> Results:
    """Doolittle's order: row by row, from the definition A = L U."""
    L, U = np.eye(len(A)), np.zeros_like(A)
    for i in range(len(A)):
        for j in range(i):
            L[i, j] = (A[i, j] - L[i, :j] @ U[:j, j]) / U[j, j]
        U[i, i:] = A[i, i:] - L[i, :i] @ U[:i, i:]
    return {"A": np.tril(L, -1) + U}


def ludcmp(A: Array, b: Array) -> Results:
    return {"A": lu(A)["A"], "x": np.linalg.solve(A, b)}


def trisolv(L: Array, b: Array) -> Results:
    return {"x": np.linalg.solve(np.tril(L), b)}


def deriche(alpha: float, imgIn: Array) -> Results:
    """In f64, from the recurrences; a pass filters the rows of its argument forth and back."""
    e = np.exp(-alpha)
    k = (1 - e) ** 2 / (1 + 2 * alpha * e - np.exp(2 * alpha))
    near, far, back, farther = k, k * e * (alpha - 1), k * e * (alpha + 1), -k * e * e
    b1, b2 = 2.0 ** -alpha, -e * e

    def both(x: Array) -> Array:
        zero = np.zeros(len(x))
        forth = _recurrence(near * x + far * np.column_stack([zero, x[:, :-1]]), b1, b2)
        after = back * np.column_stack([x[:, 1:], zero]) + farther * np.column_stack([x[:, 2:], zero, zero])
        return forth + _recurrence(after[:, ::-1], b1, b2)[:, ::-1]
    return {"imgOut": both(both(imgIn.astype(np.float64)).T).T}


def _recurrence(x: Array, b1: float, b2: float) -> Array:
    """y[:,j] = x[:,j] + b1*y[:,j-1] + b2*y[:,j-2]."""
    y = np.zeros((x.shape[1] + 2, len(x)))
    for j, column in enumerate(x.T):
        y[j + 2] = column + b1 * y[j + 1] + b2 * y[j]
    return y[2:].T


def floyd_warshall(path: Array) -> Results:
    path = path.copy()
    for k in range(len(path)):
        path = np.minimum(path, path[:, k, None] + path[k])
    return {"path": path}


def nussinov(seq: Array, table: Array) -> Results:
    """Along the anti-diagonals: pieces of length 2, 3 ..."""
    best, n = table.copy(), len(seq)
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            pair = best[i + 1, j - 1] + int(length > 1 and int(seq[i]) + int(seq[j]) == 3)
            cuts = best[i, i:j] + best[i + 1:j + 1, j]
            best[i, j] = max(best[i, j], pair, cuts.max())
    return {"table": best}


def adi(T: int, u: Array) -> Results:
    """Each sweep solves tridiagonal systems as dense ones."""
    n = len(u)
    u, step = u.copy(), (1.0 / T) / (1.0 / n) ** 2
    a, d = -2.0 * step / 2, -1.0 * step / 2
    columns, rows = _tridiagonal(n - 2, a, 1 - 2 * a), _tridiagonal(n - 2, d, 1 - 2 * d)
    for _ in range(T):
        right = -d * u[1:-1, :-2] + (1 + 2 * d) * u[1:-1, 1:-1] - d * u[1:-1, 2:]
        v = np.ones((n, n))
        v[1:-1, 1:-1] = _with_unit_ends(columns, right, a)
        right = (-a * v[:-2, 1:-1] + (1 + 2 * a) * v[1:-1, 1:-1] - a * v[2:, 1:-1]).T
        u[1:-1, 0] = u[1:-1, -1] = 1.0
        u[1:-1, 1:-1] = _with_unit_ends(rows, right, d).T
    return {"u": u}


def _tridiagonal(extent: int, beside: float, diagonal: float) -> Array:
    return np.linalg.inv(diagonal * np.eye(extent) + beside * (np.eye(extent, k=1) + np.eye(extent, k=-1)))


def _with_unit_ends(inverse: Array, right: Array, beside: float) -> Array:
    """The solutions, in columns, where both neighbours of the outermost unknowns are 1."""
    right = right.copy()
    right[0] -= beside
    right[-1] -= beside
    return inverse @ right


def fdtd_2d(fict: Array, ex: Array, ey: Array, hz: Array) -> Results:
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for source in fict:
        ey[0] = source
        ey[1:] -= 0.5 * np.diff(hz, axis=0)
        ex[:, 1:] -= 0.5 * np.diff(hz, axis=1)
        hz[:-1, :-1] -= 0.7 * (np.diff(ex, axis=1)[:-1] + np.diff(ey, axis=0)[:, :-1])
    return {"ex": ex, "ey": ey, "hz": hz}


def heat_3d(T: int, A: Array, B: Array) -> Results:
    A, B = A.copy(), B.copy()
    for _ in range(T):
        B[1:-1, 1:-1, 1:-1] = _heated(A)
        A[1:-1, 1:-1, 1:-1] = _heated(B)
    return {"A": A, "B": B}


def _heated(a: Array) -> Array:
    inner = a[1:-1, 1:-1, 1:-1]
    x, y, z = (np.diff(a, 2, axis=axis) for axis in range(3))
    return inner + 0.125 * (x[:, 1:-1, 1:-1] + y[1:-1, :, 1:-1] + z[1:-1, 1:-1])


def jacobi_1d(T: int, A: Array, B: Array) -> Results:
    A, B = A.copy(), B.copy()
    for _ in range(T):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])
    return {"A": A, "B": B}


def jacobi_2d(T: int, A: Array, B: Array) -> Results:
    A, B = A.copy(), B.copy()
    for _ in range(T):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[:-2, 1:-1] + B[2:, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:])
    return {"A": A, "B": B}


def seidel_2d(T: int, A: Array) -> Results:
    """A row at a time: what comes from the rows beside it and from the right, then the chain from the left."""
    A = A.copy()
    for _ in range(T):
        for i in range(1, len(A) - 1):
            beside = A[i - 1] + A[i + 1]
            known = (beside[:-2] + beside[1:-1] + beside[2:] + A[i, 1:-1] + A[i, 2:]).tolist()
            left = float(A[i, 0])
            for j, value in enumerate(known):
                known[j] = left = (value + left) / 9
            A[i, 1:-1] = known
    return {"A": A}


REFERENCES: dict[str, Callable[..., Results]] = {
    "correlation": correlation, "covariance": covariance,
    "2mm": two_products, "3mm": three_products, "atax": atax, "bicg": bicg, "doitgen": doitgen, "mvt": mvt,
    "gemm": gemm, "gemver": gemver, "gesummv": gesummv, "symm": symm, "syr2k": syr2k, "syrk": syrk, "trmm": trmm,
    "cholesky": cholesky, "durbin": durbin, "gramschmidt": gramschmidt, "lu": lu, "ludcmp": ludcmp, "trisolv": trisolv,
    "deriche": deriche, "floyd-warshall": floyd_warshall, "nussinov": nussinov,
    "adi": adi, "fdtd-2d": fdtd_2d, "heat-3d": heat_3d, "jacobi-1d": jacobi_1d, "jacobi-2d": jacobi_2d, "seidel-2d": seidel_2d,
}


def results(kernel: str, arguments: dict[str, Any]) -> Results:
    return REFERENCES[kernel](**arguments)
