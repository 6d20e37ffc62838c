"""Conditions on rows that become conditions on blocks: what is computed, what nobody may see, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.machine import AVX2
from polytc.program import program as pr
from polytc.program.affine import Affine, add
from polytc.program.domain import condition_indices
from polytc.program.program import format_expr
from polytc.rewrite import bounds
from polytc.rewrite.cpu import block_bounds, condition_blocks
from polytc.stages import build
from tests.behind import rewritten
from tests.rewrite.equal import same_results

ATTENTION = ("S[i,j] += Q[i,d]*K[j,d]{w}; M[i] max= S[i,j]{w}; E[i,j] = exp(S[i,j] - M[i]){w}; Z[i] += E[i,j]{w}; "
             "O[i,d] += E[i,j]*V[j,d]{w}; Y[i,d] = O[i,d]/Z[i]")
ROWS = 256
CONDITIONS = {"j <= i": lambda i, j: j <= i, "j >= i - 9": lambda i, j: j >= i - 9,
              "j <= i + 3, j > i - 40": lambda i, j: (j <= i + 3) & (j > i - 40)}


def _conditions(text: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, set[str]]:
    """The indices that the conditions of each statement name behind all steps."""
    return {s.name: {i for c in s.where for i in condition_indices(c)} for s in rewritten(build(text, shapes), AVX2).statements}


SHAPES = {"Q": (ROWS, 8), "K": (ROWS, 8), "V": (ROWS, 8)}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_temporaries_are_computed_for_whole_blocks(condition: str) -> None:
    found = _conditions(ATTENTION.format(w=f" where {condition}"), SHAPES)
    assert found["S1_rows"] == found["S1_init_rows"] == found["S3_rows"] == {"j", "i_block"}
    assert found["S5_rows"] == {"j", "i", "i_block"}
    assert found["S4_lanes_rows"] == {"j_q", "i", "i_block"}


@pytest.mark.parametrize("other", [
    "T[i] += S[i,j] where j <= i + 1", "T[j] += S[i,j] where i <= j", "T[i] = S[i,5] where i >= 3"])
def test_what_is_read_elsewhere_is_not_widened(other: str) -> None:
    """Elements that the reader sees and nobody computes are 0, and stay so."""
    text = f"S[i,j] += Q[i,d]*K[j,d] where j <= i; {other}; Y[i,d] += S[i,j]*V[j,d] where j <= i; Z[i] = T[i] + 0"
    before = build(text, SHAPES)
    same_results(before, rewritten(before, AVX2))
    found = _conditions(text, SHAPES)
    assert all({"j", "i"} <= names for name, names in found.items() if name in ("S1", "S1_rows"))


@pytest.mark.parametrize(("value", "more"), [("G[i-j]", {"G": (ROWS,)}), ("G[P[i,j]]", {"G": (9,), "P": (ROWS, ROWS)})])
def test_reads_that_a_condition_keeps_inside_stay_so(value: str, more: dict[str, tuple[int, ...]]) -> None:
    program = build(f"S[i,j] += Q[i,d]*K[j,d]*{value} where j <= i",
                    {n: s for n, s in (SHAPES | more).items() if n != "V"}, dtypes=dict.fromkeys({"P"} & set(more), "i64"))
    assert not bounds.speculable(program, program.statement("S1"))


@pytest.mark.parametrize(("value", "fine"), [
    ("Q[i]//K[j]", False), ("Q[i] % K[j]", False), ("Q[i]//4 + K[j]", True), ("Q[i]*K[j]", True)])
def test_divisions_by_what_may_be_0_are_not_moved(value: str, fine: bool) -> None:
    program = build(f"S[i,j] += {value} where j <= i", {"Q": (8,), "K": (8,)}, dtypes={"Q": "i32", "K": "i32"})
    assert bounds.speculable(program, program.statement("S1")) is fine


def test_writes_that_a_condition_keeps_inside_stay_so() -> None:
    """No row meets column 128 under both conditions, so that the temporary ends before it."""
    cell = " where j <= i + 1, (i + j) % 2 == 0, i in 0:128, j in 0:256"
    text = f"S[i,j] += Q[i,d]*K[j,d]{cell}; E[i,j] = S[i,j] + 1{cell}; Y[i,d] += E[i,j]*V[j,d]{cell}"
    program = build(text, {"Q": (128, 8), "K": (256, 8), "V": (256, 8)})
    s = program.statement("S1")
    assert (s.box["j"], program.tensor("S").shape) == ((0, 128), (128, 128))
    assert not bounds.speculable(program, s)
    q, k, v = (np.random.default_rng(n).integers(-3, 4, (256, 8)).astype(np.float32) for n in range(3))
    i, j = np.indices((128, 256))
    wanted = np.where((j <= i + 1) & ((i + j) % 2 == 0), q[:128] @ k.T + 1, 0) @ v
    np.testing.assert_array_equal(polytc.run(text, Q=q[:128], K=k, V=v), wanted)


@pytest.mark.part(20)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_row_sees_a_number_that_its_condition_hides(condition: str, threads: int) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((ROWS, 8)).astype(np.float32) for _ in range(3))
    rows, columns = np.indices((ROWS, ROWS))
    seen = CONDITIONS[condition](rows, columns)
    scores = np.where(seen, q.astype(np.float64) @ k.T, -np.inf)
    e = np.exp(scores - scores.max(1, keepdims=True))
    op = polytc.compile(ATTENTION.format(w=f" where {condition}"), threads=threads)
    np.testing.assert_allclose(op(Q=q, K=k, V=v), e / e.sum(1, keepdims=True) @ v, rtol=2e-4, atol=2e-5)
    for hidden, array in ((100, k), (200, v)):
        array[hidden] = np.nan
        blind = np.isfinite(op(Q=q, K=k, V=v)).all(1)
        np.testing.assert_array_equal(blind, ~(seen[:, 100] | (seen[:, 200] & (hidden == 200))))


def test_a_block_sees_what_its_last_row_sees() -> None:
    form = bounds.linear_bound(build("S[i,j] += Q[i,j] where j <= i", {"Q": (64, 64)}).statements[-1].where[0])
    assert form is not None
    box = {"i": (0, 31), "b": (0, 1), "j": (0, 63)}
    end = block_bounds.hull(box, add(form, Affine(0, (("b", 32),))), "j", "b", 1)
    assert end == Affine(32, (("block", 32),))
    (condition,) = block_bounds.Bounds(None, end).conditions(pr.Index("j"), "b", 0, 32)
    assert format_expr(condition) == "j < 32 * b + 32"
    assert condition_blocks.bounds_columns(build("S[i,j] += Q[i,j] where j <= i", {"Q": (64, 64)}).statements[-1], "i")
