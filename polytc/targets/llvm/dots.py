"""Words of narrow numbers (program.calls) and their dot products: one instruction where the processor has it."""

from __future__ import annotations

from collections.abc import Sequence

from polytc.machine import Machine
from polytc.program.calls.words import DOTS
from polytc.targets.llvm import ir

FEWEST, WORD_BITS = 4, 32
"""Lanes of the narrowest vector that the instructions take; bits of a word."""

VNNI = {"dot_u8i8": "llvm.x86.avx512.vpdpbusd.{bits}", "dot_i16i16": "llvm.x86.avx512.vpdpwssd.{bits}",
        "dot_bf16": "llvm.x86.avx512bf16.dpbf16ps.{bits}"}
PAIRS = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}
NEON = {"dot_u8i8": "llvm.aarch64.neon.usdot.v4i32.v16i8", "dot_i8i8": "llvm.aarch64.neon.sdot.v4i32.v16i8",
        "dot_u8u8": "llvm.aarch64.neon.udot.v4i32.v16i8"}
"""Dot product -> LLVM's name. VNNI and NEON add to their first operand; PAIRS, of i16, does not."""


def emit(fn: ir.Function, name: str, total: ir.Value, words: Sequence[ir.Value], machine: Machine) -> ir.Value:
    """total + the dot product of two words in each lane. machine: has this dot product (machine.dots)."""
    lanes, (x, y) = ir.lanes_of(total.type), words
    if lanes < FEWEST:
        wide = emit(fn, name, _widened(fn, total), [_widened(fn, w) for w in words], machine)
        return fn.extract(wide, 0) if lanes == 1 else fn.shuffle(wide, None, range(lanes))
    if machine.has("neon") and lanes > FEWEST:
        halves = [[fn.shuffle(v, None, range(at, at + lanes // 2)) for v in (total, x, y)] for at in (0, lanes // 2)]
        a, b = (emit(fn, name, half[0], half[1:], machine) for half in halves)
        return fn.shuffle(a, b, range(lanes))
    bits, dot = lanes * WORD_BITS, DOTS[name]
    part = "bfloat" if dot.a.is_float else f"i{dot.a.bits}"
    a, b = (_bits(fn, v, ir.vector(part, lanes * dot.group)) for v in (x, y))
    if machine.has("neon"):
        return fn.call(NEON[name], total.type, (total, a, b))
    vnni = machine.has("avx512vnni") or (machine.has("avxvnni") and bits <= 256)
    if name == "dot_i16i16" and not vnni:
        return fn.binary("add", total, fn.call(PAIRS[bits], total.type, (a, b)))
    return fn.call(VNNI[name].format(bits=bits), total.type, (total, a, b))


def as_words(fn: ir.Function, numbers: ir.Value, lanes: int) -> ir.Value:
    """Narrow numbers, side by side, as so many words."""
    return _bits(fn, numbers, ir.vector("i32", lanes))


def interleave(fn: ir.Function, parts: Sequence[ir.Value]) -> ir.Value:
    """Words of vectors of numbers: the n-th word has the n-th number of each."""
    lanes = ir.lanes_of(parts[0].type)
    while len(parts) > 1:
        bits = WORD_BITS // len(parts)
        pairs = [fn.shuffle(_vector(fn, a), _vector(fn, b), [i + side * lanes for i in range(lanes) for side in (0, 1)])
                 for a, b in zip(parts[::2], parts[1::2], strict=True)]
        parts = [_bits(fn, p, ir.vector(f"i{2 * bits}", lanes)) for p in pairs]
    return parts[0]


def _vector(fn: ir.Function, v: ir.Value) -> ir.Value:
    """A scalar as a vector of one lane."""
    if ir.lanes_of(v.type) > 1:
        return v
    single = f"<1 x {v.type}>"
    return fn.emit(single, f"insertelement {single} poison, {v}, i64 0")


def _widened(fn: ir.Function, v: ir.Value) -> ir.Value:
    lanes = ir.lanes_of(v.type)
    return fn.splat(v, FEWEST) if lanes == 1 else fn.shuffle(v, None, [i if i < lanes else -1 for i in range(FEWEST)])


def _bits(fn: ir.Function, v: ir.Value, type_: str) -> ir.Value:
    return v if v.type == type_ else fn.bitcast(v, type_)
