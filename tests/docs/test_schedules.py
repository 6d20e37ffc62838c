"""docs/schedules.md shows what happens: its sessions run."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "schedules.md"


def test_sessions() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted >= 12
    assert result.failed == 0
