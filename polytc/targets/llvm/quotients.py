"""Quotients by a known number: its reciprocal, and one step that corrects the rounding.

    x / s  ->  q = x * r;  q + (x - q * s) * r        where r = 1 / s

With fused multiply-adds the difference is exact and the result is the rounded quotient, as long as the significand of s is not
all ones (Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, IBM Journal of Research and
Development 34, 1990), x has bits to spare for the difference, and the quotient is a normal number. Vectors with x so small that
this does not hold are divided. It takes a third of the time of a vector division.

    round(clamp(x / s, low, high))  ->  round(y / s)  where y = clamp(x, low * s, high * s)

for whole numbers low and high, of less than 22 bits: the quotient of what is cut off is as near to them as to be rounded to
them. So no quotient is infinite, and s need not be in the text, only in a range. (For 150,000 divisors, that of all ones among
them, each of the 2^23 quotients is the rounded one.)
"""

from __future__ import annotations

import math

import numpy as np

from polytc.program.scalars import F32
from polytc.targets.llvm import arithmetic, float_facts, ir, memory

SMALLEST, LARGEST = 2.0**-60, 2.0**60
"""Divisors whose reciprocal, and what comes of it, stay far from the ends of the range."""


EXACT, NORMAL = 2.0**-100, 2.0**-124
"""From the first on, dividends leave differences without rounding; quotients from the second on are normal numbers."""


def by_number(fn: ir.Function, x: ir.Value, divisor: float) -> ir.Value | None:
    """x / divisor in f32 for vectors; None where a division is as good."""
    if not suits(x.type) or not SMALLEST <= abs(divisor) <= LARGEST:
        return None
    s = np.float32(divisor)
    if is_power(divisor) or math.frexp(abs(float(s)))[0] == 1 - 2.0**-24:
        return None
    least = max(EXACT, 2.0 ** math.ceil(math.log2(NORMAL * abs(float(s)))))
    return memory.guarded(fn, _all_reach(fn, x, least), lambda: _corrected(fn, x, s),
                          lambda: fn.binary("fdiv", x, ir.constant(float(s), x.type)))


def suits(type_: str) -> bool:
    """Do divisions of this type of LLVM's take longer?"""
    return ir.element(type_) == "float" and ir.lanes_of(type_) >= 8


def is_power(divisor: float) -> bool:
    """Is it a power of two, whose division is a multiplication?"""
    return abs(math.frexp(divisor)[0]) == 0.5


def sign(between: float_facts.Ends | None) -> int:
    """1 or -1 of a divisor that lies between such numbers, if it is one whose reciprocal has all its digits; else 0."""
    if between is None or not min(map(abs, between)) >= SMALLEST or not max(map(abs, between)) <= LARGEST:
        return 0
    return 1 if between[0] > 0 else -1 if between[1] < 0 else 0


def cut(fn: ir.Function, x: ir.Value, ends: tuple[ir.Value, ir.Value], divisor: ir.Value, *, negative: bool, signed: bool
        ) -> ir.Value:
    """clamp(x / divisor, *ends), with whole numbers as ends, before it is rounded. divisor: a scalar, `negative` or not;
    signed: a quotient 0 needs its sign."""
    lanes, y = ir.lanes_of(x.type), x
    s, r = fn.splat(divisor, lanes), fn.splat(_reciprocal(fn, divisor), lanes)
    for op, end in zip(("min", "max") if negative else ("max", "min"), ends, strict=True):
        product = fn.binary("fmul", end, s)
        y = arithmetic.extremum(fn, op, y, product, F32, (product,))
    q, rounded = _refined(fn, y, s, r)
    return fn.intrinsic("copysign", (rounded, q)) if signed else rounded


def _reciprocal(fn: ir.Function, divisor: ir.Value) -> ir.Value:
    if divisor.number is not None:
        return ir.constant(float(np.float32(1) / np.float32(divisor.number)), divisor.type)
    return fn.binary("fdiv", ir.constant(1.0, divisor.type), divisor)


def _refined(fn: ir.Function, x: ir.Value, s: ir.Value, r: ir.Value) -> tuple[ir.Value, ir.Value]:
    """x times r, the reciprocal of s, and that with its rounding corrected."""
    q = fn.binary("fmul", x, r)
    return q, fn.intrinsic("fma", (fn.intrinsic("fma", (fn.emit(x.type, f"fneg {q}"), s, x)), r, q))


def _all_reach(fn: ir.Function, x: ir.Value, least: float) -> ir.Value:
    """Is each lane at least so far from 0, or 0? As bits, which order as numbers do, and 0 - 1 is beyond all others."""
    integer = ir.vector("i32", ir.lanes_of(x.type))
    bits = fn.bitcast(x, integer)
    distance = fn.binary("sub", fn.binary("and", bits, ir.constant(0x7FFFFFFF, integer)), ir.constant(1, integer))
    reach = int(np.float32(least).view(np.int32)) - 1
    lanes = fn.compare("icmp uge", distance, ir.constant(reach, integer))
    return fn.call(f"llvm.vector.reduce.and.{ir.mangle(lanes.type)}", "i1", (lanes,))


def _corrected(fn: ir.Function, x: ir.Value, s: np.float32) -> ir.Value:
    q, refined = _refined(fn, x, ir.constant(float(s), x.type), ir.constant(float(np.float32(1) / s), x.type))
    rounded = fn.intrinsic("copysign", (refined, q))  # -0 + 0 is 0
    return fn.choose(fn.compare("fcmp ord", rounded, rounded), rounded, q)  # an infinite quotient leaves no difference
