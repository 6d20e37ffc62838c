"""A contestant is a process that holds one kernel and its arrays, and runs it when asked to.

    asked         answers
                  ready SECONDS      of compiling, where the process compiles
    run COUNT     COUNT lines        the seconds of each run; every run begins with the initial values
    dump FOLDER   done               arrays of the last run as raw files NAME.TYPE

polyrun/harness does this for PolyBench's C programs, polyrun/ours.py for polytc.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

TYPES = {"double": "f8", "float": "f4", "int": "i4", "base": "i1"}
"""The element types of PolyBench's arrays -> numpy's."""


class Lost(Exception):
    """The process ended, or did not answer in time."""


class Contestant:
    """The parent's end. command: starts the process. patience: seconds to wait for an answer."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str], patience: float) -> None:
        self.patience = patience
        self._process = subprocess.Popen([str(c) for c in command], env={**os.environ, **environment}, text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        ready = self._ask(None, 1)[0].split()
        self.compiled = float(ready[1]) if len(ready) > 1 else None

    def run(self, count: int = 1) -> list[float]:
        """Seconds of each run. Raises Lost."""
        return [float(line) for line in self._ask(f"run {count}", count)]

    def arrays(self) -> dict[str, np.ndarray]:
        """Every array after the last run, flat."""
        with tempfile.TemporaryDirectory() as folder:
            self._ask(f"dump {folder}", 1)
            return {p.stem: np.fromfile(p, TYPES[p.suffix[1:]]) for p in Path(folder).iterdir()}

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, line: str | None, answers: int) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Timer(self.patience, self._process.kill)
        late.start()
        try:
            if line is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.write(line + "\n")
                    self._process.stdin.flush()
            lines = [self._process.stdout.readline() for _ in range(answers)]
        finally:
            timely = late.is_alive()
            late.cancel()
        if not all(lines):
            raise Lost(self._obituary() if timely else f"no answer in {self.patience:.0f} s")
        return lines

    def _obituary(self) -> str:
        _, errors = self._process.communicate()
        raised = [line for line in errors.splitlines() if re.match(r"[\w.]+: ", line)] or errors.splitlines() or ["no message"]
        return f"ended with code {self._process.returncode}: {raised[-1]}"
