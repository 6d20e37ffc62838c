"""The verdicts on seeded faults that survive (tests/mutation) are about lines that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "tests" / "mutation" / "verdicts.tsv").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", LINES)
def test_the_line_is_there(line: str) -> None:
    file, verdict, old, new, why = line.split("\t")
    assert verdict in ("same", "speed", "text")
    assert why
    assert old != new
    assert old in " ".join((ROOT / file).read_text(encoding="utf-8").split())
