"""Emitted kernels under oclgrind, which reports data races, accesses outside of buffers and values that nobody stored; skipped
where it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import drivers

SCRIPT = Path(__file__).parent / "sanitized.py"
pytestmark = [pytest.mark.opencl, pytest.mark.skipif(not drivers.available("oclgrind"),
                                                     reason="oclgrind is not here")]


def findings(folder: Path, *arguments: str) -> list[str]:
    """What oclgrind has to say about tests/targets/opencl/sanitized.py."""
    drivers.python("oclgrind", folder, SCRIPT, *arguments, uninitialized="unset" in arguments)
    return drivers.findings(folder)


@pytest.mark.parametrize("arguments", [("quick",), pytest.param((), marks=pytest.mark.long)])
def test_kernels_have_no_races_and_stay_in_bounds(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert findings(tmp_path, *arguments) == []


def test_the_sanitizer_finds_what_it_should(tmp_path: Path) -> None:
    found = findings(tmp_path, "broken")
    assert any("data race" in line for line in found)
    assert any("Invalid write" in line for line in found)


def test_what_nobody_stored_is_found(tmp_path: Path) -> None:
    assert findings(tmp_path, "unset") != []
