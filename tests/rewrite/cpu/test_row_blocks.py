"""Row blocks: temporaries between products that do not stay in a cache are made some rows at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polytc.compiler import Lowered, compile_program, lower_program
from polytc.lang import build
from polytc.machine import AVX2, Machine
from polytc.rewrite.cpu import row_blocks
from polytc.targets.llvm.target import LLVMTarget
from tests.behind import rewritten as behind_all
from tests.rewrite.equal import same_results

ATTENTION = """S[h,i,j] += Q[h,i,d] * K[h,j,d]
               L[h,i,j] = S[h,i,j] + M[i,j]
               X[h,i] max= L[h,i,j]
               E[h,i,j] = exp(L[h,i,j] - X[h,i])
               Z[h,i] += E[h,i,j]
               P[h,i,j] = E[h,i,j] / Z[h,i]
               O[h,i,e] += P[h,i,j] * V[h,j,e]
               -> (O)"""


def small(machine: Machine = AVX2) -> Machine:
    """A machine with a second cache of 64 KiB, so that short sequences are long for it."""
    first, second, *others = machine.caches
    return replace(machine, caches=(replace(first, bytes=4 << 10), replace(second, bytes=64 << 10), *others))


def arrays(rows: int, keys: int, heads: int = 8) -> dict[str, np.ndarray]:
    random = np.random.default_rng(rows)
    shapes = {"Q": (heads, rows, 16), "K": (heads, keys, 16), "M": (rows, keys), "V": (heads, keys, 16)}
    return {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def lowered(rows: int, keys: int) -> Lowered:
    return lower_program(build(ATTENTION, {n: a.shape for n, a in arrays(rows, keys).items()}), LLVMTarget(small()))


def expected(a: dict[str, np.ndarray]) -> np.ndarray:
    scores = np.einsum("hid,hjd->hij", *(a[n].astype(np.float64) for n in "QK")) + a["M"]
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("hij,hje->hie", e / e.sum(axis=-1, keepdims=True), a["V"].astype(np.float64))


def test_the_matrix_of_scores_is_never_whole() -> None:
    low = lowered(256, 256)
    assert {t.shape for t in low.rewritten.tensors if t.name.startswith("L_rows")} == {(8, 16, 16, 256)}
    assert not [b for b in low.loops.scratch if b.size >= 8 * 256 * 256]
    assert len(low.loops.kernels) <= 2, "panels of keys, then all stages"


def test_short_sequences_stay_as_they_are() -> None:
    assert "L_rows" not in {t.name for t in lowered(32, 32).rewritten.tensors}


@pytest.mark.part(2)
@pytest.mark.parametrize(("rows", "keys", "threads"), [
    (131, 200, 2), (64, 509, 1), *(pytest.param(*p, marks=pytest.mark.long) for p in (
        (256, 256, 1), (256, 256, 2), (131, 200, 1), (64, 509, 2)))])
def test_results(rows: int, keys: int, threads: int) -> None:
    """Whole blocks; rows beyond the last block; keys beyond the last vector."""
    a = arrays(rows, keys)
    program = build(ATTENTION, {n: x.shape for n, x in a.items()})
    target = LLVMTarget(small(LLVMTarget().machine))
    assert any("_rows" in t.name for t in behind_all(program, target.machine).tensors)
    out = np.full((8, rows, 16), np.nan, np.float32)
    compile_program(program, target, threads).run([*(a[n] for n in program.inputs), out])
    np.testing.assert_allclose(out, expected(a), rtol=2e-5, atol=2e-6)


def test_rows_beyond_the_last_block_have_statements_of_their_own() -> None:
    rewritten = lowered(131, 200).rewritten
    extents = {r.upper for s in rewritten.statements for r in s.ranges if r.index == "i"}
    assert len(extents) > 1
    assert sum(max(extents) * b for b in {r.upper for s in rewritten.statements for r in s.ranges
                                          if r.index == "i_block"}) + min(extents) == 131


def test_a_temporary_that_others_read_stays_whole() -> None:
    text = ATTENTION.replace("-> (O)", "R[h,j] max= P[h,i,j]\n-> (O, R)")
    program = build(text, {n: x.shape for n, x in arrays(256, 256).items()})
    names = {t.name for t in behind_all(program, small()).tensors}
    assert "P" in names
    assert "P_rows" not in names


def test_what_is_decided_is_done() -> None:
    """Before -> after of the docstring, with rows beyond the last block."""
    text = "S[i,j] += Q[i,d]*K[j,d]; P[i,j] = S[i,j]*2; Y[i,d] += P[i,j]*V[j,d]; -> (Y)"
    before = build(text, {"Q": (1003, 16), "K": (200, 16), "V": (200, 16)})
    decision = row_blocks.decide(before, small())
    assert len(decision.choices) == 1
    assert "rows in blocks of" in str(decision.reasons[0])
    after = row_blocks.split(before, decision)
    block = after.tensor("S_rows").shape[1]
    assert 1 < block < 1003
    same_results(before, after)
