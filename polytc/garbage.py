"""How often Python looks for cycles of garbage while something is compiled.

Compiling allocates hundreds of thousands of objects that live until it is done, and hardly a cycle. With Python's own
thresholds (700 allocations, and every tenth time the older objects as well) a fifth of the time of lowering is spent looking at
them.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (500_000, 20, 50)
"""Thresholds of Python's `gc` within: allocations before the youngest objects are looked at, how often these before older
ones, and these before the oldest."""

_LOCK = threading.Lock()
_before: tuple[int, int, int] | None = None
_inside = 0


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Within, cycles are looked for at most as often as SELDOM says. For the whole process, as Python has one collector: what
    other threads run meets larger thresholds for that time. Whoever switched the collector off, or set larger thresholds, keeps
    them."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _before, _inside
    with _LOCK:
        now = gc.get_threshold()
        if _inside == 0 and 0 < now[0] < SELDOM[0]:
            _before = now
            gc.set_threshold(*SELDOM)
        _inside += 1


def _leave() -> None:
    global _before, _inside
    with _LOCK:
        _inside -= 1
        if _inside == 0 and _before is not None:
            if gc.get_threshold() == SELDOM:  # nobody has set others meanwhile
                gc.set_threshold(*_before)
            _before = None
