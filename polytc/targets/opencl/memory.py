"""Where the buffers of a kernel live: pointers, __local arrays, private arrays, vector arrays and plain variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from polytc.codegen import intervals, loops, traverse
from polytc.machine import ALIGNMENT
from polytc.program.scalars import BOOL
from polytc.targets.ctext.statements import allocated
from polytc.targets.ctext.text import PREFIX, bare, operand
from polytc.targets.opencl import types

if TYPE_CHECKING:
    from polytc.targets.ctext.expressions import Expressions

Access: TypeAlias = tuple[tuple[loops.Expr, ...], int, bool]
"""Indices and lanes of a load or store, and whether it is a store."""


@dataclass(frozen=True)
class Place:
    """name, ctype: of the pointer or variable. space: OpenCL's name. count: elements of an array, 0 for a pointer, 1 for a
    plain variable. lanes: of each element, more than 1 for a private buffer that is only used as whole vectors. half: 'f16' or
    'bf16' where elements of that type are stored as such, else ''. sides: extents of a __local array, without those of 1."""

    name: str
    ctype: str
    space: str
    count: int
    lanes: int = 1
    half: str = ""
    sides: tuple[int, ...] = ()

    def load_half(self, offset: str, lanes: int) -> str:
        """Neighbouring halves as floats."""
        at, n = _address(self.name, offset), "" if lanes == 1 else str(lanes)
        if self.half == "f16":
            return f"vload_half{n}(0, {at})" if n else f"vload_half({offset}, {self.name})"
        return f"as_float{n}(convert_uint{n}(vload{n}(0, {at})) << 16)" if n else f"as_float((uint){self.name}[{offset}] << 16)"

    def store_half(self, offset: str, lanes: int, value: str) -> str:
        """The statement that writes floats, which have been rounded, to neighbouring halves."""
        at, n = _address(self.name, offset), "" if lanes == 1 else str(lanes)
        if self.half == "f16":
            return f"vstore_half{n}({value}, 0, {at});" if n else f"vstore_half({value}, {offset}, {self.name});"
        if n:
            return f"vstore{n}(convert_ushort{n}(as_uint{n}({value}) >> 16), 0, {at});"
        return f"{self.name}[{offset}] = (ushort)(as_uint({value}) >> 16);"

    def element(self, offset: str) -> str:
        return self.name if self.count == 1 and self.space == "__private" else f"{self.name}[{offset}]"

    def declaration(self) -> str:
        """The line that declares an array or variable."""
        ctype = self.ctype if self.lanes == 1 else f"{self.ctype}{self.lanes}"
        if self.space == "__local":
            return f"__local {ctype} {self.name}{_subscripts(self.sides)} __attribute__((aligned({ALIGNMENT})));"
        return f"{ctype} {self.name}{'' if self.count == 1 else f'[{self.count}]'};"


class Memory:
    """The places of a kernel's buffers, decided once from how the kernel uses them. Two allocations of one name and different
    shapes are two buffers."""

    def __init__(self, kernel: loops.Kernel, spell: Callable[[loops.Buffer], str], wide: bool) -> None:
        """wide: aligned vectors are accessed through vector pointers. GPUs then use one wide access, where vloadN promises the
        alignment of an element only; CPUs have no use for it, and do without aligned arrays."""
        self.wide = wide
        self.needs_alignment = False
        self._places = {b: Place(spell(b), types.memory(b.dtype, "global"), "__global", 0,
                                 half=b.dtype.name if b.dtype.is_half else "") for b in kernel.args}
        found = _accesses(kernel.body)
        for b in allocated(kernel):
            self._places[b] = self._own(b, spell(b), found.get(b, ()))

    def _own(self, b: loops.Buffer, name: str, accesses: Sequence[Access]) -> Place:
        ctype = types.memory(b.dtype, b.space)
        if b.space == "local":
            sides = tuple(n for n in b.shape if n != 1) or (1,)
            return Place(name, ctype, "__local", max(1, b.size), sides=sides)
        lanes = whole_vectors(b, accesses)
        return Place(name, ctype, "__private", max(1, b.size // lanes), lanes)

    def place(self, buffer: loops.Buffer) -> Place:
        return self._places[buffer]

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
        return place.name + _subscripts(told or ["0"])

    def address(self, write: Expressions, b: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        """A pointer to the element."""
        place = self.place(b)
        return f"&{self.element(write, b, indices)}" if len(place.sides) > 1 else _address(place.name, write.flat(b, indices))

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
            return f"*({place.space} const {place.ctype}{e.lanes}*){operand(address, PREFIX)}"
        return f"vload{e.lanes}(0, {address})"

    def store_vector(self, write: Expressions, s: loops.Store, lanes: int, value: str) -> str:
        """The statement that writes consecutive elements; value: already in the type of memory."""
        place = self.place(s.buffer)
        if place.half:
            return place.store_half(write.flat(s.buffer, _base(s.indices)), lanes, value)
        address = self.address(write, s.buffer, _base(s.indices))
        if self._is_aligned(s.buffer, s.indices, lanes):
            return f"*({place.space} {place.ctype}{lanes}*){operand(address, PREFIX)} = {value};"
        if not self.wide:
            # PoCL's vstoreN writes a vector in pieces
            packed = write.preamble.packed(f"{place.ctype}{lanes}")
            return f"(({place.space} {packed}*){operand(address, PREFIX)})->v = {value};"
        return f"vstore{lanes}({value}, 0, {address});"

    def gather(self, write: Expressions, e: loops.Load) -> str | None:
        """Elements of global memory that lie equally far apart as a vector; None if they do not."""
        step = self._step(e.buffer, e.indices)
        if step is None:
            return None
        ctype = self.place(e.buffer).ctype
        parts = [f"p[{_times(k, 'stride')}]" for k in range(e.lanes)]
        head = f"static inline {ctype}{e.lanes} {{}}(__global const {ctype}* p, const {write.itype} stride)"
        name = write.preamble.add(*_function(f"gather_{ctype}{e.lanes}", write.itype, head, [
            f"return ({ctype}{e.lanes})({parts[0]},", *(f"        {p}," for p in parts[1:-1]), f"        {parts[-1]});"]))
        return f"{name}({_address(self.place(e.buffer).name, write.flat(e.buffer, _first(e.indices)))}, {step})"

    def scatter(self, write: Expressions, s: loops.Store, lanes: int, value: str) -> str | None:
        """The statement that writes a vector to such elements, its last lane last."""
        step = self._step(s.buffer, s.indices)
        if step is None:
            return None
        ctype = self.place(s.buffer).ctype
        head = f"static inline void {{}}(const {ctype}{lanes} v, __global {ctype}* p, const {write.itype} stride)"
        name = write.preamble.add(*_function(f"scatter_{ctype}{lanes}", write.itype, head, [
            f"p[{_times(k, 'stride')}] = v.{types.component(k)};" for k in range(lanes)]))
        return f"{name}({value}, {_address(self.place(s.buffer).name, write.flat(s.buffer, _first(s.indices)))}, {step});"

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
        size = lanes * types.memory_bytes(buffer.dtype, buffer.space)
        if not self.wide or self.place(buffer).space == "__private" or size > ALIGNMENT:
            return False
        terms = zip(_base(indices), buffer.strides, strict=True)
        aligned = all(intervals.multiple(e) * stride % lanes == 0 for e, stride in terms)
        self.needs_alignment |= aligned and buffer.space == "global"
        return aligned


def _base(indices: tuple[loops.Expr, ...]) -> tuple[loops.Expr, ...]:
    last = indices[-1]
    return (*indices[:-1], last.base if isinstance(last, loops.Ramp) else last)


def _first(indices: tuple[loops.Expr, ...]) -> tuple[loops.Expr, ...]:
    """The element of the first lane."""
    return tuple(i.base if isinstance(i, loops.Ramp) else i for i in indices)


def _times(k: int, name: str) -> str:
    return "0" if k == 0 else name if k == 1 else f"{k} * {name}"


def _function(name: str, itype: str, head: str, lines: Sequence[str]) -> tuple[str, str]:
    """The name of a function that counts in a type, and its text. head: with {} for the name."""
    spelled = f"polytc_{name}" + ("" if itype == "int" else f"_{itype}")
    return spelled, "\n".join([head.format(spelled), "{", *(f"    {line}" for line in lines), "}", ""])


def _subscripts(told: Iterable[object]) -> str:
    return "".join(f"[{e}]" for e in told)


def _address(name: str, offset: str) -> str:
    return name if offset == "0" else f"{name} + {offset}"


def is_unit_ramp(e: loops.Expr) -> bool:
    return isinstance(e, loops.Ramp) and e.stride == 1


def whole_vectors(b: loops.Buffer, accesses: Sequence[Access]) -> int:
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
    return lanes if lanes in types.LANES and b.dtype != BOOL and b.shape and b.shape[-1] % lanes == 0 else 1


def _accesses(body: loops.Stmt) -> dict[loops.Buffer, list[Access]]:
    """All loads and stores of each buffer."""
    found: dict[loops.Buffer, list[Access]] = {}
    for s in traverse.walk_stmt(body):
        if isinstance(s, loops.Store):
            lanes = max(1, *(i.lanes for i in s.indices)) if s.indices else 1
            found.setdefault(s.buffer, []).append((s.indices, lanes, True))
        for top in traverse.expressions(s):
            for e, _ in traverse.loads(top):
                found.setdefault(e.buffer, []).append((e.indices, e.lanes, False))
    return found
