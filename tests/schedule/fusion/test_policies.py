"""Policies of fusion: what shares loops, the same results, and the choice between them."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.lang import build
from polytc.machine import AVX2, Estimate
from polytc.options import REQUESTS
from polytc.schedule.fusion import policies
from polytc.schedule.fusion.policies import POLICIES, choose
from tests.behind import rewritten as behind_all

LAYER = "T[b,o] += X[b,i] * W[i,o]\nY[b,o] = max(T[b,o] + B[o], 0)"
ATTENTION = "S[h,i,j] += Q[h,i,d]*K[h,j,d]\nO[h,i,e] += exp(S[h,i,j])*V[h,j,e]"
SHAPES = {LAYER: {"X": (64, 80), "W": (80, 96), "B": (96,)}, ATTENTION: dict.fromkeys("QKV", (12, 64, 32))}
FEW = {LAYER: {"X": (36, 5), "W": (5, 9), "B": (9,)}, ATTENTION: dict.fromkeys("QKV", (2, 9, 4))}


def expected(text: str, a: dict[str, np.ndarray]) -> np.ndarray:
    if text == LAYER:
        return np.maximum(a["X"] @ a["W"] + a["B"], 0)
    return np.exp(np.einsum("hid,hjd->hij", a["Q"], a["K"])) @ a["V"]


def test_schedules_may_be_called_by_the_policies() -> None:
    assert REQUESTS[-len(POLICIES):] == POLICIES


def groups(text: str, policy: str | None) -> list[set[str]]:
    rewritten = behind_all(build(text, SHAPES[text]), AVX2)
    return [{s.target for s in g.statements} for g in choose(rewritten, AVX2, policy).groups]


@pytest.mark.part(2)
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
    found = choose(behind_all(build(text, SHAPES[text]), AVX2), AVX2).times
    times = {policy: time.seconds for policy, time in found.items()}
    if text == LAYER:
        assert times["smart"] < times["min"]
    else:
        assert times["smart"] < times["max"]


def test_another_policy_is_chosen_where_it_is_clearly_better(monkeypatch: pytest.MonkeyPatch) -> None:
    program = behind_all(build(ATTENTION, SHAPES[ATTENTION]), AVX2)
    assert choose(program, AVX2).policy == "smart"
    monkeypatch.setattr(policies, "_together", lambda program, groups, machine, policy: groups)
    monkeypatch.setattr(policies, "_lost", lambda *_: 0.0)
    monkeypatch.setattr(policies, "_time", lambda *_: Estimate(memory=1.0))  # the fewer groups the better
    assert choose(program, AVX2).policy == "max"
    monkeypatch.setattr(policies, "BETTER", 0.1)
    assert choose(program, AVX2).policy == "smart"


def test_the_choice_is_reported() -> None:
    low = polytc.lower(LAYER, shapes=SHAPES[LAYER])
    assert "fusion smart: " in low.schedule.how
    assert "estimated: min " in low.schedule.how
    assert "fusion max, as asked" in str(polytc.explain(LAYER, shapes=SHAPES[LAYER], fusion="max", roofline=False))
    word, option = ({"schedule": "max"}, {"fusion": "max"})
    assert str(polytc.lower(LAYER, shapes=SHAPES[LAYER], **word).schedule) == str(
        polytc.lower(LAYER, shapes=SHAPES[LAYER], **option).schedule)


@pytest.mark.parametrize("options", [{"fusion": "most"}, {"fusion": "max", "schedule": "program"}])
def test_refusals(options: dict[str, str]) -> None:
    with pytest.raises(polytc.ArgumentError, match="E410"):
        polytc.compile(LAYER, shapes=SHAPES[LAYER], **options)


HEAD_AND_TURNED = "Y[0,c] = K[c]\nY[p+1,c] = X[c,p]"
NORMALISED = "M[p] += X[p,c]\nY[c,p] = X[p,c] - M[p]"
BOTH_LOOPS = "T[i,j] = X[i,j] + 1\nY[j,i] = sqrt(T[i,j])\nZ[i,j] = T[i,j] * T[i,j]"


@pytest.mark.parametrize(("text", "shapes", "fused"), [
    (HEAD_AND_TURNED, {"X": (152, 784), "K": (152,)}, False),
    (HEAD_AND_TURNED, {"X": (152, 3136), "K": (152,)}, False),
    (HEAD_AND_TURNED, {"X": (152, 4), "K": (152,)}, True),
    (NORMALISED, {"X": (640, 200)}, False),
    (NORMALISED, {"X": (640, 4)}, True),
    (BOTH_LOOPS, {"X": (64, 80)}, True)])
def test_what_turns_its_operand_keeps_both_loops_of_its_square_tiles(text: str, shapes: dict[str, tuple[int, ...]], fused: bool
                                                                     ) -> None:
    found = choose(behind_all(build(text, shapes), AVX2), AVX2)
    last = next(g for g in found.groups if any(s.target == "Y" and len(s.indices) == 2 for s in g.statements))
    assert (len(last.statements) > 1) == fused, str(found)


@pytest.mark.part(6)
@pytest.mark.parametrize("policy", [None, *POLICIES])
@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_turned_operands(target: str, policy: str | None) -> None:
    rng = np.random.default_rng(0)
    x, k = rng.standard_normal((35, 43)).astype("f4"), rng.standard_normal(35).astype("f4")
    how = {"fusion": policy} if policy is not None else {}
    got = polytc.compile(HEAD_AND_TURNED, target, shapes={"X": x.shape, "K": k.shape}, **how)(K=k, X=x)
    np.testing.assert_array_equal(got, np.concatenate([k[None], x.T]))
    got = polytc.compile(NORMALISED, target, shapes={"X": x.shape}, **how)(x)
    np.testing.assert_allclose(got, (x - x.sum(1, keepdims=True)).T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("rows", "columns", "policy"), [(3002, 4002, "smart"), (1002, 1002, "smart")])
def test_narrow_strips_of_long_rows_cost_more_than_a_temporary(rows: int, columns: int, policy: str) -> None:
    """Windows over rows leave a group the loop along the rows: 32 columns of all rows at a time."""
    blur = "T[i,j] = X[i,j] + X[i,j+1] + X[i,j+2]; Y[i,j] = T[i,j] + T[i+1,j] + T[i+2,j]"
    found = choose(behind_all(build(blur, {"X": (rows, columns)}), AVX2), AVX2)
    assert found.policy == policy, str(found)


@pytest.mark.parametrize("text", ["Y[i,j] += X[clamp(i+b-1,0,1023),j]", "Y[i,j] += X[(i+b+1023)%1024,j]",
                                  "Y[i,j] += X[clamp(i+b-1,0,1023),clamp(j+b-1,0,1023)]"])
def test_a_group_moves_the_part_of_a_tensor_that_it_touches(text: str) -> None:
    """Borders of one row are no reason to put the inside into loops with them, where it loses its tile."""
    program = behind_all(build(f"{text} where i in 0:1024, j in 0:1024, b in 0:3", {"X": (1024, 1024)}), AVX2)
    found = choose(program, AVX2)
    assert found.policy == "smart", str(found)
    inside = next(g for g in found.groups if any(s.name == "S1" for s in g.statements))
    assert [s.name for s in inside.statements] == ["S1_init", "S1"]
    assert len(inside.rows) == 2
