"""Words: neighbouring narrow numbers in one u32, which processors multiply and add all at once.

    word(a, b, c, d)        four i8 or u8, or two i16, u16 or bf16: the bits of the first are the lowest
    dot_u8i8(x, y)          the sum of the products of the u8 in x with the i8 in y, as i32; and so on
    part0(a, b)             the first of the three bf16 whose sum an f32 is, of two f32; part1 and part2 the others
    dot_f32(x0, x1, x2, y0, y1, y2)     the sum of the products of the two f32 that x0, x1, x2 are the parts of with those of y

No text can call them: `rewrite.dot_words` and `split_floats` write them, and each CPU target knows their names; those for GPUs
know words of bytes. Sums of integers wrap.

An f32 of 24 bits is exactly the sum of three bf16 of 8, each the nearest of what the ones before it leave; of numbers below
2**-110 what is below 2**-133, the least bf16, is lost. Numbers from 2**60 on, infinities and NaN are kept as they are instead,
the upper half of the bits in the first part and the lower one in the second, and the third part is a NaN, so that products of
parts with it are NaN; so is the other number of its word. Matrix units take subnormal parts for 0: what is lost of a number is
below 2**-125, and below 2**-65 of its product with a plain one. (Henry, Tang & Heinecke, Leveraging the bfloat16 Artificial
Intelligence Datatype for Higher-Precision Computations, ARITH 2019.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.program.scalars import BF16, F32, I8, I16, I32, U8, U32, DType

WORD = "word"
"""The call that makes a word (u32) of `group` numbers."""
BYTES = 4
"""In a word."""
PARTS = ("part0", "part1", "part2")
"""The calls that make words of the parts of two f32."""
LARGE = (127 + 60) << 23
"""The bits of 2**60, without a sign, from which on numbers are kept as they are."""
ODD = 0x7FC1
"""The third part of a number that is kept as it is."""


@dataclass(frozen=True)
class Dot:
    """A dot product of words: group numbers of types a and b each, added as `result`. a_parts, b_parts: words in which an
    operand comes, 3 of f32 in parts."""

    name: str
    a: DType
    b: DType
    result: DType
    a_parts: int = 1
    b_parts: int = 1

    @property
    def group(self) -> int:
        """Numbers in a word."""
        return U32.bits // self.a.bits

    @property
    def operands(self) -> int:
        """Arguments of a call."""
        return self.a_parts + self.b_parts

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """(part of a, part of b) whose products are added, the smallest first; those that are left out are below half a unit in
        the last place of the whole product."""
        pairs = [(p, q) for p in range(self.a_parts) for q in range(self.b_parts)]
        return tuple(sorted((x for x in pairs if sum(x) < max(self.a_parts, self.b_parts)), key=lambda x: -sum(x)))


DOTS: dict[str, Dot] = {d.name: d for d in (
    Dot("dot_u8i8", U8, I8, I32),
    Dot("dot_i8i8", I8, I8, I32),
    Dot("dot_u8u8", U8, U8, I32),
    Dot("dot_i16i16", I16, I16, I32),
    Dot("dot_bf16", BF16, BF16, F32),
    Dot("dot_f32", BF16, BF16, F32, len(PARTS), len(PARTS)),
    Dot("dot_f32_bf16", BF16, BF16, F32, len(PARTS)),
)}


def apply(fn: str, args: list[Any]) -> Any:
    """The reference: a call of WORD, of PARTS or of a row of DOTS on numpy scalars or arrays."""
    if fn in PARTS:
        return _word(list(parts(*args)[PARTS.index(fn)]))
    return _word(args) if fn == WORD else _dot(DOTS[fn], args)


def is_word_call(fn: str) -> bool:
    """Is it a call of this module?"""
    return fn == WORD or fn in PARTS or fn in DOTS


def parts(x: Any, y: Any) -> list[tuple[Any, Any]]:
    """The bits (u16) of the three parts of two f32 of a word, scalars or arrays."""
    numbers = [np.asarray(v, np.float32) for v in (x, y)]
    kept = np.logical_not(_plain(numbers[0]) & _plain(numbers[1]))
    split = [_split(v, kept) for v in numbers]
    return list(zip(*split, strict=True))


def _plain(x: Any) -> Any:
    return (x.view(np.uint32) & np.uint32(0x7FFFFFFF)) < LARGE


def _split(x: Any, kept: Any) -> tuple[Any, Any, Any]:
    bits, rest, found = x.view(np.uint32), np.where(kept, np.float32(0), x), list[Any]()
    for _ in PARTS:
        here = rest.view(np.uint32)
        found.append((here + np.uint32(0x7FFF) + (here >> np.uint32(16) & np.uint32(1))) >> np.uint32(16))
        rest = rest - (found[-1] << np.uint32(16)).view(np.float32)
    as_it_is = bits >> np.uint32(16), bits & np.uint32(0xFFFF), np.uint32(ODD)
    first, second, third = (np.where(kept, b, a).astype(np.uint16) for a, b in zip(found, as_it_is, strict=True))
    return first, second, third


def whole(found: tuple[Any, Any, Any]) -> Any:
    """The f32 of which these are the parts."""
    a, b, c = ((np.asarray(x, np.uint32) << np.uint32(16)).view(np.float32) for x in found)
    kept = (np.asarray(found[0], np.uint32) << np.uint32(16) | np.asarray(found[1], np.uint32)).view(np.float32)
    return np.where(np.asarray(found[2]) == ODD, kept, a + (b + c)).astype(np.float32)


def _word(numbers: list[Any]) -> Any:
    bits = U32.bits // len(numbers)
    total: Any = np.uint32(0)
    for n, part in enumerate(numbers):
        unsigned = np.asarray(part).view(f"u{bits // 8}").astype(np.uint32)
        total = total | unsigned << np.uint32(n * bits)
    return total


def _dot(dot: Dot, args: list[Any]) -> Any:
    total: Any = 0
    with np.errstate(all="ignore"):
        for n in range(dot.group):
            a = _number(args[:dot.a_parts], n, dot.a).astype(dot.result.numpy)
            b = _number(args[dot.a_parts:], n, dot.b).astype(dot.result.numpy)
            total = a * b if n == 0 else total + a * b
    return total


def _number(found: list[Any], n: int, dtype: DType) -> Any:
    """The n-th number of a word, or of the words of parts."""
    if len(found) == 1:
        return _part(found[0], n, dtype)
    first, second, third = (np.asarray(word) >> np.uint32(n * dtype.bits) & np.uint32(0xFFFF) for word in found)
    return whole((first, second, third))


def _part(word: Any, n: int, dtype: DType) -> Any:
    shifted = np.asarray(word) >> np.uint32(n * dtype.bits)
    if dtype == BF16:
        return (shifted << np.uint32(16)).view(np.float32)
    return shifted.astype(f"u{dtype.bytes}").view(dtype.numpy)
