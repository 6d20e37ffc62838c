"""A compiled program as plain data: the binaries of its parts, and which arrays they take. It is what the disk cache keeps.

    program f(A, W) -> (C), W constant   ->   once: W -> W_packed;   main: A, W_packed -> C
    arrays: A 0, W 1, C 2, W_packed 3         once: (1, 3)           main: (0, 3, 2)

Arrays go by number, never by name: programs that differ in names share a package (see program/canonical.py).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polytc.codegen.buffers import Buffer
from polytc.codegen.target import Binary, Launch, Repeat
from polytc.program.scalars import DTYPES

if TYPE_CHECKING:
    from polytc.program.extents import Extent

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Part:
    """A binary, and the number of the array that each of its arguments is."""

    binary: Binary
    arrays: tuple[int, ...]


@dataclass(frozen=True)
class Package:
    """main: what runs in each call. once: what runs when arrays are bound and computes `made`, or None.

    The caller's arrays, inputs then outputs, have the first numbers; those of `made` follow.
    """

    main: Part
    once: Part | None = None
    made: tuple[Buffer, ...] = ()

    def to_bytes(self) -> bytes:
        """The package in a form that `from_bytes` reads."""
        parts = [p for p in (self.main, self.once) if p is not None]
        head = json.dumps({"parts": [_part(p) for p in parts], "made": [_buffer(b) for b in self.made]}).encode()
        return b"".join([_LENGTH.pack(len(head)), head, *(p.binary.code for p in parts)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Package:
        """What `to_bytes` wrote. Raises ValueError for other bytes."""
        try:
            return cls._read(data)
        except (LookupError, TypeError, AttributeError, struct.error) as error:
            raise ValueError(f"no package: {error}") from error

    @classmethod
    def _read(cls, data: bytes) -> Package:
        (length,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + length
        head = json.loads(data[_LENGTH.size:at])
        parts = []
        for fields in head["parts"]:
            code, at = data[at:at + fields["bytes"]], at + fields["bytes"]
            parts.append(_read_part(fields, code))
        if at != len(data):
            raise ValueError(f"{len(data)} bytes, of which {at} are accounted for")
        return cls(parts[0], parts[1] if len(parts) > 1 else None, _read_buffers(head["made"]))


def _data(n: Extent) -> Any:
    """An extent as JSON."""
    from polytc.program import extents  # only what is written, and formulas of sizes, need it

    return extents.data(n)


def _extent(found: Any) -> Extent:
    """What `_data` made."""
    if isinstance(found, int):
        return found
    from polytc.program import extents

    return extents.from_data(found)


def _size(found: Any) -> int:
    """The same where it is one of an array."""
    n = _extent(found)
    if not isinstance(n, int):
        raise TypeError(f"{n} is no extent of an array")
    return n


def _buffer(b: Buffer) -> list[Any]:
    return [b.name, b.dtype.name, list(map(_data, b.shape)), b.space]


def _read_buffers(rows: Sequence[Any]) -> tuple[Buffer, ...]:
    return tuple(Buffer(name, DTYPES[dtype], tuple(map(_size, shape)), space) for name, dtype, shape, space in rows)


def _repeat(r: Repeat) -> list[Any]:
    return [r.var, _data(r.lower), _data(r.upper), r.step]


def _read_repeat(fields: Sequence[Any]) -> Repeat:
    var, lower, upper, step = fields
    return Repeat(var, _extent(lower), _extent(upper), step)


def _part(p: Part) -> dict[str, Any]:
    b = p.binary
    return {"name": b.name, "args": [_buffer(x) for x in b.args], "outputs": b.outputs, "options": b.options,
            "scratch": [_buffer(x) for x in b.scratch], "bytes": len(b.code), "arrays": p.arrays,
            "launches": [(x.entry, x.args, list(map(_data, x.global_size)), x.local_size,
                          list(map(_repeat, x.loops))) for x in b.launches]}


def _read_part(fields: dict[str, Any], code: bytes) -> Part:
    launches = tuple(Launch(entry, tuple(args), tuple(map(_extent, size)), tuple(local),
                            tuple(map(_read_repeat, around))) for entry, args, size, local, around in fields["launches"])
    binary = Binary(fields["name"], _read_buffers(fields["args"]), tuple(fields["outputs"]), _read_buffers(fields["scratch"]),
                    launches, code, fields["options"])
    return Part(binary, tuple(fields["arrays"]))
