"""Open sizes: what is refused, at once or at the call, and how it is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.errors import ArgumentError, CompileError
from polytc.program.sizes import Undecided
from tests.test_symbolic import CASES, opened


def test_out_of_bounds_for_typical_sizes_is_refused_at_once() -> None:
    with pytest.raises(CompileError) as e:
        polytc.compile("def f(f32[M] A) -> (C) { C[i] = A[i+1] where i in 0:M }", symbolic=True)
    assert e.value.code == "E203"
    assert "with M=" in str(e.value)


def test_what_depends_on_sizes_is_checked_at_each_call() -> None:
    op = polytc.compile("def f(f32[M] A, f32[K] B) -> (C) { C[i] = A[i+2] + B[i] where i in 0:K }", symbolic=True)
    a, b = np.arange(9, dtype=np.float32), np.ones(7, np.float32)
    np.testing.assert_array_equal(op(a, b), a[2:] + b)
    with pytest.raises(CompileError) as e:
        op(a[:8], b)
    assert e.value.code == "E203"
    assert "with M=8, K=7: i=6 reads A[8], extent 8" in str(e.value)


def test_a_violated_assumption_is_refused_at_the_call() -> None:
    op = polytc.compile("def f(f32[M] A, f32[K] B) -> (C) { assume M >= K\nC[i] = A[i] + B[i] where i in 0:K }", symbolic=True)
    assert op(np.ones(5, np.float32), np.ones(5, np.float32)).shape == (5,)
    with pytest.raises(CompileError) as e:
        op(np.ones(4, np.float32), np.ones(5, np.float32))
    assert e.value.code == "E220"


def test_a_size_has_one_value() -> None:
    op = opened(CASES["matmul"], "cpu")
    with pytest.raises(ArgumentError) as e:
        op(np.ones((2, 3), np.float32), np.ones((4, 5), np.float32))
    assert e.value.code == "E206"
    assert "K is 3 in A and 4 in B" in str(e.value)


def test_fixed_extents_beside_open_ones_are_checked() -> None:
    op = opened(CASES["one fixed extent"], "cpu")
    with pytest.raises(ArgumentError) as e:
        op(np.ones((2, 3), np.float32), np.ones((3, 21), np.float32))
    assert e.value.code == "E405"


@pytest.mark.parametrize(("text", "shapes", "reason"), [
    ("def f(f32[M] A) -> (C) { C[i] = A[i] * (1.0/M) }", None, "no linear formula"),
    ("def f(f32[M] A) -> (C) { C[i] = A[i] }", {"A": ("C",)}, "a size, and a tensor"),
    ("C[i] = A[i]", None, "names no sizes"),
    ("def f(f32[M,N] A) -> (f32[M*N] C) { C[i] = A[i//N, i%N] where i in 0:M*N }", None, "no formula"),
])
def test_refusals(text: str, shapes: Any, reason: str) -> None:
    with pytest.raises((CompileError, ArgumentError)) as e:
        polytc.compile(text, shapes=shapes, symbolic=shapes is None)
    assert e.value.code == "E412"
    assert reason in str(e.value)


def test_targets_without_open_sizes() -> None:
    with pytest.raises(ArgumentError) as e:
        polytc.compile("C[i] = A[i]", "evaluate", shapes={"A": ("M",)})
    assert e.value.code == "E412"


def test_what_a_target_cannot_leave_open_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided(*_: object) -> None:
        raise Undecided("how large min(M, 3) may be")
    monkeypatch.setattr(compiler.passes, "run", undecided)
    with pytest.raises(CompileError, match=r"the sizes M cannot stay open on 'interp': how large min\(M, 3\) may be") as e:
        polytc.lower("C[i] = A[i]", "interp", shapes={"A": ("M",)})
    assert e.value.code == "E412"


def test_a_remainder_by_an_open_size_is_a_diagnostic() -> None:
    with pytest.raises(CompileError) as e:
        polytc.lower("def f(f32[n] X) -> (f32[n] Y) { Y[i] = X[(i+9)%n] }", shapes={"X": ("n",)})
    assert e.value.code == "E412"


def test_typical_names_sizes() -> None:
    for typical in ({"Q": 3}, {"M": 0}, 7):
        with pytest.raises(ArgumentError) as e:
            polytc.compile("C[i] = A[i]", shapes={"A": ("M",)}, typical=typical)
        assert e.value.code == "E410"
    for options in ({}, {"shapes": {"A": (4,)}}):
        with pytest.raises(ArgumentError, match="typical names M, which is no size"):
            polytc.compile("C[i] = A[i]", typical={"M": 4}, **options)
