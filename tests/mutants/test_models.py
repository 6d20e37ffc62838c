"""Mutated model files end in a diagnostic or in a model; `python -m tests.mutants` tries them by the thousand."""

from __future__ import annotations

import pytest

from tests.generator.worker import Worker
from tests.mutants.__main__ import seeds
from tests.mutants.judge import Mutant, judge
from tests.mutants.mutate import mutant


@pytest.mark.parametrize("count", [40, pytest.param(5000, marks=pytest.mark.long)])
def test_mutants(count: int) -> None:
    models, worker = seeds(3000), Worker(120, judge)
    try:
        for number in range(count):
            case = Mutant(mutant(models, number), "evaluate")
            outcome = worker.judge(case)
            assert not outcome.bad, f"mutant {number} of tests.mutants.mutate: {outcome.kind}\n{outcome.detail}"
    finally:
        worker.close()
