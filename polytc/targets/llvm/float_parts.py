"""f32 as sums of three bf16 (program.calls): two f32 become a word of one part of each, and words of parts f32 again."""

from __future__ import annotations

from collections.abc import Sequence

from polytc.program.calls.words import DOTS, LARGE, ODD, PARTS
from polytc.targets.llvm import ir

HALF, SIGN, UPPER = 16, 0x7FFFFFFF, -0x10000
"""Bits of a bf16; all bits but the sign, and the upper half, of a word."""


def split(fn: ir.Function, name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """The call `name`, one of PARTS, of f32: in each lane the part of x, and above it that of y."""
    part, words = PARTS.index(name), ir.vector("i32", ir.lanes_of(x.type))
    bits = rest = [fn.bitcast(v, words) for v in (x, y)]
    for n in range(part + 1):
        nearest = [_nearest(fn, r) for r in rest]
        if n < part:
            halves = [fn.bitcast(fn.binary("and", h, ir.constant(UPPER, words)), x.type) for h in nearest]
            rest = [fn.bitcast(fn.binary("fsub", fn.bitcast(r, x.type), h), words) for r, h in zip(rest, halves, strict=True)]
    word = fn.binary("or", _high(fn, nearest[0]), fn.binary("and", nearest[1], ir.constant(UPPER, words)))
    return fn.choose(_plain(fn, bits), word, _kept(fn, bits, part))


def dot(fn: ir.Function, name: str, total: ir.Value, args: Sequence[ir.Value], flags: str) -> ir.Value:
    """total + the dot product `name` of f32 in parts in each lane."""
    row = DOTS[name]
    for n in range(row.group):
        a, b = (_number(fn, words, n, total.type) for words in (args[:row.a_parts], args[row.a_parts:]))
        total = fn.intrinsic("fmuladd", (a, b, total), flags)
    return total


def _number(fn: ir.Function, words: Sequence[ir.Value], n: int, type_: str) -> ir.Value:
    """The n-th number of words, as f32."""
    parts = [_halves(fn, w, type_)[n] for w in words]
    if len(parts) == 1:
        return parts[0]
    first, second, third = (_high(fn, w) if n else _low(fn, w) for w in words)
    kept = fn.binary("or", fn.binary("shl", first, ir.constant(HALF, first.type)), second)
    odd = fn.compare("icmp eq", third, ir.constant(ODD, third.type))
    return fn.choose(odd, fn.bitcast(kept, type_), fn.binary("fadd", parts[0], fn.binary("fadd", parts[1], parts[2])))


def _plain(fn: ir.Function, pair: Sequence[ir.Value]) -> ir.Value:
    """Is each of two numbers the sum of its parts?"""
    sizes = [fn.binary("and", bits, ir.constant(SIGN, bits.type)) for bits in pair]
    return fn.compare("icmp ult", fn.intrinsic("umax", sizes), ir.constant(LARGE, sizes[0].type))


def _nearest(fn: ir.Function, bits: ir.Value) -> ir.Value:
    """Words whose upper half is the nearest bf16 of f32, ties to even, subnormal ones as any others."""
    last = fn.binary("and", _high(fn, bits), ir.constant(1, bits.type))
    return fn.binary("add", fn.binary("add", bits, ir.constant(0x7FFF, bits.type)), last)


def _kept(fn: ir.Function, pair: Sequence[ir.Value], part: int) -> ir.Value:
    """What stands in the place of a part of two numbers of which one or both are kept as they are."""
    x, y = pair
    shift, type_ = ir.constant(HALF, x.type), x.type
    match part:
        case 0:
            return fn.binary("or", _high(fn, x), fn.binary("and", y, ir.constant(UPPER, type_)))
        case 1:
            return fn.binary("or", _low(fn, x), fn.binary("shl", y, shift))
        case _:
            return ir.constant(ODD << HALF | ODD, type_)


def _halves(fn: ir.Function, word: ir.Value, type_: str) -> tuple[ir.Value, ir.Value]:
    """The two bf16 of words, as f32."""
    low = fn.binary("shl", word, ir.constant(HALF, word.type))
    return fn.bitcast(low, type_), fn.bitcast(fn.binary("and", word, ir.constant(UPPER, word.type)), type_)


def _low(fn: ir.Function, word: ir.Value) -> ir.Value:
    return fn.binary("and", word, ir.constant(0xFFFF, word.type))


def _high(fn: ir.Function, word: ir.Value) -> ir.Value:
    return fn.binary("lshr", word, ir.constant(HALF, word.type))
