"""A line in the terminal for compilations that take longer than a second: what, how long, and at which stage.

    compiling attention, 3 s: isl's schedule

It goes away when the code is there. Nothing is written where standard error is no terminal, and with POLYTC_PROGRESS=0.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

AFTER = 1.0
"""Seconds until the line appears, and between two of them."""

_CLEAR = b"\r\x1b[K"
_now = threading.local()


@contextmanager
def shown(name: str, terminal: int = 2, after: float = AFTER) -> Iterator[None]:
    """Within, the compilation of `name` is shown. terminal: a file descriptor, which is written to directly: a thread that held
    a lock of Python's streams would hold it in every fork."""
    if os.environ.get("POLYTC_PROGRESS") == "0" or not _is_terminal(terminal) or getattr(_now, "stage", None) is not None:
        yield
        return
    stage = _now.stage = [""]
    done, start = threading.Event(), time.monotonic()

    def tell() -> None:
        while not done.wait(after):
            text = f"compiling {name}, {time.monotonic() - start:.0f} s{f': {stage[0]}' if stage[0] else ''}"
            _write(terminal, _CLEAR + text[:78].encode("ascii", "replace"))

    thread = threading.Thread(target=tell, name="polytc-waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _now.stage = None
        if time.monotonic() - start >= after:
            _write(terminal, _CLEAR)


def at(stage: str) -> None:
    """The compilation that this thread waits for has come to a stage."""
    known = getattr(_now, "stage", None)
    if known is not None:
        known[0] = stage


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _write(fd: int, data: bytes) -> None:
    with suppress(OSError):
        os.write(fd, data)
