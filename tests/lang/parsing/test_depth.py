"""Deep expressions: every target takes 150 levels, and none is asked for more; refusals have a code, a place and a cure."""

from __future__ import annotations

import numpy as np
import pytest

from polytc import compiler
from polytc.errors import CompileError
from polytc.lang import build
from polytc.program.evaluator import evaluate
from polytc.program.terms import DEEPEST, levels
from polytc.rewrite.tidy.inline import inline

KINDS = {
    "terms": lambda n: "+".join(["v[i]"] * n),
    "terms to the right": lambda n: "(v[i]+" * n + "v[i]" + ")" * n,
    "signs": lambda n: "-" * n + "v[i]",
    "negations": lambda n: "!" * n + "(v[i] > 1) ? v[i] : 2*v[i]",
    "parentheses": lambda n: "(" * n + "v[i]" + ")" * n,
    "minima": lambda n: "min(v[i]*2, " * n + "v[i]" + ")" * n,
    "roots": lambda n: "sqrt(" * n + "abs(v[i])" + ")" * n,
    "choices": lambda n: "v[i] > 1 ? v[i] : " * n + "2*v[i]",
    "conditions": lambda n: " && ".join(["v[i] > 1"] * n) + " ? v[i] : 0",
    "casts": lambda n: "f32(f64(" * (n // 2) + "v[i]" + "))" * (n // 2),
    "definitions": lambda n: "v[i]*k0 where " + ", ".join(f"k{j} = k{j + 1} + v[i]" for j in range(n)) + f", k{n} = v[i]",
}


def text(kind: str, n: int) -> str:
    return f"Y[i] = {KINDS[kind](n)}"


@pytest.mark.part(9)
@pytest.mark.parametrize("kind", KINDS)
def test_every_target_takes_what_is_not_refused(kind: str) -> None:
    p = build(text(kind, 145), {"v": (5,)})
    v = np.linspace(0.5, 1.5, 5, dtype=np.float32)
    with np.errstate(all="ignore"):
        expected = evaluate(p, {"v": v})["Y"]
    for target in ("cpu", "interp"):
        y = np.empty(5, np.float32)
        compiler.compile_program(p, target, 1).run([v, y])
        np.testing.assert_allclose(y, expected, rtol=1e-4, err_msg=target)
    for target in ("opencl", "c"):
        assert str(compiler.lower_program(p, target).source)


@pytest.mark.part(12)
@pytest.mark.parametrize("n", [198, 4000, *(pytest.param(n, marks=pytest.mark.long) for n in (400, 1000))])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_too_deep_is_refused_where_it_stands(kind: str, n: int) -> None:
    written = "T[i] = v[i]\n" + text(kind, n)
    if kind == "parentheses" and n < 1000:  # these are no levels
        assert build(written, {"v": (5,)}).statements
        return
    with pytest.raises(CompileError) as caught:
        build(written, {"v": (5,)})
    first = caught.value.diagnostics[0]
    assert first.code == "E006"
    assert first.span is not None
    assert first.span.line == 2
    assert "put a part of it into a temporary" in str(caught.value)


@pytest.mark.parametrize("body", [
    "Y[i] = v[i" + " + i - i" * 400 + "]", "Y[i] = v[i] where v[i] > " + "-" * 400 + "v[i]",
    "Y[i] = w[" + "w[" * 400 + "i" + "]" * 401])
def test_subscripts_and_conditions_are_held_to_it(body: str) -> None:
    with pytest.raises(CompileError) as caught:
        build(body, {"v": (5,), "w": (5,)}, {"v": "f32", "w": "i32"})
    assert caught.value.code == "E006"
    assert caught.value.diagnostics[0].span is not None


def test_inlining_makes_nothing_deeper() -> None:
    written = f"T[i] = {'-' * 95}v[i]; Y[i] = {'-' * 95}T[i]"
    p = build(written, {"v": (5,)})
    assert all(levels(s.value) <= DEEPEST for s in inline(p).statements)
    y, v = np.empty(5, np.float32), np.arange(5, dtype=np.float32)
    compiler.compile_program(p, "interp", 1).run([v, y])
    np.testing.assert_array_equal(y, v)
