"""The steps that divide programs among items of GPUs: what may be decided means the same, and long sums get their blocks."""

from __future__ import annotations

import itertools

import pytest

import polytc
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.rewrite import staging
from polytc.rewrite.step import Decision
from tests.rewrite.equal import same_results
from tests.rewrite.gpu.test_division import COLUMNS, FEW, MATMUL, ROWS, TURNED, Shapes

MOST = 8
"""Alternatives of a program that are run."""


@pytest.mark.part(8)
@pytest.mark.parametrize("device", ["generic-gpu", "nvidia-sm90", "mali"])
@pytest.mark.parametrize("program", [MATMUL, ROWS, COLUMNS, TURNED, FEW])
def test_what_may_be_decided_means_the_same(device: str, program: tuple[str, Shapes]) -> None:
    """Some of the first alternatives, applied."""
    before, machine = polytc.build(*program), DEVICES[device]
    choices = [choice for places in itertools.islice(staging.STRAIGHT.options(before, machine), 3) for place in places[1:]
               for option in place[1::10][:3] for choice in [(*places[0][0].choices, *option.choices)]]
    for chosen in choices[::max(1, -(-len(choices) // MOST))]:
        assert staging.STRAIGHT.fits(before, machine, chosen) is None
        same_results(before, staging.STRAIGHT.apply(before, Decision(machine, chosen)))


def test_a_division_that_leaves_sums_long_gets_blocks() -> None:
    """For the accuracy that docs/accuracy.md promises."""
    before = polytc.build(*FEW)
    chosen = staging.Divided("S1", "parts", along=("i",), steps=(2,))
    made = staging.STRAIGHT.apply(before, Decision(GENERIC_GPU, (chosen,)))
    assert any("_sums" in t.name for t in made.tensors)
    same_results(before, made)
