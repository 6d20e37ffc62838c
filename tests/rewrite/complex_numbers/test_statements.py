"""Programs without complex numbers mean what they meant with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.lang import evaluate
from polytc.machine import AVX512, GENERIC_GPU, Machine
from polytc.program.program import Program
from polytc.rewrite import table
from polytc.rewrite.complex_numbers.statements import LONGEST, as_real, length


def build(text: str, **shapes: tuple[int, ...]) -> Program:
    return polytc.build(text, shapes, {n: "i64" if n == "q" else "c64" for n in shapes})


def same(program: Program) -> Program:
    """The program as the step makes it, which evaluates to the same numbers."""
    made = table.named("complex_numbers").run(program, AVX512)
    assert not any(t.dtype.is_complex for t in made.tensors)
    rng = np.random.default_rng(0)
    given = {}
    for n in program.inputs:
        t = program.tensor(n)
        given[n] = rng.integers(0, 3, t.shape) if t.dtype.is_int else (
            rng.normal(size=t.shape) + 1j * rng.normal(size=t.shape)).astype(t.dtype.numpy)
    pairs = {n: a.reshape(-1).view(made.tensor(n).dtype.numpy).reshape(made.tensor(n).shape) for n, a in given.items()}
    found, wanted = evaluate(made, pairs), evaluate(program, given)
    for n in program.outputs:
        seen = found[n].reshape(-1).view(wanted[n].dtype).reshape(wanted[n].shape)
        np.testing.assert_allclose(seen, wanted[n], rtol=1e-4, atol=1e-5)
    return made


@pytest.mark.parametrize("text", [
    "Y[i] = x[i] + 2*x[i]", "Y[i] = x[i]*x[i]", "Y[i] = x[i]; Y[i] = Y[i]*Y[i]",
    "Y[i] = x[i]; Y[i] = conj(Y[i]) where abs(Y[i]) < 1",
    "s += x[i]*conj(x[i])", "Y[i] = x[i]*x[i]/(x[0]+3)", "Y[i] = abs(x[i])/2",
    "Y[i+1] = x[i]/x[0]; Z[i] = Y[i]*1j", "Y[i] = sqrt(exp(x[i]))",
    "Y[i] = x[i]; for t in 0:3 { Y[i] = Y[i]*Y[i]*0.5 + x[i] }", "for t in 1:6 { Y[t] = (Y[t-1] else 1)*x[t] }",
    "(m, v) argmax= (abs(x[i]), x[i]*1j)"])
def test_meaning(text: str) -> None:
    same(build(text, x=(6,)))


def test_scatters_and_gathers() -> None:
    same(build("Y[q[i]] += x[i]*x[i+1] -> (c64[3] Y)", q=(5,), x=(6,)))
    same(build("Y[i] = 0*x[i] where i in 0:3; Y[q[i]] = x[i]*x[i+1]", q=(5,), x=(6,)))
    same(build("Y[i] = x[q[i]]*x[i]", q=(6,), x=(6,)))


def test_one_statement_where_the_parts_are_alike() -> None:
    made = same(build("Y[i] = x[i] - 2*x[i]", x=(6,)))
    assert [s.name for s in made.statements] == ["S1"]
    made = same(build("Y[i] = x[i]*x[i]", x=(6,)))
    assert [s.name for s in made.statements] == ["S1_re", "S1_im"]


def test_what_is_made_of_itself_is_stored_before() -> None:
    made = same(build("Y[i] = x[i]; Y[i] = Y[i]*Y[i]", x=(6,)))
    assert [s.target for s in made.statements] == ["Y", "Y_re", "Y", "Y"]
    assert [t.name for t in made.tensors] == ["x", "Y", "Y_re"]


def test_long_values_are_stored_by_parts() -> None:
    power = "*".join(["x[i]"] * 40)
    program = build(f"Y[i] = {power}", x=(6,))
    assert length(program.statements[0].value) > 1 << 20
    made = same(program)
    assert all(length(s.value) <= LONGEST for s in made.statements)
    assert len(made.statements) < 40


def test_names_that_are_taken() -> None:
    program = build("part[row] = x[row]*x[row]; B_matrix[row] = part[row] + x[row]", x=(6,))
    made = same(program)
    assert len({t.name for t in made.tensors}) == len(made.tensors)


def test_programs_without_complex_numbers_stay_as_they_are() -> None:
    program = polytc.build("Y[i] = 2*x[i]", {"x": (4,)})
    assert as_real(program) is program
    with_them = build("Y[i] = 2*x[i]", x=(4,))
    assert as_real(as_real(with_them)) == as_real(with_them)
    assert replace(with_them, precise=True).precise


@pytest.mark.parametrize(("text", "machine", "names"), [
    ("s += x[i]*x[i+1]", AVX512, ["S1_init", "S1"]), ("s += x[i]*x[i+1]", GENERIC_GPU, ["S1_init", "S1_re", "S1_im"]),
    ("precise def f(c64[N] x) -> (s) { s += x[i]*x[i+1] }", AVX512, ["S1_init", "S1_re", "S1_im"]),
    ("s = x[0]; for t in 0:2 { s += x[i]*x[t] }", AVX512, None)])
def test_sums_make_both_parts_in_one_pass_over_memory_on_cpus(text: str, machine: Machine, names: list[str] | None) -> None:
    made = table.named("complex_numbers").run(build(text, x=(40,)), machine)
    assert names is None or [s.name for s in made.statements] == names
    same(build(text, x=(40,)))


def test_a_factor_that_is_read_once_is_no_row_of_a_matrix() -> None:
    program = build("Y[j] += A[i,j]*x[i]", A=(40, 50), x=(40,))
    assert [t.name for t in same(program).tensors] == ["A", "x", "Y"]
    assert "x_matrix" in [t.name for t in same(build("Y[i] += A[i,j]*x[j]", A=(40, 50), x=(50,))).tensors]
    assert "x_matrix" in [t.name for t in table.named("complex_numbers").run(program, GENERIC_GPU).tensors]


def test_a_part_of_rows_that_vectors_take_apart_is_not_packed() -> None:
    a, x = (np.ones(n, np.complex128) for n in ((600, 500), (600,)))
    op = polytc.compile("Y[j] += A[i,j]*x[i]", threads=1)
    np.testing.assert_array_equal(op(A=a, x=x), np.full(500, 600 + 0j))
    made = table.named("complex_numbers").run(build("Y[j] += A[i,j]*x[i]", A=(600, 500), x=(600,)), AVX512)
    assert not table.named("pack").decide(made, AVX512).choices
