"""Padded copies: of what updates read with guards that act, once for all that reads the same; results stay."""

from __future__ import annotations

import numpy as np
import pytest

from polytc.machine import DEVICES
from polytc.program import program as pr
from polytc.program.evaluator import evaluate
from polytc.program.program import Program
from polytc.rewrite.tidy.pad import drop_guards, materialise
from polytc.stages import build
from tests.behind import behind

SHAPES = {"X": (12, 12), "W": (3, 3), "V": (3, 3)}
CONVOLUTION = "O[h,w] += (X[h+r-1,w+s-1] else {}) * W[r,s] where h in 0:12, w in 0:12"


def copies(body: str, outputs: str = "O") -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """First elements and extents of the copies; checks the results."""
    used = {n: s for n, s in SHAPES.items() if f"{n}[" in body}
    head = ", ".join(f"f64[{','.join(map(str, s))}] {n}" for n, s in used.items())
    p = build(f"def f({head}) -> ({outputs}) {{ {body} }}", used)
    made = materialise(p)
    same(p, made)
    return [(t.lower, t.shape) for t in made.tensors[len(p.tensors):]]


def same(p: Program, made: Program) -> None:
    rng = np.random.default_rng(0)
    given = {n: rng.integers(-9, 9, p.tensor(n).shape).astype(float) for n in p.inputs}
    found = evaluate(made, given)
    for name, value in evaluate(p, given).items():
        np.testing.assert_array_equal(found[name], value)


def guards(p: Program) -> int:
    return sum(r.default is not None for s in p.statements for r in pr.reads(s))


@pytest.mark.parametrize("default", [0, 1])
def test_the_copy_reaches_as_far_as_the_window(default: int) -> None:
    assert copies(CONVOLUTION.format(default)) == [((-1, -1), (14, 14))]


def test_reads_of_one_window_share_a_copy() -> None:
    one = CONVOLUTION.format(0)
    assert len(copies(f"{one}; Q[h,w] += (X[h+r-1,w+s-1] else 0) * V[r,s] where h in 0:12, w in 0:12", "O, Q")) == 1
    assert len(copies(f"{one}; Q[h,w] += (X[h+r-1,w+s-1] else 1) * V[r,s] where h in 0:12, w in 0:12", "O, Q")) == 2
    assert len(copies(f"{one}; Q[h,w] += (X[h+r,w+s-1] else 0) * V[r,s] where h in 0:12, w in 0:12", "O, Q")) == 2


def test_what_is_written_in_between_is_copied_again() -> None:
    one = CONVOLUTION.format(0).replace("X[", "T[")
    body = f"T[i,j] = X[i,j]*2; {one}; T[i,j] += X[i,j]; {one.replace('O[', 'Q[')}"
    assert copies(body, "O, Q") == [((-1, -1), (14, 14))] * 2


@pytest.mark.parametrize("body", [
    "O[h,w] = (X[h-1,w+1] else 0) where h in 0:12, w in 0:12",                                # no reduction
    "O[h,w] += X[h+r,w+s] * W[r,s]",                                                          # no guard
    "O[h,w] += (X[100*h+r,w] else 0) * W[r,0] where h in 0:12, w in 0:12",                     # mostly outside
    "O[h,w] += (X[h+r-1,w] else 0) * W[r,0] where h in 0:12, w in 0:12",                       # the same for neighbours
    "O[h,w] += (X[h+r-1,w+1] else 0) where h in 0:12, w in 0:12, r in 0:1",                    # each element is used once
])
def test_no_copy(body: str) -> None:
    assert copies(body) == []


@pytest.mark.parametrize(("low", "high", "kept"), [(1, 11, 0), (0, 11, 1), (1, 12, 1), (0, 12, 1), (5, 6, 0)])
def test_guards_that_never_act_are_dropped(low: int, high: int, kept: int) -> None:
    body = f"O[h,w] += (X[h+r-1,w] else 0) * W[r,0] where h in {low}:{high}, w in 0:12"
    p = build(f"def f(f64[12,12] X, f64[3,3] W) -> (O) {{ {body} }}", {n: SHAPES[n] for n in "XW"})
    made = drop_guards(p)
    assert (guards(p), guards(made)) == (1, kept)
    same(p, made)


def test_copies_are_made_where_they_are_asked_for() -> None:
    p = build(CONVOLUTION.format(0), {"X": (12, 12), "W": (3, 3)})
    assert {t.name for t in behind("coalesce", p).tensors} == {"X", "W", "O", "X_pad"}
    assert {t.name for t in behind("coalesce", p, DEVICES["nvidia-sm90"]).tensors} == {"X", "W", "O"}
