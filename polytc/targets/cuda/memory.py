"""Where the buffers of a kernel live in CUDA C: pointers, __shared__ arrays, arrays and variables of one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from polytc.codegen import intervals, loops
from polytc.program.scalars import I8, U8, DType
from polytc.targets.ctext import places
from polytc.targets.ctext.text import PREFIX, operand
from polytc.targets.cuda import types
from polytc.targets.cuda.matrix_unit import Unit

if TYPE_CHECKING:
    from polytc.targets.ctext.expressions import Expressions
    from polytc.targets.ctext.language import Language

BITS = {"f16": "half", "bf16": "bfloat"}
"""dtype -> what functions between floats and its bits are called after."""
DEVICE = "static __device__ inline"
ALIGNED = 16
"""Bytes of the widest access of one thread: what arrays in shared memory begin at, and others where a kernel needs it."""


@dataclass(frozen=True)
class Place(places.Place):
    """See ctext/places.py. Memory loads and stores halves."""

    local: ClassVar[str] = f"alignas({ALIGNED}) __shared__ {{type}} {{array}};"


def _function(head: str, name: str, argument: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{DEVICE} {head} {name}({argument})", "{", *(f"    {line}" for line in lines), "}", ""])


def to_floats(half: str, lanes: int, packed: bool) -> tuple[str, str]:
    """The name and the text of the function of neighbouring halves, as a vector of their bits if they are packed."""
    name, at = f"polytc_of_{BITS[half]}", "a.lane" if packed else "p"
    parts = ", ".join(f"{name}({at}[{k}])" for k in range(lanes))
    argument = f"const u16x{lanes} a" if packed else "const unsigned short* p"
    return f"{name}_x{lanes}", _function(f"f32x{lanes}", f"{name}_x{lanes}", argument, [f"return f32x{lanes}({parts});"])


def to_halves(half: str, lanes: int, packed: bool) -> tuple[str, str]:
    """The same the other way; with a pointer to where they go, if they are not packed."""
    name, floats = f"polytc_{BITS[half]}", f"const f32x{lanes} a"
    parts = [f"{name}(a.lane[{k}])" for k in range(lanes)]
    if packed:
        lines = [f"return u16x{lanes}({', '.join(parts)});"]
        return f"{name}_x{lanes}", _function(f"u16x{lanes}", f"{name}_x{lanes}", floats, lines)
    lines = [f"p[{k}] = {part};" for k, part in enumerate(parts)]
    return f"{name}_x{lanes}", _function("void", f"{name}_x{lanes}", f"unsigned short* p, {floats}", lines)


class Memory(places.Memory):
    """See ctext/places.py."""

    place_type = Place
    alignment: ClassVar[int] = ALIGNED

    def __init__(self, kernel: loops.Kernel, spell: Callable[[loops.Buffer], str], language: Language, unit: Unit) -> None:
        """unit: whose tiles hold the bits of halves, or words."""
        self.unit = unit
        self.apart = unit.products.keys()
        super().__init__(kernel, spell, True, language)

    def _own(self, b: loops.Buffer, name: str, accesses: Sequence[places.Access]) -> places.Place:
        made = super()._own(b, name, accesses)
        bits = b in self.unit.tiles and b.dtype.is_half
        return replace(made, ctype=types.memory(b.dtype, "global"), half=b.dtype.name) if bits else made

    def bytes_of(self, b: loops.Buffer) -> int:
        return b.dtype.bytes if b in self.unit.tiles else super().bytes_of(b)

    def copied_together(self, b: loops.Buffer, indices: tuple[loops.Expr, ...]) -> int:
        """The bytes that one copy takes of neighbouring halves or words; 0 where they must be copied one by one."""
        lanes = max(i.lanes for i in indices)
        terms = zip(places.first(indices), b.strides, strict=True)
        aligned = all(intervals.multiple(e) * stride % lanes == 0 for e, stride in terms)
        if lanes * b.dtype.bytes not in (4, 8, ALIGNED) or not (lanes == 1 or self.is_contiguous(indices)) or not aligned:
            return 0
        self.needs_alignment |= b.space == "global"
        return lanes * b.dtype.bytes

    def copies(self, e: loops.Load, size: int) -> bool:
        """Does one copy take so many bytes of neighbouring numbers, or bytes of words, that begin at what is loaded?"""
        return self.begins_at(e, size) if e.dtype in (I8, U8) else self.copied_together(e.buffer, e.indices) == size

    def load_half(self, write: Expressions, e: loops.Load) -> str:
        """A half as a float, in an array of any dimensions."""
        return f"polytc_of_{BITS[self.place(e.buffer).half]}({self.element(write, e.buffer, e.indices)})"

    def store_half(self, write: Expressions, b: loops.Buffer, indices: tuple[loops.Expr, ...], value: str) -> str:
        return f"{self.element(write, b, indices)} = polytc_{BITS[self.place(b).half]}({value});"

    def load_vector(self, write: Expressions, e: loops.Load) -> str:
        """Halves that lie at a multiple of their size are one access, others go one by one."""
        if not self.place(e.buffer).half:
            return super().load_vector(write, e)
        packed = bool(self.copied_together(e.buffer, e.indices))
        address = self.address(write, e.buffer, places.first(e.indices))
        name, text = to_floats(e.dtype.name, e.lanes, packed)
        write.preamble.add(f"{name} {packed}", text)
        return f"{name}({f'*(const u16x{e.lanes}*){operand(address, PREFIX)}' if packed else address})"

    def store_vector(self, write: Expressions, s: loops.Store, lanes: int, value: str) -> str:
        """As load_vector."""
        if not self.place(s.buffer).half:
            return super().store_vector(write, s, lanes, value)
        packed = bool(self.copied_together(s.buffer, s.indices))
        address = self.address(write, s.buffer, places.first(s.indices))
        name, text = to_halves(s.buffer.dtype.name, lanes, packed)
        write.preamble.add(f"{name} {packed}", text)
        return f"*(u16x{lanes}*){operand(address, PREFIX)} = {name}({value});" if packed else f"{name}({address}, {value});"

    def memory_type(self, dtype: DType, space: str) -> str:
        """See types.py."""
        return types.memory(dtype, space)

    def load_unaligned(self, write: Expressions, b: loops.Buffer, lanes: int, address: str) -> str:
        """`polytc_load<f32x4>(address)`."""
        return f"polytc_load<{self.memory_vector(b, lanes)}>({address})"

    def store_unaligned(self, write: Expressions, b: loops.Buffer, lanes: int, address: str, value: str) -> str:
        """`polytc_store(address, value);`."""
        return f"polytc_store({address}, {value});"
