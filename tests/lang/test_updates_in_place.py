"""Updates of single elements, `Z[i] *= W[i]`, `Z[i] /= W[i]`: numpy's in-place operators, on every target."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import polytc
from polytc.errors import ArgumentError, CompileError

R = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return R.uniform(1, 3, shape) * R.choice([-1, 1], shape)


def arrays(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return R.integers(0 if kind.kind == "u" else -90, 90, 19).astype(kind), R.integers(1, 7, 19).astype(kind)
    made = [floats(19) + (1j * floats(19) if kind.kind == "c" else 0) for _ in range(2)]
    return made[0].astype(kind), made[1].astype(kind)


NAMES = {"f4": "f32", "f8": "f64", "c8": "c64", "c16": "c128", "i1": "i8", "i4": "i32", "u2": "u16", "i8": "i64"}
OPERATORS = {"*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.mod, "<<": np.left_shift, ">>": np.right_shift,
             "-": np.subtract}


@pytest.mark.part(10)
@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("op", OPERATORS)
def test_as_numpy_does_it(op: str, dtype: str, targets: tuple[str, ...]) -> None:
    kind = np.dtype(dtype).kind
    if (op == "/" and kind in "iu") or (op in ("<<", ">>") and kind not in "iu") or (op in ("//", "%") and kind == "c"):
        pytest.skip("numpy refuses it, too")
    z, w = arrays(dtype)
    wanted = OPERATORS[op](z, w)
    for target in ("evaluate", *targets):
        found = z.copy()
        polytc.run(f"def f(inout {NAMES[dtype]}[N] Z, {NAMES[dtype]}[N] W) {{ Z[i] {op}= W[i] }}", found, w, target=target)
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if kind in "fc" else 0)


A, X = floats(5, 7).astype(np.float32), floats(5).astype(np.float32)
Z, V = (floats(5, 7) + 1j * floats(5, 7)).astype(np.complex64), (floats(5) + 1j * floats(5)).astype(np.complex64)
ROWS, PLACES = np.array([0, 2, 2, 5]), np.array([0, 3, 3, 1, 9])


def scattered(z: np.ndarray) -> np.ndarray:
    found = np.ones(5, z.dtype)
    for place, value in zip(PLACES[:4], z, strict=False):
        found[place] *= value
    return found


def diagonals(v: np.ndarray) -> np.ndarray:
    found = np.ones(9, v.dtype)
    for i in range(5):
        found[i:i + 5] *= v[i] + v
    return found


PRODUCTS: list[tuple[str, dict[str, Any], Any]] = [
    ("P[i] *= Z[i,k]", {"Z": Z}, Z.prod(1)), ("P *= Z[i,k]", {"Z": Z}, Z.prod()), ("P[k] *= Z[i,k]", {"Z": Z}, Z.prod(0)),
    ("P[i] *= Z[i,k] where k <= i", {"Z": Z}, np.array([Z[i, :i + 1].prod() for i in range(5)])),
    ("P[i] *= Z[i,k] where abs(Z[i,k]) > 2", {"Z": Z}, np.where(abs(Z) > 2, Z, 1).prod(1)),
    ("P[i] *= Z[i,k+1] else identity where i in 0:5, k in 0:7", {"Z": Z}, Z[:, 1:].prod(1)),
    ("H[q[i]] *= V[i] -> (c64[5] H)", {"V": V, "q": PLACES}, scattered(V)),
    ("P[i] *= V[p] where p in r[i]:r[i+1]", {"V": V, "r": ROWS}, np.array([V[a:b].prod() for a, b in pairwise(ROWS)])),
    ("D[i+k] *= V[i] + V[k]", {"V": V}, diagonals(V)),
    ("for t in 0:5 { P[j] *= Z[t,j]; Q[t,j] = P[j] } -> (Q)", {"Z": Z}, Z.cumprod(0)),
    ("for t in 0:5 { P *=! Z[t,j]; Q[t] = P } -> (Q)", {"Z": Z}, Z.prod(1)),
    ("acc(c128) P[i] *= Z[i,k]", {"Z": Z}, Z.prod(1)),
    ("precise def f(c64[I,K] Z) -> (P) { P[i] *= Z[i,k] }", {"Z": Z}, Z.prod(1)),
    ("T[i] = V[i]; T[i] *= Z[i,k]; T[i] += 1; T[i] /= 2j", {"V": V, "Z": Z}, (V * Z.prod(1) + 1) / 2j),
    ("def f(inout c64[N] V) { V[i] *= conj(V[i]) }", {"V": V}, V * V.conj()),
    ("S += X[i]; S /= X.shape[0]", {"X": X}, X.mean()),
    ("Y[i,k] = A[i,k]; Y[i,k] /= X[i] + 4 where k < 3", {"A": A, "X": X}, np.where(np.arange(7) < 3, A / (X[:, None] + 4), A)),
    ("Y[i] = X[i]; for k in 0:7 { Y[i] /= A[i,k] }", {"A": A, "X": X}, X / A.prod(1)),
    ("Y[i] = X[i]; Y[i] /= (A[i,k+1] else 2) where k = 6", {"A": A, "X": X}, X / 2)]


@pytest.mark.part(10)
@pytest.mark.parametrize(("text", "given", "wanted"), PRODUCTS, ids=[row[0] for row in PRODUCTS])
def test_programs(text: str, given: dict[str, np.ndarray], wanted: Any, targets: tuple[str, ...]) -> None:
    for target in ("evaluate", *targets):
        found = polytc.run(text, target=target, **{n: a.copy() for n, a in given.items()})
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=target)


def test_products_of_open_sizes() -> None:
    op = polytc.compile("def f(c64[M,K] A) -> (P) { P[i] *= A[i,k] }", symbolic=True)
    for shape in [(3, 4), (1, 1), (5, 7), (2, 0)]:
        a = (floats(*shape) + 1j * floats(*shape)).astype(np.complex64)
        np.testing.assert_allclose(op(a), a.prod(1), rtol=1e-4)


@pytest.mark.parametrize("op", ["+=", "-=", "*=", "/="])
def test_an_array_of_the_caller_that_bare_statements_update_is_answered_by_what_updates_it(op: str) -> None:
    z, w = floats(4).astype(np.float32), floats(4).astype(np.float32)
    with pytest.raises(ArgumentError, match="E401") as raised:
        polytc.run(f"Z[i] {op} W[i]", Z=z, W=w)
    cure = raised.value.notes[0].partition("`")[2].rstrip("`")
    assert cure == f"def f(inout f32[M] Z, f32[M] W) -> (Z) {{ Z[i] {op} W[i] }}"
    wanted = eval(f"z {op[0]} w")
    np.testing.assert_allclose(polytc.run(cure, Z=z, W=w), wanted, rtol=1e-6)


@pytest.mark.parametrize(("text", "given", "wanted"), [
    ("Z[u[i]] += W[i]", {"u": np.array([1, 1, 3])}, lambda z, w, u: z + np.bincount(u, w[:3], 4)),
    ("Z[i] += W[u[i]]", {"u": np.array([3, 2, 2, 0])}, lambda z, w, u: z + w[u]),
    ("Z[i] += a*W[i]*pi + i", {"a": 2.5}, lambda z, w, a: z + a * w * np.pi + np.arange(4))])
def test_what_the_answer_declares(text: str, given: dict[str, Any], wanted: Any) -> None:
    z, w = floats(4).astype(np.float32), floats(4).astype(np.float32)[:3 if text[1:3] == "[u" else 4]
    with pytest.raises(ArgumentError, match="E401") as raised:
        polytc.run(text, Z=z, W=w, **given)
    cure = raised.value.notes[0].partition("`")[2].rstrip("`")
    before = z.copy()
    np.testing.assert_allclose(polytc.run(cure, Z=z, W=w, **given), wanted(before, w, **given), rtol=1e-5)


def test_what_combines_nothing_reduces_nothing() -> None:
    with pytest.raises(CompileError, match="E112: `/=` does not reduce, and `k` is not on the left side"):
        polytc.build("Y[i] = X[i]; Y[i] /= A[i,k]", {"X": (5,), "A": (5, 7)})
