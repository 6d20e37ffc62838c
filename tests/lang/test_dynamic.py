"""Ranges and conditions that memory decides, against numpy, on every target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import polytc
from polytc import compiler
from polytc.codegen import loops, traverse
from polytc.lang import build
from tests.lang.test_tuples import everywhere
from tests.test_programs import check

RNG = np.random.default_rng(11)
SPMV = "y[i] += v[p]*x[col[p]] where p in rp[i]:rp[i+1]"


def csr(rows: int, columns: int) -> dict[str, np.ndarray]:
    """A random sparse matrix with empty rows, in compressed rows."""
    lengths = RNG.integers(0, 7, rows) * RNG.integers(0, 2, rows)
    rp = np.concatenate([[0], lengths.cumsum()]).astype("i4")
    return {"v": RNG.standard_normal(rp[-1]), "col": RNG.integers(0, columns, rp[-1]).astype("i4"), "rp": rp}


def dense(a: dict[str, np.ndarray], columns: int) -> np.ndarray:
    """The same as a dense matrix."""
    out = np.zeros((len(a["rp"]) - 1, columns))
    for i in range(len(out)):
        for p in range(a["rp"][i], a["rp"][i + 1]):
            out[i, a["col"][p]] += a["v"][p]
    return out


def test_sparse_times_dense(targets: tuple[str, ...]) -> None:
    a = csr(40, 30)
    x, m = RNG.standard_normal(30), RNG.standard_normal((30, 21))
    for (y,) in everywhere(SPMV, targets, x=x, **a):
        np.testing.assert_allclose(y, dense(a, 30) @ x, atol=1e-12)
    for (y,) in everywhere("Y[i,j] += v[p]*M[col[p], j] where p in rp[i]:rp[i+1]", targets, M=m, **a):
        np.testing.assert_allclose(y, dense(a, 30) @ m, atol=1e-12)
    for (y,) in everywhere("Y[col[p]] += v[p]*z[i] where p in rp[i]:rp[i+1] -> (f64[30] Y)", targets, z=np.arange(40.0), **a):
        np.testing.assert_allclose(y, np.arange(40.0) @ dense(a, 30), atol=1e-12)


def test_other_reductions_and_what_surrounds_them(targets: tuple[str, ...]) -> None:
    """A softmax over the rows, its largest elements and where they stand."""
    a = csr(25, 9)
    text = """
        M[i] max= v[p] where p in rp[i]:rp[i+1]
        S[i] += exp(v[p] - M[i]) where p in rp[i]:rp[i+1]
        Y[i] = M[i] > -1000 ? M[i] + log(S[i]) : 0
        (B[i], C[i]) argmax= (v[p], col[p]) where p in rp[i]:rp[i+1]
        -> (Y, C)"""
    for y, c in everywhere(text, targets, v=a["v"], col=a["col"], rp=a["rp"]):
        for i in range(25):
            row = slice(a["rp"][i], a["rp"][i + 1])
            if row.start == row.stop:
                assert (y[i], c[i]) == (0, 0)
            else:
                np.testing.assert_allclose(y[i], np.log(np.exp(a["v"][row]).sum()), rtol=1e-12)
                assert c[i] == a["col"][row][a["v"][row].argmax()]


def test_bounds_are_clamped_to_what_can_be_read(targets: tuple[str, ...]) -> None:
    v = np.arange(10.0)
    low, high = np.array([-5, 3, 8, 6, 2]), np.array([2, 3, 1 << 40, 5, -(1 << 62)])
    expected = [v[max(0, a):max(0, b)].sum() for a, b in zip(low, high, strict=True)]
    for (y,) in everywhere("y[i] += v[p] where p in low[i]:high[i]", targets, v=v, low=low, high=high):
        np.testing.assert_array_equal(y, expected)


def test_one_end_in_memory_and_steps(targets: tuple[str, ...]) -> None:
    n, x = np.array([3, 0, 5, 1]), RNG.integers(0, 9, (4, 6))
    for (y,) in everywhere("y[i] += X[i,j] where j in 1:n[i]", targets, X=x, n=n):
        np.testing.assert_array_equal(y, [x[i, 1:n[i]].sum() for i in range(4)])
    for (y,) in everywhere("y[i] += X[i,j] where j in n[i]:6:2", targets, X=x, n=n):
        np.testing.assert_array_equal(y, [x[i, n[i]::2].sum() for i in range(4)])
    for (y,) in everywhere("y[i] += j where j in 0:n[i], j in 0:100", targets, n=n):
        np.testing.assert_array_equal(y, [sum(range(k)) for k in n])
    for (y,) in everywhere("y[i] += X[i,j]*X[i,k] where j in 0:n[i], k in j:n[i]", targets, X=x, n=n):
        np.testing.assert_array_equal(y, [np.triu(np.outer(r[:k], r[:k])).sum() for r, k in zip(x, n, strict=True)])


def test_assignments(targets: tuple[str, ...]) -> None:
    """What no instance writes stays; where ranges overlap, the last one in the order of the indices wins."""
    rp = np.array([0, 3, 3, 7, 5, 9])
    expected = np.full(12, -1)
    for i in range(5):
        expected[rp[i]:rp[i + 1]] = i
    for (r,) in everywhere("r[p] = -1 where p in 0:12; r[p] = i where p in rp[i]:rp[i+1]", targets, rp=rp):
        np.testing.assert_array_equal(r, expected)
    for (r,) in everywhere("r[p] = -1 where p in 0:12; r[p] = i where i in 0:5, p in rp[i]:rp[i+1]", targets, rp=rp):
        last = np.full(12, -1)
        for p in range(12):
            for i in range(5):
                last[p] = i if rp[i] <= p < rp[i + 1] else last[p]
        np.testing.assert_array_equal(r, last)


def test_conditions_on_values(targets: tuple[str, ...]) -> None:
    x, m = RNG.standard_normal((12, 33)).astype("f4"), RNG.integers(0, 2, (12, 33))
    x[0, m[0] == 0] = np.nan
    for (y,) in everywhere("y[i] += X[i,j] where m[i,j] > 0", targets, X=x, m=m):
        np.testing.assert_allclose(y, np.where(m > 0, x, 0).sum(1), rtol=1e-5, atol=1e-5)
    for (y,) in everywhere("y[i] max= X[i,j] where m[i,j] == 0, i in 1:12, j <= 2*i", targets, X=x, m=m):
        allowed = (m == 0) & (np.arange(33) <= 2 * np.arange(12)[:, None])
        np.testing.assert_array_equal(y, np.where(allowed, x, -np.inf).max(1)[1:])
    for (y,) in everywhere("Y[i,j] = X[i,j]; Y[i,j] = f32(0) where isnan(X[i,j]) || m[i,j] > 0", targets, X=x, m=m):
        np.testing.assert_array_equal(y, np.where(np.isnan(x) | (m > 0), 0, x))
    for a, j in everywhere("(A[i], J[i]) argmin= (X[i,j], j) where m[i,j] > 0, i in 1:12", targets, X=x, m=m):
        np.testing.assert_array_equal(a, np.where(m > 0, x, np.inf)[1:].min(1))
        np.testing.assert_array_equal(j, np.where(m > 0, x, np.inf)[1:].argmin(1))


def test_what_a_condition_excludes_does_not_happen(targets: tuple[str, ...]) -> None:
    """No division by zero, no read at a place that is none, no write."""
    d, at, x = np.array([0, 3, 0, 2, 5]), np.array([2, -1, 99, 0, 1]), np.arange(5) + 10
    for (q,) in everywhere("q += 100 // d[i] + 100 % d[i] where d[i] != 0", targets, d=d):
        assert q == sum(100 // k + 100 % k for k in d if k)
    for (y,) in everywhere("y += x[at[i]] where at[i] >= 0 && at[i] < 5, x[at[i]] != 10", targets, x=x, at=at):
        assert y == 12 + 11
    for (h,) in everywhere("h[k] = 0 where k in 0:5; h[at[i]] = x[i] where x[i] % 2 == 0", targets, x=x, at=at):
        assert h.tolist() == [0, 14, 10, 0, 0]
    for (h,) in everywhere("h[k] = 0 where k in 0:5; h[d[i]] = x[i] where x[i] < 12", targets, x=x, d=d):
        assert h.tolist() == [10, 0, 0, 11, 0]


SWEEP = """
    def sweep(inout f64[N] x, f64[N] b, f64[K] v, i64[K] col, i64[M] rp) -> (x) {
        for i in 0:N {
            t[i] = b[i]
            t[i] += -(v[p]*x[col[p]]) where p in rp[i]:rp[i+1]
            x[i] = t[i]
        }
    }"""
"""Gauss and Seidel's iteration for a sparse matrix with ones on its diagonal, which are not stored."""

IN_LOOP = """
    def f(inout f64[N] x, f64[N] b, f64[K] v, i64[K] col, i64[M] rp) -> (x) {
        for i in 0:N {
            x[i] = b[i]
            for p in rp[i]:rp[i+1] { x[i] += -(v[p]*x[col[p]]) where col[p] != i }
        }
    }"""


def test_in_loops(targets: tuple[str, ...]) -> None:
    """Sparse rows inside of a `for`, and as the range of one."""
    a = csr(30, 30)
    b, x = RNG.standard_normal(30), RNG.standard_normal(30)
    inputs = {"b": b, "v": 0.1 * a["v"], "col": a["col"].astype("i8"), "rp": a["rp"].astype("i8")}
    for text, others in ((SWEEP, False), (IN_LOOP, True)):
        expected = x.copy()
        for i in range(30):
            total = b[i]
            for p in range(a["rp"][i], a["rp"][i + 1]):
                if not (others and a["col"][p] == i):
                    total -= inputs["v"][p] * expected[a["col"][p]]
            expected[i] = total
        np.testing.assert_allclose(polytc.evaluate(text, x=x.copy(), **inputs), expected)
        for target in targets:
            np.testing.assert_allclose(polytc.run(text, target=target, x=x.copy(), **inputs), expected)


def test_scatters_and_conditions_in_loops(targets: tuple[str, ...]) -> None:
    text = """
        def f(inout i64[K] h, i64[T,N] b, i64[T,N] m) -> (h) {
            for t in 0:T {
                h[b[t,i]] += t where m[t,i] > 0
                h[k] = h[k] * 2 where h[k] < 50
            }
        }"""
    b, m, start = RNG.integers(-1, 8, (4, 30)), RNG.integers(0, 2, (4, 30)), np.arange(7)
    h = start.copy()
    for t in range(4):
        inside = (m[t] > 0) & (b[t] >= 0) & (b[t] < 7)
        np.add.at(h, b[t][inside], t)
        h = np.where(h < 50, 2 * h, h)
    np.testing.assert_array_equal(polytc.evaluate(text, h=start.copy(), b=b, m=m), h)
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, target=target, h=start.copy(), b=b, m=m), h)


def loop_kinds(text: str, **arrays: np.ndarray) -> list[tuple[str, bool]]:
    """(kind, whether a bound is loaded) of each loop."""
    module = polytc.lower(text, shapes={n: a.shape for n, a in arrays.items()},
                          dtypes={n: {"f8": "f64", "i4": "i32", "i8": "i64"}[a.dtype.str[1:]] for n, a in arrays.items()}).loops
    found = [s for k in module.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, loops.For)]
    return [(s.kind, bool(traverse.loads(s.lower) and traverse.loads(s.upper))) for s in found]


def test_loops_run_over_what_there_is() -> None:
    """No scan over the box: rows in parallel, and the loop of a row has the row's bounds."""
    a = {"v": np.zeros(200000), "x": np.zeros(5000), "col": np.zeros(200000, "i4"), "rp": np.zeros(10001, "i4")}
    assert loop_kinds(SPMV, **a) == [("parallel", False), ("sequential", True)]
    del a["x"]
    many = loop_kinds("Y[i,j] += v[p]*M[col[p],j] where p in rp[i]:rp[i+1]", M=np.zeros((5000, 16)), **a)
    assert ("sequential", True) in many
    assert ("parallel", False) in many
    rows = {"b": np.zeros(500), "col": np.zeros(9000, "i8"), "rp": np.zeros(501, "i8"), "v": np.zeros(9000), "x": np.zeros(500)}
    for text in (SWEEP, IN_LOOP):
        assert loop_kinds(text, **rows) == [("sequential", False), ("sequential", True)]
    text = str(polytc.lower(SPMV, shapes={"v": (99,), "x": (9,), "col": (99,), "rp": (9,)},
                            dtypes={"col": "i32", "rp": "i32"}).loops)
    assert "y_r[0] = (y_r[0] + " in text  # the sum of a row is in a register


def test_large_and_parallel() -> None:
    """100 000 rows take a fraction of a second, compilation included."""
    rp = np.concatenate([[0], RNG.integers(0, 20, 100_000).cumsum()])
    v, col, x = RNG.standard_normal(rp[-1]), RNG.integers(0, 100_000, rp[-1]), RNG.standard_normal(100_000)
    y = polytc.run(SPMV, v=v, x=x, col=col, rp=rp, threads=2)
    rows = np.repeat(np.arange(100_000), np.diff(rp))
    np.testing.assert_allclose(y, np.bincount(rows, v * x[col], 100_000), atol=1e-10)


SETTINGS = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture],
                    phases=[Phase.explicit, Phase.generate])  # each example compiles several times: shrinking takes minutes


@SETTINGS
@given(data=st.data())
def test_random_programs(data: st.DataObject, targets: tuple[str, ...]) -> None:
    made_up(data, targets)


@pytest.mark.long
@settings(SETTINGS, max_examples=150)
@given(data=st.data())
def test_many_random_programs(data: st.DataObject, targets: tuple[str, ...]) -> None:
    made_up(data, targets)


def made_up(data: st.DataObject, targets: tuple[str, ...]) -> None:
    """Ranges, conditions and scatters together, before and after other statements; under other schedules too."""
    clauses = data.draw(st.lists(st.sampled_from([
        "p in r[i]:r[i+1]", "p in 2:r[i]", "p in r[i]:r[j]", "m[i,p] > 3", "p <= 2*i", "r[p] != r[i]", "x[i,j] > 0"]),
        min_size=1, max_size=3, unique=True))
    left, op = data.draw(st.sampled_from([("Y[i]", "+="), ("Y[j,i]", "max="), ("Y[r[i],j]", "+="), ("Y[r[p]]", "min="),
                                          ("Y[i,p]", "="), ("Y[i,r[p]]", "=")]))
    value = data.draw(st.sampled_from(["x[i,p]", "x[i,j]*m[i,p]", "m[i,p] + p"])) if op != "=" else "x[i,p] + i"
    clauses = [c for c in clauses if op != "=" or "j" not in c]
    dims = ["i in 0:9", "p in 0:9"] + (["j in 0:7"] if "j" in f"{left}{value}{clauses}" else [])
    rank = left.count(",") + 1
    start = f"Y[{', '.join('abc'[:rank])}] = 1.0 where {', '.join(f'{c} in 0:12' for c in 'abc'[:rank])}"
    tail = data.draw(st.sampled_from(["", f"; Z[a] += Y[{', '.join('abc'[:rank])}]"]))
    text = f"{start}; {left} {op} f64({value}) where {', '.join([*dims, *clauses])}{tail}"
    program = build(text, {"x": (12, 12), "m": (12, 12), "r": (13,)}, {"x": "f64", "m": "i64", "r": "i64"})
    for target in targets:
        check(program, target)
    check(program, "cpu", data.draw(st.sampled_from(["program", "isl"])))


@pytest.mark.parametrize("schedule", [None, "program", "isl"])
def test_schedules(schedule: str | None) -> None:
    program = build(SPMV, {"v": (90,), "x": (10,), "col": (90,), "rp": (21,)}, {"col": "i64", "rp": "i64"})
    assert "refused" not in compiler.lower_program(program, "cpu", schedule).schedule.how
    check(program, "cpu", schedule, threads=2)
