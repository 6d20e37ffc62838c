"""Forks that share tasks: all are done, by whomever; a fork that fails, dies or hangs costs time only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from polytc.native import processes
from polytc.native.processes import Forks

pytestmark = pytest.mark.skipif(not processes.possible(), reason="this system does not fork")


def answers(tasks: list[Callable[[], bytes]], count: int, mine: bool = False) -> list[bytes | None]:
    """What the forks answer; mine: this process does what it claims."""
    found: dict[int, bytes | None] = {}
    with Forks(tasks, count) as forks:
        while mine and (n := forks.claim()) is not None:
            found[n] = b"mine"
        for n in forks.others():
            found[n] = forks.result(n)
        pids = list(forks._pids)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    return [found[n] for n in range(len(tasks))]


@pytest.mark.part(2)
@pytest.mark.parametrize("count", [1, 3])
def test_each_task_is_done_once(count: int) -> None:
    tasks = [lambda n=n: bytes([n]) * n for n in range(50)]
    assert answers(tasks, count) == [bytes([n]) * n for n in range(50)]
    found = answers([lambda: time.sleep(0.002) or b"theirs" for _ in range(50)], count, mine=True)
    assert set(found) <= {b"mine", b"theirs"}


def test_long_answers() -> None:
    """Longer than a pipe."""
    expected = [b"x" * 3_000_000, b"", b"y" * 100_000]
    assert answers([lambda n=n: expected[n] for n in range(3)], 2) == expected


def test_a_task_that_fails_has_no_answer() -> None:
    assert answers([lambda: b"a", lambda: 1 // 0, lambda: b"c"], 1) == [b"a", None, b"c"]  # type: ignore[list-item,return-value]


def test_a_fork_that_dies_has_no_answer() -> None:
    def die() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""
    begin = time.monotonic()
    assert answers([die, lambda: b"b"], 1) == [None, None]
    assert time.monotonic() - begin < 5


def test_a_fork_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", 0.2)
    assert answers([lambda: time.sleep(600) or b"", lambda: b"b"], 2) == [None, b"b"]


def test_who_is_interrupted_leaves_no_fork() -> None:
    pids = list[int]()

    def work() -> None:
        with Forks([lambda: time.sleep(600) or b""], 1) as forks:
            pids.extend(forks._pids)
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        work()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_no_fork_is_left_where_beginning_them_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt
    forks = Forks([lambda: time.sleep(60) or b""], 2)
    monkeypatch.setattr(forks._reader, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        forks.__enter__()
    for pid in forks._pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
