"""The proof that accesses stay in their tensors: what it lets pass, what it finds, and what the compiler does then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polytc import api, compiler, errors, stages
from polytc.export import formula
from polytc.lang import build
from polytc.poly import in_bounds
from polytc.program import program as pr
from polytc.program.program import Program
from polytc.program.sizes import Undecided
from polytc.rewrite import table
from polytc.rewrite.step import Step
from polytc.rewrite.tidy import open_remainders
from tests.rewrite.equal import with_open_sizes

PROGRAMS = [("C[i,j] += A[i,k]*B[k,j]", {"A": (5, 6), "B": (6, 7)}),
            ("C[i,j] += A[i-j] where i in 0:9, j in 0:9, j <= i", {"A": (9,)}),
            ("C[i] = max(A[i-1] else 0, B[i])", {"A": (8,), "B": (9,)}),
            ("C[i//2 + 3*(i%2)] += A[i] where i in 0:6", {"A": (6,)}),
            ("for t in 0:9 { P[t] = (P[t-1] else 0) + A[t] }", {"A": (9,)}),
            ("C[i] = A[3*i+j0-2] where i in 0:4, j0 = 2", {"A": (10,)})]


@pytest.mark.parametrize(("text", "shapes"), PROGRAMS)
def test_right_programs_pass(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert in_bounds.out_of_bounds(build(text, shapes)) is None


def test_open_sizes_are_those_of_the_program() -> None:
    """At sizes at which the text itself leaves its tensors the front end refuses it: that is no stray access of the code."""
    program = stages.build("C[i] = A[i]*2 where i in 2:5", {"A": ("M",)})
    assert in_bounds.out_of_bounds(program) is not None
    assert in_bounds.out_of_bounds(program, sizes=in_bounds.sizes_inside(program)) is None
    smaller = _shrunk(program, "A", 0, first=False)
    assert in_bounds.out_of_bounds(smaller, sizes=in_bounds.sizes_inside(program)) is not None
    op = api.compile("C[i] = A[i]*2 where i in 2:5", shapes={"A": ("M",)})
    for n in (5, 9):
        np.testing.assert_array_equal(op(np.arange(n, dtype=np.float32)), [4, 6, 8])
    with pytest.raises(errors.CompileError, match="E203"):
        op(np.ones(4, np.float32))


def _shrunk(program: Program, name: str, axis: int, *, first: bool) -> Program:
    """The program whose tensor has lost its first or its last element on an axis."""
    t = program.tensor(name)
    shape = tuple(n - (d == axis) for d, n in enumerate(t.shape))
    lower = tuple(n + (first and d == axis) for d, n in enumerate(t.lower))
    smaller = replace(t, shape=shape, lower=lower)
    return replace(program, tensors=tuple(smaller if x.name == name else x for x in program.tensors))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("text", "shapes"), PROGRAMS)
def test_one_element_less_is_found(text: str, shapes: dict[str, tuple[int, ...]], first: bool) -> None:
    """Each tensor is used up to both ends here, but for those behind `else`, whose guards move with the bounds."""
    program = build(text, shapes)
    guarded = {r.tensor for s in program.statements for r in pr.reads(s) if r.default is not None} - set(program.outputs)
    for t in program.tensors:
        for axis in range(len(t.shape)) if t.name not in guarded else ():
            found = in_bounds.out_of_bounds(_shrunk(program, t.name, axis, first=first))
            assert found is not None, (t.name, axis)
            assert f"dimension {axis} of {t.name}" in found.message
            assert "leaves" in found.witness


def test_choices_count() -> None:
    """A read that runs only where a condition holds."""
    program = build("C[i] = i > 0 ? A[i] : B[i]", {"A": (9,), "B": (9,)})
    assert in_bounds.out_of_bounds(_shrunk(program, "A", 0, first=True)) is None
    assert in_bounds.out_of_bounds(_shrunk(program, "B", 0, first=False)) is None
    assert in_bounds.out_of_bounds(_shrunk(program, "A", 0, first=False)) is not None
    assert in_bounds.out_of_bounds(_shrunk(program, "B", 0, first=True)) is not None


def test_a_rewrite_that_errs_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_CHECK", "0")
    text, shapes = PROGRAMS[0]
    program = build(text, shapes)
    errs = Step("errs", "C becomes too small", lambda p, _: _shrunk(p, "C", 0, first=False))
    monkeypatch.setattr(table, "steps", lambda: (*table.STEPS, errs))
    lowered = compiler.lower_program(program, "cpu")
    assert lowered.rewritten == program
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((5, 6)).astype("f4"), rng.standard_normal((6, 7)).astype("f4")
    c = np.zeros((5, 7), "f4")
    lowered.target.load(lowered.target.build(lowered.source), 1).run([a, b, c])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_a_program_that_errs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    program = _shrunk(build("C[i] = A[i]*2", {"A": (9,)}), "C", 0, first=False)
    with pytest.raises(AssertionError, match="stage 'bounds'"):
        compiler.lower_program(program, "cpu")
    monkeypatch.setenv("POLYTC_CHECK", "0")
    for target in ("cpu", "opencl", "c", "interp"):
        with pytest.raises(errors.TargetError, match=r"E523: S1 of program writes dimension 0 of C at i, (?s:.)*8.*leaves 0:8"):
            compiler.lower_program(program, target)


@pytest.mark.parametrize(("text", "typical", "limits"), [
    ("def f(f32[M] A) -> (C) { C[i] = A[i] where i in 2:5 }", {"M": 50}, ["M - 5"]),
    ("def f(f32[n] A, f32[m] B) -> (C) { C[i] = A[i] + B[i + 1] where i in 0:n }", {"n": 50, "m": 90}, ["m - n - 1"]),
    ("def f(f32[n] A) -> (C) { C[i] = A[i]*2 }", {"n": 50}, []),
])
def test_what_sizes_are_allowed(text: str, typical: dict[str, int], limits: list[str]) -> None:
    program = with_open_sizes(text, typical)
    assert sorted(str(formula.limit(form)) for form in in_bounds.size_limits(program)) == limits
    assert in_bounds.size_limits(build("C[i] = A[i]*2", {"A": (9,)})) == ()


def test_remainders_by_open_sizes_have_no_proof_until_they_are_choices() -> None:
    program = with_open_sizes("def f(f32[n] X) -> (Y) { Y[i] = X[(i+1)%n] where i in 0:n }", {"n": 50})
    assert in_bounds.sizes_inside(program) == "[n] -> {  : n > 0 }"
    with pytest.raises(Undecided):
        in_bounds.out_of_bounds(program)
    made = open_remainders.choose(program)
    assert in_bounds.out_of_bounds(made) is None
    assert in_bounds.out_of_bounds(_shrunk(made, "X", 0, first=False)) is not None
    assert in_bounds.out_of_bounds(_shrunk(made, "X", 0, first=True)) is not None
