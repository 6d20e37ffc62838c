"""Running the code for 64-bit Arm where there is no such processor: the object file that LLVM makes for one, in an emulator
(Unicorn, which is QEMU 5's processor: NEON, f16, dot products of bytes; no i8mm, no bf16, no operating system).

Each array ends where its pages end, and the next page is nobody's: a number read or written behind it is a `Stray`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polytc import machine as machines
from polytc.codegen.target import Binary, Bound, BoundRun, Source
from polytc.native import jit
from polytc.targets.llvm.target import TRIPLES, LLVMTarget, features_of

try:
    import unicorn
    from unicorn import arm64_const as arm
except ImportError:  # no wheel for this system
    unicorn = None  # type: ignore[assignment]

ARM = replace(machines.NEON, features="+neon,+dotprod,+fullfp16")
"""The best that the emulator has."""
PLAIN = machines.NEON
"""Each 64-bit processor of Arm."""

PAGE = 4096
OUTSIDE, CODE, STACK, DATA = 1 << 20, 1 << 24, 1 << 28, 1 << 32
"""Where functions of others are answered, where code, the stack and arrays lie."""
STACK_BYTES = 1 << 20
SECONDS = 60
"""That one run may take."""

LAUNCH = """
define void @launch(ptr %pool, ptr %body, ptr %context, i64 %n, i64 %threads, ptr %arena, i64 %bytes) {
  %half = sdiv i64 %n, 2
  %second = getelementptr i8, ptr %arena, i64 %bytes
  call void %body(i64 0, i64 %half, ptr %context, ptr %arena)
  call void %body(i64 %half, i64 %n, ptr %context, ptr %second)
  ret void
}
"""
"""A pool of two threads, whose second one works when the first is through."""


class Stray(AssertionError):
    """The code read or wrote where no array is."""


@dataclass(frozen=True)
class EmulatedArm(LLVMTarget):
    """The target cpu for a machine of Arm, with an emulator behind it."""

    given: machines.Machine | None = ARM
    name: str = "arm"

    def build(self, source: Source) -> Binary:
        assert self.machine.architecture == "aarch64"
        launch = LAUNCH.replace("{\n", f"{self._attributes()} {{\n", 1)
        object_file = jit.link([(source.text, self._tuning(source)), (launch, jit.Tuning(slp=False, vectorize=False))],
                               *self._processor(), TRIPLES["aarch64"])
        return Binary.of(source, object_file)

    def load(self, binary: Binary, threads: int) -> Emulated:  # type: ignore[override]
        return Emulated(binary, threads)


def emulates(machine: machines.Machine) -> bool:
    """Whether there is an emulator, which has all that the machine has."""
    return (unicorn is not None and machine.kind == "cpu" and machine.architecture == "aarch64"
            and machine.vector_bytes == ARM.vector_bytes and features_of(machine) <= features_of(ARM))


class Emulated:
    """Code in an emulator of its own."""

    def __init__(self, binary: Binary, threads: int = 2) -> None:
        self.binary = binary
        self._image = Image(binary.code)
        teams = any(name.startswith(b"team") for name in self._image.symbols)  # their threads wait for each other
        self._threads = 1 if teams else min(2, threads)

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """On arrays for the module's arguments, which stay where they are; the emulator has copies."""
        memory = Memory(self._image.machine)
        found = {(a.ctypes.data, a.nbytes): a for a in buffers}
        lies = {key: memory.add(a.nbytes, a.tobytes()) for key, a in found.items()}
        places = [lies[a.ctypes.data, a.nbytes] for a in buffers]
        places += [memory.add(_lines(b.size * b.dtype.bytes)) for b in self.binary.scratch]
        table = memory.add(8 * len(places), struct.pack(f"<{len(places)}Q", *places))
        arena = memory.add(_lines(int(self.binary.options["arena_bytes"])) * self._threads)
        self._image.call(b"run", table, arena, self._image.symbols[b"launch"], 0, self._threads)
        for a, place in zip(buffers, places):
            if a.flags.writeable and a.nbytes:
                a[...] = np.frombuffer(bytes(self._image.machine.mem_read(place, a.nbytes)), a.dtype).reshape(a.shape)
        memory.free()

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        return BoundRun(self.run, buffers)


def _lines(size: int) -> int:
    """Bytes of whole cache lines, at least one."""
    return -(-max(1, size) // 64) * 64


class Memory:
    """Pieces of memory that end where their pages do, with pages of nobody around."""

    def __init__(self, machine: Any) -> None:
        self._machine, self._next, self._mapped = machine, DATA, list[tuple[int, int]]()

    def add(self, size: int, data: bytes = b"") -> int:
        """Where so many bytes lie. data: what they are; else each is 0xCD."""
        pages = -(-max(size, 1) // PAGE) * PAGE
        self._machine.mem_map(self._next, pages, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        place = self._next + pages - size
        self._machine.mem_write(place, data or b"\xcd" * size)
        self._mapped.append((self._next, pages))
        self._next += pages + PAGE
        return place

    def free(self) -> None:
        for at, size in self._mapped:
            self._machine.mem_unmap(at, size)


_HEADER, _SECTION = struct.Struct("<40xQ10xHH2x"), struct.Struct("<IIQQQQIIQQ")
_SYMBOL, _RELOCATION = struct.Struct("<IBBHQQ"), struct.Struct("<QIIq")
_SYMBOLS, _RELA, _NOBITS, _ALLOC = 2, 4, 8, 2


class Image:
    """An object file in the memory of an emulator. symbols: where each lies."""

    def __init__(self, data: bytes) -> None:
        table, size, count = _HEADER.unpack_from(data)
        assert size == _SECTION.size
        self._sections = [_SECTION.unpack_from(data, table + n * size) for n in range(count)]
        self._data = data
        places, end = dict[int, int](), CODE
        for n, (_, _, flags, _, _, length, _, _, align, _) in enumerate(self._sections):
            if flags & _ALLOC:
                places[n] = -(-end // max(align, 1)) * max(align, 1)
                end = places[n] + length
        memory = bytearray(end - CODE)
        for n, place in places.items():
            if self._sections[n][1] != _NOBITS:
                memory[place - CODE:place - CODE + self._sections[n][5]] = self._bytes(n)
        self._outside: list[str] = []
        values = list(self._values(places))
        self.symbols = {name: value for name, value in values if name}
        for n, s in enumerate(self._sections):
            if s[1] == _RELA and s[7] in places:
                for offset, kind, symbol, addend in _RELOCATION.iter_unpack(self._bytes(n)):
                    relocate(memory, places[s[7]] + offset, kind, values[symbol][1] + addend)
        self.machine = self._emulator(bytes(memory))

    def call(self, name: bytes, *arguments: int) -> None:
        """A function with integers and addresses. Raises Stray."""
        assert len(arguments) <= 8
        for n, value in enumerate(arguments):
            self.machine.reg_write(arm.UC_ARM64_REG_X0 + n, value)
        self.machine.reg_write(arm.UC_ARM64_REG_SP, STACK + STACK_BYTES)
        self.machine.reg_write(arm.UC_ARM64_REG_LR, OUTSIDE)
        try:
            self.machine.emu_start(self.symbols[name], OUTSIDE, timeout=SECONDS * 1_000_000)
        except unicorn.UcError as error:
            at = self.machine.reg_read(arm.UC_ARM64_REG_PC)
            raise Stray(f"{error} at {at - CODE:#x} of the code") from error
        assert self.machine.reg_read(arm.UC_ARM64_REG_PC) == OUTSIDE, "the code never ends"

    def _bytes(self, section: int) -> bytes:
        _, _, _, _, start, size, *_ = self._sections[section]
        return self._data[start:start + size]

    def _values(self, places: dict[int, int]) -> Iterator[tuple[bytes, int]]:
        """Name and address of each symbol; functions of others get addresses that are answered."""
        for n, s in enumerate(self._sections):
            if s[1] != _SYMBOLS:
                continue
            names = self._bytes(s[6])
            for name_at, _, _, section, value, _ in _SYMBOL.iter_unpack(self._bytes(n)):
                name = names[name_at:names.index(b"\0", name_at)]
                if name and section == 0:
                    self._outside.append(name.decode())
                    yield name, OUTSIDE + 4 * len(self._outside)
                else:
                    yield name, places.get(section, 0) + value

    def _emulator(self, code: bytes) -> Any:
        machine = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        machine.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
        for at, size, data in ((CODE, len(code), code), (STACK, STACK_BYTES, b""), (OUTSIDE, PAGE, RETURN * (PAGE // 4))):
            machine.mem_map(at, -(-size // PAGE) * PAGE)
            machine.mem_write(at, data)
        answer = functools.partial(_answer, self._outside)
        machine.hook_add(unicorn.UC_HOOK_CODE, answer, begin=OUTSIDE + 4, end=OUTSIDE + PAGE - 1)
        return machine


def _answer(names: Sequence[str], machine: Any, at: int, *_: object) -> None:
    """A call of a function of others: of C's library, whose mathematics is this system's."""
    name = names[(at - OUTSIDE) // 4 - 1]
    if name in ("memset", "memcpy", "memmove"):
        to, source, count = (machine.reg_read(arm.UC_ARM64_REG_X0 + n) for n in range(3))
        data = bytes([source & 0xFF]) * count if name == "memset" else bytes(machine.mem_read(source, count))
        machine.mem_write(to, data)
        return
    assert name in MATHEMATICS, f"a call of {name}"
    kind, bits = (ctypes.c_float, "<f") if MATHEMATICS[name] else (ctypes.c_double, "<d")
    registers = (machine.reg_read(arm.UC_ARM64_REG_D0 + n).to_bytes(8, "little") for n in range(2))
    arguments = [struct.unpack_from(bits, r)[0] for r in registers]
    machine.reg_write(arm.UC_ARM64_REG_D0, int.from_bytes(struct.pack(bits, _library(name, kind)(*arguments)), "little"))


MATHEMATICS = {f"{name}{kind}": kind == "f" for name in ("sin", "cos", "fmod") for kind in ("", "f")}
"""Functions that code calls: whether they are of f32."""
RETURN = struct.pack("<I", 0xD65F03C0)


@functools.cache
def _library(name: str, kind: type) -> Callable[..., float]:
    found = ctypes.CDLL(ctypes.util.find_library("m"))[name]
    found.argtypes, found.restype = (kind, kind), kind
    return found


_LOW = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
"""Relocations of the lowest 12 bits of an address (ADD, LDST8, 16, 32, 64, 128): the size of what is loaded, in bits."""
_PAGES, _JUMP, _CALL, _ABSOLUTE, _DISTANCE = 275, 282, 283, 257, 261


def relocate(memory: bytearray, place: int, kind: int, target: int) -> None:
    """Write an address into code (ELF for the Arm 64-bit Architecture, "Relocation")."""
    at = place - CODE
    word, = struct.unpack_from("<I", memory, at)
    if kind in _LOW:
        word |= (target & 0xFFF) >> _LOW[kind] << 10
    elif kind == _PAGES:
        pages = (target // PAGE - place // PAGE) & 0x1FFFFF
        word |= (pages & 3) << 29 | pages >> 2 << 5
    elif kind in (_JUMP, _CALL):
        word |= (target - place) // 4 & 0x3FFFFFF
    elif kind == _ABSOLUTE:
        struct.pack_into("<Q", memory, at, target)
        return
    elif kind == _DISTANCE:
        word = (target - place) & 0xFFFFFFFF
    else:
        raise NotImplementedError(f"relocation {kind}")
    struct.pack_into("<I", memory, at, word)
