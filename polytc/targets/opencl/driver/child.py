"""Drivers' compilers in a process of their own: one that crashes or hangs is an error of one kernel, not the end of the caller.

    parent                                   child, which lives until it was idle for a minute or the parent has gone
    ask(device, Build(text, options))   ->   the binary, or Refused with the compiler's words
    ask(device, Run(text, ...))         ->   the arrays behind one launch, for probes of a driver

The child is made at the first question and after each crash. Systems without its kind of pipes build in the caller's process.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from polytc.native import forks
from polytc.targets.opencl.driver import drivers

IDLE = 60.0
"""Seconds after which a child without questions ends."""
LIMIT = 900.0
"""Seconds after which a compiler counts as one that hangs: PoCL's takes a minute for the largest kernels of a model."""


@dataclass(frozen=True)
class Build:
    """Compile a text; the answer is the binary, b'' from drivers that give none."""

    text: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """Launch one kernel of a text once, by one work-item in each group; the answer is what the arrays hold then."""

    text: str
    options: tuple[str, ...]
    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    arrays: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Refused:
    """What the driver says is wrong."""

    log: str


class CrashedError(Exception):
    """The child ended, or did not answer in time. What it says is how, and the last that it wrote."""


class _Child:
    """The parent's end. pid: of the process that made it; a fork of that one makes its own."""

    def __init__(self) -> None:
        ours, theirs = os.pipe(), os.pipe()
        code = f"import sys; sys.path[:] = {sys.path!r}; from polytc.targets.opencl.driver import child; " \
               f"child.serve({theirs[0]}, {ours[1]})"
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self.process = subprocess.Popen([sys.executable, "-c", code], pass_fds=(theirs[0], ours[1]), stdin=subprocess.DEVNULL,
                                        stdout=self.errors, stderr=self.errors)
        os.close(theirs[0])
        os.close(ours[1])
        self.answers, self.questions = Connection(ours[0], writable=False), Connection(theirs[1], readable=False)
        self.pid = os.getpid()

    def close(self) -> None:
        """Let the child end."""
        for end in (self.questions, self.answers, self.errors):
            with contextlib.suppress(OSError):
                end.close()
        if self.pid == os.getpid():
            with contextlib.suppress(OSError):
                self.process.kill()
                self.process.wait()

    def words(self) -> str:
        """The last that the child wrote, and how it ended."""
        code = self.process.wait()
        self.errors.seek(0)
        last = self.errors.read()[-2000:].decode(errors="replace").strip()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}: {last}" if last else how


_LOCK = forks.Lock()
_STATE: dict[str, _Child] = {}
"""'child': the one there is, complete whenever it is here."""

ENDED = (0, *(-s for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP") if (s := getattr(signal, name, 0))))
"""Exit codes of a child that was idle, or that somebody ended: the question is asked once more."""


def available() -> bool:
    """Can there be a child?"""
    return os.name == "posix" and bool(sys.executable) and os.environ.get("POLYTC_OPENCL_CHILD", "").strip() != "0"


def ask(device: drivers.Device, question: Build | Run) -> Any:
    """What the child answers: see the questions, or Refused. Raises CrashedError."""
    with _LOCK:
        try:
            return _asked(device.identity, question)
        except CrashedError:
            raise
        except BaseException:  # Ctrl-C between question and answer: the next question must not get this one's answer
            end()
            raise


def _asked(identity: tuple[str, ...], question: Build | Run) -> Any:
    for last in (False, True):
        child = _child()
        if child.process.poll() is not None:  # it was idle, or somebody ended it: no fault of this question's
            end()
            child = _child()
        try:
            child.questions.send((identity, question))
            if not child.answers.poll(LIMIT):
                end()
                raise CrashedError(f"no answer in {LIMIT:.0f} seconds")
            return child.answers.recv()
        except (EOFError, OSError):
            words, ended = child.words(), child.process.returncode in ENDED
            end()
            if last or not ended:
                raise CrashedError(words) from None
    raise AssertionError("unreachable")


def _child() -> _Child:
    child = _STATE.get("child")
    if child is None or child.pid != os.getpid():
        child = _STATE["child"] = _Child()
    return child


def end() -> None:
    """End the child, if there is one; the next question makes another."""
    child = _STATE.pop("child", None)
    if child is not None:
        child.close()


atexit.register(end)


def serve(questions: int, answers: int) -> None:
    """The child's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    given, back = Connection(questions, writable=False), Connection(answers, readable=False)
    while select.select([questions], [], [], IDLE)[0]:
        try:
            identity, question = given.recv()
        except EOFError:
            return
        back.send(_answer(identity, question))


@functools.cache
def _context(identity: tuple[str, ...]) -> Any:
    cl = drivers.pyopencl()
    handle = next(d.handle for d in drivers.find() if d.identity == identity)
    return cl.Context([handle])


def answer(device: drivers.Device, question: Build | Run) -> Any:
    """What the child answers; where there is none, this process itself. Raises CrashedError."""
    return ask(device, question) if available() else _answer(device.identity, question)


def _answer(identity: tuple[str, ...], question: Build | Run) -> bytes | Sequence[np.ndarray] | Refused:
    cl = drivers.pyopencl()
    try:
        context = _context(identity)
        program = drivers.build(context, question.text, list(question.options))
        if isinstance(question, Build):
            made = program.get_info(cl.program_info.BINARIES)
            return bytes(made[0]) if made else b""
        return _run(context, cl.Kernel(program, question.kernel), question)
    except StopIteration:
        return Refused("the device is not there")
    except Exception as e:  # pyopencl's, and whatever else a driver makes it raise
        return Refused(str(e) or type(e).__name__)


def _run(context: Any, kernel: Any, question: Run) -> list[np.ndarray]:
    cl = drivers.pyopencl()
    queue, flags = cl.CommandQueue(context), cl.mem_flags
    buffers = [cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=a) for a in question.arrays]
    kernel(queue, question.global_size, question.local_size, *buffers)
    results = [a.copy() for a in question.arrays]
    for result, buffer in zip(results, buffers, strict=True):
        cl.enqueue_copy(queue, result, buffer)
    queue.finish()
    return results
