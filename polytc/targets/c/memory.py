"""Where the buffers of a kernel live in C: pointers, arrays with their dimensions, and plain variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from polytc.codegen import loops
from polytc.targets.c import language
from polytc.targets.ctext.expressions import Expressions
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.ctext.statements import allocated
from polytc.targets.ctext.text import bare


@dataclass(frozen=True)
class Place:
    """name, ctype: of the pointer, array or variable. sides: extents of an array, without those of 1; () for a variable, None
    for a pointer. half: 'half' or 'bfloat' where elements are stored as bits, else ''."""

    name: str
    ctype: str
    sides: tuple[int, ...] | None
    half: str = ""
    lanes: int = 1

    def load_half(self, offset: str, lanes: int) -> str:
        """An element as a float."""
        return f"polytc_of_{self.half}({self.element(offset)})"

    def store_half(self, offset: str, lanes: int, value: str) -> str:
        """The statement that stores a float."""
        return f"{self.element(offset)} = polytc_{self.half}({value});"

    def element(self, offset: str) -> str:
        """An element of a pointer."""
        return f"{self.name}[{offset}]"

    def declaration(self) -> str:
        """The line that declares an array or variable."""
        return f"{self.ctype} {self.name}{''.join(f'[{n}]' for n in self.sides or ())};"


class Memory:
    """The places of a kernel's buffers. Its own arrays hold halves as floats."""

    needs_alignment = False
    """Do arrays begin where vectors do? Hosts for C promise elements only."""

    def __init__(self, kernel: loops.Kernel, spell: Callable[[loops.Buffer], str], preamble: Preamble) -> None:
        halves = {"f16": "half", "bf16": "bfloat"}
        self._places = {b: Place(spell(b), language.stored(b.dtype), None, halves.get(b.dtype.name, "")) for b in kernel.args}
        for b in allocated(kernel):
            ctype = language.scalar(b.dtype) if b.dtype.is_half else language.stored(b.dtype)
            self._places[b] = Place(spell(b), ctype, tuple(n for n in b.shape if n != 1))

    def place(self, buffer: loops.Buffer) -> Place:
        """Where a buffer lives."""
        return self._places[buffer]

    def space_of(self, buffer: loops.Buffer) -> str:
        """There is one."""
        return ""

    def is_contiguous(self, indices: tuple[loops.Expr, ...]) -> bool:
        """Never asked of scalars."""
        raise AssertionError("c: vectors are written as loops")

    def load_half(self, write: Expressions, e: loops.Load) -> str:
        """A half as a float."""
        return self.place(e.buffer).load_half(write.flat(e.buffer, e.indices), 1)

    def element(self, write: Expressions, b: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        """The element as C writes it, to load or to store."""
        place = self.place(b)
        if place.sides is None:
            return place.element(write.flat(b, indices))
        told = [bare(write.index(e)) for e, n in zip(indices, b.shape, strict=True) if n != 1]
        return place.name + "".join(f"[{e}]" for e in told)

    def vector_offset(self, write: Expressions, buffer: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        """Never asked of scalars."""
        raise AssertionError("c: vectors are written as loops")

    def load_vector(self, write: Expressions, e: loops.Load) -> str:
        """Never asked of scalars."""
        raise AssertionError("c: vectors are written as loops")

    def words(self, write: Expressions, e: loops.Call) -> None:
        """Pointers have the alignment of their elements."""

    def gather(self, write: Expressions, e: loops.Load) -> str:
        """Never asked of scalars."""
        raise AssertionError("c: vectors are written as loops")
