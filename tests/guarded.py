"""Run compiled code with canaries or protected pages around every array: arguments, temporaries, workspace, what is made once.

    [protected page] canary | array | canary [protected page]

A write beside an array changes its canary, and `Stray` names the array and how far beside; a read beside it finds NaN (or -1),
so that results are wrong. With pages, an access further beside ends the process: for processes of their own
(generator/worker.py). Loops in Python check every access themselves; what else runs here takes its arguments from such memory.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polytc.codegen.target import Executable
from polytc.native import threads as pool
from polytc.runtime.packages import WithPrologue
from polytc.runtime.sized import Sized
from polytc.targets.llvm.executable import Executable as Native
from tests.c_here import Loaded

PAGE = mmap.PAGESIZE
MARGIN = 16 * PAGE
"""Bytes of canary on each side where there are no protected pages."""
FILL = 0xFF
LINE = 64


class Stray(AssertionError):
    """Code wrote beside an array."""


@dataclass(frozen=True)
class Guarded:
    """One array and what lies around it. before: bytes of the memory in front of it."""

    name: str
    memory: np.ndarray
    before: int
    array: np.ndarray

    def check(self) -> None:
        """Raise Stray if a canary has changed."""
        end = self.before + self.array.nbytes
        front, back = (np.flatnonzero(part != FILL) for part in (self.memory[:self.before], self.memory[end:]))
        if len(front):
            raise Stray(f"{len(front)} bytes before {self.name} were written, the first {self.before - front[0]} before it")
        if len(back):
            raise Stray(f"{len(back)} bytes behind {self.name} were written, the first {back[0]} behind it")


def guarded(name: str, size: int, side: str = "", align: int = 1) -> Guarded:
    """Bytes between canaries. side: '' for wide canaries only; 'end' or 'start' for the one that lies at a protected page (with
    `align`, as near as that allows); the other side has a page after what is left of its own."""
    if not side:
        memory = np.frombuffer(mmap.mmap(-1, 2 * MARGIN + -(-size // PAGE) * PAGE), np.uint8)
        before = MARGIN
    else:
        whole = -(-max(size, 1) // PAGE) * PAGE
        mapped = mmap.mmap(-1, whole + 2 * PAGE)
        memory = np.frombuffer(mapped, np.uint8)[PAGE:PAGE + whole]
        for page in (memory.ctypes.data - PAGE, memory.ctypes.data + whole):
            _protect(page)
        before = 0 if side == "start" else (whole - size) // align * align
    memory[:] = FILL
    return Guarded(name, memory, before, memory[before:before + size])


def _protect(address: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(PAGE), 0):
        raise OSError(ctypes.get_errno(), "mprotect")


def copied(name: str, a: np.ndarray, side: str = "") -> tuple[Guarded, np.ndarray]:
    """(memory between canaries, the array's elements in it)."""
    found = guarded(name, a.nbytes, side)
    view = found.array.view(a.dtype).reshape(a.shape)
    view[...] = a
    return found, view


def run(executable: Executable, buffers: Sequence[np.ndarray], side: str = "") -> None:
    """`executable.run(buffers)` on copies between canaries, which are copied back. Raises Stray. side: see `guarded`."""
    places = {id(a): copied(f"argument {n}", a, side) for n, a in enumerate(buffers)}
    own = [places[id(a)][1] for a in buffers]
    others = _run(executable, own, side)
    for found in [*(g for g, _ in places.values()), *others]:
        found.check()
    for a, copy in zip(buffers, own, strict=True):
        if a.flags.writeable:
            a[...] = copy
        else:
            assert a.tobytes() == copy.tobytes(), "an array that is read-only was written"


def _run(executable: Executable, buffers: list[np.ndarray], side: str) -> list[Guarded]:
    """Run; what else lay between canaries."""
    if isinstance(executable, WithPrologue):
        package = executable.package
        made = [_made(b.name, b.dtype.numpy, b.shape, side) for b in package.made]
        arrays = [*buffers, *(view for _, view in made)]
        used = [g for g, _ in made]
        if executable.once is not None and package.once is not None:
            used += _run(executable.once, [arrays[n] for n in package.once.arrays], side)
        return used + _run(executable.main, [arrays[n] for n in package.main.arrays], side)
    if isinstance(executable, Sized):
        rest = [_made(f"workspace {n}", dtype, (count,), side) for n, (dtype, count) in enumerate(executable.workspace)]
        found = _run(executable.executable, [*buffers, *(view for _, view in rest), executable.sizes], side)
        return [g for g, _ in rest] + found
    if isinstance(executable, Native):
        return _native(executable, buffers, side)
    if isinstance(executable, Loaded):
        own = [guarded(f"temporary {n}", size, side, LINE) for n, size in enumerate(executable.temporaries)]
        executable.call([*buffers, *(g.array for g in own)])
        return own
    executable.run(buffers)
    return []


def _made(name: str, dtype: np.dtype, shape: tuple[int, ...], side: str) -> tuple[Guarded, np.ndarray]:
    found = guarded(name, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, side, LINE)
    return found, found.array.view(dtype).reshape(shape)


def _native(code: Native, buffers: list[np.ndarray], side: str) -> list[Guarded]:
    """The entry point with each temporary, and the threads' arenas, between canaries of their own."""
    scratch = [guarded(f"temporary {b.name}", b.size * b.dtype.bytes, side, LINE) for b in code.binary.scratch]
    arena = guarded("the arenas", code._arena_bytes * code._team, side, LINE)
    addresses = [a.ctypes.data for a in (*buffers, *(g.array for g in scratch))]
    table = (ctypes.c_void_p * len(addresses))(*addresses)
    code._entry(ctypes.addressof(table), arena.array.ctypes.data, *pool.team(code._team), code._team)
    return [*scratch, arena]
