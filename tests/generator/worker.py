"""A process of its own for cases: a crash or a hang of one is an outcome, and the next one gets a new process."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.generator.judge import Outcome, judge

WAITING = 5.0
"""How many times its seconds a case may take on a machine that does other things, too."""


class Worker:
    """Judges cases one after another. seconds: of the processors that one case may take. how: a function of a module, of a
    case."""

    def __init__(self, seconds: float = 300.0, how: Callable[[Any], Outcome] = judge) -> None:
        self.seconds, self.how = seconds, how
        self._process: mp.process.BaseProcess | None = None

    def judge(self, case: Any) -> Outcome:
        if self._process is None:
            self._start()
        assert self._process is not None
        try:
            self._pipe.send(case)
            if not self._answered():
                self.close()
                return Outcome("hang", f"no answer within {self.seconds:.0f} s")
            return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(5)
            code = self._process.exitcode
            self.close()
            return Outcome("crash", f"the process ended with exit code {code}")

    def _answered(self) -> bool:
        """Is there an answer in time?"""
        used, begun = self._used(), time.monotonic()
        while not self._pipe.poll(min(1.0, self.seconds)):
            if self._used() - used >= self.seconds or time.monotonic() - begun >= WAITING * self.seconds:
                return False
        return True

    def _used(self) -> float:
        """Seconds that all threads of the process took so far; those of the clock where the system does not tell."""
        assert self._process is not None
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def _start(self) -> None:
        """A process that has answered once: its start does not count."""
        context = mp.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self.how), daemon=True)
        self._process.start()
        other.close()
        self._pipe.recv()


def _serve(pipe: Connection, how: Callable[[Any], Outcome]) -> None:
    os.environ.setdefault("POLYTC_CHECK", "1")
    os.environ["POLYTC_CACHE"] = "0"
    pipe.send(None)
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        pipe.send(how(case))
