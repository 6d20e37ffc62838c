"""benchmarks/estimates.py: its programs are those of the tables, its candidates run, and its numbers are those of the field."""

from __future__ import annotations

import math

import pytest

import estimates
from polytc.machine import AVX2
from polytc.targets import registry


def test_the_programs_are_of_the_tables() -> None:
    found = estimates.programs(60)
    assert len(found) == len({c.name for c in found}) == 60
    assert len(estimates.programs(12)) < 20


def test_ranks() -> None:
    assert estimates.spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert estimates.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert estimates.spearman([1, 1, 3, 4], [1, 2, 3, 4]) == pytest.approx(0.9487, abs=1e-3)
    assert math.isnan(estimates.spearman([1, 1], [1, 2]))


@pytest.mark.long
def test_candidates_differ_and_run() -> None:
    case = next(c for c in estimates.programs(60) if c.name.startswith("TMM 128x256x32"))
    here = registry.target("cpu").machine
    found = estimates.candidates(case, here)
    assert len({str(c.lowered.source) for c in found}) == len(found) > 5
    rows = estimates.measured(case, {"here": here, "other": AVX2}, 0.02)
    for row in rows.values():
        assert row.regret >= 1
        assert row.estimate > 0
        assert -1 <= row.correlation <= 1 or math.isnan(row.correlation)
    assert "1 programs" in estimates.summary("here", [rows["here"]])
