"""Rounding of numbers that are known to be small, by adding a number so large that their fraction has no digits left.

    round(clamp(x, -100, 100))   ->   (clamp(x, -100, 100) + M) - M        where M = 1.5 * 2^23

The sum is rounded to a whole number as every operation is, halves to even, and as bits it is that number plus the bits of M:
neither the rounding instruction, which is two operations on x86, nor a conversion is needed.
"""

from __future__ import annotations

from collections.abc import Iterable

from polytc.codegen import loops
from polytc.program.scalars import F32
from polytc.targets.llvm import float_facts, ir

SHIFT, SHIFT_BITS = 1.5 * 2.0**23, 0x4B400000
"""M, and the same as bits."""
LARGEST = 2.0**22


def is_small(e: loops.Expr) -> bool:
    """Is it the rounded value, f32, of what lies between small numbers?"""
    if not isinstance(e, loops.Call) or e.fn != "round" or e.dtype != F32:
        return False
    return are_small(e.args)


def are_small(numbers: Iterable[loops.Expr]) -> bool:
    """Do they lie between numbers that are small enough?"""
    return all(between is not None and max(map(abs, between)) <= LARGEST for between in map(float_facts.ends, numbers))


def nearest(fn: ir.Function, x: ir.Value) -> ir.Value:
    """x, which `is_small`, rounded; -0.2 to -0."""
    return fn.intrinsic("copysign", (nearest_or_zero(fn, x), x))


def nearest_or_zero(fn: ir.Function, x: ir.Value) -> ir.Value:
    """x, which `is_small`, rounded; -0.2 to 0."""
    return fn.binary("fsub", _shifted(fn, x), ir.constant(SHIFT, x.type))


def nearest_integer(fn: ir.Function, x: ir.Value) -> ir.Value:
    """x, which `is_small`, rounded, as i32; some number for NaN."""
    shifted = _shifted(fn, x)
    integer = ir.vector("i32", ir.lanes_of(x.type))
    return fn.binary("sub", fn.bitcast(shifted, integer), ir.constant(SHIFT_BITS, integer))


def _shifted(fn: ir.Function, x: ir.Value) -> ir.Value:
    return fn.binary("fadd", x, ir.constant(SHIFT, x.type))
