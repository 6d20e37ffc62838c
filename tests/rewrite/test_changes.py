"""What changed between two programs, in words."""

from __future__ import annotations

import pytest

from polytc.rewrite.changes import changes
from polytc.rewrite.tidy import coalesce, inline, pad, unit_extents
from polytc.stages import build


def test_nothing_is_said_of_what_stays() -> None:
    program = build("Y[i] = A[i] + 1", {"A": (9,)})
    assert changes(program, program) == ()


@pytest.mark.parametrize(("text", "shapes", "rewrite", "told"), [
    ("T[i] = A[i] + 1; Y[i] = T[i]*2", {"A": (9,)}, inline.inline,
     ["S1: T is computed where S2 reads it", "S2: reads A in place of T"]),
    ("Y[i,j] = A[i,j]", {"A": (7, 9)}, coalesce.coalesce,
     ["S1: indices i_j in place of i, j", "A seen as 63, not 7x9", "Y seen as 63, not 7x9"]),
    ("Y[i,j] = A[i,j]*2", {"A": (1, 9)}, unit_extents.drop_unit_indices, ["S1: indices j in place of i, j"]),
    ("O[m,h] += (I[c,h+r-1] else 0)*W[m,c,r] where h in 0:30", {"I": (16, 30), "W": (16, 16, 3)}, pad.materialise,
     ["S1_I_pad: new, makes I_pad", "S1: reads I_pad, W in place of I, W"]),
])
def test_each_kind_of_change_has_its_words(text: str, shapes: dict, rewrite, told: list[str]) -> None:
    program = build(text, shapes)
    assert [str(r) for r in changes(program, rewrite(program))] == told
