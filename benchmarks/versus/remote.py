"""A process that answers what its parent asks, one thing at a time, and sleeps on its pipe between.

Before another process has its turn, the parent waits until all threads of the one before sleep (`settle`): pools spin for a
while after their work, and would take the processors of the next.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PAUSE = 10e-3
"""Seconds to wait where the system does not say which threads sleep."""
POLL, IMPATIENT = 5e-4, 0.5
"""Seconds between looks at the threads, and after which threads that never sleep are left to it."""
LOOKS = 3
"""Looks in a row that must find all threads asleep: some sleep for moments between their spins."""


class Lost(Exception):
    """The process crashed, or did not answer in time."""


class Remote:
    """The parent's end. It starts the process when first asked, and again after it was lost.

    serve: called in the process with a pipe and the arguments; it receives messages and sends one answer to each.
    """

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        self._serve, self._arguments = serve, arguments
        self._process: Any = None
        self._pipe: Any = None

    def ask(self, *message: Any, patience: float = 600.0) -> Any:
        """The answer. patience: seconds. Raises Lost."""
        if self._process is None:
            self._start()
        try:
            self._pipe.send(message)
            if self._pipe.poll(patience):
                return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(20.0)
            code = self._process.exitcode
            self.stop()
            raise Lost(f"the process ended with code {code}") from None
        self.stop()
        raise Lost(f"no answer in {patience:.0f} s")

    def settle(self) -> None:
        """Wait until no thread of the process runs."""
        if self._process is None:
            return
        tasks, end, quiet = Path(f"/proc/{self._process.pid}/task"), time.perf_counter() + IMPATIENT, 0
        if not tasks.exists():
            time.sleep(PAUSE)
            return
        while quiet < LOOKS and time.perf_counter() < end:
            quiet = 0 if any(map(_runs, tasks.iterdir())) else quiet + 1
            time.sleep(POLL)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=self._serve, args=(theirs, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()


def _runs(task: Path) -> bool:
    """Does a thread run, or wait for a processor? The state follows the name, which is in parentheses."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:  # it has ended
        return False


def respond(pipe: Connection, answers: dict[str, Callable[..., Any]]) -> None:
    """Answer until the parent closes the pipe. A message is the name of an answer and its arguments."""
    while True:
        try:
            name, *arguments = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        pipe.send(answers[name](*arguments))
