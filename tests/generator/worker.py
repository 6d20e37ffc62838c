"""A process of its own for cases: a crash or a hang of one is an outcome, and the next one gets a new process."""

from __future__ import annotations

import multiprocessing as mp
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from tests.generator.judge import Outcome, judge


class Worker:
    """Judges cases one after another. seconds: that one case may take. how: a function of a module, of a case."""

    def __init__(self, seconds: float = 300.0, how: Callable[[Any], Outcome] = judge) -> None:
        self.seconds, self.how = seconds, how
        self._process: mp.process.BaseProcess | None = None

    def judge(self, case: Any) -> Outcome:
        if self._process is None:
            self._start()
        assert self._process is not None
        try:
            self._pipe.send(case)
            if not self._pipe.poll(self.seconds):
                self.close()
                return Outcome("hang", f"no answer within {self.seconds:.0f} s")
            return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(5)
            code = self._process.exitcode
            self.close()
            return Outcome("crash", f"the process ended with exit code {code}")

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
