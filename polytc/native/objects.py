"""Object files into memory, without LLVM: its library alone takes longer to load than a model's code, and 50 MB.

The objects are those that LLVM writes for its JIT (jit.build): 64-bit ELF for x86-64, in the large code model, so that all that
points elsewhere is an absolute address of 64 bits or a distance within the object. The sections are laid out in one mapping,
the addresses are written into it, and then it becomes executable and no longer writable. What is not understood is refused
before any of it could run; `linking.Code` then leaves the object to LLVM.

Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, "Relocation".
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELA, _NOBITS, _REL = 2, 4, 8, 9
_WRITE, _ALLOC, _THREAD_LOCAL = 0x1, 0x2, 0x400
_UNDEFINED, _ABSOLUTE, _RESERVED = 0, 0xfff1, 0xff00
_ABS64, _PC32, _PLT32, _PC64 = 1, 2, 4, 24

LIBRARIES = ("libm.so.6", "libgcc_s.so.1")
"""Where functions are looked for that the process does not have."""


class Unsupported(Exception):
    """An object that this loader does not understand, or a system on which it does not work."""


@dataclass(frozen=True)
class _Section:
    """name: offset in the table of names; start: bytes from the start of the file; link, info: as their types mean them."""

    name: int
    type: int
    flags: int
    start: int
    size: int
    link: int
    info: int
    align: int


class Image:
    """Functions of an object file in memory, which live as long as the image.

    Raises Unsupported for data that are no such object, and where this system does not let memory become executable.
    """

    def __init__(self, data: bytes) -> None:
        try:
            self._load(data)
        except (struct.error, IndexError, ValueError, OverflowError, OSError) as error:
            raise Unsupported(str(error)) from error

    def address(self, name: str) -> int:
        """Where a function starts; 0 if there is none."""
        return self._defined.get(name.encode(), 0)

    def _load(self, data: bytes) -> None:
        sections = list(_sections(data))
        places, size = _layout(sections)
        self._memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for number, place in places.items():
            s = sections[number]
            if s.type != _NOBITS:
                self._memory[place:place + s.size] = _bytes(data, s)
        self._defined: dict[bytes, int] = {}
        values: list[int | bytes | None] = []
        for table in (s for s in sections if s.type == _SYMBOLS):
            if values:
                raise Unsupported("two tables of symbols")
            for name, value in _symbols(data, table, sections, {n: base + p for n, p in places.items()}):
                values.append(value)
                if name and isinstance(value, int):
                    self._defined[name] = value
        for s in sections:
            if s.type == _REL and s.info in places:
                raise Unsupported("relocations without addends")
            if s.type == _RELA and s.info in places:
                self._relocate(_bytes(data, s), base, places[s.info], sections[s.info].size, values)
        if _protect()(base, len(self._memory), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
            raise Unsupported("memory does not become executable")

    def _relocate(self, rows: bytes, base: int, place: int, size: int, values: list[int | bytes | None]) -> None:
        """Write addresses into the section at `place`."""
        for offset, info, addend in _RELOCATION.iter_unpack(rows):
            kind, at = info & 0xffffffff, place + offset
            target = _value(values[info >> 32]) + addend
            if not 0 <= offset <= size - (8 if kind in (_ABS64, _PC64) else 4):
                raise Unsupported("a relocation outside of its section")
            if kind == _ABS64:
                struct.pack_into("<Q", self._memory, at, target)
            elif kind == _PC64:
                struct.pack_into("<q", self._memory, at, target - base - at)
            elif kind in (_PC32, _PLT32):  # struct.error where it is too far
                struct.pack_into("<i", self._memory, at, target - base - at)
            else:
                raise Unsupported(f"relocation of type {kind}")


def _sections(data: bytes) -> Iterator[_Section]:
    if sys.platform != "linux" or platform.machine() != "x86_64" or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise Unsupported("another system")
    identity, type_, machine, _, _, _, table, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
    if not identity.startswith(_IDENTITY) or (type_, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size):
        raise Unsupported("no object file for this processor")
    for number in range(count):
        name, kind, flags, _, start, length, link, info, align, _ = _SECTION.unpack_from(data, table + number * size)
        yield _Section(name, kind, flags, start, length, link, info, align)


def _bytes(data: bytes, s: _Section) -> bytes:
    found = data[s.start:s.start + s.size]
    if len(found) != s.size:
        raise Unsupported("cut short")
    return found


def _layout(sections: list[_Section]) -> tuple[dict[int, int], int]:
    """Section -> where it lies in memory, for those that do; bytes of all."""
    places, size = dict[int, int](), 0
    for number, s in enumerate(sections):
        if not s.flags & _ALLOC or not s.size:
            continue
        if s.flags & (_WRITE | _THREAD_LOCAL) or s.align & (s.align - 1) or s.align > mmap.PAGESIZE:
            raise Unsupported("a section that is written, or of an odd alignment")
        size = -(-size // max(s.align, 1)) * max(s.align, 1)
        places[number] = size
        size += s.size
    return places, size


def _symbols(data: bytes, table: _Section, sections: list[_Section], places: dict[int, int]
             ) -> Iterator[tuple[bytes, int | bytes | None]]:
    """Name and address of each symbol; of what others define, the name in place of the address; None of what is not loaded."""
    names = _bytes(data, sections[table.link])
    for name_at, _, _, section, value, _ in _SYMBOL.iter_unpack(_bytes(data, table)):
        name = names[name_at:names.index(b"\0", name_at)]
        if section == _UNDEFINED:
            yield name, name
        elif section == _ABSOLUTE:
            yield name, value
        elif section >= _RESERVED:
            raise Unsupported("a symbol without a place")
        elif section in places and value <= sections[section].size:
            yield name, places[section] + value
        else:
            yield name, None


def _value(symbol: int | bytes | None) -> int:
    if symbol is None:
        raise Unsupported("an address in a section that is not loaded")
    return symbol if isinstance(symbol, int) else _outside(symbol)


@functools.cache
def _outside(name: bytes) -> int:
    """The address of a function of the process or of LIBRARIES."""
    for library in (None, *LIBRARIES):
        try:
            found = ctypes.cast(getattr(ctypes.CDLL(library), name.decode()), ctypes.c_void_p).value
        except (AttributeError, OSError):
            continue
        if found:
            return found
    raise Unsupported(f"nobody has {name.decode(errors='replace')!r}")


@functools.cache
def _protect() -> ctypes._NamedFuncPointer:
    found = ctypes.CDLL(None).mprotect
    found.argtypes, found.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return found
