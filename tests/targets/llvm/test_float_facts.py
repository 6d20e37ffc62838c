"""What is known of floats by their form holds for every value in memory."""

from __future__ import annotations

import pytest

from polytc.codegen import loops
from polytc.program.scalars import F16, F32, I8, I32, U8, U16, DType
from polytc.targets.llvm import float_facts
from polytc.targets.llvm.float_facts import Ends


def memory(dtype: DType) -> loops.Expr:
    return loops.Load(loops.Buffer("X", dtype, (9,)), (loops.const(0),), dtype)


def number(value: float, dtype: DType = F32) -> loops.Expr:
    return loops.Const(value, dtype)


def of(dtype: DType, to: DType = F32) -> loops.Expr:
    return loops.Cast(memory(dtype), to)


def both(op: str, a: loops.Expr, b: loops.Expr) -> loops.Expr:
    return loops.Binary(op, a, b, a.dtype)


def cut(low: loops.Expr, high: loops.Expr) -> loops.Expr:
    return loops.Call("clamp", (memory(F32), low, high), F32)


@pytest.mark.parametrize(("e", "finite", "whole", "ends"), [
    (number(3.0), True, True, (3, 3)), (number(-0.5), True, False, (-0.5, -0.5)), (number(float("nan")), False, False, None),
    (number(float("inf")), False, False, None), (number(1e39), False, False, None), (memory(F32), False, False, None),
    (of(U8), True, True, (0, 255)), (of(I8), True, True, (-128, 127)), (of(U16), True, True, (0, 65535)),
    (of(I32), False, False, None), (of(U16, F16), False, False, None), (loops.Broadcast(of(U8), 4, F32), True, True, (0, 255)),
    (both("-", number(0.0), of(U8)), True, True, (-255, 0)), (both("+", number(0.5), of(I8)), True, False, (-127.5, 127.5)),
    (both("*", number(2.0), of(U8)), False, False, None), (both("+", memory(F32), of(U8)), False, False, None),
    (cut(number(-3.0), number(5.0)), False, False, (-3, 5)), (cut(number(5.0), number(-3.0)), False, False, (-3, -3)),
    (cut(both("-", number(0.0), of(U8)), number(9.0)), False, False, (-255, 9)),
    (cut(number(0.0), memory(F32)), False, False, None),
    (both("-", cut(number(0.0), number(1.0)), number(1.0)), False, False, (-1, 0)), (memory(U8), False, False, None)])
def test_facts(e: loops.Expr, finite: bool, whole: bool, ends: Ends | None) -> None:
    assert (float_facts.is_number(e), float_facts.is_whole(e), float_facts.ends(e)) == (finite, whole, ends)


@pytest.mark.parametrize(("value", "zero"), [(0.0, True), (-0.0, False), (1.0, False)])
def test_zero(value: float, zero: bool) -> None:
    assert float_facts.is_zero(number(value)) == float_facts.is_zero(loops.Broadcast(number(value), 8, F32)) == zero
