"""Which tests run a line: the coverage of each test by itself, and how long it takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from coverage import CoverageData

COVERAGE, DURATIONS = "coverage.db", "durations.xml"
LATEST = 120.0
"""Seconds of a test beyond which it never judges anything."""


def measure(folder: Path, tests: Sequence[str], processes: int) -> int:
    """Run the tests once and keep which lines each of them ran. Returns pytest's status."""
    settings = folder / "coveragerc"
    settings.write_text(f"[run]\nsource = polytc\ndata_file = {folder.resolve() / COVERAGE}\n")
    command = [sys.executable, "-m", "pytest", "-n", str(processes), "-m", "not long", "-p", "no:randomly", "--cov=polytc",
               "--cov-context=test", f"--cov-config={settings}", "--cov-report=", f"--junitxml={folder / DURATIONS}", *tests]
    return subprocess.run(command, check=False).returncode


class Covering:
    """What `measure` found."""

    def __init__(self, folder: Path) -> None:
        self.data = CoverageData(str(folder / COVERAGE))
        self.data.read()
        self.files = {Path(name).resolve(): name for name in self.data.measured_files()}
        self.seconds = _durations(folder / DURATIONS)
        self.lines: dict[str, dict[int, list[str]]] = {}

    def tests(self, path: Path, first: int, last: int, seconds: float) -> list[str]:
        """The tests that run one of the lines, the fastest first, of so many seconds in all as they were measured; at least one
        if any does. Those that failed without a fault judge nothing."""
        name = self.files.get(path.resolve())
        if name is None:
            return []
        if name not in self.lines:
            self.lines[name] = self.data.contexts_by_lineno(name)
        contexts = {c.rpartition("|")[0] for line in range(first, last + 1) for c in self.lines[name].get(line, ())}
        passed = {c: took for c in contexts if (took := self.seconds.get(_short(c))) is not None}
        found, total = list[str](), 0.0
        for test, took in sorted(passed.items(), key=lambda each: each[1]):
            if found and total + took > seconds or took > LATEST:
                break
            found.append(test)
            total += took
        return found


def _short(test: str) -> str:
    """A test as junit calls it: the separators of its folder differ."""
    place, bracket, values = test.partition("[")
    return place.replace("/", ".").replace(".py::", ".").replace("::", ".") + bracket + values


def _durations(path: Path) -> dict[str, float]:
    """Test -> seconds, of those that passed."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase"):
        if not any(child.tag in ("failure", "error", "skipped") for child in case):
            found[f"{case.get('classname')}.{case.get('name')}"] = float(case.get("time") or 0)
    return found
