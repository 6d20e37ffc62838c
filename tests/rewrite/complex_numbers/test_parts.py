"""The parts of complex expressions: what is 0 is not computed."""

from __future__ import annotations

import pytest

import polytc
from polytc.program import program as pr
from polytc.rewrite.complex_numbers.parts import both, parts, uniform

TYPES = {"x": "c64", "y": "c64", "r": "f32"}


def value(text: str) -> pr.Expr:
    used = {n: t for n, t in TYPES.items() if f"{n}[" in text}
    return polytc.build(f"O[i] = {text}", dict.fromkeys(used, (4,)), used).statements[-1].value


@pytest.mark.parametrize(("text", "re", "im"), [
    ("x[i]*y[i]", "x[i, 0] * y[i, 0] - x[i, 1] * y[i, 1]", "x[i, 0] * y[i, 1] + x[i, 1] * y[i, 0]"),
    ("2*x[i]", "2.0 * x[i, 0]", "2.0 * x[i, 1]"), ("r[i]*x[i]", "r[i] * x[i, 0]", "r[i] * x[i, 1]"),
    ("1j*x[i]", "-x[i, 1]", "x[i, 0]"), ("x[i]/2j", "x[i, 1] / 2.0", "-(x[i, 0] / 2.0)"), ("conj(x[i])", "x[i, 0]", "-x[i, 1]"),
    ("c64(r[i], 3)", "r[i]", "3.0"), ("x[i]/r[i]", "x[i, 0] / r[i]", "x[i, 1] / r[i]"), ("r[i] - 1j", "r[i]", "-1.0"),
    ("exp(1j*r[i])", "cos(r[i])", "sin(r[i])"), ("x[i] + r[i]", "x[i, 0] + r[i]", "x[i, 1]"),
    ("r[i] < 0 ? x[i] : 1j", "r[i] < 0.0 ? x[i, 0] : 0.0", "r[i] < 0.0 ? x[i, 1] : 1.0")])
def test_both_parts(text: str, re: str, im: str) -> None:
    assert tuple(map(pr.format_expr, both(value(text)))) == (re, im)


def test_a_part_that_is_nothing() -> None:
    assert parts(value("c64(r[i])"))[1] is None
    assert parts(value("1j*c64(r[i])"))[0] is None
    assert parts(value("exp(c64(r[i]))"))[1] is None


@pytest.mark.parametrize(("text", "made"), [
    ("x[i] - 3*y[i]", "x[i, p] - 3.0 * y[i, p]"), ("-x[i]/r[i]", "-x[i, p] / r[i]"),
    ("(x[i-1] else 0) + x[i]", "(x[i - 1, p] else 0.0) + x[i, p]"), ("x[i] != 0 ? x[i] : y[i]",
     "x[i, 0] != 0.0 || x[i, 1] != 0.0 ? x[i, p] : y[i, p]"),
    ("x[i]*y[i]", None), ("conj(x[i])", None), ("x[i] + 1", None), ("(x[i-1] else 1) + x[i]", None), ("2/x[i]", None)])
def test_parts_that_are_made_alike(text: str, made: str | None) -> None:
    found = uniform(value(text), pr.Index("p"))
    assert (None if found is None else pr.format_expr(found)) == made
