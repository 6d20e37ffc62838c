"""Work that forks of this process share: each takes the next task as soon as it is done with one, and so does this process.

    with Forks(tasks, 3) as forks:
        while (n := forks.claim()) is not None:
            ...                              # this process does task n itself
        for n in forks.others():
            data = forks.result(n)           # None: it was not done, and is to be done here

Tasks are functions that return bytes. The numbers of the tasks are in a pipe, from which forks and parent read: who reads a
number has the task. Answers come through a pipe for each fork, read by a thread. A fork that dies or hangs costs time, never a
result.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType

PATIENCE = 60.0
"""Seconds without any answer after which forks are given up."""
MOST = 8192
"""Tasks at most, whose numbers fit a pipe."""
_NUMBER = struct.Struct("<I")
_HEAD = struct.Struct("<IqI")
"""The number of a task, the bytes of its answer or -1 for none, and a word that says that this is a head."""
_WORD = 0x9E3779B9


def possible() -> bool:
    """Can this system fork, and is a fork as able as its parent? On macOS system libraries are not."""
    return hasattr(os, "fork") and os.uname().sysname == "Linux"


class Forks:
    """`count` forks of this process, beside it, for these tasks."""

    def __init__(self, tasks: Sequence[Callable[[], bytes]], count: int) -> None:
        assert len(tasks) <= MOST
        self._tasks, self._count = tasks, count
        self._mine = set[int]()
        self._answers = dict[int, bytes | None]()
        self._changed = threading.Condition()
        self._working = True
        self._pids = list[int]()
        self._sources = list[int]()
        self._reader = threading.Thread(target=self._read, name="polytc-forks", daemon=True)

    def __enter__(self) -> Forks:
        self._numbers, numbers = os.pipe()
        try:
            os.write(numbers, b"".join(_NUMBER.pack(n) for n in range(len(self._tasks))))
            os.close(numbers)
            for _ in range(self._count):
                self._begin()
            self._reader.start()
        except BaseException:  # Ctrl-C, or no memory for one more: `with` would leave the forks that there are
            self._end()
            raise
        return self

    def _begin(self) -> None:
        """One more fork."""
        source, sink = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork has one thread, and renews the locks of the others
            pid = os.fork()
        if pid == 0:
            _serve(self._tasks, self._numbers, sink)
        self._pids.append(pid)
        self._sources.append(source)
        os.close(sink)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        self._working = False
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self._pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        if self._reader.ident is not None:
            self._reader.join()
        else:
            for source in self._sources:
                os.close(source)
        os.close(self._numbers)

    def claim(self) -> int | None:
        """The number of a task that this process is to do now; None if all are done or being done."""
        data = os.read(self._numbers, _NUMBER.size)
        if len(data) < _NUMBER.size:
            return None
        number: int = _NUMBER.unpack(data)[0]
        self._mine.add(number)
        return number

    def others(self) -> list[int]:
        """The tasks that this process did not claim."""
        return [n for n in range(len(self._tasks)) if n not in self._mine]

    def result(self, number: int) -> bytes | None:
        """The answer of a fork, waited for; None if there will be none."""
        with self._changed:
            seen = -1
            while number not in self._answers and self._working:
                if seen == len(self._answers):
                    return None  # nothing came for as long as that: they hang
                seen = len(self._answers)
                self._changed.wait_for(lambda: number in self._answers or not self._working, PATIENCE)
            return self._answers.get(number)

    def _read(self) -> None:
        """What the thread does: it takes answers until no fork is left."""
        waiting, parts = select.poll(), dict.fromkeys(self._sources, b"")
        for source in parts:
            waiting.register(source, select.POLLIN)
        while parts and self._working:
            for source, _ in waiting.poll(200):
                data = os.read(source, 1 << 20)
                if not data:
                    waiting.unregister(source)
                    del parts[source]
                    continue
                parts[source] = self._taken(parts[source] + data)
        with self._changed:
            self._working = False
            self._changed.notify_all()
        for source in self._sources:
            os.close(source)

    def _taken(self, data: bytes) -> bytes:
        """Note the answers that are whole; what is left."""
        while len(data) >= _HEAD.size:
            number, length, word = _HEAD.unpack_from(data)
            end = _HEAD.size + max(0, length)
            if word != _WORD or len(data) < end:
                break
            with self._changed:
                self._answers[number] = data[_HEAD.size:end] if length >= 0 else None
                self._changed.notify_all()
            data = data[end:]
        return data


def _serve(tasks: Sequence[Callable[[], bytes]], numbers: int, sink: int) -> None:
    """What a fork does: it ends here."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        while len(data := os.read(numbers, _NUMBER.size)) == _NUMBER.size:
            (n,) = _NUMBER.unpack(data)
            try:
                answer: bytes | None = tasks[n]()
            except BaseException:
                answer = None  # the parent finds out what is wrong
            length = len(answer) if answer is not None else -1
            left = _HEAD.pack(n, length, _WORD) + (answer or b"")
            while left:
                left = left[os.write(sink, left):]
    finally:
        os._exit(0)
