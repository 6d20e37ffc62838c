"""Random schedules for GPUs under oclgrind: what is taken has no races, stays in bounds, computes what the evaluator does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import drivers

SCRIPT = Path(__file__).parent / "random_recipes.py"


@pytest.mark.opencl
@pytest.mark.skipif(not drivers.available("oclgrind"), reason="oclgrind is not here")
@pytest.mark.parametrize("seed", [1510006, 1510068, 1510085, 1510391, 1510583, 1510784])
def test_random_schedules_have_no_races(seed: int, tmp_path: Path) -> None:
    """The first program of each pair once had a race, or read what another launch had kept for itself."""
    found = drivers.python("oclgrind", tmp_path, SCRIPT, str(seed), "2")
    assert "seed" not in found, found
    assert drivers.findings(tmp_path) == []
