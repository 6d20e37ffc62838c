"""Tasks in the background: in order, with their errors, and no thread that outlives them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from polytc.runtime.background import Background


def test_tasks_are_done_in_order_and_their_errors_are_kept() -> None:
    background, done = Background("test"), list[int]()
    futures = [background.submit(lambda n=n: done.append(n)) for n in range(50)]
    failed = background.submit(lambda: 1 // 0)
    for future in futures:
        future.result(10)
    with pytest.raises(ZeroDivisionError):
        failed.result(10)
    assert done == list(range(50))


def test_the_thread_ends_and_another_begins() -> None:
    background = Background("polytc-test-ends")
    for _ in range(3):
        assert background.submit(lambda: 7).result(10) == 7
        end = time.monotonic() + 10
        while any(t.name == "polytc-test-ends" for t in threading.enumerate()):
            assert time.monotonic() < end, "the thread waits for work"
            time.sleep(0.001)


def test_a_cancelled_task_is_left_out() -> None:
    background, go = Background("test"), threading.Event()
    first = background.submit(lambda: go.wait(10))
    second = background.submit(lambda: 2)
    assert second.cancel()
    go.set()
    assert first.result(10)
    assert second.cancelled()


def test_a_process_ends_though_its_thread_was_interrupted_while_it_started() -> None:
    """Ctrl-C between a thread's start and the return of `start` left a thread that waited for work, and a process with it."""
    text = """
import sys, threading
from polytc.runtime.background import Background
class Interrupted(threading.Thread):
    def start(self):
        super().start()
        raise KeyboardInterrupt
background, start = Background("test"), threading.Thread
threading.Thread = Interrupted
try:
    background.submit(lambda: sys.stdout.write("done\\n"))
except KeyboardInterrupt:
    threading.Thread = start
    sys.stdout.write(background.submit(lambda: "again\\n").result(10))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert sorted(done.stdout.split()) == ["again", "done"]
