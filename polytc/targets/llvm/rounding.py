"""Rounding of numbers that are known to be small, by adding a number so large that their fraction has no digits left.

    round(clamp(x, -100, 100))   ->   (clamp(x, -100, 100) + M) - M        where M = 1.5 * 2^23

The sum is rounded to a whole number as every operation is, halves to even, and as bits it is that number plus the bits of M:
neither the rounding instruction, which is two operations on x86, nor a conversion is needed.
"""

from __future__ import annotations

from polytc.codegen import loops
from polytc.program.scalars import F32
from polytc.targets.llvm import ir

SHIFT, SHIFT_BITS = 1.5 * 2.0**23, 0x4B400000
"""M, and the same as bits."""
LARGEST = 2.0**22


def is_small(e: loops.Expr) -> bool:
    """Is it the rounded value, f32, of what constants bound?"""
    if not isinstance(e, loops.Call) or e.fn != "round" or e.dtype != F32:
        return False
    inside = e.args[0].a if isinstance(e.args[0], loops.Broadcast) else e.args[0]
    return isinstance(inside, loops.Call) and inside.fn == "clamp" and all(map(_bounded, inside.args[1:]))


def nearest(fn: ir.Function, x: ir.Value) -> ir.Value:
    """x, which `is_small`, rounded; -0.2 to -0."""
    return fn.intrinsic("copysign", (fn.binary("fsub", _shifted(fn, x), ir.constant(SHIFT, x.type)), x))


def nearest_integer(fn: ir.Function, x: ir.Value) -> ir.Value:
    """x, which `is_small`, rounded, as i32; some number for NaN."""
    shifted = _shifted(fn, x)
    integer = ir.vector("i32", ir.lanes_of(x.type))
    return fn.binary("sub", fn.bitcast(shifted, integer), ir.constant(SHIFT_BITS, integer))


def _shifted(fn: ir.Function, x: ir.Value) -> ir.Value:
    return fn.binary("fadd", x, ir.constant(SHIFT, x.type))


def _bounded(e: loops.Expr) -> bool:
    number = e.a if isinstance(e, loops.Broadcast) else e
    return isinstance(number, loops.Const) and abs(number.value) <= LARGEST
