"""What the form of a float expression, f32 or f64, tells of its value, for shorter code.

    f32(u8 z[])              a number, never NaN, of 0 to 255
    0.0 - f32(u8 z[])        a number of -255 to 0
    clamp(x, -3.0, 3.0)      of -3 to 3, or NaN
"""

from __future__ import annotations

import math
from typing import TypeAlias

from polytc.codegen import loops, traverse

Ends: TypeAlias = tuple[float, float]
"""The least and the largest value."""

NARROW = 16
"""Bits of integers that are floats without rounding."""
LARGEST = 2.0**60
"""Of constants, so that sums of them are finite."""


def is_number(e: loops.Expr) -> bool:
    """Is it finite, whatever is in memory?"""
    if not e.dtype.is_float or e.dtype.bits < 32:
        return False
    match e:
        case loops.Broadcast():
            return is_number(e.a)
        case loops.Const():
            return abs(e.value) <= LARGEST
        case loops.Cast():
            return e.a.dtype.is_int and e.a.dtype.bits <= NARROW
        case loops.Binary(op="+" | "-"):
            return is_number(e.a) and is_number(e.b)
        case _:
            return False


def is_zero(e: loops.Expr) -> bool:
    """Is it 0 and not -0?"""
    inside = traverse.repeated(e)
    return isinstance(inside, loops.Const) and inside.value == 0 and math.copysign(1.0, inside.value) > 0


def is_whole(e: loops.Expr) -> bool:
    """Is it a whole number?"""
    match e:
        case loops.Broadcast():
            return is_whole(e.a)
        case loops.Const():
            return is_number(e) and e.value == int(e.value)
        case loops.Cast():
            return is_number(e)
        case loops.Binary(op="+" | "-"):
            return is_whole(e.a) and is_whole(e.b)
        case _:
            return False


def ends(e: loops.Expr) -> Ends | None:
    """What it lies between unless it is NaN; None if that is not known."""
    match e:
        case loops.Broadcast():
            return ends(e.a)
        case loops.Const():
            return (e.value, e.value) if is_number(e) else None
        case loops.Cast() if is_number(e):
            return (-(2.0 ** (e.a.dtype.bits - 1)), 2.0 ** (e.a.dtype.bits - 1) - 1) if e.a.dtype.kind == "i" else \
                (0.0, 2.0**e.a.dtype.bits - 1)
        case loops.Binary(op="+" | "-"):
            a, b = ends(e.a), ends(e.b)
            if a is None or b is None:
                return None
            return (a[0] + b[0], a[1] + b[1]) if e.op == "+" else (a[0] - b[1], a[1] - b[0])
        case loops.Call(fn="clamp", args=(_, low, high)):
            least, most = ends(low), ends(high)
            return (min(least[0], most[0]), most[1]) if least is not None and most is not None else None
        case _:
            return None
