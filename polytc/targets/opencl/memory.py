"""Where the buffers of a kernel live in OpenCL C: pointers, __local arrays, private arrays, vector arrays and variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from polytc.codegen import loops
from polytc.machine import ALIGNMENT
from polytc.program.scalars import DType
from polytc.targets.ctext import places
from polytc.targets.ctext.text import PREFIX, operand
from polytc.targets.opencl import types

if TYPE_CHECKING:
    from polytc.targets.ctext.expressions import Expressions


@dataclass(frozen=True)
class Place(places.Place):
    """See ctext/places.py."""

    local: ClassVar[str] = f"__local {{type}} {{array}} __attribute__((aligned({ALIGNMENT})));"

    def load_half(self, offset: str, lanes: int) -> str:
        """Neighbouring halves as floats."""
        at, n = places.address_of(self.name, offset), "" if lanes == 1 else str(lanes)
        if self.half == "f16":
            return f"vload_half{n}(0, {at})" if n else f"vload_half({offset}, {self.name})"
        return f"as_float{n}(convert_uint{n}(vload{n}(0, {at})) << 16)" if n else f"as_float((uint){self.name}[{offset}] << 16)"

    def store_half(self, offset: str, lanes: int, value: str) -> str:
        """The statement that writes floats, which have been rounded, to neighbouring halves."""
        at, n = places.address_of(self.name, offset), "" if lanes == 1 else str(lanes)
        if self.half == "f16":
            return f"vstore_half{n}({value}, 0, {at});" if n else f"vstore_half({value}, {offset}, {self.name});"
        if n:
            return f"vstore{n}(convert_ushort{n}(as_uint{n}({value}) >> 16), 0, {at});"
        return f"{self.name}[{offset}] = (ushort)(as_uint({value}) >> 16);"


class Memory(places.Memory):
    """See ctext/places.py."""

    place_type = Place
    pointers: ClassVar[dict[str, str]] = {"global": "__global ", "local": "__local ", "private": "__private "}

    def memory_type(self, dtype: DType, space: str) -> str:
        """See opencl/types.py."""
        return types.memory(dtype, space)

    def load_unaligned(self, write: Expressions, b: loops.Buffer, lanes: int, address: str) -> str:
        """`vload4(0, address)`."""
        return f"vload{lanes}(0, {address})"

    def store_unaligned(self, write: Expressions, b: loops.Buffer, lanes: int, address: str, value: str) -> str:
        """`vstore4(value, 0, address);`."""
        if not self.wide:
            # PoCL's vstoreN writes a vector in pieces
            packed = write.preamble.packed(self.memory_vector(b, lanes))
            return f"(({self.pointer(self.place(b).space)}{packed}*){operand(address, PREFIX)})->v = {value};"
        return f"vstore{lanes}({value}, 0, {address});"
