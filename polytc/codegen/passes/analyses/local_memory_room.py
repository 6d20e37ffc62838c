"""Temporaries that stay in global memory, as a work-group's part of them has no room in local memory."""

from __future__ import annotations

from dataclasses import dataclass

from polytc.codegen import loops, traverse
from polytc.codegen.passes import array_contraction
from polytc.machine import Machine


@dataclass(frozen=True)
class TooLarge:
    """A temporary that stays in global memory although a group's part of it could be local. bytes: of that part; room: bytes of
    local memory that are left for it."""

    kernel: str
    buffer: str
    bytes: int
    room: int

    def __str__(self) -> str:
        return (f"{self.buffer} of {self.kernel} stays in global memory: what a group uses of it has {self.bytes:,} bytes, and "
                f"{self.room:,} bytes of local memory are left")


def too_large(module: loops.Module, machine: Machine) -> tuple[TooLarge, ...]:
    """The scratch of a contracted module that local memory has no room for."""
    found: list[TooLarge] = []
    used = {k.name: frozenset(k.args) for k in module.kernels}
    for k in module.kernels if module.scratch and machine.local_bytes else ():
        own = [x.buffer for x in traverse.walk_stmt(k.body) if isinstance(x, loops.Alloc) and x.buffer.space == "local"]
        room = machine.local_bytes - sum(b.size * b.dtype.bytes for b in own)
        for b in module.scratch:
            elsewhere = any(b in args for name, args in used.items() if name != k.name)
            size = array_contraction.group_bytes(k, b) if not elsewhere else None
            if size is not None and size > room:
                found.append(TooLarge(k.name, b.name, size, room))
    return tuple(found)
