"""What the kernels of a cubin need, read from its attributes: registers, and bytes of stack, where spilled registers lie."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

REGISTERS, FRAME = 0x2F, 0x11
"""EIATTR_REGCOUNT and EIATTR_FRAME_SIZE, as `cuobjdump -elf` shows them in the section .nv.info."""


@dataclass(frozen=True)
class Section:
    """A section of an ELF file: where it lies, how long it is, and which one it refers to."""

    name: str
    start: int
    size: int
    link: int


def kernels(cubin: bytes) -> dict[str, tuple[int, int]]:
    """(registers, bytes of stack) of each kernel."""
    sections = list(_sections(cubin))
    known = {s.name: s for s in sections}
    symbols, found = known[".symtab"], dict[str, dict[int, int]]()
    names = sections[symbols.link].start
    for attribute, symbol, value in _attributes(cubin, known[".nv.info"]):
        start, = struct.unpack_from("<I", cubin, symbols.start + 24 * symbol)
        found.setdefault(_text(cubin, names + start), {})[attribute] = value
    return {name: (values[REGISTERS], values.get(FRAME, 0)) for name, values in found.items() if REGISTERS in values}


def _sections(cubin: bytes) -> Iterator[Section]:
    table, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    heads = [struct.unpack_from("<IIQQQQII", cubin, table + n * size) for n in range(count)]
    for head in heads:
        yield Section(_text(cubin, heads[names][4] + head[0]), head[4], head[5], head[6])


def _attributes(cubin: bytes, info: Section) -> Iterator[tuple[int, int, int]]:
    """Those that have a symbol and a value."""
    at = info.start
    while at < info.start + info.size:
        form, attribute, size = struct.unpack_from("<BBH", cubin, at)
        if form == 4 and size == 8:
            yield attribute, *struct.unpack_from("<II", cubin, at + 4)
        at += 4 + (size if form == 4 else 0)


def _text(cubin: bytes, at: int) -> str:
    return cubin[at:cubin.index(b"\0", at)].decode()
