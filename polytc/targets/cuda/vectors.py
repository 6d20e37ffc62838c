"""Vectors of CUDA C: structures with operators, which the preamble has (see vector_text.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CudaVectors:
    """See ctext/vectors.py. CUDA's own float4 has no operators, and HIP's has others."""

    lanewise: bool = True

    def made(self, ctype: str, parts: Sequence[str]) -> str:
        """`f32x4(a, b, c, d)`."""
        return f"{ctype}({', '.join(parts)})"

    def convert(self, ctype: str, text: str) -> str:
        """`polytc_convert<i32x4>(a)`."""
        return f"{self.bits(ctype)}({text})"

    def bits(self, ctype: str) -> str:
        """The same function: integers keep their bits in it."""
        return f"polytc_convert<{ctype}>"

    def lane(self, text: str, k: int) -> str:
        """`a.lane[0]`."""
        return f"{text}.lane[{k}]"

    def half(self, text: str, last: bool) -> str:
        """`a.half(0)`: the first or the last half of the lanes."""
        return f"{text}.half({int(last)})"

    def choose(self, mask: str, a: str, b: str) -> str:
        """`polytc_choose(mask, a, b)`."""
        return f"polytc_choose({mask}, {a}, {b})"

    def test(self, each: bool, mask: str) -> str:
        """`polytc_any(mask)` or `polytc_all(mask)`."""
        return f"polytc_{'all' if each else 'any'}({mask})"
