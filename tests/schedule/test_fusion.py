"""Policies of fusion: what shares loops, the same results, and the choice between them."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.codegen.llvm.target import LLVMTarget
from polytc.compiler import lower_program
from polytc.lang import build
from polytc.machine import AVX2
from polytc.schedule import fusion
from polytc.schedule.fusion import POLICIES, choose

LAYER = "T[b,o] += X[b,i] * W[i,o]\nY[b,o] = max(T[b,o] + B[o], 0)"
ATTENTION = "S[h,i,j] += Q[h,i,d]*K[h,j,d]\nO[h,i,e] += exp(S[h,i,j])*V[h,j,e]"
SHAPES = {LAYER: {"X": (64, 80), "W": (80, 96), "B": (96,)}, ATTENTION: dict.fromkeys("QKV", (12, 64, 32))}
FEW = {LAYER: {"X": (36, 5), "W": (5, 9), "B": (9,)}, ATTENTION: dict.fromkeys("QKV", (2, 9, 4))}


def expected(text: str, a: dict[str, np.ndarray]) -> np.ndarray:
    if text == LAYER:
        return np.maximum(a["X"] @ a["W"] + a["B"], 0)
    return np.exp(np.einsum("hid,hjd->hij", a["Q"], a["K"])) @ a["V"]


def groups(text: str, policy: str | None) -> list[set[str]]:
    rewritten = lower_program(build(text, SHAPES[text]), LLVMTarget(AVX2)).rewritten
    return [{s.target for s in g.statements} for g in choose(rewritten, AVX2, policy).groups]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("text", SHAPES)
def test_the_results_are_the_same(text: str, policy: str) -> None:
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(s).astype("f4") / 4 for n, s in FEW[text].items()}
    for target in ("cpu", "interp"):
        op = polytc.compile(text, target, shapes=FEW[text], fusion=policy)
        np.testing.assert_allclose(op(**arrays), expected(text, arrays), rtol=1e-4, atol=1e-4)


def test_min_keeps_statements_apart_and_max_joins_all_that_may() -> None:
    assert groups(LAYER, "min")[-2:] == [{"T"}, {"Y"}]
    assert groups(LAYER, "smart")[-1] == {"T", "Y"}
    assert not any({"S", "O"} <= g for g in groups(ATTENTION, "smart")), "the register tile of O would be lost"
    assert any({"S", "O"} <= g for g in groups(ATTENTION, "max"))


def test_min_makes_more_kernels() -> None:
    kernels = {p: len(polytc.lower(LAYER, shapes=SHAPES[LAYER], fusion=p).loops.kernels) for p in POLICIES}
    assert kernels["min"] > kernels["smart"] == kernels["max"]


@pytest.mark.parametrize("text", SHAPES)
def test_the_estimate_knows_what_a_lost_tile_and_memory_traffic_cost(text: str) -> None:
    cycles = choose(lower_program(build(text, SHAPES[text]), LLVMTarget(AVX2)).rewritten, AVX2).cycles
    if text == LAYER:
        assert cycles["smart"] < cycles["min"]
    else:
        assert cycles["smart"] < cycles["max"]


def test_another_policy_is_chosen_where_it_is_clearly_better(monkeypatch: pytest.MonkeyPatch) -> None:
    program = lower_program(build(ATTENTION, SHAPES[ATTENTION]), LLVMTarget(AVX2)).rewritten
    assert choose(program, AVX2).policy == "smart"
    monkeypatch.setattr(fusion, "_together", lambda program, groups, machine, policy: groups)
    monkeypatch.setattr(fusion, "_lost", lambda *_: 0.0)
    monkeypatch.setattr(fusion, "_cycles", lambda *_: 1.0)  # the fewer groups the better
    assert choose(program, AVX2).policy == "max"
    monkeypatch.setattr(fusion, "BETTER", 0.1)
    assert choose(program, AVX2).policy == "smart"


def test_the_choice_is_reported() -> None:
    low = polytc.lower(LAYER, shapes=SHAPES[LAYER])
    assert "fusion smart: " in low.schedule.how
    assert "cycles estimated: min " in low.schedule.how
    assert "fusion max, as asked" in str(polytc.explain(LAYER, shapes=SHAPES[LAYER], fusion="max", roofline=False))
    word, option = ({"schedule": "max"}, {"fusion": "max"})
    assert str(polytc.lower(LAYER, shapes=SHAPES[LAYER], **word).schedule) == str(
        polytc.lower(LAYER, shapes=SHAPES[LAYER], **option).schedule)


@pytest.mark.parametrize("options", [{"fusion": "most"}, {"fusion": "max", "schedule": "program"}])
def test_refusals(options: dict[str, str]) -> None:
    with pytest.raises(polytc.ArgumentError, match="E410"):
        polytc.compile(LAYER, shapes=SHAPES[LAYER], **options)
