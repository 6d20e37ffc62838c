"""Words: neighbouring narrow numbers in one u32, which processors multiply and add all at once.

    word(a, b, c, d)        four i8 or u8, or two i16, u16 or bf16: the bits of the first are the lowest
    dot_u8i8(x, y)          the sum of the products of the u8 in x with the i8 in y, as i32; and so on

No text can call them: `rewrite.cpu.dot_words` writes them, and each CPU target knows their names. Sums of integers wrap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.program.scalars import BF16, F32, I8, I16, I32, U8, U32, DType

WORD = "word"
"""The call that makes a word (u32) of `group` numbers."""


@dataclass(frozen=True)
class Dot:
    """A dot product of words: group numbers of types a and b each, added as `result`."""

    name: str
    a: DType
    b: DType
    result: DType

    @property
    def group(self) -> int:
        """Numbers in a word."""
        return U32.bits // self.a.bits


DOTS: dict[str, Dot] = {d.name: d for d in (
    Dot("dot_u8i8", U8, I8, I32),
    Dot("dot_i8i8", I8, I8, I32),
    Dot("dot_u8u8", U8, U8, I32),
    Dot("dot_i16i16", I16, I16, I32),
    Dot("dot_bf16", BF16, BF16, F32),
)}


def apply(fn: str, args: list[Any]) -> Any:
    """The reference: a call of WORD or of a row of DOTS on numpy scalars or arrays."""
    return _word(args) if fn == WORD else _dot(DOTS[fn], args[0], args[1])


def is_word_call(fn: str) -> bool:
    """Is it a call of this module?"""
    return fn == WORD or fn in DOTS


def _word(parts: list[Any]) -> Any:
    bits = U32.bits // len(parts)
    total: Any = np.uint32(0)
    for n, part in enumerate(parts):
        unsigned = np.asarray(part).view(f"u{bits // 8}").astype(np.uint32)
        total = total | unsigned << np.uint32(n * bits)
    return total


def _dot(dot: Dot, x: Any, y: Any) -> Any:
    total: Any = 0
    with np.errstate(all="ignore"):
        for n in range(dot.group):
            a, b = (_part(w, n, t).astype(dot.result.numpy) for w, t in ((x, dot.a), (y, dot.b)))
            total = a * b if n == 0 else total + a * b
    return total


def _part(word: Any, n: int, dtype: DType) -> Any:
    shifted = np.asarray(word) >> np.uint32(n * dtype.bits)
    if dtype == BF16:
        return (shifted << np.uint32(16)).view(np.float32)
    return shifted.astype(f"u{dtype.bytes}").view(dtype.numpy)
