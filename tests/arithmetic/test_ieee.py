"""What is written outside of reductions is computed as IEEE 754 says: no reassociation, no reciprocals, the signs of zeros."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import polytc
from polytc.cli import app
from polytc.errors import ArgumentError, CompileError

F = np.float32
TARGETS = ("cpu", "interp")

EXAMPLES = {
    "underflow": ("C[i] = A[i]*B[i]*B[i]", {"A": 1e-20, "B": 1e20}, F(F(1e-20) * F(1e20)) * F(1e20)),
    "rounding by a large number": ("C[i] = (A[i] + 12582912.0) - 12582912.0", {"A": 2.6}, F(3)),
    "a sum that is taken back": ("C[i] = (A[i] + B[i]) - A[i]", {"A": 1e8, "B": 1.0}, F(0)),
    "the sign of zero": ("C[i] = 1/(0 - A[i])", {"A": 0.0}, F(np.inf)),
    "minus zero plus zero": ("C[i] = 1/(A[i] + 0)", {"A": -0.0}, F(np.inf)),
    "a product with zero": ("C[i] = A[i]*0", {"A": np.inf}, F(np.nan)),
    "a difference with itself": ("C[i] = A[i] - A[i]", {"A": np.inf}, F(np.nan)),
    "a quotient by a sum": ("C[i] = A[i]/B[i]*B[i]", {"A": 1.0, "B": 49.0}, F(F(1) / F(49)) * F(49)),
    "two divisions": ("C[i] = A[i]/B[i]/B[i]", {"A": 1e-30, "B": 1e-30}, F(F(1e-30) / F(1e-30)) / F(1e-30)),
    "a reciprocal root": ("C[i] = A[i]/sqrt(B[i])", {"A": 3.0, "B": 7.0}, F(3) / np.sqrt(F(7))),
}


@pytest.mark.part(2)
@pytest.mark.parametrize("size", [1, 7, 64 + 5])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, target: str, size: int) -> None:
    text, values, expected = EXAMPLES[name]
    got = polytc.run(text, **{n: np.full(size, x, "f4") for n, x in values.items()}, target=target)
    np.testing.assert_array_equal(got, np.full(size, expected, "f4"))


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_is_divided(target: str) -> None:
    """By a divisor that is one number for a row: each quotient is rounded once."""
    x = np.random.default_rng(0).standard_normal((5, 133)).astype("f4")
    d = np.array([[3], [7], [1e-39], [np.inf], [-0.1]], "f4").repeat(2, 1)
    with np.errstate(all="ignore"):
        expected = x / d[:, :1]
    np.testing.assert_array_equal(polytc.run("S[i] max= D[i,k]; Y[i,j] = X[i,j] / S[i]", X=x, D=d, target=target), expected)


KAHAN = """def kahan(f32[N] X) -> (S, C) {
    S[t] = 0 where t in 0:1
    C[t] = 0 where t in 0:1
    for t in 0:N {
        Y[t] = X[t] - C[t]
        S[t+1] = S[t] + Y[t]
        C[t+1] = (S[t+1] - S[t]) - Y[t]
    }
}"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_compensated_sum_keeps_its_corrections(target: str) -> None:
    x = np.full(5000, 0.1, "f4")
    sums, _ = polytc.run(KAHAN, X=x, target=target)
    assert abs(float(sums[-1]) - float(x.astype("f8").sum())) < 1e-4


@pytest.mark.parametrize("target", TARGETS)
def test_two_sums_are_exact(target: str) -> None:
    """The error of a sum is a float, and Knuth's six operations find it."""
    rng = np.random.default_rng(1)
    a, b = ((rng.standard_normal(1000) * 10.0 ** rng.uniform(-9, 9, 1000)).astype("f4") for _ in range(2))
    text = "S[i] = A[i] + B[i]; T[i] = S[i] - A[i]; E[i] = (A[i] - (S[i] - T[i])) + (B[i] - T[i]) -> (S, E)"
    s, e = polytc.run(text, A=a, B=b, target=target)
    np.testing.assert_array_equal(s, a + b)
    assert all(Fraction(float(p)) + Fraction(float(q)) == Fraction(float(x)) + Fraction(float(y))
               for p, q, x, y in zip(s, e, a, b, strict=True))


def flags(text: str) -> list[str]:
    """The fast-math flags in LLVM IR, but for what combines the lanes of a vector, and minima and maxima of zeros."""
    lines = [line for line in text.splitlines() if not re.search(r"llvm\.(vector\.reduce\.f|minimum|maximum)", line)]
    return re.findall(r"\b(reassoc|arcp|nsz|nnan|ninf|afn|fast|contract)\b", "\n".join(lines))


ELEMENTWISE = ["C[i] = A[i]*B[i]*B[i] + A[i] - B[i]/A[i]", "C[i] = exp(A[i]) * sqrt(B[i]) + max(A[i], B[i])",
               "S[i] max= D[i,k]; C[i,j] = D[i,j] / S[i]", "T[i] += D[i,k]*D[i,k]; C[i,j] = D[i,j]*D[i,j]/T[i] - 1",
               "for t in 1:9 { P[t] = (P[t-1] else 0)*0.5 + D[t,0] + D[t,1] }"]


@pytest.mark.parametrize("text", ELEMENTWISE)
def test_no_flag_but_contraction(text: str) -> None:
    shapes = {n: (64, 64) if n == "D" else (1000,) for n in re.findall(r"\b[ABD]\b", text)}
    assert set(flags(polytc.lower(text, shapes=shapes).source.text)) <= {"contract"}
    if "+ " in text:
        assert "reassoc" in flags(polytc.lower(text, shapes=shapes, fast=True).source.text)
    params = ", ".join(f"{n}[N,M]" if n == "D" else f"{n}[N]" for n in shapes)
    precise = f"precise def f({params}) -> (C) {{ {text} }}".replace("P[", "C[")
    assert not flags(polytc.lower(precise, shapes=shapes).source.text)


def test_fast_is_asked_for() -> None:
    a = np.full(50, 2.6, "f4")
    text = "C[i] = (A[i] + 12582912.0) - 12582912.0"
    assert (polytc.run(text, A=a) == 3).all()
    assert (polytc.run(text, A=a, fast=True) == F(2.6)).all()
    assert (polytc.compile(text, fast=True)(a) == F(2.6)).all()
    op = polytc.compile(f"fast def f(f32[N] A) -> (C) {{ {text} }}")
    assert (op(a) == F(2.6)).all()
    assert str(op.written({"A": (3,)})).startswith("fast def f(")


def test_what_is_precise_is_not_fast() -> None:
    for marks in ("fast precise", "precise fast", "fast fast"):
        with pytest.raises(CompileError, match="E008"):
            polytc.compile(f"{marks} def f(f32[N] A) -> (C) {{ C[i] = A[i] + 1 }}")
    op = polytc.compile("precise def f(f32[N] A) -> (C) { C[i] = A[i] + 1 }", fast=True)
    with pytest.raises(ArgumentError, match="E410"):
        op(np.zeros(3, "f4"))
    with pytest.raises(ArgumentError, match="E410"):
        polytc.compile("C[i] = A[i] + 1", fast=2)  # type: ignore[call-overload]
    called = polytc.build("precise def g(f32[N] A) -> (C) { C[i] = A[i] + 1 }\nfast def f(f32[N] A) -> (C) { C = g(A) }",
                          {"A": (3,)}, entry="f")
    assert called.precise
    assert not called.fast


def test_models_and_commands_are_fast_when_asked() -> None:
    nodes = [helper.make_node("Add", ["x", "c"], ["s"]), helper.make_node("Sub", ["s", "c"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [40]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.array(12582912, F), "c")])
    loaded = polytc.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    a = np.full(40, 2.6, "f4")
    for options, expected in (({}, F(3)), ({"fast": True}, F(2.6)), ({}, F(3))):
        assert (loaded.compile(threads=1, **options).run(None, {"x": a})[0] == expected).all()
    for arguments, reordered in (([], False), (["--fast"], True)):
        found = CliRunner().invoke(app, ["emit", "C[i] = (A[i] + 3.5) - 3.5", "--shape", "A=64", *arguments])
        assert ("reassoc" in found.output) == reordered


def test_fast_is_a_name_like_others() -> None:
    assert polytc.run("fast[i] = A[i] + 1", A=np.zeros(3, "f4")).sum() == 3


def test_casts_of_numbers_round(targets: tuple[str, ...]) -> None:
    """`f32(0.1)` is the f32 nearest to 0.1 also where it meets an f64."""
    x, tenth = np.zeros(3), np.float64(F(0.1))
    for text, expected in (("Y[i] = X[i] + f32(0.1)", tenth), ("Y[i] = X[i] + f32(1 + 0.1)", np.float64(F(1.1))),
                           ("Y[i] = X[i] + f32(16777217)", 16777216.0), ("Y[i] = X[i] + f64(f32(0.1))", tenth),
                           ("Y[i] = f32(0.1) == f64(0.1) ? X[i] : X[i] + 1", 1.0)):
        for target in targets:
            assert (polytc.run(text, X=x, target=target) == expected).all(), text
