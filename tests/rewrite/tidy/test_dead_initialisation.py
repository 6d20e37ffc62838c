"""Initialisations of temporaries take the conditions that all uses have, and no others."""

from __future__ import annotations

import pytest

from polytc.rewrite.tidy import dead_initialisation
from polytc.stages import build
from tests.rewrite.equal import same_results

SCORES = "S[i,j] += A[i,k]*B[j,k] where j <= i"
SHAPES = {"A": (8, 5), "B": (8, 5)}


@pytest.mark.parametrize(("uses", "conditions"), [
    ("Y[i] max= S[i,j] where j <= i", 1),
    ("Y[b] max= S[b,a] where a <= b", 1),                            # other names
    ("Y[i] max= S[i,j] where j <= i; Z[i] += S[i,j] where j <= i, j < 6", 1),
    ("Y[i] max= S[i,j]", 0),                                         # all elements are used
    ("Y[i] max= S[i,j] where j <= i; Z[j] += S[i,j]", 0),
    ("Y[i] max= S[i,j] where i <= j", 0),                            # others than those that are updated
    ("Y[i] max= S[i,i]", 0),
    ("Z[i] += S[i,k] + S[k,i] where k <= i", 0),
    ("Y[i,l] += S[i,l]*A[i,k] where l <= i, l + k <= 9", 1),         # a condition on another index says nothing of elements
])
def test_what_all_uses_say(uses: str, conditions: int) -> None:
    before = build(f"{SCORES}\n{uses}", SHAPES)
    after = dead_initialisation.narrow(before)
    assert len(after.statement("S1_init").where) == conditions
    assert [s for s in after.statements if s.name != "S1_init"] == [s for s in before.statements if s.name != "S1_init"]
    same_results(before, after)


def test_outputs_start_everywhere() -> None:
    before = build(f"{SCORES}; Y[i] max= S[i,j] where j <= i -> (S, Y)", SHAPES)
    assert dead_initialisation.narrow(before) == before


def test_updated_in_part_and_read_in_full() -> None:
    """What no term meets is 0, and is read."""
    before = build(f"{SCORES}; Y[i] += S[i,j] where j <= i+1", SHAPES)
    same_results(before, dead_initialisation.narrow(before))
