"""Which assignments read what other instances of theirs write; what is left out runs in the order of the text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.machine import DEVICES
from polytc.program.program import reads
from polytc.rewrite.tidy import scan
from polytc.schedule.facts.fusion_groups import coincident_indices
from polytc.schedule.facts.own_reads import meets_itself
from polytc.stages import build
from polytc.targets.interp.target import InterpTarget


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "meets"), [
    ("C[j,i] = C[i,j] where i in 0:20, j in 0:20, i < j", False),
    ("C[j,i] = C[i,j] where i in 0:20, j in 0:20, i <= j", False),                  # the diagonal is read and written by one
    ("C[i,j+10] = C[i,j] where i in 0:20, j in 0:10", False),
    ("C[2*i,j] = C[2*i+1,j] where i in 0:10, j in 0:20", False),
])
def test_what_meets(text: str, meets: bool) -> None:
    whole = f"def f(inout f32[20,20] C) -> (C) {{ {text} }}"
    s = build(whole).statement("S1")
    assert meets_itself(s) == meets
    assert set(coincident_indices(s)) == set(s.indices)
    c = np.random.default_rng(4).standard_normal((20, 20)).astype("f4")
    expected = c.copy()
    if "j,i" in text:
        expected = np.triu(c) + np.triu(c, 1).T
    elif "j+10" in text:
        expected[:, 10:] = c[:, :10]
    else:
        expected[::2] = c[1::2]
    for target in ("cpu", InterpTarget(DEVICES["nvidia-sm90"])):
        found = c.copy()
        polytc.compile(whole, target)(found)
        np.testing.assert_array_equal(found, expected)


def test_within_loops_that_are_left_out() -> None:
    """What is in loops is looked at without them; their indices stand still."""
    text = "def f(inout f32[20] C) -> (C) { for k in 0:5 { C[i+k+2] = C[i+k] where i in 0:2, i <= k } }"
    s = build(text).statement("S1")
    assert not meets_itself(replace(s, loops=(), ranges=s.ranges[1:]))


def test_scans_meet() -> None:
    program = scan.simplify_prefixes(build("Y[i,j] += X[i,k] where k <= j, j in 0:9", {"X": (9, 9)}))
    s = next(s for s in program.statements if s.op is None and "Y" in {r.tensor for r in reads(s)})
    assert meets_itself(s)
    assert coincident_indices(s) == ("i",)
