"""isl's scheduler, bounded in time. Its operations are counted, but the numbers of its linear programs may grow without end:
one operation then takes a thousand times as long as others, inside of isl, where neither a clock nor Ctrl-C gets a turn.

    find(constraints, SYMBOLIC_ATTEMPTS)
        FIRST operations                      here: what most programs need
        75,000 in 0.15 s, ...                 in a fork of this process, which the system ends when its time is over

Some attempts ask for a little more than they must: what follows from the bounds of the loops is left out of the dependences, so
that the linear programs are smaller. What is legal because of the bounds alone is not found then. The loop of an LSTM takes
0.05 seconds so, 2 with them.

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
from typing import NamedTuple, TypeAlias

import islpy

from polytc.poly import isl


class Attempt(NamedTuple):
    """operations: of isl, to be done in so many seconds of processor time; unbounded: without the bounds of loops."""

    operations: int
    seconds: float
    unbounded: bool = False


Attempts: TypeAlias = tuple[Attempt, ...]
"""One after another."""
FIRST = 6_000
"""isl operations of the attempt in this process: some milliseconds, seldom a tenth of a second."""
SYMBOLIC_ATTEMPTS: Attempts = (Attempt(75_000, 0.15), Attempt(260_000, 0.3, unbounded=True), Attempt(260_000, 1.0))
"""For sizes that are symbols: five times what they take where numbers stay short. (PolyBench: 67,000 in 0.02 seconds, and, in
one nest, 250,000 in 0.2.)"""
NUMERIC_ATTEMPTS: Attempts = (Attempt(260_000, 2.0),)
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
    for attempt in attempts:
        signal.setitimer(signal.ITIMER_PROF, attempt.seconds)
        try:
            return _FOUND + str(_asked(constraints, attempt)).encode()
        except isl.QuotaExceeded as e:
            answer = _SPENT + str(e).encode()
        except isl.Unschedulable as e:
            answer = _GAVE_UP + str(e).encode()
            if not attempt.unbounded:
                break
    return answer


def _asked(constraints: islpy.ScheduleConstraints, attempt: Attempt) -> islpy.Schedule:
    def asked() -> islpy.Schedule:
        return isl.schedule(_unbounded(constraints) if attempt.unbounded else constraints)
    return isl.bounded(constraints.get_ctx(), attempt.operations, asked)


def _unbounded(constraints: islpy.ScheduleConstraints) -> islpy.ScheduleConstraints:
    """The dependences without the bounds of loops; how near instances should be (proximity) has no answer without them."""
    domain = constraints.get_domain()
    validity, coincidence = (isl.without_bounds(u, domain) for u in (constraints.get_validity(), constraints.get_coincidence()))
    return constraints.set_validity(validity).set_coincidence(coincidence)


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
