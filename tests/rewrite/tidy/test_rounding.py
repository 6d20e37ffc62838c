"""Rounded numbers that are cut off first: the same texts come out, and the same numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.lang import build
from polytc.program.terms import format_expr
from polytc.rewrite.tidy import rounding


def rewritten(text: str) -> str:
    program = build(text, {"X": (9,)}, {"X": "f32"})
    return format_expr(rounding.cut_first(program).statements[0].value)


@pytest.mark.parametrize(("value", "result"), [
    ("u8(clamp(round(X[i]) + 3, 0, 255))", "u8(i32(round(clamp(X[i], -3.0, 252.0))) + 3)"),
    ("u8(clamp(round(X[i]), 0, 255))", "u8(i32(round(clamp(X[i], 0.0, 255.0))))"),
    ("i8(clamp(round(X[i]) + -7, -128, 127))", "i8(i32(round(clamp(X[i], -121.0, 134.0))) + -7)"),
    ("f32(i32(u8(clamp(round(X[i]) + 3, 0, 255))) - 3) * 0.5", "(round(clamp(X[i], -3.0, 252.0)) + 0.0) * 0.5"),
    ("f32(i32(u8(clamp(round(X[i]) + 3, 0, 255))) - 1)", "round(clamp(X[i], -3.0, 252.0)) + 2.0"),
])
def test_what_is_rewritten(value: str, result: str) -> None:
    assert rewritten(f"Y[i] = {value}") == result


@pytest.mark.parametrize(("value", "result"), [
    ("u8(clamp(round(X[i]) + f32(z), 0, 255))", "u8(i32(round(clamp(X[i], 0.0 - f32(z), 255.0 - f32(z)))) + i32(z))"),
    ("f32(i32(u8(clamp(round(X[i]) + f32(z), 0, 255))) - i32(z))",
     "round(clamp(X[i], 0.0 - f32(z), 255.0 - f32(z))) + 0.0"),
    ("f32(i32(u8(clamp(round(X[i]) + f32(z), 0, 255))) - 3)",
     "round(clamp(X[i], 0.0 - f32(z), 255.0 - f32(z))) + -3.0 + f32(z)"),
])
def test_a_byte_that_is_an_input(value: str, result: str) -> None:
    program = build(f"def f(f32[9] X, u8[] z) -> (Y) {{ Y[i] = {value} }}", {"X": (9,), "z": ()}, {})
    assert format_expr(rounding.cut_first(program).statements[0].value) == result


@pytest.mark.parametrize("value", [
    "u8(clamp(round(X[i]) + f32(i8(z)), 0, 255))",  # what the conversion makes of it is another number
    "u8(clamp(round(X[i]), f32(z), 255))",          # 0 or 255, nobody knows which is larger
    "u8(clamp(round(X[i]) + f32(w), 0, 255))",      # no byte
])
def test_other_inputs_stay(value: str) -> None:
    text = f"def f(f32[9] X, u8[] z, i32[] w) -> (Y) {{ Y[i] = {value} + 0*u8(z[]) + 0*u8(w[]) }}"
    program = build(text, {"X": (9,), "z": (), "w": ()}, {})
    assert rounding.cut_first(program) == program


@pytest.mark.parametrize("value", [
    "u8(clamp(round(X[i]) + 0.5, 0, 255))",          # no whole number is added
    "u8(clamp(round(X[i]) + X[i], 0, 255))",         # nor a known one
    "clamp(X[i] + 3, 0, 255)",
    "u8(clamp(round(X[i]), 0, inf))",
])
def test_what_stays(value: str) -> None:
    text = f"Y[i] = {value}"
    program = build(text, {"X": (9,)}, {"X": "f32"})
    assert rounding.cut_first(program) == program


def test_conversions_that_wrap_stay() -> None:
    """256 is no u8: what the conversion makes of it is not what was rounded."""
    assert "f32(u8(" in rewritten("Y[i] = f32(u8(clamp(round(X[i]), 0, 256)))")


def test_a_precise_program_stays() -> None:
    program = replace(build("Y[i] = u8(clamp(round(X[i]), 0, 255))", {"X": (9,)}, {"X": "f32"}), precise=True)
    assert rounding.cut_first(program) == program


@pytest.mark.part(2)
@pytest.mark.parametrize("zero", [0, 3, 128, 255])
def test_numbers(targets: tuple[str, ...], zero: int) -> None:
    """Halves go to even, odd zero points or not; what is far away is cut off, infinities with it."""
    x = np.concatenate([np.arange(-300, 300, 0.25), [-0.5, 1e9, -1e9, 2.0**31, 3e38, np.inf, -np.inf]]).astype(np.float32)
    bytes_ = np.clip(np.round(x.astype(np.float64)) + zero, 0, 255)
    narrow = f"u8(clamp(round(X[i]) + {zero}, 0, 255))"
    for target in targets:
        np.testing.assert_array_equal(polytc.compile(f"Y[i] = {narrow}", target=target)(x), bytes_.astype(np.uint8))
        real = polytc.compile(f"Y[i] = f32(i32({narrow}) - {zero}) * 0.5", target=target)(x)
        np.testing.assert_array_equal(real, ((bytes_ - zero) * 0.5).astype(np.float32))
