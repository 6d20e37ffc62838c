"""Extents of 0: statements without instances, tensors without elements. numpy is the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.errors import CompileError
from polytc.poly.proofs import Proofs
from polytc.program.scalars import from_numpy
from tests.meaning.run import meaning

F, I = np.float32, np.int64


def a(*shape: int, dtype: Any = F) -> np.ndarray:
    """Small numbers, each another one."""
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype)


SOFTMAX = """op F(X[*i, j]) -> (Y[*i, j]) {
    M[*i] max= X[*i,j]; E[*i,j] = exp(X[*i,j] - M[*i]); S[*i] += E[*i,j]; Y[*i,j] = E[*i,j] / S[*i]
}"""
CHOLESKY = """def cholesky(inout f64[N,N] A) {
    for k in 0:N {
        A[k,k] = sqrt(A[k,k])
        A[i,k] = A[i,k] / A[k,k] where i in k+1:N
        A[i,j] -= A[i,k] * A[j,k] where i in k+1:N, j in k+1:i+1
    }
}"""
SPARSE = "y[i] += v[p] * x[col[p]] where p in r[i]:r[i+1]"

CASES: list[tuple[str, dict[str, Any], list[np.ndarray]]] = [
    # reductions over nothing give the identity
    ("s += A[i]", {"A": a(0)}, [np.zeros((), F)]),
    ("s += A[i]", {"A": a(0, dtype=np.float16)}, [np.zeros((), np.float16)]),
    ("s *= A[i]", {"A": a(0)}, [np.ones((), F)]),
    ("s max= A[i,j]", {"A": a(0, 3)}, [np.array(-np.inf, F)]),
    ("s max= A[i]", {"A": a(0, dtype=np.int32)}, [np.array(np.iinfo(np.int32).min, np.int32)]),
    ("s min= A[i]", {"A": a(0, dtype=np.uint8)}, [np.array(255, np.uint8)]),
    ("C[i,j] += A[i,k] * B[k,j]", {"A": a(3, 0), "B": a(0, 4)}, [a(3, 0) @ a(0, 4)]),
    ("C[i,j] += A[i,k] * B[k,j]", {"A": a(0, 3), "B": a(3, 4)}, [a(0, 3) @ a(3, 4)]),
    ("C[i,j] += A[i,k] * B[k,j]", {"A": a(3, 2), "B": a(2, 0)}, [a(3, 2) @ a(2, 0)]),
    ("C[i] = B[i]; C[i] += A[i,k]", {"B": a(3), "A": a(3, 0)}, [a(3)]),
    ("C[i] = B[i]; C[i] +=! A[i,k]", {"B": a(3), "A": a(3, 0)}, [np.zeros(3, F)]),
    ("S[i] += X[i,j] where i >= 1", {"X": a(3, 0)}, [np.zeros(2, F)]),
    ("O[i+j] += A[i] * B[j]", {"A": a(3), "B": a(0)}, [a(0)]),
    # results without elements
    ("C[i] = A[i] + 1", {"A": a(0)}, [a(0)]),
    ("C[i] = A[i] where i in 5:5", {"A": a(9)}, [a(0)]),
    ("T[i,j] = X[i,j] * 2; Y[i,j] = T[i,j] + 1; s += Y[i,j]", {"X": a(3, 0)}, [np.zeros((), F)]),
    ("D[i] = A[i+1] - A[i]", {"A": a(1)}, [a(0)]),
    ("(M[i], J[i]) argmax= (A[i,j], j)", {"A": a(0, 3)}, [a(0), a(0, dtype=I)]),
    ("O[i] = A[i]; O[i + A.shape[0]] = B[i]", {"A": a(0), "B": a(3)}, [a(3)]),
    ("O[i] = A[i]; O[i+4] = B[i]", {"A": a(4), "B": a(0)}, [a(4)]),
    (SOFTMAX, {"X": a(2, 0)}, [a(2, 0)]),
    (SOFTMAX, {"X": a(0, 2, 3)}, [a(0, 2, 3)]),
    ("Y = softmax(X)", {"X": a(2, 0)}, [a(2, 0)]),
    # reads of tensors without elements
    ("C[i] = (A[i] else 7) where i in 0:3", {"A": a(0)}, [np.full(3, 7, F)]),
    ("C[i] += (A[i] else identity) * B[i]", {"A": a(0), "B": a(3)}, [np.zeros(3, F)]),
    ("T[i] = A[i]; C[i] = (T[i] else 7) + B[i]", {"A": a(0), "B": a(3)}, [a(3) + 7]),
    ("O[b,d] += (T[I[b,k], d] else 2)", {"T": a(0, 4), "I": a(2, 3, dtype=I)}, [np.full((2, 4), 6, F)]),
    ("O[b,d] += T[I[b,k], d]", {"T": a(0, 4), "I": a(2, 0, dtype=I)}, [np.zeros((2, 4), F)]),
    # scatters, ranges in memory
    ("H[b[i]] += 1 -> (i64[10] H)", {"b": a(0, dtype=I)}, [np.zeros(10, I)]),
    ("H[b[i]] += 1 -> (i64[0] H)", {"b": a(5, dtype=I)}, [a(0, dtype=I)]),
    (SPARSE, {"v": a(0), "col": a(0, dtype=I), "r": np.zeros(4, I), "x": a(5)}, [np.zeros(3, F)]),
    (SPARSE, {"v": a(0), "col": a(0, dtype=I), "r": np.zeros(1, I), "x": a(5)}, [a(0)]),
    # loops
    ("for t in 0:X.shape[0] { P[t] = (P[t-1] else 0) + X[t] }", {"X": a(0)}, [a(0)]),
    ("for t in 3:0 { P[t] = X[t] }", {"X": a(5)}, [a(0)]),
    ("for t in 0:X.shape[0] { a += X[t,i]; S[t] = a }", {"X": a(0, 3)}, [a(0)]),
    ("for t in 0:X.shape[0] { b +=! X[t,i]; S[t] = b }", {"X": a(3, 0)}, [np.zeros(3, F)]),
    ("A[i] = X[i]\nfor t in 0:N.shape[0] { B[i] = A[i] * 2; A[i] = B[i] }\nY[i] = A[i] + N.shape[0]",
     {"X": a(4), "N": a(0)}, [a(4)]),
    (CHOLESKY, {"A": np.zeros((0, 0))}, [np.zeros((0, 0))]),
    (CHOLESKY, {"A": np.full((1, 1), 4.0)}, [np.full((1, 1), 2.0)]),
    ("def f(inout f32[N] A, f32[N,K] B) { A[i] += B[i,k] }", {"A": a(3), "B": a(3, 0)}, [a(3)]),
    ("def f(inout f32[N] A, f32[N,K] B) { A[i] += B[i,k] }", {"A": a(0), "B": a(0, 3)}, [a(0)]),
]
IDS = [f"{t.splitlines()[0][:50]} {[x.shape for x in g.values()]}" for t, g, _ in CASES]


def equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in expected]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.part(10)
@pytest.mark.parametrize(("text", "given", "expected"), CASES, ids=IDS)
def test_programs_without_elements(text: str, given: dict[str, Any], expected: list[np.ndarray],
                                   targets: tuple[str, ...]) -> None:
    for target in (*targets, "evaluate"):
        found = polytc.run(text, target=target, **{n: x.copy() for n, x in given.items()})
        equal([found] if isinstance(found, np.ndarray) else list(found), expected)


@pytest.mark.parametrize(("text", "given", "expected"), CASES, ids=IDS)
def test_the_second_meaning_agrees(text: str, given: dict[str, Any], expected: list[np.ndarray]) -> None:
    found = meaning(text, {n: x.copy() for n, x in given.items()})
    equal([x for x, _ in found.values()], expected)


@pytest.mark.parametrize(("text", "given", "expected"), CASES, ids=IDS)
def test_they_print_as_what_parses_to_them(text: str, given: dict[str, Any], expected: list[np.ndarray]) -> None:
    types = {n: from_numpy(x.dtype) for n, x in given.items()}
    shapes = {n: x.shape for n, x in given.items()}
    p = lang.build(text, shapes, types, prover=Proofs())
    assert str(lang.build(str(p), shapes, types, prover=Proofs())) == str(p)


OPEN = [
    ("def f(f32[M,K] A, f32[K,N] B) -> (C) { C[i,j] += A[i,k] * B[k,j] }", ("M", "K"), ("K", "N"), lambda x, y: x @ y),
    ("def f(f32[M,K] A, f32[M,N] B) -> (C) { S[i] max= A[i,k]; C[i,j] = B[i,j] + (S[i] > 0 ? 1 : 0) }", ("M", "K"), ("M", "N"),
     lambda x, y: y + (x.max(1, initial=-np.inf, keepdims=True) > 0)),
    ("def f(f32[M,K] A, f32[M,N] B) -> (C) { T[i] += A[i,k]\nfor t in 0:N { C[i,t] = (C[i,t-1] else 0) + B[i,t] + 0*T[i] } }",
     ("M", "K"), ("M", "N"), lambda x, y: np.cumsum(y, 1)),
]


@pytest.mark.part(3)
@pytest.mark.parametrize(("text", "left", "right", "oracle"), OPEN, ids=["product", "maximum", "scan"])
@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_open_sizes_may_be_0(text: str, left: tuple[str, str], right: tuple[str, str], oracle: Any, target: str) -> None:
    op = polytc.compile(text, symbolic=True, target=target)
    for m, k, n in ((0, 2, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0), (1, 1, 1), (2, 3, 4), (2, 0, 3)):
        at = {"M": m, "K": k, "N": n}
        x, y = a(*(at[d] for d in left)), a(*(at[d] for d in right))
        np.testing.assert_array_equal(op(x, y), oracle(x, y).astype(F))


REFUSED = [
    ("E202", "(M[i], J[i]) argmax= (A[i,j], j)", {"A": (3, 0)}),
    ("E202", "for t in 0:A.shape[0] { (m, j) argmin=! (A[t,i], i); S[t] = j }", {"A": (3, 0)}),
    ("E202", "(m, j) argmax= ((A[i] else identity), i) where i in 0:3", {"A": (0,)}),
    ("E202", "O[i] += A[i+k] * B[k]", {"A": (3,), "B": (5,)}),
    ("E201", "O[i] += A[i+k] * B[k]", {"A": (3,), "B": (0,)}),
    ("E203", "O[i] = A[i] where i in 0:3", {"A": (0,)}),
    ("E203", "def f(inout f32[N] A, f32[M] B) { A[i] = B[i] where i in 0:M }", {"A": (0,), "B": (3,)}),
    ("E203", "def f(inout f32[N] A, f32[M] B) { for t in 0:M { A[t] += B[t] } }", {"A": (0,), "B": (3,)}),
    ("E203", "def f(inout f32[N,2] A, f32[M] B) { for t in 0:M { A[t,0] +=! B[k] where k in 0:t+1 } }",
     {"A": (0, 2), "B": (3,)}),
    ("E207", "O[i] = A[i] + B[i]", {"A": (0,), "B": (3,)}),
    ("E214", "for t in 0:A.shape[0] { O[i] = B[i] }", {"A": (0,), "B": (3,)}),
    ("E214", "for t in 0:A.shape[0] { m = A[t] } -> (m)", {"A": (0,)}),
]


@pytest.mark.parametrize(("code", "text", "shapes"), REFUSED, ids=[f"{c} {t}" for c, t, _ in REFUSED])
def test_what_has_no_value_is_refused(code: str, text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(CompileError) as e:
        polytc.run(text, **{n: a(*s) for n, s in shapes.items()})
    assert e.value.code == code


@pytest.mark.parametrize("spec", ["ij,jk->ik", "ij,jk,kl->il", "ij->i", "ii->", "...i,i->..."])
def test_einsum(spec: str) -> None:
    sides = spec.split("->")[0].split(",")
    for zero in sorted(set("".join(sides)) - {"."}):
        extents = {c: 0 if c == zero else 3 for c in "ijkl"}
        given = [a(*(extents[c] for c in s.replace("...", "j"))) for s in sides]
        np.testing.assert_array_equal(polytc.einsum(spec, *given), np.einsum(spec, *given))


@pytest.mark.parametrize("text", ["A[i] = 2*A[i]", "A[i] = 2*B[0]", "for t in 0:A.shape[0] { A[t] = B[t] }",
                                  "A[I[k]] += B[k]", "for t in 0:M { A[x] = B[t] where x in t:A.shape[0] }"])
def test_an_array_without_elements_may_be_written_where_it_has_none(text: str) -> None:
    found = polytc.compile(f"def f(inout f32[N] A, f32[M] B, i32[M] I) {{ {text} }}")(a(0), a(3), np.zeros(3, np.int32))
    assert found.shape == (0,)


def test_constants_and_given_results() -> None:
    layer = polytc.compile("Y[n,m] += X[n,k] * W[m,k]", constants={"W": a(4, 0)})
    np.testing.assert_array_equal(layer(a(3, 0)), np.zeros((3, 4), F))
    layer = polytc.compile("Y[n,m] += X[n,k] * W[m,k]", constants={"W": a(0, 4)})
    assert layer(a(3, 4)).shape == (3, 0)
    out = np.full((3, 2), 7, F)
    assert polytc.compile("C[i,j] += A[i,k] * B[k,j]")(a(3, 0), a(0, 2), out=out) is out
    assert not out.any()
    assert polytc.compile("C[i] = A[I[i]]", checked=True)(a(5), a(0, dtype=I)).shape == (0,)


@pytest.mark.parametrize("schedule", [None, "isl", "program", "min", "max"])
def test_schedules(schedule: str | None) -> None:
    assert polytc.compile("C[i] = A[i] + 1", schedule=schedule)(a(0)).shape == (0,)
    np.testing.assert_array_equal(polytc.compile("S[i] += A[i,j]", schedule=schedule)(a(3, 0)), np.zeros(3, F))
