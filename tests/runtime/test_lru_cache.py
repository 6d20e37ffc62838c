"""Bounded memories: what is forgotten, and in which order; futures by key, each made once."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np
import pytest

import polytc
from polytc import compiler, lang
from polytc.runtime.lru_cache import LRUCache
from polytc.runtime.pending import Pending


def test_the_least_recently_used_is_forgotten() -> None:
    known: LRUCache[str, int] = LRUCache(3)
    for n, key in enumerate("abc"):
        assert known.put(key, n) == n
    assert known.get("a") == 0
    known.put("d", 3)
    assert [k for k, _ in known.items()] == ["c", "a", "d"]
    assert known.get("b") is None
    known.put("c", 7)
    known.put("e", 4)
    assert dict(known.items()) == {"c": 7, "d": 3, "e": 4}
    assert len(known) == 3


def test_many_threads_share_one() -> None:
    known: LRUCache[int, int] = LRUCache(5)
    wrong = []

    def use(seed: int) -> None:
        for n in range(3000):
            key = (n * seed) % 17
            found = known.get(key)
            if found not in (None, key):
                wrong.append(key)
            known.put(key, key)

    callers = [threading.Thread(target=use, args=(seed,)) for seed in (1, 2, 3, 5)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong
    assert len(known) <= 5


def test_each_is_made_once_however_many_ask() -> None:
    pending: Pending[str, int] = Pending(4)
    begun = []

    def begin():
        begun.append(1)
        time.sleep(0.01)
        return lambda: 42

    results: list[int] = []
    callers = [threading.Thread(target=lambda: results.append(pending.get("k", begin).result())) for _ in range(6)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert results == [42] * 6
    assert len(begun) == 1


def test_what_failed_is_made_again() -> None:
    pending: Pending[str, int] = Pending(4)
    with pytest.raises(ValueError, match="begun"):
        pending.get("k", lambda: _raise("begun"))
    with pytest.raises(ValueError, match="made"):
        pending.get("k", lambda: lambda: _raise("made")).result()
    assert pending.get("k", lambda: lambda: 1).result() == 1
    assert pending.get("k", lambda: _raise("again")).result() == 1


def _raise(text: str) -> int:
    raise ValueError(text)


def test_what_is_made_beside_a_value_ends_with_it() -> None:
    """It is there before the value is finished; where that is cancelled, or fails to begin, it is not made any more."""
    pending: Pending[str, list[int]] = Pending(4)
    made: list[int] = []
    parts: list[Future[None]] = []

    def begin(n: int) -> Callable[[], list[int]]:
        parts.append(pending.beside(lambda: made.append(n)))
        return lambda: list(made)
    assert pending.get("k", lambda: begin(1)).result() == [1]
    go = threading.Event()
    pending.get("held", lambda: lambda: [go.wait(60)])
    assert pending.get("l", lambda: begin(2)).cancel()
    with pytest.raises(ValueError, match="begun"):
        pending.get("m", lambda: (begin(3), _raise("begun")))  # type: ignore[arg-type, return-value]
    go.set()
    assert pending.get("n", lambda: begin(4)).result() == [1, 4]
    assert [p.cancelled() for p in parts] == [False, True, True, False]


def test_they_are_bounded() -> None:
    pending: Pending[int, int] = Pending(3)
    for n in range(10):
        assert pending.get(n, lambda n=n: lambda: n).result() == n
    assert len(pending) == 3


def test_an_op_forgets_shapes_and_makes_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    op = polytc.compile("Y[i] = X[i] + 1", target="evaluate")
    monkeypatch.setattr(op, "_ready", LRUCache(3))
    for n in (1, 2, 3, 4, 5, 1, 2):
        assert op(np.zeros(n, np.float32)).tolist() == [1.0] * n
    assert len(op._ready) == 3


def test_code_that_is_forgotten_lives_as_long_as_it_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    monkeypatch.setattr(compiler, "_EXECUTABLES", Pending(1))
    bound = compiler.compile_program(lang.build("Y[i] = X[i] * 3", {"X": (5,)}), "cpu", 1).bind([x, y])
    compiler.compile_program(lang.build("Y[i] = X[i] * 4", {"X": (5,)}), "cpu", 1)
    gc.collect()
    bound()
    assert y.tolist() == [0, 3, 6, 9, 12]
