"""Rounded numbers within the range of an integer type are cut off before they are rounded, and need not become integers.

    Y[i] = u8(clamp(round(X[i]) + 3, 0, 255))                   with X[9]
    ->  Y[i] = u8(i32(round(clamp(X[i], -3.0, 252.0))) + 3)

    Y[i] = f32(i32(u8(clamp(round(X[i]) + 3, 0, 255))) - 3)     with X[9]
    ->  Y[i] = round(clamp(X[i], -3.0, 252.0)) + 0.0

Quantised tensors between DequantizeLinear and QuantizeLinear are made of these. A target that knows that what it rounds is
small has a shorter way to do it. Values are the same, but for NaN, which no integer is: here it stays NaN.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.program.scalars import F32, I32

LARGEST = 2**20
"""Of the constants; sums of two such are exact in f32."""

Whole = tuple[pr.Call, int]
"""round(clamp(x, low, high)) with constant bounds, and a whole number to add."""


def cut_first(program: pr.Program) -> pr.Program:
    """The program with such expressions so rewritten; a precise one stays as it is."""
    if program.precise:
        return program
    return replace(program, statements=tuple(replace(s, value=pr.map_expr(s.value, _rewritten)) for s in program.statements))


def _rewritten(e: pr.Expr) -> pr.Expr:
    match e:
        case pr.Call(fn="clamp", dtype=dtype) if dtype == F32:
            found = _clamped(e)
            return e if found is None else _as_float(found)
        case pr.Cast(dtype=dtype) if dtype == F32 and e.a.dtype.is_int:
            found = _whole(e.a)  # integers have no -0: it is 0 after 0 is added
            return e if found is None else pr.Binary("+", found[0], pr.Const(float(found[1]), F32), F32)
        case pr.Cast(dtype=dtype) if dtype.is_int and e.a.dtype == F32:
            found = _whole(e.a)
            if found is None or not _holds(e, found):
                return e
            rounded: pr.Expr = pr.Cast(found[0], I32)
            total = pr.Binary("+", rounded, pr.Const(found[1], I32), I32) if found[1] else rounded
            return total if dtype == I32 else pr.Cast(total, dtype)
        case _:
            return e


def _clamped(e: pr.Call) -> Whole | None:
    """clamp(round(x) + c, low, high) with whole numbers, cut off first."""
    value, *bounds = e.args
    low, high = map(_number, bounds)
    offset = 0
    if isinstance(value, pr.Binary) and value.op == "+":
        constants = [(_number(x), other) for x, other in ((value.b, value.a), (value.a, value.b))]
        offset, value = next(((c, other) for c, other in constants if c is not None), (0, value))
    if low is None or high is None or low > high or not isinstance(value, pr.Call) or value.fn != "round":
        return None
    ends = (pr.Const(float(low - offset), F32), pr.Const(float(high - offset), F32))
    return replace(value, args=(pr.Call("clamp", (value.args[0], *ends), F32),)), offset


def _whole(e: pr.Expr) -> Whole | None:
    """What an expression is, where no conversion on the way changes it."""
    match e:
        case pr.Call(fn="round", args=(pr.Call(fn="clamp", args=(_, low, high)),)) if e.dtype == F32:
            return (e, 0) if _number(low) is not None and _number(high) is not None else None
        case pr.Binary(op="+" | "-", a=a, b=b) if e.dtype in (F32, I32):
            inside, constant = _whole(a), _number(b)
            if inside is None or constant is None:
                return None
            return inside[0], inside[1] + (constant if e.op == "+" else -constant)
        case pr.Cast(a=a, dtype=dtype) if dtype.is_int:
            inside = _whole(a)
            return inside if inside is not None and _holds(e, inside) else None
        case _:
            return None


def _holds(cast: pr.Cast, whole: Whole) -> bool:
    """Are all such numbers among those of the cast's type?"""
    clamp = whole[0].args[0]
    assert isinstance(clamp, pr.Call)
    low, high = (_number(x) for x in clamp.args[1:])
    bits, signed = cast.dtype.bits, cast.dtype.kind == "i"
    least, most = (-(2**(bits - 1)), 2**(bits - 1) - 1) if signed else (0, 2**bits - 1)
    return low is not None and high is not None and least <= low + whole[1] and high + whole[1] <= most


def _as_float(whole: Whole) -> pr.Expr:
    rounded, offset = whole
    return pr.Binary("+", rounded, pr.Const(float(offset), F32), F32) if offset else rounded


def _number(e: pr.Expr) -> int | None:
    """A constant that is a whole number, and not too large."""
    while isinstance(e, pr.Cast):
        e = e.a
    if not isinstance(e, pr.Const) or e.dtype.kind == "b" or abs(e.value) > LARGEST or e.value != int(e.value):
        return None
    return int(e.value)
