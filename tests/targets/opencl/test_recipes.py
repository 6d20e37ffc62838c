"""Random programs for GPUs under oclgrind, with random schedules and those of the strategies: what is taken has no races, stays
in bounds, uses what was stored, and computes what the language says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import drivers

SCRIPT = Path(__file__).parent / "random_recipes.py"


@pytest.mark.part(7)
@pytest.mark.opencl
@pytest.mark.skipif(not drivers.available("oclgrind"), reason="oclgrind is not here")
@pytest.mark.parametrize(("seed", "schedule"), [
    (1510068, "user"), (1510391, "user"), (7000508, "user"),
    (6000131, "automatic"), (6000276, "automatic"), (6000465, "automatic"), (6000823, "automatic")])
def test_random_programs_have_no_races(seed: int, schedule: str, tmp_path: Path) -> None:
    """The strategies' programs once read what nobody had stored, or were no kernels at all."""
    found = drivers.python("oclgrind", tmp_path, SCRIPT, str(seed), "2", schedule, uninitialized=True)
    assert "seed" not in found, found
    assert drivers.findings(tmp_path) == []
