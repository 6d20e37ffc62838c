"""Values that are made once for each key, the last part of it in the background; the least recently used are forgotten."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from polytc.native import forks
from polytc.runtime.background import Background
from polytc.runtime.lru_cache import LRUCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


class Pending(Generic[K, V]):
    """Futures by key, at most `most` of them; what failed or was cancelled is forgotten. Several threads may ask at once.

    One thread finishes what was begun; a forked child gets its own, and begins anew what the parent was still making.
    """

    def __init__(self, most: int) -> None:
        self._known: LRUCache[K, Future[V]] = LRUCache(most)
        self._made: LRUCache[K, V] = LRUCache(most)
        self._lock, self._turn = forks.Lock(), forks.Lock()
        self._background = Background("polytc-load")
        self._beside: list[Future[Any]] = []
        _ALL.add(self)

    def get(self, key: K, begin: Callable[[], Callable[[], V]]) -> Future[V]:
        """The value's future. begin: called here, one at a time, where there is none; what it returns makes the value, in the
        background. What `begin` raises is raised."""
        known = self._usable(key)
        if known is not None:
            return known
        with self._turn:
            known = self._usable(key)
            if known is not None:
                return known
            beside = self._beside = list[Future[Any]]()
            try:
                finish = begin()
            except BaseException:
                _cancel(beside)
                raise
            finally:
                self._beside = []
            with self._lock:
                made = self._known.put(key, self._background.submit(lambda: self._made.put(key, finish())))
            made.add_done_callback(lambda _: _cancel(beside))
            return made

    def beside(self, task: Callable[[], T]) -> Future[T]:
        """In `begin`: what the task returns, made in the background before what `begin` returns is called; not any more once
        the value's future is cancelled."""
        future = self._background.submit(task)
        self._beside[:] = [*(f for f in self._beside if not f.done()), future]
        return future

    def _usable(self, key: K) -> Future[V] | None:
        """The future of what is there or being made, at once, whatever else is begun; None if there is none, or it failed."""
        with self._lock:
            known = self._known.get(key)
            failed = known is not None and known.done() and (known.cancelled() or known.exception() is not None)
            return None if failed else known

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Waits until nothing is under way in the background. Within, only this thread begins anything."""
        with self._turn:
            self._background.submit(int).result()
            yield

    def known(self) -> list[K]:
        """The keys of what is there or being made."""
        with self._lock:
            return [key for key, _ in self._known.items()]

    def __len__(self) -> int:
        return len(self._known)

    def after_fork(self) -> None:
        """In the child there is no background thread, and the parent's futures may be locked by it for ever."""
        self._background, self._known, self._beside = Background("polytc-load"), LRUCache(self._known.most), []
        for key, value in self._made.items():
            self._known.put(key, Future()).set_result(value)


def _cancel(futures: list[Future[Any]]) -> None:
    """Nobody waits for these any more."""
    while futures:
        futures.pop().cancel()


_ALL: weakref.WeakSet[Pending] = weakref.WeakSet()


def _after_fork() -> None:
    for pending in list(_ALL):
        pending.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
