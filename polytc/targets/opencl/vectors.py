"""Vectors of OpenCL C, which are a part of the language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class OpenCLVectors:
    """See ctext/vectors.py."""

    lanewise: bool = False

    def made(self, ctype: str, parts: Sequence[str]) -> str:
        """`(float4)(a, b, c, d)`."""
        return f"({ctype})({', '.join(parts)})"

    def convert(self, ctype: str, text: str) -> str:
        """`convert_int4(a)`."""
        return f"convert_{ctype}({text})"

    def bits(self, ctype: str) -> str:
        """`as_int4`."""
        return f"as_{ctype}"

    def lane(self, text: str, k: int) -> str:
        """`a.s0` to `a.sf`."""
        return f"{text}.s{k:x}"

    def half(self, text: str, last: bool) -> str:
        """`a.lo` or `a.hi`."""
        return f"{text}.{'hi' if last else 'lo'}"

    def choose(self, mask: str, a: str, b: str) -> str:
        """`select(b, a, mask)`."""
        return f"select({b}, {a}, {mask})"

    def test(self, each: bool, mask: str) -> str:
        """`any(mask)` or `all(mask)`."""
        return f"{'all' if each else 'any'}({mask})"
