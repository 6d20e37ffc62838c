"""Where the buffers of a kernel live in CUDA C: pointers, __shared__ arrays, arrays and variables of one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from polytc.codegen import intervals, loops
from polytc.program.scalars import DType
from polytc.targets.ctext import places
from polytc.targets.cuda import types
from polytc.targets.cuda.matrix_unit import Unit

if TYPE_CHECKING:
    from polytc.targets.ctext.expressions import Expressions
    from polytc.targets.ctext.language import Language

BITS = {"f16": "half", "bf16": "bfloat"}
"""dtype -> what functions between floats and its bits are called after."""
ALIGNED = 16
"""Bytes of the widest access of one thread: what arrays in shared memory begin at, and others where a kernel needs it."""


@dataclass(frozen=True)
class Place(places.Place):
    """See ctext/places.py. Halves go one by one."""

    local: ClassVar[str] = f"alignas({ALIGNED}) __shared__ {{type}} {{array}};"

    def load_half(self, offset: str, lanes: int) -> str:
        """An element as a float, or several as a vector."""
        name = f"polytc_of_{BITS[self.half]}"
        if lanes == 1:
            return f"{name}({self.name}[{offset}])"
        return f"{name}_x{lanes}({places.address_of(self.name, offset)})"

    def store_half(self, offset: str, lanes: int, value: str) -> str:
        """The statement that writes floats, which have been rounded, to neighbouring halves."""
        name = f"polytc_{BITS[self.half]}"
        if lanes == 1:
            return f"{self.name}[{offset}] = {name}({value});"
        return f"{name}_x{lanes}({places.address_of(self.name, offset)}, {value});"


def half_words(half: str, lanes: int, single: dict[str, str]) -> dict[str, str]:
    """The functions for elements of a dtype, single ones and vectors of them. single: those for one element."""
    kind = BITS[half]
    found = {n: single[n] for n in (f"polytc_{kind}", f"polytc_of_{kind}")}
    if lanes > 1:
        parts = ", ".join(f"polytc_of_{kind}(p[{k}])" for k in range(lanes))
        lines = "".join(f"    p[{k}] = polytc_{kind}(a.lane[{k}]);\n" for k in range(lanes))
        found[f"polytc_of_{kind}_x{lanes}"] = (
            f"static __device__ inline f32x{lanes} polytc_of_{kind}_x{lanes}(const unsigned short* p)\n"
            f"{{\n    return f32x{lanes}({parts});\n}}\n")
        found[f"polytc_{kind}_x{lanes}"] = (
            f"static __device__ inline void polytc_{kind}_x{lanes}(unsigned short* p, const f32x{lanes} a)\n{{\n{lines}}}\n")
    return found


class Memory(places.Memory):
    """See ctext/places.py."""

    place_type = Place
    alignment: ClassVar[int] = ALIGNED

    def __init__(self, kernel: loops.Kernel, spell: Callable[[loops.Buffer], str], language: Language, unit: Unit) -> None:
        """unit: whose tiles hold the bits of halves."""
        self.unit = unit
        self.apart = unit.products.keys()
        super().__init__(kernel, spell, True, language)

    def _own(self, b: loops.Buffer, name: str, accesses: Sequence[places.Access]) -> places.Place:
        made = super()._own(b, name, accesses)
        return replace(made, ctype=types.memory(b.dtype, "global")) if b in self.unit.tiles else made

    def bytes_of(self, b: loops.Buffer) -> int:
        return b.dtype.bytes if b in self.unit.tiles else super().bytes_of(b)

    def copied_together(self, b: loops.Buffer, indices: tuple[loops.Expr, ...]) -> int:
        """The bytes that one copy takes of neighbouring halves; 0 where they must be copied one by one."""
        lanes = max(i.lanes for i in indices)
        aligned = all(intervals.multiple(e) * stride % lanes == 0 for e, stride in zip(places.first(indices), b.strides, strict=True))
        if lanes * b.dtype.bytes not in (4, 8, ALIGNED) or not self.is_contiguous(indices) or not aligned:
            return 0
        self.needs_alignment |= b.space == "global"
        return lanes * b.dtype.bytes

    def memory_type(self, dtype: DType, space: str) -> str:
        """See types.py."""
        return types.memory(dtype, space)

    def load_unaligned(self, write: Expressions, b: loops.Buffer, lanes: int, address: str) -> str:
        """`polytc_load<f32x4>(address)`."""
        return f"polytc_load<{self.memory_vector(b, lanes)}>({address})"

    def store_unaligned(self, write: Expressions, b: loops.Buffer, lanes: int, address: str, value: str) -> str:
        """`polytc_store(address, value);`."""
        return f"polytc_store({address}, {value});"
