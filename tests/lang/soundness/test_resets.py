"""For which elements `op=!` starts again, against loops written in Python here; code touches nothing beside its arrays."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import polytc
from polytc import compiler, stages
from tests import guarded

CONDITIONS = {"r <= t": lambda t, i, r: r <= t, "r > i": lambda t, i, r: r > i, "t > 1": lambda t, i, r: t > 1,
              "i % 2 == 0": lambda t, i, r: i % 2 == 0, "i <= t": lambda t, i, r: i <= t, "r != 3": lambda t, i, r: r != 3,
              "t in 2:20": lambda t, i, r: 2 <= t < 20, "i in 0:t": lambda t, i, r: 0 <= i < t}
CHOSEN = [c for n in range(3) for c in itertools.combinations(CONDITIONS, n)]
LEFT = {"t": (5, 1), "t,i": (5, 6), "i": (1, 6), "": (1, 1), "4-t": (5, 1)}
"""Subscripts, and the extents of t and i in the results below."""


def _meaning(left: str, chosen: tuple[str, ...], x: np.ndarray) -> np.ndarray:
    """T[t,i] after the loop, 7 where nothing wrote it."""
    out = np.full(LEFT[left], 7.0)
    used = {"t"} | ({"i"} if "i" in left else set())
    own = [CONDITIONS[c] for c in chosen if {n for n in "tir" if n in c.replace("in", "")} <= used]
    free = range(6) if "i" in left else range(1)

    def place(t: int, i: int) -> tuple[int, int]:
        return (4 - t if left == "4-t" else t if "t" in left else 0), i

    for t in range(5):
        for i in free:
            if all(c(t, i, 0) for c in own):
                out[place(t, i)] = 0
        for i in range(6):
            for r in range(2, 7):
                if all(CONDITIONS[c](t, i, r) for c in chosen):
                    out[place(t, i if "i" in left else 0)] += x[r]
    return out


def _program(left: str, chosen: tuple[str, ...]) -> tuple[str, str] | None:
    """The text, and the subscripts of its result; None where the conditions leave no instance."""
    shape = LEFT[left]
    first = f"T{f'[{left}]' if left else ''}".replace("4-t", "t")
    ranges = [f"{n} in 0:{e}" for n, e in zip("ti", shape, strict=True) if n in first]
    clauses = ", ".join(["i in 0:6" if "i in 0:t" not in chosen else "", "r in 2:7", *chosen]).removeprefix(", ")
    target = f"T[{left}]" if left else "T"
    return (f"def f(f64[8] X) -> (T) {{ {first} = 7.0 {'where ' + ', '.join(ranges) if ranges else ''}\n"
            f"for t in 0:5 {{ {target} +=! X[r] where {clauses} }} }}"), first


@pytest.mark.long
@pytest.mark.part(2)
@pytest.mark.parametrize("left", LEFT)
def test_what_starts_again(left: str) -> None:
    x = np.arange(1.0, 9.0)
    for n, chosen in enumerate(CHOSEN):
        text, _ = _program(left, chosen)
        expected = _meaning(left, chosen, x)
        if not any(all(CONDITIONS[c](t, i, r) for c in chosen) for t in range(5) for i in range(6) for r in range(2, 7)):
            continue
        found = np.asarray(polytc.evaluate(text, X=x)).reshape(expected.shape)
        np.testing.assert_array_equal(found, expected, err_msg=text)
        if n % 4 == len(left):
            program = stages.build(text, {"X": (8,)}, {"X": "f64"})
            got = np.full(program.tensor("T").shape, 77.0)
            guarded.run(compiler.compile_program(program, "cpu", 1), [x, got])
            np.testing.assert_array_equal(got.reshape(expected.shape), expected, err_msg=text)


def test_a_fresh_tensor_holds_what_no_term_meets() -> None:
    """The initialisation ran in iterations that the bounds of M left out, and wrote before it."""
    text = "for s in 0:2000 { M[s] +=! A[r] where r in 1000:2000, r <= s }"
    a = np.random.default_rng(3).integers(-3, 4, 2000).astype(np.float32)
    expected = np.cumsum(np.where(np.arange(2000) >= 1000, a, 0)).astype(np.float32)
    program = stages.build(text, {"A": (2000,)})
    for target in ("cpu", "interp"):
        got = np.full(program.tensor("M").shape, 77, np.float32)
        guarded.run(compiler.compile_program(program, target, 1), [a, got])
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(polytc.evaluate(text, A=a), expected)


def test_a_tuple_reduction_in_a_loop_too() -> None:
    text = "for s in 0:20 { (M[s], J[s]) argmax= (A[r], r) where r in 10:20, r <= s }"
    a = np.random.default_rng(4).permutation(20).astype(np.float32)
    m, j = polytc.compile(text, shapes={"A": (20,)})(a)
    for s in range(20):
        part = a[10:s + 1]
        assert (m[s], j[s]) == ((part.max(), 10 + part.argmax()) if len(part) else (-np.inf, 0))


@pytest.mark.parametrize("update", ["b +=! X[p,k]", "(b, j) argmax=! (X[p,k], k)"])
def test_iterations_that_memory_leaves_out_start_nothing_again(update: str) -> None:
    text = f"for p in r[0]:r[1] {{ {update} }}\nY[k] = b + B[k] -> (Y)"
    x = np.random.default_rng(5).integers(0, 9, (10, 3)).astype(np.float64)
    rows, zero = np.array([2, 5]), np.zeros(2)
    expected = x[4].max() if "arg" in update else x[4].sum()
    np.testing.assert_array_equal(polytc.evaluate(text, r=rows, X=x, B=zero), [expected] * 2)
    np.testing.assert_array_equal(polytc.compile(text)(r=rows, X=x, B=zero), [expected] * 2)
