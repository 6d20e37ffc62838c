"""What expressions ask of the places where buffers live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from polytc.codegen import loops

if TYPE_CHECKING:
    from polytc.targets.ctext.expressions import Expressions


class Place(Protocol):
    """See opencl/memory.py."""

    @property
    def lanes(self) -> int:
        ...

    @property
    def half(self) -> str:
        ...

    def element(self, offset: str) -> str:
        ...

    def load_half(self, offset: str, lanes: int) -> str:
        ...

    def store_half(self, offset: str, lanes: int, value: str) -> str:
        ...

    def declaration(self) -> str:
        ...


class Memory(Protocol):
    """See opencl/memory.py."""

    needs_alignment: bool

    def place(self, buffer: loops.Buffer) -> Place:
        ...

    def space_of(self, buffer: loops.Buffer) -> str:
        ...

    def is_contiguous(self, indices: tuple[loops.Expr, ...]) -> bool:
        ...

    def element(self, write: Expressions, b: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        ...

    def vector_offset(self, write: Expressions, buffer: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        ...

    def load_half(self, write: Expressions, e: loops.Load) -> str:
        ...

    def load_vector(self, write: Expressions, e: loops.Load) -> str:
        ...

    def gather(self, write: Expressions, e: loops.Load) -> str | None:
        ...

    def words(self, write: Expressions, e: loops.Call) -> str | None:
        ...
