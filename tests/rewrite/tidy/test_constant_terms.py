"""Terms of constants are temporaries, which the prologue computes; results are the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import stages
from polytc.program import program as pr
from polytc.rewrite.tidy import constant_terms

R = np.random.default_rng(0)


def made(text: str, constants: tuple[str, ...], **shapes: tuple[int, ...]) -> pr.Program:
    """The program behind the step."""
    return constant_terms.split(replace(stages.build(text, shapes, {}), constants=constants))


def terms(program: pr.Program) -> list[str]:
    return [t for t in program.temporaries if "_term" in t]


@pytest.mark.parametrize(("text", "constants", "count"), [
    ("Y[i,j] = X[i,j]*(g[j]/sqrt(v[j] + 1e-5))", ("g", "v"), 1),
    ("Y[i,j] = X[i,j]*(g[j]/sqrt(v[j] + 1e-5)) + X[i,j]*(g[j]/sqrt(v[j] + 1e-5))", ("g", "v"), 1),
    ("Y[i,j] = X[i,j]*(g[j]/v[j]) + exp(g[j])", ("g", "v"), 2),
    ("Y[i,j] = X[i,j]*(g[j]/v[j])", ("g",), 0),
    ("Y[i,j] = X[i,j]*(g[j]*v[j])", ("g", "v"), 0),
    ("Y[i,j] = i < 5 ? X[i,j]*(g[j]/v[j]) : 0", ("g", "v"), 0),
    ("Y[i,j] = X[i,j]*(g[j]/f32(j + 1))", ("g", "v"), 0),
    ("Y[i,j] = X[i,j]*(g[j]/(v[j-1] else 1))", ("g", "v"), 0),
    ("Y[j] += X[i,j]*(g[j]/v[j])", ("g", "v"), 0),
    ("Y[i,j] = X[i,j]/v[j]", ("X", "v"), 0),
    ("Y[i,j] = X[i,j]*(g[j]/v[0*j])", ("g", "v"), 0),
])
def test_terms(text: str, constants: tuple[str, ...], count: int) -> None:
    shapes = {n: (64,) if n in "gv" else (90, 64) for n in ("X", "g", "v") if f"{n}[" in text}
    assert len(terms(made(text, constants, **shapes))) == count


def test_a_term_takes_no_more_than_its_indices_reach() -> None:
    (t,) = [t for t in made("Y[i,j] = X[i,j]*(g[j]/v[j]) where j in 3:9", ("g", "v"), X=(90, 64), g=(64,), v=(64,)).tensors
            if "_term" in t.name]
    assert (t.lower, t.shape) == ((3,), (6,))


def test_few_instances_compute_it_themselves() -> None:
    assert not terms(made("Y[i,j] = X[i,j]*(g[j]/v[j])", ("g", "v"), X=(7, 64), g=(64,), v=(64,)))


def test_terms_of_zeros_of_different_signs_are_two() -> None:
    text = "Y[i,j] = X[i,j]*(1.0/(g[j]*0.0)); Z[i,j] = X[i,j]*(1.0/(g[j]*(-0.0)))"
    y, z = polytc.compile(text, constants={"g": np.ones(64, np.float32)})(X=np.ones((90, 64), np.float32))
    assert (y == np.inf).all()
    assert (z == -np.inf).all()


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_results_are_the_same(target: str) -> None:
    x, g, v = (R.random(n, np.float32) + np.float32(0.5) for n in ((90, 64), 64, 64))
    text = "Y[i,j] = X[i,j]*(g[j]/sqrt(v[j] + 1e-5)) + b[]/d[]"
    b, d = np.float32(1.3), np.float32(0.7)
    found = polytc.compile(text, target, constants={"g": g, "v": v, "b": b, "d": d})(x)
    np.testing.assert_allclose(found, x * (g / np.sqrt(v + np.float32(1e-5))) + b / d, rtol=3e-7)
    np.testing.assert_array_equal(found, polytc.compile(text, target)(x, g, v, b, d))
