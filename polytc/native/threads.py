"""A pool of native threads for parallel loops.

The pool's code is LLVM IR made once per process. Workers are Python threads that stay inside of it, without the GIL, until the
interpreter exits. Each thread takes chunks of its part of a region from an atomic counter, then of the parts of others, large
ones first and small ones towards the end (Polychronopoulos & Kuck, Guided Self-Scheduling, IEEE ToC 1987), so that a core that
others use too holds up the rest for no longer than its last chunk. The caller takes part, so that a region completes even if no
worker ever wakes up. Workers spin for some hundred microseconds after a region of theirs, then sleep on a futex (on other
systems than Linux: yield); regions of fewer threads leave the other workers asleep. The code is in parallel_regions.py.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from polytc.errors import ArgumentError, fail
from polytc.native import forks, parallel_regions
from polytc.native.linking import scalar_code
from polytc.options import THREADS

_NUDGE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_WORKER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def default_threads(cores: int) -> int:
    """POLYTC_NUM_THREADS if it is set, else `cores`, or fewer if OMP_NUM_THREADS says so, as launchers of many processes do.

    Raises ArgumentError E410 if POLYTC_NUM_THREADS is no integer from 1 to THREADS.
    """
    text = os.environ.get("POLYTC_NUM_THREADS", "").strip()
    if text and not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= THREADS):
        raise fail("E410", f"POLYTC_NUM_THREADS is {text!r}, not an integer from 1 to {THREADS}", kind=ArgumentError,
                   notes=["set it to a number such as 4, or unset it for all of the machine's threads"])
    if text:
        return int(text)
    outer = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # a list has a number for each level of nesting
    shared = outer.isascii() and outer.isdigit() and len(outer) < 10 and int(outer) > 0
    return max(1, min(cores, int(outer)) if shared else cores)


def available() -> bool:
    """Whether the pool works on this system: it calls functions of POSIX."""
    return os.name == "posix"


class _Pool:
    """The process's pool. Its memory and code live until the process ends: bound calls hold their addresses."""

    def __init__(self) -> None:
        self.code = scalar_code(parallel_regions.text())
        self.memory = (ctypes.c_char * (parallel_regions.BYTES + parallel_regions.LINE))()
        self.address = -(-ctypes.addressof(self.memory) // parallel_regions.LINE) * parallel_regions.LINE
        self.launch = self.code.address("launch")
        self.nudge = _NUDGE(self.code.address("nudge"))
        self.worker = _WORKER(self.code.address("worker"))
        self.workers: list[threading.Thread] = []
        self.caller, self.settled = -1, 0

    def grow(self, threads: int) -> None:
        """Have at least threads - 1 workers."""
        while len(self.workers) < threads - 1:
            slot = len(self.workers) + 1
            thread = threading.Thread(target=self.worker, args=(self.address, slot), name=f"polytc-{slot}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is on its way out: fewer workers do it too
                return
            self.workers.append(thread)

    def make_way(self, processor: int) -> None:
        """Keep the workers off the processor on which the caller runs. Linux may wake a thread on the processor of the one that
        wakes it, which is busy with its own part of the region: the woken one would wait for milliseconds."""
        self.caller, self.settled = processor, len(self.workers)
        others = os.sched_getaffinity(0) - {processor}
        for thread in self.workers:
            if others and thread.native_id is not None:
                with suppress(OSError):  # it has ended, or the system forbids it
                    os.sched_setaffinity(thread.native_id, others)

    def _word(self, name: str) -> ctypes.c_uint32:
        return ctypes.c_uint32.from_address(self.address + parallel_regions.OFFSET[name])

    def stop(self) -> None:
        """Let the workers return, so that none is inside of native code while the interpreter goes away."""
        self._word("stop").value = 1
        while any(t.is_alive() for t in self.workers):
            self.nudge(self.address)
            for t in self.workers:
                t.join(0.01)

    def forget_workers(self) -> None:
        """In the child of a fork no worker exists, and the memory may be in the middle of a region."""
        ctypes.memset(self.address, 0, parallel_regions.BYTES)
        self.workers, self.caller = [], -1


_LOCK = forks.Lock()
_POOL: _Pool | None = None


def _processor_call() -> Callable[[], int] | None:
    """The system's function that says on which processor this thread runs now, without releasing the GIL; None elsewhere."""
    try:
        call = ctypes.PyDLL(None).sched_getcpu
    except (AttributeError, OSError, TypeError):
        return None
    return call if hasattr(os, "sched_setaffinity") else None


_processor = _processor_call()


def team(threads: int) -> tuple[int, int]:
    """Addresses of `launch` and of the pool's state, with workers for `threads` threads; zeros for a single thread."""
    global _POOL
    if threads <= 1:
        return 0, 0
    found = _POOL
    if found is None or len(found.workers) < threads - 1:
        with _LOCK:
            found = _POOL = _POOL or _Pool()
            found.grow(threads)
    if _processor is not None:
        here = _processor()
        if here != found.caller or len(found.workers) != found.settled:
            found.make_way(here)
    return found.launch, found.address


def workers() -> int:
    """How many worker threads there are now."""
    return len(_POOL.workers) if _POOL is not None else 0


def _after_fork() -> None:
    if _POOL is not None:
        _POOL.forget_workers()


@atexit.register
def _at_exit() -> None:
    if _POOL is not None:
        _POOL.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
