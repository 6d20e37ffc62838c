"""Sums of products of bytes on GPUs: which dot products they become, and the loops of these in Python."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import stages
from polytc.machine import DEVICES
from polytc.rewrite import dot_words
from polytc.targets.interp import InterpTarget
from tests.byte_sums import Sum

EAGER = {"launches.launch": 0.0, "groups.integer": 1000.0}
"""Costs by which small sums are made of words, too."""


@pytest.mark.part(3)
@pytest.mark.parametrize("signs", [("i8", "i8"), ("u8", "i8")], ids="".join)
@pytest.mark.parametrize("machine", ["nvidia-sm90", "amd-gfx90a", "intel-xe"])
def test_loops_for_gpus_in_python(machine: str, signs: tuple[str, str]) -> None:
    """Every access is looked at there, and the matrix unit's loops run in their order."""
    s = Sum("C[i,j] += i32(X[i,k])*i32(W[k,j])", {"X": (21, 36), "W": (36, 18)}, lambda a: a["X"] @ a["W"])
    given = s.inputs(signs)
    got = polytc.compile(s.text, InterpTarget(DEVICES[machine].costing(EAGER)))(**given)
    np.testing.assert_array_equal(got, s.wanted(given))


@pytest.mark.parametrize(("name", "signs", "dot"), [
    ("nvidia-sm90", ("i8", "i8"), "dot_i8i8"), ("nvidia-sm90", ("u8", "i8"), "dot_u8i8"),
    ("nvidia-sm90", ("u8", "u8"), "dot_u8u8"), ("amd-gfx90a", ("u8", "i8"), "dot_i8i8"),
    ("amd-gfx90a", ("u8", "u8"), "dot_u8u8"), ("amd-gfx1100", ("i8", "u8"), "dot_u8i8")])
def test_the_dot_product_needs_no_other_sign_if_there_is_one(name: str, signs: tuple[str, str], dot: str) -> None:
    program = stages.build("C[i,j] += i32(X[i,k])*i32(W[k,j])", {"X": (256, 256), "W": (256, 256)},
                           dict(zip(("X", "W"), signs, strict=True)))
    (choice,) = dot_words.decide(program, DEVICES[name].costing(EAGER)).choices
    assert choice.dot == dot


def test_a_sum_where_an_operand_has_an_end_is_of_whole_words() -> None:
    """Channels that fill no word would be zero points where the image ends."""
    def choices(channels: int) -> int:
        program = stages.build("O[m,h] += (i32(X[c,h+r-1] else 7) - 7)*i32(W[m,c,r]) where h in 0:64",
                               {"X": (channels, 64), "W": (64, channels, 3)}, {"X": "u8", "W": "i8"})
        return len(dot_words.decide(program, DEVICES["amd-gfx1100"].costing(EAGER)).choices)
    assert (choices(64), choices(66)) == (1, 0)
