"""What a terminal shows while code is compiled."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import pytest

from polytc.runtime import waiting


@pytest.fixture
def terminal() -> tuple[int, int]:
    """Both ends of one: what is read, and where is written."""
    return os.openpty()


def _read(fd: int) -> str:
    """All that was written: the system hands it on in pieces, and a little later."""
    found = b""
    while select.select([fd], [], [], 0.2)[0]:
        found += os.read(fd, 4096)
    return found.decode()


def test_a_long_compilation_is_told_and_goes_away(terminal: tuple[int, int]) -> None:
    with waiting.shown("attention", terminal[1], after=0.02):
        waiting.at("schedule")
        time.sleep(1)
    found = _read(terminal[0])
    assert "compiling attention, 0 s: schedule" in found
    assert found.endswith("\r\x1b[K")


def test_a_short_one_is_not(terminal: tuple[int, int]) -> None:
    with waiting.shown("attention", terminal[1], after=5):
        waiting.at("schedule")
    assert _read(terminal[0]) == ""


def test_the_outer_one_is_shown(terminal: tuple[int, int]) -> None:
    with waiting.shown("outer", terminal[1], after=0.02), waiting.shown("inner", terminal[1], after=0.01):
        time.sleep(0.5)
    found = _read(terminal[0])
    assert "outer" in found
    assert "inner" not in found


def test_files_and_those_who_ask_get_nothing(terminal: tuple[int, int], tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log").open("w+") as log:
        with waiting.shown("attention", log.fileno(), after=0.01):
            time.sleep(0.05)
        log.seek(0)
        assert log.read() == ""
    monkeypatch.setenv("POLYTC_PROGRESS", "0")
    with waiting.shown("attention", terminal[1], after=0.01):
        time.sleep(0.05)
    assert _read(terminal[0]) == ""


def test_errors_pass(terminal: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="so"), waiting.shown("attention", terminal[1], after=0.01):
        raise ValueError("so")
    with waiting.shown("next", terminal[1], after=0.01):
        time.sleep(0.05)
    assert "next" in _read(terminal[0])
