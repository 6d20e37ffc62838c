"""Which tests run a line: the coverage of each test by itself, and how long it takes."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
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
        """Tests that run one of the lines, of so many seconds in all as they were measured, the fastest first: one of each file
        before a second one of any, at least one. Lines that run when their module is imported are judged by all tests that run
        a line of the module, or, where nothing else is in it, of its folder. Tests that failed without a fault do not judge."""
        here = path.resolve()
        found = self._contexts(here)
        at_import = any("" in found.get(line, ()) for line in range(first, last + 1))
        contexts = {c for line in (found if at_import else range(first, last + 1)) for c in found.get(line, ())}
        if contexts == {""}:
            contexts = {c for f in self.files if f.parent == here.parent for some in self._contexts(f).values() for c in some}
        return self._fastest({c.rpartition("|")[0] for c in contexts}, seconds)

    def _contexts(self, path: Path) -> dict[int, list[str]]:
        """What ran each line of a file: a test and its phase, or '' for the import."""
        name = self.files.get(path, "")
        if name not in self.lines:
            self.lines[name] = self.data.contexts_by_lineno(name)
        return self.lines[name]

    def _fastest(self, contexts: set[str], seconds: float) -> list[str]:
        passed = {c: took for c in contexts if (took := self.seconds.get(_short(c), math.inf)) <= LATEST}
        ranked, of_file = list[tuple[int, float, str]](), Counter[str]()
        for test in sorted(passed, key=passed.__getitem__):
            file = test.partition("::")[0]
            ranked.append((of_file[file], passed[test], test))
            of_file[file] += 1
        found, total = list[str](), 0.0
        for _, took, test in sorted(ranked):
            if not found or total + took <= seconds:
                found.append(test)
                total += took
        return sorted(found, key=passed.__getitem__)


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
