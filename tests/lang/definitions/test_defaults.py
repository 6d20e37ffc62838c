"""Parameters with defaults: in calls from Python, in calls of definitions, and in expressions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import polytc
from tests.meaning.run import meaning

X = np.arange(1, 6, dtype=np.float32)
SCALED = "def scaled(f32[N] x, f32 a = 0.5, i32 k = -1, b = true) -> (y) { y[i] = b ? a * (x[i+k] else 0) : 7 where i in 0:N }"
HALF = np.array([0, 0.5, 1, 1.5, 2], np.float32)


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_calls_from_python(target: str) -> None:
    op = polytc.compile(SCALED, target=target)
    assert op.inputs == ("x", "a", "k", "b")
    assert op(X).tolist() == HALF.tolist()
    assert op(X, 2.0).tolist() == (4 * HALF).tolist()
    assert op(X, k=0, a=3).tolist() == (3 * X).tolist()
    assert op(X, b=False).tolist() == [7] * 5
    assert polytc.run(SCALED, x=X, target=target).tolist() == HALF.tolist()
    assert pickle.loads(pickle.dumps(op))(X).tolist() == HALF.tolist()


def test_other_stages() -> None:
    assert polytc.evaluate(SCALED, x=X).tolist() == HALF.tolist()
    program = polytc.build(SCALED, {"x": (5,)})
    assert program.inputs == ("x",)
    assert polytc.run(str(program), x=X).tolist() == HALF.tolist()
    assert polytc.compile(SCALED, scalars={"a": 4})(X).tolist() == (8 * HALF).tolist()
    assert "0.5" in polytc.lower(SCALED, "c", shapes={"x": (5,)}).source.text
    op = polytc.compile(SCALED, shapes={"x": ("N",)})
    assert op(X).tolist() == HALF.tolist()
    assert op(X[:3]).tolist() == HALF[:3].tolist()


PROGRAMS = {
    SCALED + "\nY = scaled(X); Z = scaled(X, 2, 0) -> (Y, Z)": (HALF, 2 * X),
    "def sc(x, a = 0.5) -> (y) { y = a*x }\nY[i] = sc(X[i]) + sc(X[i], 2)": (2.5 * X,),
    "def sq(x) -> (y) { y = x*x }\ndef f(f32[N] x, f32 a = -2) -> (y) { y[i] = a*sq(x[i]) }\nY = f(f(X, 1))": (-2 * X**4,),
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_calls_of_definitions(text: str) -> None:
    got = polytc.run(text, X=X)
    got, means = got if isinstance(got, tuple) else (got,), meaning(text, {"X": X}).values()
    for a, b, (c, _) in zip(got, PROGRAMS[text], means, strict=True):
        np.testing.assert_allclose(a, b)
        np.testing.assert_allclose(c, b)


@pytest.mark.parametrize(("text", "code", "place"), [
    ("def f(f32[N] x, f32 a = 0.5, f32 b) -> (y) { y[i] = a*b*x[i] }", "E116", "b"),
    ("def f(f32[N] x) -> (y = 3) { y[i] = x[i] }", "E116", "y"),
    ("def f(x = 3) -> (y) { y[i] = x[i] }", "E116", "x"),
    ("def f(f32[N] x, inout f32 a = 3) -> (y) { y[i] = a*x[i] }", "E116", "a"),
    ("def f(f32[N] x, f32 a = [1, 2]) -> (y) { y[i] = a*x[i] }", "E116", "[1, 2]"),
    ("def f(f32[N] x, f32 a = N) -> (y) { y[i] = a*x[i] }", "E001", "N"),
    ("def f(f32[N] x, i32 a = 0.5) -> (y) { y[i] = a*x[i] }", "E301", "a"),
    ("def f(f32[N] v, f32 a = 1) -> (y) { y[i] = a*v[i] }\nY = f(x, 1, 2)", "E103", "f(x, 1, 2)"),
    ("def f(f32[N] v, f32 b, f32 a = 1) -> (y) { y[i] = a*v[i] }\nY = f(x)", "E103", "f(x)"),
])
def test_refusals(text: str, code: str, place: str) -> None:
    with pytest.raises(polytc.CompileError) as raised:
        polytc.run(text, x=X)
    first = raised.value.diagnostics[0]
    assert (first.code, text[first.span.start:first.span.end]) == (code, place), str(raised.value)


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_complex_defaults(target: str) -> None:
    """Twice, the second time by another Op: the first one stores the signature."""
    x = np.array([1 + 2j, -3j, 4], np.complex64)
    for _ in range(2):
        op = polytc.compile("def f(c64[N] x, c64 a = 1.5j, f32 b = 2) -> (y) { y[i] = a*x[i] + b }", target=target)
        np.testing.assert_allclose(op(x), 1.5j * x + 2, rtol=1e-6)
        np.testing.assert_allclose(op(x, a=2 - 1j), (2 - 1j) * x + 2, rtol=1e-6)
