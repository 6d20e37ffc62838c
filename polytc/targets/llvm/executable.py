"""Native code of one module, callable on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polytc.codegen.target import Binary, Bound, Types
from polytc.native import call_arguments
from polytc.native import threads as pool
from polytc.native.linking import Code

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_PLAIN = ctypes.CFUNCTYPE(None)
"""The same, for arguments that are objects of ctypes already."""

ALIGN = 64


def aligned(count: int) -> np.ndarray:
    """`count` bytes that start at a multiple of 64."""
    raw = np.empty(count + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start:start + count]


class _Frame:
    """What one call at a time owns: the table of pointers, scratch buffers, and each thread's arena. needs: bytes of the latter
    two. alone: the arguments of the entry for one thread, as ctypes passes them on, unconverted."""

    def __init__(self, m: Binary, arena_bytes: int, threads: int) -> None:
        sizes = [-(-max(1, b.size * b.dtype.bytes) // ALIGN) * ALIGN for b in m.scratch]
        self.needs = sum(sizes) + arena_bytes * threads
        self.table = (ctypes.c_void_p * (len(m.args) + len(m.scratch)))()
        self.table_address = ctypes.addressof(self.table)
        self.table_argument = ctypes.c_void_p(self.table_address)
        self._first, self._sizes = len(m.args), sizes
        self.memory: np.ndarray | None = None

    def ready(self) -> _Frame:
        """With memory of its own, where nobody has lent it some."""
        if self.memory is None:
            self.use(aligned(self.needs))
        return self

    def use(self, memory: np.ndarray) -> None:
        """Have the scratch buffers and the arenas there."""
        self.memory, address = memory, memory.ctypes.data
        for i, size in enumerate(self._sizes):
            self.table[self._first + i] = address
            address += size
        self.arena_address = address
        self.alone = (self.table_argument, ctypes.c_void_p(address), ctypes.c_void_p(0), ctypes.c_void_p(0), ctypes.c_int64(1))


class Executable:
    """Loaded code. It may be called from several Python threads at once: each call has its own scratch."""

    def __init__(self, binary: Binary, threads: int) -> None:
        self.binary = binary
        self.threads = threads
        self._code = Code(binary.code)
        self._entry = _ENTRY(self._code.address("run"))
        self._arena_bytes = int(binary.options["arena_bytes"])
        self._frames: list[_Frame] = []
        self._count = len(binary.args)
        self._team = threads if binary.options["parallel"] != "0" and pool.available() else 1

    def _take(self) -> _Frame:
        try:
            return self._frames.pop()
        except IndexError:
            return _Frame(self.binary, self._arena_bytes, self._team).ready()

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on arrays for `binary.args`: C-contiguous, of the right types and numbers of elements."""
        assert len(buffers) == self._count
        frame = self._take()
        for i, array in enumerate(buffers):
            frame.table[i] = array.ctypes.data
        launch, state = pool.team(self._team)
        self._entry(frame.table_address, frame.arena_address, launch, state, self._team)
        self._frames.append(frame)

    def fast_path(self, inputs: Types, outputs: Types) -> Callable[..., bool] | None:
        """See codegen.target.FastPath. Several Python threads may call the function at once."""
        expected = call_arguments.expect(inputs, outputs)
        if expected is None:
            return None
        check, address, entry, count, team = expected.check, expected.address, self._entry, self._team, pool.team
        pop, push, create = self._frames.pop, self._frames.append, self._take
        if count == 1:
            return self._alone(expected, ctypes.c_void_p(address))

        def call(*arrays: Any, _alive: object = (expected, self._code)) -> bool:
            try:
                frame = pop()
            except IndexError:
                frame = create()
            fits = check(address, frame.table_address, *arrays)
            if fits:
                entry(frame.table_address, frame.arena_address, *team(count), count)
            push(frame)
            return fits != 0
        return call

    def _alone(self, expected: call_arguments.Expected, address: ctypes.c_void_p) -> Callable[..., bool]:
        """The fast path of one thread: the entry's arguments are made once."""
        check, entry = expected.check, _PLAIN(self._code.address("run"))
        pop, push, create = self._frames.pop, self._frames.append, self._take

        def call(*arrays: Any, _alive: object = (expected, self._code)) -> bool:
            try:
                frame = pop()
            except IndexError:
                frame = create()
            fits = check(address, frame.table_argument, *arrays)
            if fits:
                entry(*frame.alone)
            push(frame)
            return fits != 0
        return call

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """A function that runs on these arrays each time, with little overhead. It keeps the arrays alive.

        Unlike `run` it must not be called by two Python threads at once.
        """
        assert len(buffers) == self._count
        return _Bound(self._code, self._entry, _Frame(self.binary, self._arena_bytes, self._team), self._team, buffers)


class _Bound:
    """An entry point with a frame whose table points to arrays."""

    def __init__(self, code: Code, entry: Any, frame: _Frame, team: int, buffers: Sequence[np.ndarray]
                 ) -> None:
        self._alive = (code, tuple(buffers))
        self._frame, self._table, self.needs, self.words = frame, frame.table, frame.needs, len(frame.table)
        for i, array in enumerate(buffers):
            frame.table[i] = array.ctypes.data
        self._entry, self._team = entry, team

    def __call__(self) -> None:
        launch, state = pool.team(self._team) if self._team > 1 else (0, 0)
        frame = self._frame.ready()
        self._entry(frame.table_address, frame.arena_address, launch, state, self._team)

    def lend(self, memory: np.ndarray) -> tuple[int, int, int, int]:
        """See codegen.target.Native."""
        frame = self._frame
        frame.use(memory)
        return ctypes.cast(self._entry, ctypes.c_void_p).value or 0, frame.table_address, frame.arena_address, self._team

    def slot(self, position: int) -> ctypes.c_int64:
        """See codegen.target.Native."""
        return ctypes.c_int64.from_address(self._frame.table_address + ctypes.sizeof(ctypes.c_int64) * position)

    def move(self, position: int, array: np.ndarray) -> None:
        """Use another array."""
        self._table[position] = array.ctypes.data


class Loader:
    """What the target cpu loads, without its compiler."""

    def load(self, binary: Binary, threads: int) -> Executable:
        """See codegen.target.Loader."""
        return Executable(binary, max(1, threads))
