"""Columns that a mask hides from blocks of rows: which statements leave them out, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.compiler import compile_program
from polytc.lang import build
from polytc.machine import AVX2
from polytc.program import program as pr
from polytc.program.program import format_expr
from polytc.rewrite.cpu import masked_blocks
from tests.behind import rewritten as behind_all

TEXT = """S[h,i,j] += Q[h,i,d] * K[h,j,d]
          L[h,i,j] = LOGIT
          X[h,i] max= L[h,i,j]
          E[h,i,j] = exp(L[h,i,j] - X[h,i])
          Z[h,i] += E[h,i,j]
          P[h,i,j] = E[h,i,j] / Z[h,i]
          O[h,i,e] += P[h,i,j] * V[h,j,e]
          -> (O)"""
CAUSAL = "j <= i ? S[h,i,j] : -inf"
LATER = "j <= i + 37 ? S[h,i,j] / 4 : -inf"
WINDOW = "j <= i && j > i - 20 ? S[h,i,j] : -inf"
NEGATED = "!(j <= i) || j < i - 30 ? -inf : S[h,i,j]"
RISING = "j >= 63 - i ? S[h,i,j] : -inf"
ADDED = "0.5 * S[h,i,j] + (i < j ? -3.4028234e38 : 0.0)"


def arrays(rows: int, keys: int, heads: int = 2, depth: int = 16) -> dict[str, np.ndarray]:
    random = np.random.default_rng(rows)
    shapes = {"Q": (heads, rows, depth), "K": (heads, keys, depth), "V": (heads, keys, depth)}
    return {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def program_of(logit: str, rows: int, keys: int, text: str = TEXT) -> pr.Program:
    given = {n: a.shape for n, a in arrays(rows, keys).items() if f"{n}[" in text}
    if "B[" in logit:
        given["B"] = (rows, keys)
    return build(text.replace("LOGIT", logit), given)


def narrowed(program: pr.Program) -> dict[str, list[str]]:
    """The conditions of the statements that have some, once rewritten."""
    rewritten = behind_all(program, AVX2)
    return {s.name: [format_expr(c) for c in s.where] for s in rewritten.statements if s.where}


def seen(logit: str, rows: int, keys: int) -> np.ndarray:
    i, j = np.arange(rows)[:, None], np.arange(keys)
    return {CAUSAL: j <= i, LATER: j <= i + 37, WINDOW: (j <= i) & (j > i - 20), NEGATED: (j <= i) & (j >= i - 30),
            RISING: j >= 63 - i, ADDED: j <= i}[logit]


def expected(logit: str, a: dict[str, np.ndarray]) -> np.ndarray:
    factor = {LATER: 0.25, ADDED: 0.5}.get(logit, 1.0)
    scores = factor * np.einsum("hid,hjd->hij", *(a[n].astype(np.float64) for n in "QK"))
    scores = np.where(seen(logit, *scores.shape[1:]), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("hij,hje->hie", e / e.sum(axis=-1, keepdims=True), a["V"].astype(np.float64))


@pytest.mark.part(14)
@pytest.mark.parametrize(("logit", "rows", "keys"), [
    *((logit, 64, 80) for logit in (CAUSAL, LATER, WINDOW, NEGATED, RISING, ADDED)), (CAUSAL, 131, 200), (WINDOW, 131, 200),
    *(pytest.param(logit, 131, 200, marks=pytest.mark.long) for logit in (LATER, NEGATED, RISING, ADDED)),
    *(pytest.param(logit, 256, 256, marks=pytest.mark.long) for logit in (CAUSAL, WINDOW))])
def test_results(logit: str, rows: int, keys: int) -> None:
    """Whole blocks; rows beyond the last block; more keys than rows."""
    a, program = arrays(rows, keys), program_of(logit, rows, keys)
    assert narrowed(program)
    out = np.full((2, rows, 16), np.nan, np.float32)
    compile_program(program, "cpu", 2).run([*(a[n] for n in program.inputs), out])
    np.testing.assert_allclose(out, expected(logit, a), rtol=2e-5, atol=2e-6)


@pytest.mark.part(2)
@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_results_are_those_of_the_reference(target: str) -> None:
    a = arrays(64, 64, heads=1, depth=3)
    text = TEXT.replace("LOGIT", CAUSAL)
    np.testing.assert_allclose(polytc.run(text, target=target, **a), polytc.evaluate(text, **a), rtol=2e-5, atol=2e-6)


def test_what_nobody_sees_is_not_computed() -> None:
    """Numbers behind the mask are of no account; where they are, no code computes with them."""
    a = arrays(256, 256)
    clean = expected(CAUSAL, a)
    for n in "KV":
        a[n][:, 128:] = np.nan
    program = program_of(CAUSAL, 256, 256)
    out = np.zeros((2, 256, 16), np.float32)
    compile_program(program, "cpu", 1).run([*(a[n] for n in program.inputs), out])
    np.testing.assert_allclose(out[:, :128], clean[:, :128], rtol=2e-5, atol=2e-6)
    assert np.isnan(out[:, 128:]).all()


def test_all_statements_between_the_products_are_narrowed() -> None:
    found = narrowed(program_of(CAUSAL, 256, 256))
    stages = {name.split("_")[0] for name in found}
    assert stages == {"S1", "S2", "S3", "S4", "S5", "S6", "S7"}
    assert all(len(c) == 1 for c in found.values())
    assert {len(c) for c in narrowed(program_of(WINDOW, 256, 256)).values()} == {2}


@pytest.mark.parametrize("logit", [
    "j <= i ? S[h,i,j] : 0",                                      # zero is a score like any other
    "i <= j ? S[h,i,j] + B[i,j] : -3.4028234e38",                 # rows that B masks would be of equal scores
    "j <= i - 5 ? S[h,i,j] : -inf",                               # the first rows see nothing
    "j < 9 ? S[h,i,j] : -inf",                                    # all rows see the same
    "i * i >= j ? S[h,i,j] : -inf",
])
def test_other_conditions_narrow_nothing(logit: str) -> None:
    assert not narrowed(program_of(logit, 256, 256))


def test_infinite_masks_may_follow_others() -> None:
    """A row of -inf alone is NaN, with or without the columns behind."""
    a = arrays(128, 128)
    program = program_of("j <= i ? S[h,i,j] + B[i,j] : -inf", 128, 128)
    assert narrowed(program)
    mask = np.where(np.arange(128) % 3 == 0, -np.inf, 0).astype(np.float32) + np.zeros((128, 1), np.float32)
    out = np.zeros((2, 128, 16), np.float32)
    compile_program(program, "cpu", 1).run([*({**a, "B": mask}[n] for n in program.inputs), out])
    scores = np.einsum("hid,hjd->hij", *(a[n].astype(np.float64) for n in "QK")) + mask
    scores = np.where(np.tri(128, dtype=bool), scores, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(out, np.einsum("hij,hje->hie", e / e.sum(axis=-1, keepdims=True), a["V"]), rtol=2e-5, atol=2e-6)
    assert np.isnan(out[:, 0]).all()


@pytest.mark.parametrize("more", ["R[h,j] max= P[h,i,j]", "R[h,i] += L[h,i,j]", "R[h,i,j] = E[h,i,j] + 1"])
def test_what_others_read_stays(more: str) -> None:
    text = TEXT.replace("-> (O)", f"{more}\n-> (O, R)")
    assert not narrowed(program_of(CAUSAL, 256, 256, text))


PROJECTED = TEXT.replace("S[h,i,j] += Q[h,i,d] * K[h,j,d]", "T[h,i,d] += Q[h,i,e] * W[h,e,d]\nS[h,i,j] += T[h,i,d] * K[h,j,d]")
SCORES_TOO = TEXT.replace("-> (O)", "R[h,i,j] = 2 * S[h,i,j]\n-> (O, R)")


@pytest.mark.part(2)
@pytest.mark.parametrize("text", [PROJECTED, SCORES_TOO])
def test_what_the_masked_statement_reads_is_narrowed_where_nobody_else_needs_it(text: str) -> None:
    """Rows that are made in blocks have no columns to leave out; scores that leave the program are whole."""
    a = {**arrays(128, 128), "W": np.random.default_rng(1).standard_normal((2, 16, 16)).astype(np.float32) / 4}
    program = build(text.replace("LOGIT", CAUSAL), {n: x.shape for n, x in a.items() if f"{n}[" in text})
    assert narrowed(program)
    out = [np.full((2, 128, t), np.nan, np.float32) for t in (16, 128)][:len(program.outputs)]
    compile_program(program, "cpu", 1).run([*(a[n] for n in program.inputs), *out])
    given = {**a, "Q": a["Q"] @ a["W"]} if text == PROJECTED else a
    np.testing.assert_allclose(out[0], expected(CAUSAL, given), rtol=2e-5, atol=2e-6)
    for scores in out[1:]:
        np.testing.assert_allclose(scores, 2 * np.einsum("hid,hjd->hij", a["Q"], a["K"]), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("rows", "block"), [(64, 16), (128, 32), (192, 48), (200, 50), (256, 64), (512, 64), (48, None)])
def test_a_mask_leaves_some_blocks_short(rows: int, block: int | None) -> None:
    """At least four blocks of at most 64 rows, from 64 rows on."""
    rewritten = behind_all(program_of(CAUSAL, rows, rows), AVX2)
    made = {t.shape[-2] for t in rewritten.tensors if t.name.startswith("S_rows")}
    assert made == ({block} if block else set())


def test_precise_programs_compute_every_term() -> None:
    program = replace(program_of(CAUSAL, 256, 256), precise=True)
    assert not narrowed(program)


@pytest.mark.parametrize(("logit", "seen_from"), [
    (CAUSAL, lambda row: range(row + 1)), (WINDOW, lambda row: range(max(0, row - 19), row + 1))])
def test_what_a_block_of_rows_sees(logit: str, seen_from) -> None:
    """The bounds of block h are those of the columns that one of the rows 16*h .. 16*h + 15 sees."""
    program = build(f"L[h,i,j] = {logit.replace(' i', ' (16*h + i)')} where i in 0:16", {"S": (8, 16, 128)})
    found = masked_blocks.mask(program, program.statement("S1"), "h")
    assert found is not None
    assert (found.statement, found.column) == ("S1", "j")
    for block in range(8):
        columns = {j for i in range(16 * block, 16 * block + 16) for j in seen_from(i)}
        lower, upper = (None if f is None else f.coefficient("block") * block + f.constant
                        for f in (found.bounds.lower, found.bounds.upper))
        assert (max(lower or 0, 0), upper) == (min(columns), max(columns) + 1)


def test_what_masks_nothing_by_blocks() -> None:
    for logit in ("S[h,i,j]", "j <= i ? S[h,i,j] : -inf", "j <= 16*h + i ? S[h,i,j] : 1.0"):
        program = build(f"L[h,i,j] = {logit} where i in 0:16", {"S": (8, 16, 128)})
        assert masked_blocks.mask(program, program.statement("S1"), "h") is None
