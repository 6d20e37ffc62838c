"""Tuple reductions (argmin, argmax) against numpy, on every target."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polytc


def everywhere(text: str, targets: tuple[str, ...], **arrays: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """The outputs of the reference and of every target."""
    found = [polytc.evaluate(text, **arrays), *(polytc.run(text, target=t, **arrays) for t in targets)]
    return [tuple(f) if isinstance(f, (tuple, list)) else (f,) for f in found]


def sample(shape: tuple[int, ...], dtype: str = "f4", values: int = 5) -> np.ndarray:
    """Few different values, so that there are many ties."""
    return np.random.default_rng(len(shape)).integers(0, values, shape).astype(dtype)


@pytest.mark.part(12)
@pytest.mark.parametrize(("op", "dtype"), [
    *(("argmax", dtype) for dtype in ("f4", "f8", "f2", "i1", "i8")), ("argmin", "f4"), ("argmin", "u2"),
    pytest.param("argmax", "u2", marks=pytest.mark.long),
    *(pytest.param("argmin", dtype, marks=pytest.mark.long) for dtype in ("f8", "f2", "i1", "i8"))])
def test_the_lowest_index_wins(op: str, dtype: str, targets: tuple[str, ...]) -> None:
    x = sample((7, 70), dtype)
    for m, j in everywhere(f"(M[i], J[i]) {op}= (X[i,j], j)", targets, X=x):
        np.testing.assert_array_equal(m, getattr(np, op[3:])(x, 1))
        np.testing.assert_array_equal(j, getattr(np, op)(x, 1))
        assert (m.dtype, j.dtype) == (x.dtype, np.int64)


def test_columns_and_everything(targets: tuple[str, ...]) -> None:
    x = sample((9, 37), values=900)
    for m, j in everywhere("(M[j], J[j]) argmax= (X[i,j], i)", targets, X=x):
        np.testing.assert_array_equal(m, x.max(0))
        np.testing.assert_array_equal(j, x.argmax(0))
    for m, i, j in everywhere("(M, I, J) argmin= (X[i,j], i, j)", targets, X=x):
        assert (int(i), int(j)) == np.unravel_index(x.argmin(), x.shape)
        assert m == x.min()


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_the_first_nan_wins(op: str, targets: tuple[str, ...]) -> None:
    x = sample((6, 37))
    x[1, 20] = x[1, 30] = x[4, 0] = x[5, 36] = np.nan
    x[2, 3], x[2, 5] = np.inf, -np.inf
    x[3] = -np.inf if op == "argmax" else np.inf
    for m, j in everywhere(f"(M[i], J[i]) {op}= (X[i,j], j)", targets, X=x):
        np.testing.assert_array_equal(j, getattr(np, op)(x, 1))
        np.testing.assert_array_equal(m, getattr(np, op[3:])(x, 1))


def test_values_that_belong_to_the_winner(targets: tuple[str, ...]) -> None:
    """Any expression of any indices, and a deciding value that is computed: the winner is the one that was stored."""
    rng = np.random.default_rng(3)
    x, w, v = (rng.standard_normal(s).astype("f4") for s in ((5, 40, 6), (40,), (5, 6)))
    text = "(M[i], A[i], B[i], K[i]) argmax= (X[i,j,k]*w[j] + v[i,k], w[j]*v[i,k], X[i,j,0], k)"
    score = x * w[:, None] + v[:, None, :]
    at = score.reshape(5, -1).argmax(1)
    j, k = at // 6, at % 6
    i = np.arange(5)
    for m, a, b, got in everywhere(text, targets, X=x, w=w, v=v):
        np.testing.assert_allclose(m, score.max((1, 2)), rtol=1e-5)
        np.testing.assert_allclose(a, w[j] * v[i, k], rtol=1e-5)
        np.testing.assert_array_equal(b, x[i, j, 0])
        np.testing.assert_array_equal(got, k)


def test_ranges_suit_all_values(targets: tuple[str, ...]) -> None:
    x, w = sample((4, 9)), sample((6,), "i4", 100)
    for m, a in everywhere("v[j] = w[j]; (M[i], A[i]) argmax= (X[i,j], v[j]) -> (M, A)", targets, X=x, w=w):
        np.testing.assert_array_equal(m, x[:, :6].max(1))
        np.testing.assert_array_equal(a, w[x[:, :6].argmax(1)])


def test_where_no_instance_meets_an_element(targets: tuple[str, ...]) -> None:
    """It has the identity, and 0."""
    x, w = sample((6, 6), values=50), sample((6,), values=50) + 1
    for m, j, a in everywhere("(M[i], J[i], A[i]) argmax= (X[i,j], j, w[j]) where j < i, i % 2 == 1", targets, X=x, w=w):
        for row in range(1, 6):
            best = int(x[row, :row].argmax()) if row % 2 else None
            expected = (-np.inf, 0, 0) if best is None else (x[row, best], best, w[best])
            assert (m[row - 1], j[row - 1], a[row - 1]) == expected


def test_pooling_with_padding(targets: tuple[str, ...]) -> None:
    """`else identity` leaves instances out; the left side may be any place that several instances write."""
    x = sample((9, 9), values=50)
    text = ("(P[h,w], A[h,w]) argmax= ((X[2*h+r-1,2*w+s-1] else identity), 9*(2*h+r-1) + 2*w+s-1) "
            "where r in 0:3, s in 0:3, h in 0:5, w in 0:5")
    for p, a in everywhere(text, targets, X=x):
        for h, w in np.ndindex(5, 5):
            places = [(y, z) for y in range(2*h-1, 2*h+2) for z in range(2*w-1, 2*w+2) if 0 <= y < 9 and 0 <= z < 9]
            best = max(places, key=lambda q: (x[q], -q[0], -q[1]))
            assert (p[h, w], a[h, w]) == (x[best], 9 * best[0] + best[1])
    v = sample((12,), values=50)
    for p, a in everywhere("(P[i//3], A[i//3]) argmin= (v[i], i)", targets, v=v):
        np.testing.assert_array_equal(p, v.reshape(4, 3).min(1))
        np.testing.assert_array_equal(a, v.reshape(4, 3).argmin(1) + 3 * np.arange(4))


def test_in_programs(targets: tuple[str, ...]) -> None:
    """The outputs are what later statements do not read, the temporaries have names of their own."""
    x, m_at = sample((8, 5)), sample((5,))
    text = "(M[i], J[i]) argmax= (X[i,j], j); (M_at_[i], K[i]) argmin= (X[i,j]*M_at[j], j); Y[i] = X[i,J[i]] - M[i] -> (Y, K)"
    for y, k in everywhere(text, targets, X=x, M_at=m_at):
        assert not y.any()
        np.testing.assert_array_equal(k, (x * m_at).argmin(1))
    assert polytc.lower("(M[i], J[i]) argmax= (X[i,j], j)", shapes={"X": (2, 3)}).program.outputs == ("M", "J")
    op = "op ArgMax(X[*i, j]) -> J[*i] { (M[*i], J[*i]) argmax= (X[*i,j], j) }"
    np.testing.assert_array_equal(polytc.run(op, X=x.reshape(2, 4, 5)), x.reshape(2, 4, 5).argmax(2))


def test_rows_are_vectors() -> None:
    """Both passes run in vectors, rows in parallel."""
    module = polytc.lower("(M[i], J[i]) argmax= (X[i,j], j)", shapes={"X": (512, 512)}).loops
    text = str(module)
    assert re.search(r"max\(M\w*_lanes\w*\[", text), "lanes, of rows or of blocks of them"
    assert "select(((X[" in text
    assert all("parallel for" in str(k) for k in module.kernels[:2])


def test_in_called_definitions(targets: tuple[str, ...]) -> None:
    """Names and coordinates of the definition become those of the caller, in all components."""
    x, v = sample((6, 9)), sample((20,), "i8", 6)
    text = """
        def best(f32[M,N] A) -> (V, i) { (V[j], i[j]) argmin= (A[j,k], k) }
        def count(i64[N] b) -> (i64[6] H) { H[b[j]] += 1 }
        T[j,i] = X[j,i+1] * 2
        (L, K) = best(T)
        C = count(v)
        -> (L, K, C)"""
    for low, k, c in everywhere(text, targets, X=x, v=v):
        np.testing.assert_array_equal(low, 2 * x.min(1))
        np.testing.assert_array_equal(k, x.argmin(1))
        np.testing.assert_array_equal(c, np.bincount(v, minlength=6))


# ---- in loops

@pytest.mark.parametrize("left", ["argmax=!", "argmax="])
def test_each_iteration_starts_afresh(left: str, targets: tuple[str, ...]) -> None:
    x = sample((5, 40))
    text = f"for t in 0:5 {{ (M[t], J[t]) {left} (X[t,i], i) }}"
    for m, j in everywhere(text, targets, X=x):
        np.testing.assert_array_equal(m, x.max(1))
        np.testing.assert_array_equal(j, x.argmax(1))


@pytest.mark.long
def test_a_winner_of_terms_that_change_from_iteration_to_iteration(targets: tuple[str, ...]) -> None:
    text = """
        def f(f32[N,K] X) -> (S, W) {
            for t in 0:N {
                (m[i], j[i], w[i]) argmax=! (X[t,k] * X[i,k], k, X[t,k]) where k > i, k >= t
                S[t,i] = j[i]
                W[t,i] = w[i]
            }
        }"""
    x = np.random.default_rng(3).random((4, 9)).astype("f4")
    products = x[:, None, :] * x[None, :, :]
    k, t, i = np.arange(9), np.arange(4)[:, None, None], np.arange(4)[None, :, None]
    best = np.where((k > i) & (k >= t), products, -np.inf).argmax(2)
    for s, w in everywhere(text, targets, X=x):
        np.testing.assert_array_equal(s, best)
        np.testing.assert_array_equal(w, np.take_along_axis(x, best, 1))


def test_an_iteration_without_terms_has_the_identity(targets: tuple[str, ...]) -> None:
    x = sample((4, 4))
    text = "for t in 0:4 { (m, j) argmin=! (X[t,k], k + 1) where k < t; M[t] = m; J[t] = j }"
    for m, j in everywhere(text + " -> (M, J)", targets, X=x):
        np.testing.assert_array_equal(m, [np.inf, *(x[t, :t].min() for t in range(1, 4))])
        np.testing.assert_array_equal(j, [0, *(x[t, :t].argmin() + 1 for t in range(1, 4))])


def test_an_update_after_a_tuple_reduction_goes_on_from_it(targets: tuple[str, ...]) -> None:
    x = sample((3, 8))
    for m, j in everywhere("(M[i], J[i]) argmax= (X[i,k], k); M[i] += X[i,k] -> (M, J)", targets, X=x):
        np.testing.assert_array_equal(m, x.max(1) + x.sum(1))
        np.testing.assert_array_equal(j, x.argmax(1))


LU = """
    def lu(inout f64[N,N] A) -> (P) {
        for k in 0:N {
            (m, p) argmax=! (abs(A[i,k]), i) where i in k:N
            P[k] = p
            upper[j] = A[p,j];  lower[j] = A[k,j]
            A[p,j] = lower[j]
            A[k,j] = upper[j]
            A[i,k] = A[i,k] / A[k,k]            where i in k+1:N
            A[i,j] -= A[i,k] * A[k,j]           where i in k+1:N, j in k+1:N
        }
    }"""


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "expected"), [
    ("(M[i], J[i]) argmin= (x[i,k], k); J[i] += w[i] where i in 0:4 -> (J)", [4, 9, 11, 16]),
    ("(M[i], J[i]) argmin= (x[i,k], x[i,k] + 1); J[i] *= w[i] where i in 0:4 -> (J)", [2, 36, 0, 0]),
    ("(M[i+1], J[i+1]) argmin= (x[i,k], k); J[i] += w[i] where i in 0:4 -> (J)", [1, 9, 14, 16]),
    ("(M[i], J[i]) argmin= (x[i,k], k); J[i] = w[i] where i in 1:4 -> (J)", [3, 6, 11, 16]),
    ("(M[i], B[i]) argmax= (x[i,k], x[i,k] > 5); B[i] |= w[i] > 11 where i in 0:4 -> (B)", [False, True, False, True]),
    ("(M[i], J[i]) argmin= (x[i,k], k); M[i] min= w[i] where i in 0:4; Y[i] = M[i] + J[i] where i in 0:2 -> (Y)", [4, 8])])
def test_components_start_from_0_where_other_statements_go_on(text: str, expected: list[int], targets: tuple[str, ...]) -> None:
    """Their elements that no instance meets are 0, also those outside of the deciding tensor."""
    x, w = np.int32([[4, 3, 2, 1], [8, 7, 6, 5]]), np.int32([1, 6, 11, 16])
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, x=x, w=w, target=target), expected)


def test_what_another_statement_makes_larger(targets: tuple[str, ...]) -> None:
    x, y = sample((4, 6), "i1"), sample((9,), "i1")
    text = "def f(X, Y) -> (M, J) { (M[i], J[i]) argmax= (X[k,i], k); M[i] += Y[i] where i in 0:9 }"
    for target in targets:
        m, j = polytc.compile(text, target=target, dtypes={"X": "i8", "Y": "i8"})(x, y)
        np.testing.assert_array_equal(j, x.argmax(0))
        np.testing.assert_array_equal(m[:6], (x.max(0) + y[:6]).astype("i1"))


@pytest.mark.parametrize("subscript", ["2*k+t", "k+t", "4-k-t", "t, k+5"])
def test_a_component_that_may_read_out_of_bounds_is_refused_in_loops_too(subscript: str) -> None:
    statement = f"(M[t,i], V[t,i]) argmax= (X[t,i,k], W[{subscript}]) where k in 0:5"
    shapes = {"X": (3, 2, 5), "W": (3, 9) if "," in subscript else (6,)}
    for text in (f"{statement}, t in 0:3", f"for t in 0:3 {{ {statement} }}"):
        with pytest.raises(polytc.CompileError) as refusal:
            polytc.build(text, shapes)
        assert refusal.value.code == "E203"


def test_lu_with_partial_pivoting(targets: tuple[str, ...]) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    a = np.random.default_rng(5).random((7, 7))
    lu, pivots = linalg.lu_factor(a)
    for target in (*targets, "evaluate"):
        found = a.copy()
        np.testing.assert_array_equal(polytc.run(LU, found, target=target), pivots)
        np.testing.assert_allclose(found, lu, rtol=1e-10, atol=1e-12)
