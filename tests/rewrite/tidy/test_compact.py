"""Strided reads through compact copies, where each element is used often."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.lang import build
from polytc.rewrite.tidy import compact
from tests.behind import behind

STRIDED = "O[m,h,w] += W[m,c] * X[c,2*h,3*w] where h in 0:5, w in 0:6"
SHAPES = {"W": (40, 7), "X": (7, 10, 18)}


def test_a_strided_read_is_compacted() -> None:
    program = compact.compact(build(STRIDED, SHAPES))
    assert program.tensor("X_compact").shape == (7, 5, 6)
    assert [str(s.name) for s in program.statements][-2:] == ["S1_X_compact", "S1"]


@pytest.mark.parametrize("text", [
    "O[m,h,w] += W[m,c] * X[c,h,w]",
    "O[m,h] += W[m,c] * X[c,2*h+r,0] where h in 0:4, r in 0:2",
    "O[h,w] += X[c,2*h,3*w] where h in 0:5, w in 0:6",
    "O[c,h,w] = X[c,2*h,3*w] where h in 0:5, w in 0:6",
])
def test_others_are_left_alone(text: str) -> None:
    program = build(text, SHAPES if "W" in text else {"X": SHAPES["X"]})
    assert compact.compact(program) == program


def test_the_copy_lets_the_indices_of_the_product_become_one() -> None:
    text = "O[m,h,w] += W[m,c] * X[c,2*h,2*w] where h in 0:5, w in 0:9"
    program = behind("coalesce", build(text, {"W": (40, 7), "X": (7, 10, 18)}))
    assert program.tensor("X_compact").shape == (7, 45)
    assert [len(s.ranges) for s in program.statements if s.target == "O"] == [2, 3]
    assert "X_compact[c, h * 9 + w]" in str(program)


def test_what_others_read_too_keeps_its_shape() -> None:
    """An element-wise reader of the temporary would lose its loops, which are those of the writer."""
    text = "P[c,h,w] = X[c,2*h,2*w] where h in 0:5, w in 0:9\nY[c,h,w] = P[c,h,w]*2\nO[m,h,w] += V[m,c]*P[c,h,w]"
    text = f"def f(X[A, H, W], V[M, K]) -> (Y, O) {{\n{text}\n}}"
    program = behind("coalesce", build(text, {"X": (7, 10, 18), "V": (40, 7)}))
    assert all(len(t.shape) == 3 for t in program.tensors if t.name in ("P", "Y"))


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_results(target: str) -> None:
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(s).astype(np.float32) for n, s in SHAPES.items()}
    expected = polytc.evaluate(STRIDED, **arrays)
    np.testing.assert_allclose(polytc.run(STRIDED, target=target, **arrays), expected, rtol=1e-5, atol=1e-5)
