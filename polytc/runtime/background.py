"""Work in the background, one task after the other, by a thread that ends when nothing is left.

Not concurrent.futures' pool: its thread waits for work for ever, and where Ctrl-C comes while that thread starts, nobody tells
it that the process ends, which then hangs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

V = TypeVar("V")


class Background:
    """Tasks are done in the order in which they came. The process ends when they are done."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._tasks = deque[Callable[[], None]]()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], V]) -> Future[V]:
        """The future of what the task returns or raises."""
        future = Future[V]()
        with self._lock:
            self._tasks.append(lambda: _do(task, future))
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._work, name=self._name)
                thread.start()  # interrupted here it may run all the same: then two threads share the tasks
                self._thread = thread
        return future

    def _work(self) -> None:
        while (task := self._next()) is not None:
            task()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:  # whoever adds a task meanwhile finds that there is no thread, and starts one
            if self._tasks:
                return self._tasks.popleft()
            self._thread = None
            return None


def _do(task: Callable[[], V], future: Future[V]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(task())
    except BaseException as error:  # whoever asks for the result gets it
        future.set_exception(error)
