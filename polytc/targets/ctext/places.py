"""Where the buffers of a kernel of work-groups live: pointers, arrays in local memory, private arrays, vector arrays and plain
variables. A dialect says how it declares them, and how it moves vectors and halves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from polytc.codegen import intervals, loops, traverse
from polytc.machine import ALIGNMENT
from polytc.program.scalars import BOOL, U32, DType
from polytc.targets.ctext.calls import word_dots
from polytc.targets.ctext.statements import allocated
from polytc.targets.ctext.text import PREFIX, bare, operand

if TYPE_CHECKING:
    from polytc.targets.ctext.expressions import Expressions
    from polytc.targets.ctext.language import Language

Access: TypeAlias = tuple[tuple[loops.Expr, ...], int, bool]
"""Indices and lanes of a load or store, and whether it is a store."""


@dataclass(frozen=True)
class Place:
    """name, ctype: of the pointer or variable. space: global, local or private. count: elements of an array, 0 for a pointer, 1
    for a plain variable. lanes: of each element, more than 1 for a private buffer that is only used as whole vectors. half:
    'f16' or 'bf16' where elements of that type are stored as such, else ''. sides: extents of an array in local memory,
    without those of 1. vector: the type of `lanes` elements."""

    name: str
    ctype: str
    space: str
    count: int
    lanes: int = 1
    half: str = ""
    sides: tuple[int, ...] = ()
    vector: str = ""

    local: ClassVar[str] = ""
    """What the declaration of an array in local memory is made of: {type} and {array}."""

    def load_half(self, offset: str, lanes: int) -> str:
        """Neighbouring halves as floats."""
        raise NotImplementedError

    def store_half(self, offset: str, lanes: int, value: str) -> str:
        """The statement that writes floats, which have been rounded, to neighbouring halves."""
        raise NotImplementedError

    def element(self, offset: str) -> str:
        """An element of the array, or the variable."""
        return self.name if self.count == 1 and self.space == "private" else f"{self.name}[{offset}]"

    def declaration(self) -> str:
        """The line that declares an array or variable."""
        if self.space == "local":
            return self.local.format(type=self.ctype, array=f"{self.name}{subscripts(self.sides)}")
        return f"{self.vector or self.ctype} {self.name}{'' if self.count == 1 else f'[{self.count}]'};"


class Memory:
    """The places of a kernel's buffers, decided once from how the kernel uses them. Two allocations of one name and different
    shapes are two buffers."""

    place_type: type[Place] = Place
    alignment: ClassVar[int] = ALIGNMENT
    """Bytes that arrays begin at where a kernel needs it."""
    pointers: ClassVar[dict[str, str]] = {}
    """What the type of a pointer begins with, by space; nothing where it is not said."""
    apart: Collection[int] = ()
    """The identities of loops that a dialect writes in its own way, with other accesses."""

    def __init__(self, kernel: loops.Kernel, spell: Callable[[loops.Buffer], str], wide: bool, language: Language) -> None:
        """wide: aligned vectors are accessed through vector pointers. GPUs then use one wide access, where others promise the
        alignment of an element only; CPUs have no use for it, and do without aligned arrays."""
        self.wide = wide
        self.c = language
        self.needs_alignment = False
        self._places = {b: self.place_type(spell(b), self.memory_type(b.dtype, "global"), "global", 0,
                                           half=b.dtype.name if b.dtype.is_half else "") for b in kernel.args}
        found = _accesses(kernel.body, self.apart)
        for b in allocated(kernel):
            self._places[b] = self._own(b, spell(b), found.get(b, ()))

    def _own(self, b: loops.Buffer, name: str, accesses: Sequence[Access]) -> Place:
        ctype = self.memory_type(b.dtype, b.space)
        if b.space == "local":
            sides = tuple(n for n in b.shape if n != 1) or (1,)
            return self.place_type(name, ctype, "local", max(1, b.size), sides=sides)
        lanes = whole_vectors(b, accesses, self.c.lanes)
        return self.place_type(name, ctype, "private", max(1, b.size // lanes), lanes, vector=self.memory_vector(b, lanes))

    def bytes_of(self, b: loops.Buffer) -> int:
        """Of an element."""
        return memory_bytes(b.dtype, b.space)

    def memory_type(self, dtype: DType, space: str) -> str:
        """The type of an element of a buffer. Only kernel arguments hold halves; kernels' own arrays hold floats instead."""
        raise NotImplementedError

    def memory_vector(self, b: loops.Buffer, lanes: int) -> str:
        """The type of a vector of such elements."""
        if lanes == 1:
            return self.memory_type(b.dtype, b.space)
        return self.c.byte(lanes) if b.dtype == BOOL else self.c.vector(b.dtype, lanes)

    def load_unaligned(self, write: Expressions, b: loops.Buffer, lanes: int, address: str) -> str:
        """A vector of which only the elements are aligned."""
        raise NotImplementedError

    def store_unaligned(self, write: Expressions, b: loops.Buffer, lanes: int, address: str, value: str) -> str:
        """The statement that writes one."""
        raise NotImplementedError

    def place(self, buffer: loops.Buffer) -> Place:
        return self._places[buffer]

    def space_of(self, buffer: loops.Buffer) -> str:
        """What the type of a pointer to the buffer begins with."""
        return self.pointer(self.place(buffer).space).strip()

    @staticmethod
    def is_contiguous(indices: tuple[loops.Expr, ...]) -> bool:
        """Whether a vector access touches consecutive elements."""
        return bool(indices) and is_unit_ramp(indices[-1]) and all(i.lanes == 1 for i in indices[:-1])

    def element(self, write: Expressions, b: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        """The element as C writes it, to load or to store."""
        place = self.place(b)
        if not place.sides:
            return place.element(write.flat(b, indices))
        told = [bare(write.index(e)) for e, n in zip(indices, b.shape, strict=True) if n != 1]
        return place.name + subscripts(told or ["0"])

    def address(self, write: Expressions, b: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        """A pointer to the element."""
        place = self.place(b)
        return f"&{self.element(write, b, indices)}" if len(place.sides) > 1 else address_of(place.name, write.flat(b, indices))

    def load_half(self, write: Expressions, e: loops.Load) -> str:
        """A half as a float."""
        return self.place(e.buffer).load_half(write.flat(e.buffer, e.indices), 1)

    def store_half(self, write: Expressions, b: loops.Buffer, indices: tuple[loops.Expr, ...], value: str) -> str:
        """The statement that writes a float, which has been rounded, to a half."""
        return self.place(b).store_half(write.flat(b, indices), 1, value)

    def vector_offset(self, write: Expressions, buffer: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        """The offset in whole vectors, of a buffer that is used as such."""
        lanes = self.place(buffer).lanes
        narrow = loops.Buffer(buffer.name, buffer.dtype, (*buffer.shape[:-1], buffer.shape[-1] // lanes), buffer.space)
        last = _base(indices)[-1]
        if isinstance(last, loops.Const):
            last = loops.const(int(last.value) // lanes)
        else:
            last = loops.binary("//", last, loops.const(lanes))
        return write.flat(narrow, (*indices[:-1], last))

    def load_vector(self, write: Expressions, e: loops.Load) -> str:
        """Consecutive elements as a vector, in the type of memory (halves: of values)."""
        place = self.place(e.buffer)
        if place.half:
            return place.load_half(write.flat(e.buffer, _base(e.indices)), e.lanes)
        address = self.address(write, e.buffer, _base(e.indices))
        if self._is_aligned(e.buffer, e.indices, e.lanes):
            return f"*({self.pointer(place.space)}const {self.memory_vector(e.buffer, e.lanes)}*){operand(address, PREFIX)}"
        return self.load_unaligned(write, e.buffer, e.lanes, address)

    def store_vector(self, write: Expressions, s: loops.Store, lanes: int, value: str) -> str:
        """The statement that writes consecutive elements; value: already in the type of memory."""
        place = self.place(s.buffer)
        if place.half:
            return place.store_half(write.flat(s.buffer, _base(s.indices)), lanes, value)
        address = self.address(write, s.buffer, _base(s.indices))
        if self._is_aligned(s.buffer, s.indices, lanes):
            return f"*({self.pointer(place.space)}{self.memory_vector(s.buffer, lanes)}*){operand(address, PREFIX)} = {value};"
        return self.store_unaligned(write, s.buffer, lanes, address, value)

    def words(self, write: Expressions, e: loops.Call) -> str | None:
        """Words whose bytes are neighbours in global memory, at a multiple of their size, as one access; None for others."""
        found = word_dots.neighbours(e)
        if found is None or not self.wide or not self.begins_at(*found):
            return None
        place, address = self.place(found[0].buffer), self.address(write, found[0].buffer, first(found[0].indices))
        return f"*({self.pointer(place.space)}const {self.c.vector(U32, e.lanes)}*){operand(address, PREFIX)}"

    def begins_at(self, e: loops.Load, size: int) -> bool:
        """Does what is loaded from global memory begin at a multiple of so many bytes?"""
        terms = zip(first(e.indices), e.buffer.strides, strict=True)
        known = e.buffer.space == "global" and size <= self.alignment and all(
            intervals.multiple(i) * stride * e.dtype.bytes % size == 0 for i, stride in terms)
        self.needs_alignment |= known
        return known

    def pointer(self, space: str) -> str:
        """What the type of a pointer to a space begins with."""
        return self.pointers.get(space, "")

    def gather(self, write: Expressions, e: loops.Load) -> str | None:
        """Elements of global memory that lie equally far apart as a vector; None if they do not."""
        step = self._step(e.buffer, e.indices)
        if step is None:
            return None
        ctype, vector = self.place(e.buffer).ctype, self.memory_vector(e.buffer, e.lanes)
        parts = [f"p[{_times(k, 'stride')}]" for k in range(e.lanes)]
        made = self.c.vectors.made(vector, parts).split(", p[")
        head = f"{self.c.function} {vector} {{}}({self.pointer('global')}const {ctype}* p, const {write.itype} stride)"
        name = write.preamble.add(*_function(f"gather_{vector}", write.itype, head, [
            f"return {made[0]},", *(f"        p[{p}," for p in made[1:-1]), f"        p[{made[-1]};"]))
        return f"{name}({address_of(self.place(e.buffer).name, write.flat(e.buffer, first(e.indices)))}, {step})"

    def scatter(self, write: Expressions, s: loops.Store, lanes: int, value: str) -> str | None:
        """The statement that writes a vector to such elements, its last lane last."""
        step = self._step(s.buffer, s.indices)
        if step is None:
            return None
        ctype, vector = self.place(s.buffer).ctype, self.memory_vector(s.buffer, lanes)
        head = f"{self.c.function} void {{}}(const {vector} v, {self.pointer('global')}{ctype}* p, const {write.itype} stride)"
        name = write.preamble.add(*_function(f"scatter_{vector}", write.itype, head, [
            f"p[{_times(k, 'stride')}] = {self.c.vectors.lane('v', k)};" for k in range(lanes)]))
        return f"{name}({value}, {address_of(self.place(s.buffer).name, write.flat(s.buffer, first(s.indices)))}, {step});"

    def _step(self, buffer: loops.Buffer, indices: tuple[loops.Expr, ...]) -> int | None:
        """How many elements of global memory the lanes of an access are apart; None if that is not the same for all."""
        vectors = [(i, n) for i, n in zip(indices, buffer.strides, strict=True) if i.lanes > 1]
        if buffer.space != "global" or self.place(buffer).half or buffer.dtype == BOOL:
            return None
        if not all(isinstance(i, loops.Ramp) and i.active is None and isinstance(n, int) for i, n in vectors):
            return None
        return sum(i.stride * n for i, n in vectors if isinstance(i, loops.Ramp))

    def _is_aligned(self, buffer: loops.Buffer, indices: tuple[loops.Expr, ...], lanes: int) -> bool:
        """Whether to access a vector through a vector pointer: its address is a multiple of its size."""
        size = lanes * memory_bytes(buffer.dtype, buffer.space)
        if not self.wide or self.place(buffer).space == "private" or size > ALIGNMENT:
            return False
        terms = zip(_base(indices), buffer.strides, strict=True)
        aligned = all(intervals.multiple(e) * stride % lanes == 0 for e, stride in terms)
        self.needs_alignment |= aligned and buffer.space == "global"
        return aligned


def _base(indices: tuple[loops.Expr, ...]) -> tuple[loops.Expr, ...]:
    last = indices[-1]
    return (*indices[:-1], last.base if isinstance(last, loops.Ramp) else last)


def first(indices: tuple[loops.Expr, ...]) -> tuple[loops.Expr, ...]:
    """The element of the first lane."""
    return tuple(i.base if isinstance(i, loops.Ramp) else i for i in indices)


def _times(k: int, name: str) -> str:
    return "0" if k == 0 else name if k == 1 else f"{k} * {name}"


def _function(name: str, itype: str, head: str, lines: Sequence[str]) -> tuple[str, str]:
    """The name of a function that counts in a type, and its text. head: with {} for the name."""
    spelled = f"polytc_{name}" + ("" if itype == "int" else f"_{itype}".replace(" ", "_"))
    return spelled, "\n".join([head.format(spelled), "{", *(f"    {line}" for line in lines), "}", ""])


def subscripts(told: Iterable[object]) -> str:
    """`[a][b]`."""
    return "".join(f"[{e}]" for e in told)


def memory_bytes(dtype: DType, space: str) -> int:
    """Bytes of an element of a buffer in `space`."""
    return 4 if dtype.is_half and space != "global" else dtype.bytes


def address_of(name: str, offset: str) -> str:
    """`name + offset`."""
    return name if offset == "0" else f"{name} + {offset}"


def is_unit_ramp(e: loops.Expr) -> bool:
    return isinstance(e, loops.Ramp) and e.stride == 1


def whole_vectors(b: loops.Buffer, accesses: Sequence[Access], widths_there_are: Sequence[int]) -> int:
    """The lanes of all accesses to `b` if each is one aligned whole vector of the same width, or loads a known lane of one;
    else 1."""
    widths: set[int] = set()
    for indices, lanes, store in accesses:
        if lanes == 1 and not store and indices and isinstance(indices[-1], loops.Const):
            continue                                                  # a lane of a vector
        if not Memory.is_contiguous(indices) or intervals.multiple(_base(indices)[-1]) % lanes != 0:
            return 1
        widths.add(lanes)
    lanes = widths.pop() if len(widths) == 1 else 1
    return lanes if lanes in widths_there_are and b.dtype != BOOL and b.shape and b.shape[-1] % lanes == 0 else 1


def _accesses(body: loops.Stmt, apart: Collection[int]) -> dict[loops.Buffer, list[Access]]:
    """All loads and stores of each buffer, without those in some loops."""
    found: dict[loops.Buffer, list[Access]] = {}
    for s in _outside(body, apart):
        if isinstance(s, loops.Store):
            lanes = max(1, *(i.lanes for i in s.indices)) if s.indices else 1
            found.setdefault(s.buffer, []).append((s.indices, lanes, True))
        for top in traverse.expressions(s):
            for e, _ in traverse.loads(top):
                found.setdefault(e.buffer, []).append((e.indices, e.lanes, False))
    return found


def _outside(s: loops.Stmt, apart: Collection[int]) -> Iterator[loops.Stmt]:
    """A statement and those below it, parents first, without some loops and what is in them."""
    if id(s) not in apart:
        yield s
        for x in traverse.children(s):
            yield from _outside(x, apart)
