"""Rows of constant matrices times terms: what they are, how they print, and what is left of them in loops."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from polytc.codegen import loops, traverse
from polytc.compiler import compile_program, lower_program
from polytc.decisions import Record
from polytc.explanation.costs import costs
from polytc.machine import AVX2
from polytc.program import evaluator
from polytc.program import program as pr
from polytc.program.calls import matrix_rows
from polytc.program.scalars import F32, F64, I32, I64
from polytc.schedule.cost import parallel_profitability, program_time
from polytc.stages import build

MATRIX = ((1, 0, Fraction(-3, 2), 0), (0, 1, 2, 0), (Fraction(-1, 4), Fraction(5, 8), 0, -1), (0, 0, 0, 0))
TEXT = "Y[u,i] = X[i,0] + X[i,1] + X[i,2] + X[i,3] where u in 0:4"


def program(columns: int = 40) -> pr.Program:
    plain = build(TEXT, {"X": (columns, 4)})
    s, = plain.statements
    terms = [e for e in pr.walk(s.value) if isinstance(e, pr.Read)]
    return replace(plain, statements=(replace(s, value=matrix_rows.call(MATRIX, pr.Index("u"), terms)),))


def given(columns: int = 40) -> np.ndarray:
    return np.random.default_rng(columns).standard_normal((columns, 4)).astype(np.float32)


def product(x: np.ndarray) -> np.ndarray:
    return np.array(MATRIX, np.float64) @ x.T.astype(np.float64)


def test_the_name_says_the_matrix() -> None:
    call = matrix_rows.call(MATRIX, pr.Index("u"), [pr.Read("X", (pr.Const(k, I64),), F32) for k in range(4)])
    assert matrix_rows.is_rows_call(call.fn)
    assert matrix_rows.matrix(call.fn) == MATRIX
    assert "rows[1 0 -1.5 0 | 0 1 2 0 | -0.25 0.625 0 -1 | 0 0 0 0](u, X[i, 0], X[i, 1]" in str(program())
    assert matrix_rows.fits(call.fn, [I64, F32, F32, F32, F32], F32)
    assert not matrix_rows.fits(call.fn, [I64, F32, F32, F32], F32)
    assert not matrix_rows.fits(call.fn, [I64, F32, F32, F32, F64], F32)
    assert not matrix_rows.fits(call.fn, [F32, F32, F32, F32, F32], F32)
    assert not matrix_rows.fits(call.fn, [I64, I32, I32, I32, I32], I32)


def test_terms_without_a_factor_come_first_and_those_of_0_take_no_part() -> None:
    def plus(op: str, a: str, b: str) -> str:
        return f"{a} {op} {b}"
    fn = matrix_rows.call(MATRIX, pr.Index("u"), [pr.Read("X", (), F32)] * 4).fn
    sums = [matrix_rows.total(fn, r, "abcd", plus, lambda c, t: f"{c}*{t}") for r in range(4)]
    assert sums == ["a - 1.5*c", "b + 2.0*c", "-1.0*d - 0.25*a + 0.625*b", "0.0*a"]


def test_infinite_terms_of_other_rows_change_nothing() -> None:
    x = given()
    x[:, 3] = np.inf
    found = evaluator.evaluate(program(), {"X": x})["Y"]
    np.testing.assert_allclose(found[:2], product(np.where(np.isinf(x), 0, x))[:2], rtol=1e-5, atol=1e-6)
    assert (found[2] == -np.inf).all()


@pytest.mark.parametrize("schedule", [None, "program", "isl", "min", "max"])
@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("columns", [40, 3])
def test_every_schedule_computes_them(schedule: str | None, target: str, columns: int) -> None:
    """Whether the index is written out, or a loop that chooses among the rows."""
    x, y = given(columns), np.full((4, columns), np.nan, np.float32)
    compile_program(program(columns), target, 1, schedule).run([x, y])
    np.testing.assert_allclose(y, product(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("schedule", [None, "program"])
def test_inside_of_an_expression(schedule: str | None) -> None:
    plain = program()
    s, = plain.statements
    two = pr.Const(2.0, F32)
    sums = pr.Binary("+", pr.Binary("*", two, s.value, F32), pr.Call("exp", (s.value,), F32), F32)
    x, y = given(), np.zeros((4, 40), np.float32)
    compile_program(replace(plain, statements=(replace(s, value=sums),)), "cpu", 1, schedule).run([x, y])
    np.testing.assert_allclose(y, 2 * product(x) + np.exp(product(x)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("schedule", [None, "program"])
def test_loops_have_sums_of_them_and_none_of_the_calls(schedule: str | None) -> None:
    module = lower_program(program(), "cpu", schedule=schedule).loops
    nodes = [e for k in module.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, loops.Store)
             for e in traverse.walk_expr(s.value)]
    assert not any(isinstance(e, loops.Call) for e in nodes)
    assert any(isinstance(e, loops.Select) for e in nodes) == (schedule == "program")


def test_a_row_takes_as_long_as_its_sum() -> None:
    """Not as long as an exp."""
    rows, plain = program(), build(TEXT, {"X": (40, 4)})
    assert matrix_rows.operations(rows.statements[0].value.fn) == (2 + 2 + 5 + 1) / 4
    assert len({parallel_profitability.work(p, p.statements, AVX2) for p in (rows, plain)}) == 1
    assert costs(rows).work[0].intrinsics == 0
    assert 2 <= costs(rows).work[0].arithmetic <= 3 == costs(plain).work[0].arithmetic
    seconds = [program_time.estimate(p, Record(), AVX2).arithmetic for p in (rows, plain)]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.1)


def test_the_index_of_rows_is_no_shared_loop() -> None:
    assert matrix_rows.row_indices(program().statements[0]) == ("u",)
    text = str(lower_program(program(), "cpu").loops)
    assert "Y[0, c" in text
    assert "Y[3, c" in text
