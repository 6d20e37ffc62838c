"""The pool of native threads: every index runs once, whoever calls, after forks, and at exit."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import polytc
from polytc import errors
from polytc.codegen import loops
from polytc.native import parallel_regions, threads
from polytc.program.scalars import I64
from polytc.targets.llvm.target import LLVMTarget

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


@pytest.mark.part(2)
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


BODY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
LAUNCH = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2, ctypes.c_void_p, ctypes.c_int64)


def region(body: Callable[[int, int], None], count: int, workers: int) -> None:
    """A region whose chunks are calls of a Python function."""
    function = BODY(lambda begin, end, _context, _arena: body(begin, end))
    launch, pool = threads.team(workers)
    LAUNCH(launch)(pool, ctypes.cast(function, ctypes.c_void_p), None, count, workers, None, 0)


def test_workers_take_part() -> None:
    """Two chunks that wait for each other finish only if two threads run them."""
    barrier = threading.Barrier(2, timeout=20)
    seen: list[int] = []

    def body(begin: int, end: int) -> None:
        for i in range(begin, end):
            seen.append(i)
            if i < 2:
                barrier.wait()

    region(body, 8, 2)
    assert sorted(seen) == list(range(8))


@pytest.mark.parametrize(("count", "workers"), [(1, 2), (8, 2), (100, 2), (1000, 3), (5, 4)])
def test_a_thread_that_is_held_up_does_not_hold_up_the_others(count: int, workers: int) -> None:
    """Whoever takes index 0 waits until all other chunks are done: the rest never waits for it."""
    done = threading.Event()
    chunks: list[tuple[int, int]] = []

    def body(begin: int, end: int) -> None:
        chunks.append((begin, end))
        if begin > 0 or end == count:
            if sum(e - b for b, e in chunks) == count:
                done.set()
        if begin == 0:
            assert done.wait(20) or end == count

    region(body, count, workers)
    chunks.sort()
    assert [b for b, _ in chunks] == [0, *(e for _, e in chunks[:-1])]
    assert chunks[-1][1] == count
    sizes = [e - b for b, e in chunks]
    assert sizes[0] == max(1, count // (workers * parallel_regions.PARTS))  # no more than a part of a fair share
    assert sizes[-1] == 1


def test_a_region_of_few_threads_leaves_the_other_workers_alone() -> None:
    """The pool keeps its workers; only those that a region asks for take part."""
    threads.team(6)
    present = threads.workers()
    assert present >= 5
    for _ in range(50):
        seen: set[int] = set()

        def body(begin: int, end: int, seen: set[int] = seen) -> None:
            seen.add(threading.get_ident())
            time.sleep(0.0002)

        region(body, 16, 2)
        assert 1 <= len(seen) <= 2
    time.sleep(0.01)
    assert len(taking_part(6)) == 6  # and they wake up again
    assert threads.workers() == present


def taking_part(workers: int) -> set[int]:
    """The threads of a region in which each chunk waits for the others."""
    barrier, seen = threading.Barrier(workers, timeout=20), set()

    def body(begin: int, end: int) -> None:
        seen.add(threading.get_ident())
        barrier.wait()

    region(body, workers, workers)
    return seen


def test_no_more_threads_than_asked_for() -> None:
    """Six Python threads call at once with threads=3: two workers serve them all."""
    program = """
import os, threading
import numpy as np
import polytc
from polytc.native import threads
op = polytc.compile("C[i,j] += A[i,k]*B[k,j]", threads=3)
a = np.ones((200, 200), np.float32)
op(a, a)
def call():
    for _ in range(10):
        assert (op(a, a) == 200).all()
callers = [threading.Thread(target=call) for _ in range(6)]
for t in callers: t.start()
most = 0
while any(t.is_alive() for t in callers):
    most = max(most, len([n for n in threading.enumerate() if n.name.startswith("polytc-")]))
print(threads.workers(), most)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    workers, most = map(int, done.stdout.split())
    assert workers == 2
    assert most <= workers + 1  # and the thread that loads code


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


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_other_threads_are_busy() -> None:
    """Whatever locks the parent's threads hold at that moment, the child can compile and call."""
    program = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
import numpy as np
import polytc
x = np.ones(1000, np.float32)
op = polytc.compile("Y[i] = X[i] + 1", threads=2)
op(x)
def keep_busy(busy, stop):
    n = 0
    while not stop.is_set():
        n += 1
        if busy == "compile":
            polytc.compile(f"Y[i] = X[i] * {n}")(x)
        elif busy == "call":
            op(np.ones(n % 50 + 1, np.float32))
        else:
            op(x)
bad = []
for busy in ("region", "call", "compile"):
    stop = threading.Event()
    threads = [threading.Thread(target=keep_busy, args=(busy, stop), daemon=True) for _ in range(2)]
    for t in threads: t.start()
    for n in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                same = (op(x) == 2).all() and (op(x[:n + 100]) == 2).all()
                new = polytc.compile(f"Y[i] = X[i] - {n}.5", threads=2)
                code = 0 if same and (new(x) == 1 - (n + 0.5)).all() else 1
            finally:
                os._exit(code)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            bad.append(busy)
    stop.set()
    for t in threads: t.join()
sys.exit(f"children failed while the parent was in: {bad}" if bad else 0)
"""
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", program], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "POLYTC_CHECK": "0"}, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.part(4)
@pytest.mark.parametrize("ending", [
    "", pytest.param("import os; sys.exit(0)", marks=pytest.mark.long), "time.sleep(0.05)", "threading.Thread(target=f).start()"
])
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
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads.default_threads(16) == 16
    for text, count in {"1": 1, "4,2": 4, "64": 16, "0": 16, "many": 16, "": 16}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert threads.default_threads(16) == count
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


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_workers_keep_off_the_caller_s_processor() -> None:
    """Else Linux may wake them there, behind the caller's own part of the region."""
    code = """
import os, numpy as np, polytc
before = set(os.listdir("/proc/self/task"))
polytc.compile("O[i] = 2.0*A[i]", threads=2)(np.ones(1 << 20, "f4"))
workers = [int(t) for t in os.listdir("/proc/self/task") if t not in before]
everything = os.sched_getaffinity(0)
assert any(len(os.sched_getaffinity(t)) == len(everything) - 1 for t in workers), workers
assert os.sched_getaffinity(os.getpid()) == everything, "the caller itself may run anywhere"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("count", [0, -1, 1025, 10**9, 2**70, 2.0, True, "2", float("nan")])
def test_numbers_of_threads_that_make_no_sense(count: object) -> None:
    """Nothing is started: a thousand million once began to be."""
    text, a = "C[i] = 2 * A[i]", np.ones(9, np.float32)
    for use in (lambda: polytc.compile(text, threads=count), lambda: polytc.run(text, a, threads=count),
                lambda: polytc.explain(text, shapes={"A": (9,)}, threads=count)):
        with pytest.raises(polytc.ArgumentError, match="E410"):
            use()


@pytest.mark.parametrize("text", ["1000000000", "1025", "0", "-1", "1.5"])
def test_the_number_of_threads_of_the_environment(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("POLYTC_NUM_THREADS", text)
    with pytest.raises(polytc.ArgumentError, match="E410"):
        threads.default_threads(2)
