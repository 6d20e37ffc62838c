"""Locks that survive a fork: in the child nobody holds them, whichever thread of the parent did.

A child has only the thread that forked. What another thread was doing under a lock stops in the middle, so that state under
such a lock must be good at each moment: entries appear in dictionaries when they are complete, never before.
"""

from __future__ import annotations

import os
import threading
import weakref


class Lock:
    """A reentrant lock, for `with`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Nobody holds the lock any more."""
        self._lock = threading.RLock()


_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in list(_LOCKS):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
