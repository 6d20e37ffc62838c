"""f32 as sums of three bf16 (program.words): two f32 become a word of one part of each, and words of parts f32 again."""

from __future__ import annotations

from collections.abc import Sequence

from polytc.machine import Machine
from polytc.program.scalars import BF16, F32
from polytc.program.words import DOTS, LARGEST, ODD, PARTS, SMALLEST
from polytc.targets.llvm import arithmetic, ir

HALF, SIGN, UPPER = 16, 0x7FFFFFFF, -0x10000
"""Bits of a bf16; all bits but the sign, and the upper half, of a word."""
PAIR = 16
"""Lanes of each of the vectors that one instruction makes bf16 of."""


def split(fn: ir.Function, name: str, x: ir.Value, y: ir.Value, machine: Machine) -> ir.Value:
    """The call `name`, one of PARTS, of f32: in each lane the part of x, and above it that of y."""
    part, words = PARTS.index(name), ir.vector("i32", ir.lanes_of(x.type))
    bits, rest = [fn.bitcast(v, words) for v in (x, y)], [x, y]
    word = _rounded(fn, rest, machine)
    for _ in range(part):
        rest = [fn.binary("fsub", r, half) for r, half in zip(rest, _halves(fn, word, x.type), strict=True)]
        word = _rounded(fn, rest, machine)
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
    """Is each of two numbers 0, or one that is the sum of its parts?"""
    type_ = pair[0].type
    sizes = [fn.binary("and", bits, ir.constant(SIGN, type_)) for bits in pair]
    less = [fn.binary("add", size, ir.constant(-1, type_)) for size in sizes]   # 0 becomes the largest
    largest, smallest = fn.intrinsic("umax", sizes), fn.intrinsic("umin", less)
    return fn.binary("and", fn.compare("icmp ule", largest, ir.constant(LARGEST, type_)),
                     fn.compare("icmp uge", smallest, ir.constant(SMALLEST - 1, type_)))


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


def _rounded(fn: ir.Function, pair: Sequence[ir.Value], machine: Machine) -> ir.Value:
    """Words of the nearest bf16 of two vectors of f32."""
    lanes = ir.lanes_of(pair[0].type)
    if lanes == PAIR and machine.has("avx512bf16"):
        made = fn.call("llvm.x86.avx512bf16.cvtne2ps2bf16.512", f"<{2 * lanes} x bfloat>", (pair[1], pair[0]))
        raw = fn.bitcast(made, f"<{2 * lanes} x i16>")
        order = [lane + side * lanes for lane in range(lanes) for side in (0, 1)]
        return fn.bitcast(fn.shuffle(raw, None, order), ir.vector("i32", lanes))
    low, high = (fn.convert("zext", arithmetic.cast(fn, v, F32, BF16, machine), "i32") for v in pair)
    return fn.binary("or", low, fn.binary("shl", high, ir.constant(HALF, high.type)))


def _halves(fn: ir.Function, word: ir.Value, type_: str) -> tuple[ir.Value, ir.Value]:
    """The two bf16 of words, as f32."""
    low = fn.binary("shl", word, ir.constant(HALF, word.type))
    return fn.bitcast(low, type_), fn.bitcast(fn.binary("and", word, ir.constant(UPPER, word.type)), type_)


def _low(fn: ir.Function, word: ir.Value) -> ir.Value:
    return fn.binary("and", word, ir.constant(0xFFFF, word.type))


def _high(fn: ir.Function, word: ir.Value) -> ir.Value:
    return fn.binary("lshr", word, ir.constant(HALF, word.type))
