"""The pool of native threads: every index runs once, whoever calls, after forks, and at exit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from polytc import errors
from polytc.codegen import loops
from polytc.codegen.llvm.target import LLVMTarget
from polytc.lang.scalars import I64
from polytc.runtime import threads

TARGET = LLVMTarget()


def counter(n: int, work: int = 1) -> loops.Module:
    """out[p] += 1, `work` times, for all p in parallel."""
    out = loops.Buffer("out", I64, (n,))
    step = loops.Store(out, (loops.Var("p"),), loops.binary("+", loops.Load(out, (loops.Var("p"),), I64), loops.const(1)))
    repeated = loops.For("w", loops.const(0), loops.const(work), 1, step)
    body = loops.For("p", loops.const(0), loops.const(n), 1, repeated, "parallel")
    return loops.Module("m", (out,), ("out",), (), (loops.Kernel("k", (out,), ("out",), body),))


def loaded(n: int, count: int):
    return TARGET.load(TARGET.build(TARGET.emit(counter(n))), count)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
def test_every_index_runs_once(n: int, count: int) -> None:
    executable, out = loaded(n, count), np.zeros(n, np.int64)
    for _ in range(200):
        executable.run([out])
    assert np.array_equal(out, np.full(n, 200))


def test_workers_wake_from_sleep() -> None:
    executable, out = loaded(64, 3), np.zeros(64, np.int64)
    for _ in range(20):
        executable.run([out])
        time.sleep(0.002)
    assert np.array_equal(out, np.full(64, 20))


def test_workers_take_part() -> None:
    """Two chunks that wait for each other finish only if two threads run them."""
    import ctypes
    barrier = threading.Barrier(2, timeout=20)
    seen: list[int] = []

    def body(begin: int, end: int, _context: int | None, _arena: int | None) -> None:
        for i in range(begin, end):
            seen.append(i)
            if i < 2:
                barrier.wait()

    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(body)
    launch, pool = threads.team(2)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2, ctypes.c_void_p, ctypes.c_int64)(launch)
    call(pool, ctypes.cast(function, ctypes.c_void_p), None, 8, 2, None, 0)
    assert sorted(seen) == list(range(8))


def test_several_python_threads_at_once() -> None:
    executable = loaded(500, 2)
    outs = [np.zeros(500, np.int64) for _ in range(4)]

    def call(out: np.ndarray) -> None:
        for _ in range(300):
            executable.run([out])

    callers = [threading.Thread(target=call, args=(out,)) for out in outs]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert all(np.array_equal(out, np.full(500, 300)) for out in outs)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork() -> None:
    executable, out = loaded(100, 2), np.zeros(100, np.int64)
    bound = executable.bind([out])
    bound()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            executable.run([out])
            bound()
            fresh = loaded(10, 3)
            other = np.zeros(10, np.int64)
            fresh.run([other])
            code = 0 if (out == 3).all() and (other == 1).all() and threads.workers() == 2 else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    bound()
    assert (out == 2).all()


@pytest.mark.parametrize("ending", ["", "time.sleep(0.05)", "import os; sys.exit(0)", "threading.Thread(target=f).start()"])
def test_the_interpreter_exits_cleanly(ending: str) -> None:
    program = f"""
import sys, threading, time
import numpy as np
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_threads import loaded
executable, out = loaded(1000, 3), np.zeros(1000, np.int64)
f = executable.bind([out])
f()
{ending}
"""
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", program], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""


def test_default_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_NUM_THREADS", "3")
    assert threads.default_threads(16) == 3
    monkeypatch.setenv("POLYTC_NUM_THREADS", "")
    assert threads.default_threads(16) == 16
    for text in ("0", "-2", "many", "1.5", "9" * 5000):
        monkeypatch.setenv("POLYTC_NUM_THREADS", text)
        with pytest.raises(errors.ArgumentError, match="E410"):
            threads.default_threads(16)


def test_a_region_is_cheap() -> None:
    """A parallel loop over nothing much costs microseconds; the bound is loose, for machines that are busy."""
    out = np.zeros(8, np.int64)
    call = loaded(8, 2).bind([out])
    best = 1.0
    for _ in range(300):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    assert best < 200e-6
