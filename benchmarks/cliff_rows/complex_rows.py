"""Complex vectors and matrices: sums, element-wise products, products with transposed and conjugated operands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import polytc
from cliff_rows import Row, Run, floats


def rows(threads: int) -> Iterator[Row]:
    """All of them, of both types."""
    for name in ("complex64", "complex128"):
        yield from _vectors(name, threads)
        yield from _matrices(name, threads)


def numbers(*shape: int, dtype: str, seed: int = 7) -> np.ndarray:
    """Complex random numbers."""
    return (floats(*shape, seed=seed) + 1j * floats(*shape, seed=seed + 100)).astype(dtype)


def _row(name: str, text: str, threads: int, arrays: dict[str, np.ndarray], peer: Run) -> Row:
    op, kind = polytc.compile(text, threads=threads), next(iter(arrays.values())).dtype.name
    return Row(f"{name}, {kind}", lambda: parts(op(**arrays)), {"numpy": lambda: parts(peer())}, 1.2)


def parts(a: Any) -> np.ndarray:
    """A complex array as a real one, of the same memory."""
    whole = np.atleast_1d(a)
    return whole.view(whole.real.dtype)


def _vectors(kind: str, threads: int) -> Iterator[Row]:
    z, w, v = (numbers(100_000, dtype=kind, seed=k) for k in range(3))
    two = {"Z": z, "W": w}
    yield _row("s += conj(Z)*W, 1e5", "s += conj(Z[i])*W[i]", threads, two, partial(np.vdot, z, w))
    yield _row("s += Z*W, 1e5", "s += Z[i]*W[i]", threads, two, partial(np.dot, z, w))
    yield _row("Z*W, 1e5", "Y[i] = Z[i]*W[i]", threads, two, partial(np.multiply, z, w))
    yield _row("Z*W + V, 1e5", "Y[i] = Z[i]*W[i] + V[i]", threads, {**two, "V": v}, lambda: z * w + v)
    yield _row("exp(Z), 1e5", "Y[i] = exp(Z[i])", threads, {"Z": z}, partial(np.exp, z))
    unit, own = np.exp(1j * np.angle(w)).astype(kind), numbers(100_000, dtype=kind)
    short = "c64" if kind == "complex64" else "c128"
    turn = polytc.compile(f"def turn(inout {short}[N] Z, {short}[N] W) {{ Z[i] = Z[i]*W[i] }}", threads=threads)
    peer = partial(np.multiply, z, unit, out=z)
    yield Row(f"Z = Z*W in place, 1e5, {kind}", lambda: turn(Z=own, W=unit), {"numpy": peer}, 1.2, compared=False)


def _matrices(kind: str, threads: int) -> Iterator[Row]:
    a, x, y = numbers(200, 500, dtype=kind), numbers(500, dtype=kind, seed=1), numbers(200, dtype=kind, seed=2)
    yield _row("rows of A, 200x500", "S[i] += A[i,j]", threads, {"A": a}, partial(a.sum, 1))
    yield _row("A x, 200x500", "Y[i] += A[i,j]*x[j]", threads, {"A": a, "x": x}, partial(np.dot, a, x))
    yield _row("A' x, 200x500", "Y[j] += A[i,j]*x[i]", threads, {"A": a, "x": y}, partial(np.dot, y, a))
    b, c = numbers(256, 256, dtype=kind), numbers(256, 256, dtype=kind, seed=3)
    both = {"A": b, "B": c}
    yield _row("A B, 256", "C[i,j] += A[i,k]*B[k,j]", threads, both, partial(np.dot, b, c))
    yield _row("A B', 256", "C[i,j] += A[i,k]*B[j,k]", threads, both, partial(np.dot, b, c.T))
    yield _row("A^H B, 256", "C[i,j] += conj(A[k,i])*B[k,j]", threads, both, lambda: b.conj().T @ c)
