"""isl's scheduler, bounded in time. Its operations are counted, but the numbers of its linear programs may grow without end:
one operation then takes a thousand times as long as others, inside of isl, where neither a clock nor Ctrl-C gets a turn.

    find(constraints, SYMBOLIC_ATTEMPTS)
        FIRST operations                      here: what most programs need
        75,000 in 0.15 s, 260,000 in 1 s      in a fork of this process, which the system ends when its time is over

The fork runs nothing but isl and leaves no trace; Ctrl-C ends it.
"""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

import islpy

from polytc.poly import isl

Attempts: TypeAlias = tuple[tuple[int, float], ...]
"""Operations, and seconds of processor time in which they must be done, one attempt after another."""
FIRST = 6_000
"""isl operations of the attempt in this process: some milliseconds, seldom a tenth of a second."""
SYMBOLIC_ATTEMPTS: Attempts = ((75_000, 0.15), (260_000, 1.0))
"""For sizes that are symbols: five times what they take where numbers stay short. (PolyBench: 67,000 in 0.02 seconds, and, in
one nest, 250,000 in 0.2.)"""
NUMERIC_ATTEMPTS: Attempts = ((260_000, 2.0),)
"""For sizes that are numbers, so that all numbers are long."""
PATIENCE = 20.0
"""Seconds of the clock after which the fork is given up, whatever it waits for."""

_FOUND, _SPENT, _GAVE_UP, _END = b"F", b"S", b"G", b"\0"
"""The first byte of an answer, and the last one of a whole one."""


def find(constraints: islpy.ScheduleConstraints, attempts: Attempts) -> islpy.Schedule:
    """The schedule that isl finds in the first of the attempts that has enough operations. Raises isl.QuotaExceeded,
    isl.Unschedulable."""
    ctx = constraints.get_ctx()
    try:
        return isl.bounded(ctx, FIRST, lambda: isl.schedule(constraints))
    except isl.QuotaExceeded:
        if not hasattr(os, "fork"):
            raise
    with _child(constraints, attempts) as source:
        answer = _read(source)
    kind, text = answer[:1], answer[1:-1].decode()
    if kind == _FOUND:
        return islpy.Schedule.read_from_str(ctx, text)
    if kind == _GAVE_UP:
        raise isl.Unschedulable(text)
    raise isl.QuotaExceeded(text if kind == _SPENT else "more time: its numbers become long")


@contextmanager
def _child(constraints: islpy.ScheduleConstraints, attempts: Attempts) -> Iterator[int]:
    """A fork of this process that writes its answer to the descriptor given, and is gone afterwards."""
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads' locks are of no use to isl
        pid = os.fork()
    if pid == 0:
        _answer(constraints, attempts, sink)
    try:
        os.close(sink)
        yield source
    finally:
        os.close(source)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _answer(constraints: islpy.ScheduleConstraints, attempts: Attempts, sink: int) -> None:
    """What the fork does: it ends here, or when its time is over."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGPROF,))
        answer = _tried(constraints, attempts) + _END
        signal.setitimer(signal.ITIMER_PROF, 0)
        while answer:
            answer = answer[os.write(sink, answer):]
    finally:
        os._exit(0)


def _tried(constraints: islpy.ScheduleConstraints, attempts: Attempts) -> bytes:
    """The answer of the attempts, if each ends in time."""
    answer = b""
    for operations, seconds in attempts:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            found = isl.bounded(constraints.get_ctx(), operations, lambda: isl.schedule(constraints))
            return _FOUND + str(found).encode()
        except isl.QuotaExceeded as e:
            answer = _SPENT + str(e).encode()
        except isl.Unschedulable as e:
            return _GAVE_UP + str(e).encode()
    return answer


def _read(source: int) -> bytes:
    """A whole answer from a descriptor; nothing if there is none, or that takes too long."""
    waiting = select.poll()
    waiting.register(source)
    found, end = b"", time.monotonic() + PATIENCE
    while waiting.poll(max(0.0, end - time.monotonic()) * 1e3):
        part = os.read(source, 1 << 16)
        if not part:
            return found if found.endswith(_END) else b""
        found += part
    return b""
