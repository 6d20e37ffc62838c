"""Bound calls in order as one native function: no Python between them.

Steps that are native code (see `codegen.target.Native`) are walked by a loop in LLVM IR (native/chain_walk.py), which calls
each entry with its table of arrays. The threads of the pool spin between the parallel loops of neighbouring steps (see
native/parallel_regions.py), so that a step costs an indirect call and each of its parallel loops two messages. All steps of a
chain share one piece of scratch memory: only one runs at a time, and what it used is still in the caches for the next. Steps of
a branch stand behind a `Skip`, which goes on after them where its condition is not what they want.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from polytc.codegen.target import Bound, Native, Queued
from polytc.native import chain_walk, subnormals
from polytc.native import threads as pool
from polytc.native.chain_walk import FIELDS
from polytc.native.linking import Code, scalar_code
from polytc.runtime import packages
from polytc.targets.llvm.executable import aligned

_WALK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@functools.cache
def _code(flushing: bool) -> tuple[Code, Callable[..., None]]:
    code = scalar_code(chain_walk.text(flushing=flushing))
    return code, _WALK(code.address("walk"))


_CONFORMS: dict[tuple[type, type], bool] = {}
"""Whether objects of a class have what a protocol asks for: finding that out takes longer than a short step."""


def _is_native(code: object) -> TypeGuard[Native]:
    return _conforms(code, Native)


def _is_queued(code: object) -> TypeGuard[Queued]:
    return _conforms(code, Queued)


def _conforms(code: object, protocol: type) -> bool:
    key = (type(code), protocol)
    if key not in _CONFORMS:
        _CONFORMS[key] = isinstance(code, protocol)
    return _CONFORMS[key]


class Skip:
    """A step that does nothing but go on `count` steps later unless its condition, one bool, is `wanted`."""

    needs = 0
    words = 1

    def __init__(self, condition: np.ndarray, wanted: bool, count: int) -> None:
        self.wanted, self.count = wanted, count
        self._table = (ctypes.c_int64 * 1)()
        self.move(0, condition)

    def __call__(self) -> None:
        """What it does is up to whoever runs the steps."""

    def move(self, position: int, array: np.ndarray) -> None:
        """Look at another condition."""
        self._alive = array
        self._table[0] = array.ctypes.data

    def lend(self, memory: np.ndarray) -> tuple[int, int, int, int]:
        """The words of the step."""
        return 0, ctypes.addressof(self._table), int(self.wanted), self.count

    def slot(self, position: int) -> ctypes.c_int64:
        """See codegen.target.Native."""
        return ctypes.c_int64.from_address(ctypes.addressof(self._table))

    @property
    def passed(self) -> int:
        """How many steps are skipped now."""
        return 0 if ctypes.c_bool.from_address(self._table[0]).value is self.wanted else self.count


class Words:
    """Tables of addresses of many steps, of which `position` is the number of a word. What it does is up to the chain."""

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def __call__(self) -> None:
        raise AssertionError("tables are no step")

    def move(self, position: int, array: np.ndarray) -> None:
        """Use another array."""
        self._words[position] = array.ctypes.data

    def slot(self, position: int) -> ctypes.c_int64:
        """The place of an address."""
        return ctypes.c_int64.from_address(self._words.ctypes.data + self._words.itemsize * position)


@runtime_checkable
class _Timed(Protocol):
    """Several steps as one call, which tells of each when it ran."""

    def __call__(self) -> None:
        ...

    def timed(self) -> list[tuple[int, int]]:
        """Run all steps; the nanoseconds (of time.monotonic_ns) at which each began and ended."""
        ...


class Chain:
    """Bound calls as one call. Not to be run by two threads at once.

    steps: in order; they may be moved to other arrays between runs. scratch: bytes that native ones share.
    """

    def __init__(self, steps: Sequence[Bound]) -> None:
        parts = [(native(step) or queued(step), step) for step in steps]
        self.scratch = max((n.needs for n, _ in parts if _is_native(n)), default=0)
        memory = aligned(self.scratch)
        self._parts: list[Callable[[], None]] = []
        if any(isinstance(s, Skip) for s in steps) and not all(_is_native(n) for n, _ in parts):
            self._parts = list(steps)  # skips count steps, so that none may be grouped
            return
        for _, members in itertools.groupby(parts, lambda p: _kind(p[0])):
            group = list(members)
            codes = [n for n, _ in group if _is_native(n)]
            on_device = [n for n, _ in group if _is_queued(n)]
            self._parts += ([_Walk(codes, memory)] if codes else [_device_walk(on_device)] if on_device else
                            [s for _, s in group])

    @property
    def native(self) -> bool:
        """Is all of it one native call?"""
        return len(self._parts) == 1 and isinstance(self._parts[0], _Walk)

    @property
    def walked(self) -> tuple[int, int, int]:
        """Of a native chain, for `walk`: the address of its steps, how many there are, and the threads that they want."""
        walk, = self._parts
        assert isinstance(walk, _Walk)
        return ctypes.addressof(walk.table), walk.count, walk.team

    def with_tables(self, rows: np.ndarray, alive: object) -> Chain:
        """Another chain of the same native steps on other arrays. rows: FIELDS words of each step; alive: what these point to.
        Not to be run while this one is, as both have one scratch memory."""
        walk, = self._parts
        assert isinstance(walk, _Walk)
        other = Chain.__new__(Chain)
        other.scratch, other._parts = self.scratch, [walk.with_rows(rows, alive)]
        return other

    def __call__(self) -> None:
        """Run all steps that are not skipped."""
        k = 0
        while k < len(self._parts):
            part = self._parts[k]
            part()
            k += 1 + (part.passed if isinstance(part, Skip) else 0)

    def timed(self) -> list[tuple[int, int]]:
        """Run all steps; the nanoseconds (of time.monotonic_ns) at which each began and ended, which is at once for those that
        are skipped. Skips are not in the list."""
        found: list[tuple[int, int]] = []
        k = 0
        while k < len(self._parts):
            part = self._parts[k]
            if isinstance(part, _Timed):
                found += part.timed()
            elif isinstance(part, Skip):
                passed = self._parts[k + 1:k + 1 + part.passed]
                found += [(time.monotonic_ns(),) * 2] * sum(not isinstance(p, Skip) for p in passed)
                k += part.passed
            else:
                start = time.monotonic_ns()
                part()
                found.append((start, time.monotonic_ns()))
            k += 1
        return found


def _kind(code: Native | Queued | None) -> object:
    """What steps that may run in one call have in common."""
    return code.session if _is_queued(code) else code is not None


def _device_walk(steps: Sequence[Queued]) -> _Timed:
    """Steps of one queue as one call."""
    from polytc.runtime.device_chains import DeviceWalk  # what runs on processors needs nothing of OpenCL

    return DeviceWalk(steps)


def queued(step: Bound) -> Queued | None:
    """The code of a device behind a step, if it is some."""
    while isinstance(step, packages.Rearranged):
        step = step.bound
    return step if _is_queued(step) else None


def native(step: Bound) -> Native | None:
    """The native code behind a step, if it is some that can be walked here."""
    while isinstance(step, packages.Rearranged):
        step = step.bound
    return step if _is_native(step) and pool.available() else None


def slots(step: Bound, position: int) -> list[ctypes.c_int64]:
    """Where native code behind a step reads the address of its argument `position`. They are good while the step lives."""
    if isinstance(step, packages.Rearranged):
        return [slot for place in step.places.get(position, ()) for slot in slots(step.bound, place)]
    if isinstance(step, Words):
        return [step.slot(position)]
    assert _is_native(step)
    return [step.slot(position)]


class _Walk:
    """Native steps, as a table for `walk`."""

    def __init__(self, steps: Sequence[Native], memory: np.ndarray) -> None:
        rows = [step.lend(memory) for step in steps]
        self.count, self.team = len(rows), max((threads for entry, *_, threads in rows if entry), default=1)
        self.table = (ctypes.c_int64 * (FIELDS * len(rows)))(*itertools.chain.from_iterable(rows))
        code, self._walk = _code(subnormals.flushing())
        self._steps = tuple(steps)
        self._alive: object = (code, memory)

    def with_rows(self, rows: np.ndarray, alive: object) -> _Walk:
        """The same steps with other tables."""
        other = _Walk.__new__(_Walk)
        vars(other).update(vars(self))
        other.table = (ctypes.c_int64 * rows.size).from_address(rows.ctypes.data)
        other._alive = (self._alive, alive, rows)
        return other

    def __call__(self) -> None:
        self._walk(self.table, self.count, *pool.team(self.team), None)

    def timed(self) -> list[tuple[int, int]]:
        stamps = (ctypes.c_int64 * (self.count + 1))()
        self._walk(self.table, self.count, *pool.team(self.team), stamps)
        known = itertools.accumulate(stamps, max)  # steps that were skipped have no stamps
        return [times for times, step in zip(itertools.pairwise(known), self._steps, strict=True) if not isinstance(step, Skip)]
