"""Complex products of matrices are real ones, that targets have register tiles for."""

from __future__ import annotations

import pytest

import polytc
from polytc.program import program as pr
from polytc.program.program import Program
from polytc.rewrite.complex_numbers.matrix import REUSED, product
from polytc.rewrite.complex_numbers.statements import as_real
from polytc.schedule.facts.fusion_groups import is_contraction
from tests.rewrite.complex_numbers.test_statements import build, same


def factor(program: Program) -> str | None:
    """The tensor that becomes a matrix."""
    found = product(program.statements[-1], {t.name: t for t in program.tensors})
    reads = pr.walk(found.factor) if found is not None else ()
    return next((e.tensor for e in reads if isinstance(e, pr.Read)), None)


@pytest.mark.parametrize(("text", "a", "b", "matrix"), [
    ("C[i,j] += A[i,k]*B[k,j]", (16, 20), (20, 24), "B"), ("C[j,i] += A[i,k]*B[k,j]", (16, 20), (20, 24), "A"),
    ("C[i,j] += conj(A[i,k])*B[k,j]", (16, 20), (20, 24), "B"), ("C[i,j] -= A[i,k]*B[k,j]", (16, 20), (20, 24), "B"),
    ("C[i,j] -= conj(A[i,k])*B[k,j]", (16, 20), (20, 24), "B"), ("C[i,j] += A[k,i]*conj(B[j,k])", (20, 16), (24, 20), "B"),
    ("C[i] += A[i,k]*B[k]", (16, 20), (20,), "B"), ("C[i,j] += A[i,j+k]*B[k]", (9, 20), (5,), "B"),
    ("C[n,i,j] += A[n,i,k]*B[n,k,j]", (2, 16, 20), (2, 20, 24), "B"),
    ("C[i,j] += A[i,k]*B[k,j] where k <= i", (16, 20), (20, 24), "B"),
    ("s += A[i]*B[i]", (99,), (99,), None), ("C[i,j] += A[i,k]*B[k,j]", (4, 20), (20, 5), None),
    ("C[i,j] = A[i]*B[j]", (99,), (99,), None), ("C[i,j] += A[i,k]*A[i,k]*B[k,j]", (16, 20), (20, 24), "A")])
def test_which_factor(text: str, a: tuple[int, ...], b: tuple[int, ...], matrix: str | None) -> None:
    program = build(text, A=a, B=b)
    assert factor(program) == matrix
    same(program)


def test_rows_are_taken_as_they_lie_in_memory() -> None:
    made = as_real(build("C[i,j] += conj(A[i,k])*B[k,j]", A=(16, 20), B=(20, 24)))
    assert is_contraction(made.statements[-1])
    assert "A[i, k, row] * B_matrix[k, row, j, part]" in str(made)
    lowered = polytc.lower("C[i,j] += A[i,k]*B[k,j]", shapes={"A": (96, 64), "B": (64, 96)}, dtypes={"A": "c64", "B": "c64"},
                           algebra="direct")
    assert "C_tile" in str(lowered.loops)  # a register tile


def test_precise_sums_keep_their_products() -> None:
    text = "precise def f(c64[I,K] A, c64[K,J] B) -> (C) { C[i,j] += A[i,k]*B[k,j] }"
    assert "matrix" not in str(as_real(build(text, A=(16, 20), B=(20, 24))))


def test_a_matrix_is_used_often() -> None:
    for rows in (REUSED - 1, REUSED):
        found = as_real(build("C[i,j] += A[i,k]*B[k,j]", A=(rows, 20), B=(20, 3)))
        assert ("B_matrix" in str(found)) == (rows == REUSED)
