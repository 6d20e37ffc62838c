"""Borders and taps on GPUs: statements are taken apart where that takes less time by the estimate of launches."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.machine import DEVICES, Machine
from polytc.rewrite.gpu import launched_parts
from polytc.rewrite.table import STEPS
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.rewrite.equal import same_results

GPU = DEVICES["nvidia-sm90"]
PERIODIC = "Y[i,j] = X[i,j] + X[(i+1)%{0},j] + X[(i+{1})%{0},(j+1)%{0}] where i in 0:{0}, j in 0:{0}"
WINDOW = "O[h,f] += (I[h+9*r-9,c] else 0)*W[r,c,f] where h in 0:12"


def step(name: str, machine: Machine = GPU):  # type: ignore[no-untyped-def]
    return next(s for s in STEPS if s.name == name and machine.kind in s.kinds)


@pytest.mark.parametrize(("n", "parts"), [(8, 1), (512, 1), (4096, 1), (30000, 6)])
def test_large_statements_are_taken_apart(n: int, parts: int) -> None:
    program = polytc.build(PERIODIC.format(n, n - 1), {"X": (n, n)})
    (own,) = launched_parts.options(launched_parts.borders.split, launched_parts.time_of_borders, program, GPU)
    decision = step("borders").decide(program, GPU)
    assert bool(decision.choices) == (own[1].cost < own[0].cost) == (parts > 1)
    assert ("not in parts" if parts == 1 else "in parts") in str(decision.reasons[0])
    assert len(step("borders").run(program, GPU).statements) == parts


def test_a_record_says_otherwise() -> None:
    text, shapes = PERIODIC.format(8, 7), {"X": (8, 8)}
    x = np.arange(64, dtype=np.float32).reshape(8, 8) % 11
    wanted = x + np.roll(x, -1, 0) + np.roll(np.roll(x, 1, 0), -1, 1)
    for lines, launches in (("", 1), ("borders: none", 1), ("borders S1:", 6)):
        record = f"polytc decisions 1\n{lines}\n" if lines else None
        assert len(polytc.lower(text, OpenCLTarget(GPU), shapes=shapes, decisions=record).source.launches) == launches
        np.testing.assert_array_equal(polytc.compile(text, InterpTarget(GPU), shapes=shapes, decisions=record)(x), wanted)
    with pytest.raises(polytc.PolytcError, match=r"E710: .* S1 has no such parts"):
        polytc.lower("Y[i] = X[i]", OpenCLTarget(GPU), shapes={"X": (8,)}, decisions="polytc decisions 1\nborders S1:\n")


def test_what_is_in_one_piece_is_plain() -> None:
    program = polytc.build("Y[i] = X[(i+64)%64 + 1] where i in 0:63", {"X": (64,)})
    made = step("borders").run(program, GPU)
    assert "%" not in str(made)
    same_results(program, made)


def test_taps_stay_together_where_they_save_nothing() -> None:
    program = polytc.build(WINDOW, {"I": (12, 64), "W": (3, 64, 64)})
    decision = step("taps").decide(program, GPU)
    assert not decision.choices
    assert "not in parts: 3 launches take" in str(decision.reasons[0])
    chosen = launched_parts.Decision(GPU, (launched_parts.Parts("S1"),))
    apart = launched_parts.apply(launched_parts.taps.split, program, chosen)
    assert len(apart.statements) == len(program.statements) + 2
    same_results(program, apart)
