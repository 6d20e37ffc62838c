"""Programs with `for` loops as data: printed, canonical, evaluated; each against loops written in numpy here."""

from dataclasses import replace

import numpy as np
import pytest

from polytc import lang
from polytc.program import program as pr
from polytc.program.canonical import canonical
from polytc.program.scalars import I64
from tests import loop_statements as ls

RANDOM = np.random.default_rng(5)


def test_cholesky_is_that_of_numpy():
    a = RANDOM.standard_normal((7, 7))
    a = a @ a.T + 7 * np.eye(7)
    found = lang.evaluate(ls.cholesky(7), {"A": a})["A"]
    np.testing.assert_allclose(np.tril(found), np.linalg.cholesky(a), rtol=1e-12)
    assert (np.triu(found, 1) == np.triu(a, 1)).all()


def test_time_loop():
    x = RANDOM.random(9)
    found = lang.evaluate(ls.jacobi(5, 9), {"X": x})["X"]
    y = x.copy()
    for _ in range(5):
        y[1:-1] = 0.25 * (x[:-2] + x[1:-1] + x[2:])
        x[1:-1] = 0.25 * (y[:-2] + y[1:-1] + y[2:])
    np.testing.assert_allclose(found, x, rtol=1e-14)


def test_recurrence():
    x = RANDOM.random(11)
    np.testing.assert_allclose(lang.evaluate(ls.recurrence(11), {"X": x})["P"], np.cumsum(x), rtol=1e-14)


def test_nested_loops_run_in_order():
    x, z = RANDOM.random(6), RANDOM.random((5, 6))
    found = lang.evaluate(ls.nested(5, 6), {"X": x, "Z": z})
    y, before = np.zeros(5), z.copy()
    for t in range(5):
        y[t] = x[t]
        for u in range(t + 1):
            y[t] = y[t] * 0.5 + x[u]
            z[t, u] = y[t]
        x[t] += y[t]
    for name, expected in (("X", x), ("Y", y), ("Z", z)):
        np.testing.assert_allclose(found[name], expected, rtol=1e-14)
    assert (z[0, 1:] == before[0, 1:]).all()


def test_bounds_that_memory_decides():
    """y[i] += v[p] where p in r[i]:r[i+1]."""
    def row(e):
        return pr.Read("r", (e,), I64)
    s = ls.statement("S", "y", "i", "+", ls.read("v", "p"), [("i", 0, 3), ("p", 0, 6)])
    s = replace(s, bounds=(pr.Bound("p", row(pr.Index("i")), row(ls.plus("i", 1))),))
    tensors = (ls.tensor("v", 6), pr.Tensor("r", I64, (4,), (0,)), ls.tensor("y", 3))
    p = pr.Program("rows", tensors, (s,), ("v", "r", "y"), ("y",))
    assert "p in r[i]:r[i + 1]" in str(p)
    assert {r.tensor for r in pr.reads(s)} == {"v", "r"}
    v = RANDOM.random(6)
    found = lang.evaluate(p, {"v": v, "r": np.array([0, 2, 2, 5]), "y": np.ones(3)})["y"]
    np.testing.assert_allclose(found, [1 + v[:2].sum(), 1, 1 + v[2:5].sum()])


def test_print():
    assert str(ls.nested(5, 6)) == """\
def nested(inout f64[6] X, inout f64[5, 6] Z) -> (f64[6] X, f64[5] Y, f64[5, 6] Z) {
    L1: for t in 0:5 {
        S1: Y[t] = X[t]
        L2: for u in 0:6 {
            S2: Y[t] = Y[t] * 0.5 + X[u]  where u < t + 1
            S3: Z[t, u] = Y[t]  where u < t + 1
        }
        S4: X[t] += Y[t]
    }
}"""


def test_a_statement_that_misses_iterations_prints_its_own_range():
    s = [ls.statement(f"S{n}", "Y", "t", None, ls.number(n), [("t", n, 5)], (), ["L"]) for n in range(2)]
    text = str(pr.Program("p", (ls.tensor("Y", 5),), tuple(s), (), ("Y",)))
    assert "L: for t in 0:5 {\n        S0: Y[t] = 0\n        S1: Y[t] = 1  where t in 1:5" in text


def test_names_of_loops_do_not_count():
    p = ls.nested(5, 6)
    other = replace(p, statements=tuple(replace(s, loops=tuple({"L1": "out", "L2": "in_"}[x] for x in s.loops))
                                        for s in p.statements))
    assert canonical(p) == canonical(other)
    assert canonical(p, names=True) != canonical(other, names=True)


@pytest.mark.parametrize("change", [lambda s: (), lambda s: (s.name,), lambda s: (*s.loops, s.name)])
def test_which_loops_are_shared_does(change):
    p = ls.jacobi(3, 5)
    assert canonical(p) != canonical(replace(p, statements=tuple(replace(s, loops=change(s)) for s in p.statements)))


def test_the_tree_of_loops():
    outer, = pr.nested(ls.nested(3, 3).statements)
    first, inner, last = outer.body
    assert [x.name for x in (first, *inner.body, last)] == ["S1", "S2", "S3", "S4"]
    assert outer.statements == ls.nested(3, 3).statements
    assert [pr.common_loops(first, x) for x in (first, inner.body[0], last)] == [1, 1, 1]
    assert pr.common_loops(*inner.body) == 2
