"""Bound code of a device in a row: what one step writes stays on the device for the next.

    inputs -> device;  step, step, step, ... on device buffers, in one queue;  outputs -> host

An array that was moved since it was bound is the caller's: its contents go to the device before a run, or come back after it.
All others are the chain's own: those that are read before a step writes them are constants, and go to the device once.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polytc.codegen.target import Prepared, Queued


class DeviceWalk:
    """Steps of one device as one call. Not to be run by two threads at once."""

    def __init__(self, steps: Sequence[Queued]) -> None:
        self._steps = tuple(steps)
        self._kept: dict[tuple[int, int], Any] = {}
        self._outer: list[Any] = []
        self._prepared: list[Prepared | None] = [None] * len(self._steps)
        self._replay = self._steps[0].session.replay()

    def __call__(self) -> None:
        """Run all steps and wait for them."""
        self._run()

    def timed(self) -> list[tuple[int, int]]:
        """Run them one by one; the nanoseconds (of time.monotonic_ns) at which each began and ended."""
        session, stamps = self._steps[0].session, list[int]()

        def stamp() -> None:
            session.finish()
            stamps.append(time.monotonic_ns())
        self._run(stamp)
        return list(itertools.pairwise(stamps))

    def _run(self, between: Callable[[], None] | None = None) -> None:
        """between: called before the first step and after each."""
        first = self._steps[0].executable
        outer: dict[tuple[int, int], tuple[np.ndarray, Any]] = {}
        written: dict[tuple[int, int], None] = {}
        with first.reporting(), first.session.lock:
            prepared = [self._ready(number, outer, written) for number in range(len(self._steps))]
            if between is None:
                self._replay(prepared)
            else:
                between()
                for step in prepared:
                    self._replay([step])
                    between()
            for key in written:
                first.to_host(*outer[key])
            first.session.finish()

    def _ready(self, number: int, outer: dict[tuple[int, int], tuple[np.ndarray, Any]], written: dict[tuple[int, int], None]
               ) -> Prepared:
        """A step with its arguments set. outer: the caller's arrays so far; written: those that steps write."""
        step, prepared = self._steps[number], self._prepared[number]
        args, outputs = step.executable.binary.args, step.executable.binary.outputs
        moved = {}
        for position in sorted(step.moved):
            name, array = args[position].name, step.buffers[position]
            if array.size:
                key, writes = (array.ctypes.data, array.nbytes), name in outputs
                if key not in outer:
                    outer[key] = array, self._lent(len(outer), step, array, read=not writes)
                if writes:
                    written[key] = None
                moved[name] = outer[key][1]
        if prepared is None:
            own = {b.name: self._own(step, array, read=b.name not in outputs)
                   for b, array in zip(args, step.buffers, strict=True) if b.name not in moved}
            prepared = self._prepared[number] = step.executable.prepared({**own, **moved})
        else:
            for name, buffer in moved.items():
                prepared.move(name, buffer)
        return prepared

    def _own(self, step: Queued, array: np.ndarray, read: bool) -> Any:
        """The buffer of an array that is the chain's own."""
        key = array.ctypes.data, array.nbytes
        if key not in self._kept:
            self._kept[key] = step.executable.made(array, read=read)
        return self._kept[key]

    def _lent(self, number: int, step: Queued, array: np.ndarray, read: bool) -> Any:
        """A buffer for the caller's array: its own memory, or memory that the next run uses again."""
        shared = step.executable.shared(array)
        if shared is not None:
            return shared
        while len(self._outer) <= number:
            self._outer.append(None)
        if self._outer[number] is None or self._outer[number].size < array.nbytes:
            self._outer[number] = step.executable.made(array, read=False)
        if read:
            step.executable.upload(array, self._outer[number])
        return self._outer[number]
