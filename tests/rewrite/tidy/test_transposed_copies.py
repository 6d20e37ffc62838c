"""Transposed copies of tensors that a reduction reads across memory while the loop makes them."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.program import program as pr
from polytc.program.evaluator import evaluate
from polytc.program.program import Program
from polytc.rewrite.tidy.transposed_copies import add_copies
from polytc.stages import build

N = 72
PAIRS = """for i in N-1:-1:-1 { for j in i+1:N {
    T[i,j] max= T[i,j-1]
    T[i,j] max= T[i+1,j-1] + i32(A[i,j] > 3)
    T[i,j] max= T[i,k] + T[k+1,j] where k in i+1:j
} }"""
MIRRORED = {
    "pieces of pieces": (PAIRS, {"T"}),
    "another tensor, read where the iteration wrote it": ("""for i in 0:N { for j in 0:N {
        T[i,j] = A[i,j] + (R[i,j-1] else 0)
        R[i,j] max= R[i,k] + T[k,j] where k in 0:j, k <= i
        T[i,j] *= 2
        R[i,j] += T[i,j]
    } }""", {"T"}),
    "a second writer elsewhere": (PAIRS.replace("T[i,j] max= T[i,j-1]\n", "T[i,j] max= T[i,j-1]; T[0,j] += A[i,j]\n"), {"T"}),
    "a row at once": ("""for i in 0:N { T[i,j] = A[i,j] + (T[i-1,j] else 1)
        for j in 0:N { R[i,j] max= R[i,k] + T[k,j] where k in 0:j } }""", {"T"}),
    "a temporary": (f"W[i,j] = A[i,j]\n{PAIRS.replace('T', 'W')}\nT[i,j] = W[i,j]", {"W"}),
}
PLAIN = {
    "contiguous already": "for i in 0:N { for j in 0:N { T[i,j] max= T[i,k] + R[i,k] where k in 0:j } }",
    "vectors along the row": "for i in 1:N { for j in 0:N { T[i,j] += T[k,j] * A[i,k] where k in 0:i } }",
    "across a tensor that stays": "for i in 0:N { for j in 0:N { T[i,j] max= T[i,k] + A[k,j] where k in 0:j } }",
    "nothing to gain": "for i in 0:N { for j in 0:N { T[i,j] += 1; R[i,j] max= R[i,k] + T[k+9,j] where k in 0:9, k < j } }",
    "a range in memory": "for i in 0:N { for j in 0:N { T[i,j] max= T[i,k] + T[k,j] where k in A[i,j]:j, k < i } }",
    "not yet filled": "W[i,j] = A[i,j] where i in 0:N, j in 0:N, i <= j\n" + PAIRS.replace("T", "W")
        .replace("W[i+1,j-1]", "W[i,j]").replace("k in i+1:j", "k in i+1:j, k+1 <= j") + "\nT[i,j] = W[i,j] where i <= j",
}


SIDE = 17
"""Of the tensors whose values are compared, more than a vector: the evaluator takes long."""


def program(body: str, word: str = "", n: int = N) -> Program:
    text = f"{word} def f(i32[N,N] A, inout i32[N,N] T, inout i32[N,N] R) -> (T, R) {{\n{body}\n}}"
    return build(text, dict.fromkeys("ATR", (n, n)), dict.fromkeys("ATR", "i32"))


def arrays(n: int = N) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.integers(0, 9, (n, n)).astype(np.int32) for name in "ATR"}


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for n in "TR":
        np.testing.assert_array_equal(found[n], expected[n])


@pytest.mark.parametrize("name", MIRRORED)
def test_tensors_that_are_read_often_have_a_copy(name: str) -> None:
    body, tensors = MIRRORED[name]
    p = program(body)
    assert {t.name for t in add_copies(p).tensors} - {t.name for t in p.tensors} == {f"{t}_mirror" for t in tensors}


@pytest.mark.part(5)
@pytest.mark.parametrize("name", MIRRORED)
def test_the_copy_agrees_wherever_it_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With copies in smaller tensors than they pay for."""
    monkeypatch.setattr("polytc.rewrite.tidy.transposed_copies.REUSE", 2)
    body, tensors = MIRRORED[name]
    p = program(body, n=SIDE)
    found = add_copies(p)
    assert {t.name for t in found.tensors} - {t.name for t in p.tensors} == {f"{t}_mirror" for t in tensors}
    expected = evaluate(p, arrays(SIDE))
    same(evaluate(found, arrays(SIDE)), expected)
    for target in ("cpu", "interp"):
        got = arrays(SIDE)
        lowered = compiler.lower_program(p, target)
        assert all(f"{t}_mirror" in str(lowered.rewritten) for t in tensors)
        assert lowered.prologue is None
        lowered.target.load(lowered.target.build(lowered.source), 2).run([got[n] for n in "ATR"])
        same(got, expected)


@pytest.mark.parametrize("name", PLAIN)
def test_no_copy(name: str) -> None:
    p = program(PLAIN[name])
    assert add_copies(p) == p


def test_a_precise_program_keeps_its_reads() -> None:
    p = program(PAIRS, "precise")
    assert add_copies(p) == p


def test_one_copy_follows_several_writers() -> None:
    statements = add_copies(program(PAIRS)).statements
    assert [s.target for s in statements if s.loops] == ["T", "T", "T", "T_mirror"]
    found = add_copies(program(MIRRORED["another tensor, read where the iteration wrote it"][0]))
    assert [s.target for s in found.statements if s.loops] == ["T", "T_mirror", "R", "T", "T_mirror", "R"]


def test_both_operands_of_a_dynamic_program_are_read_along_memory() -> None:
    """The order of a chain of matrix products, by dynamic programming."""
    size = 40
    p = np.random.default_rng(1).integers(1, 50, size + 1)
    text = """def chain(i64[M] p, inout i64[N,N] cost) -> (cost) {
        for i in N-1:-1:-1 { for j in i+1:N {
            cost[i,j] = 1 << 40
            cost[i,j] min= cost[i,k] + cost[k+1,j] + p[i]*p[k+1]*p[j+1]    where k in i:j
        } } }"""
    expected = np.zeros((size, size), int)
    for length in range(1, size):
        for i in range(size - length):
            j = i + length
            expected[i, j] = min(expected[i, k] + expected[k + 1, j] + p[i] * p[k + 1] * p[j + 1] for k in range(i, j))
    shapes = {"p": p.shape, "cost": expected.shape}
    lowered = polytc.lower(text, shapes=shapes, dtypes=dict.fromkeys(shapes, "i64"))
    reads = pr.reads(lowered.rewritten.statement("S2"))
    assert {r.tensor for r in reads} == {"p", "cost", "cost_mirror"}
    assert "S2 reduce k" in lowered.schedule.how
    np.testing.assert_array_equal(polytc.run(text, p, np.zeros_like(expected)), expected)


SMALL = 13
ROWS = {
    "parts of rows that are written again": """for i in 0:N { for j in 0:N {
        T[i,k] += A[i,k] where k in 0:5
        R[i,j] max= R[i,k] + T[k,j] where k in 0:j, k <= i
        T[i,k] += 1 where k in 0:5
    } }""",
    "a column behind what is read": """for i in 1:N { for j in 0:N {
        T[i,j] = A[i,j] + R[i,j]
        R[i,j] max= R[i,k] + T[k,j] where k in 0:j, k < i
        T[i,j] *= 2
    } }""",
    "the column that is read": """for i in 0:N { for j in 0:N {
        T[i,j] = A[i,j] + 3
        R[i,j] max= R[i,k] + T[k,j] where k in 0:j, k <= i
        T[i,j] += 2
    } }""",
    "before and behind": """for i in 0:N { for j in 0:N {
        T[i,j] = A[i,j] + 3
        R[i,j] max= R[i,k] + T[k+1,j] where k in i:N-1, k < j
        T[i,j] += 2
        R[i,j] += T[i,j]
    } }""",
}


@pytest.mark.part(4)
@pytest.mark.parametrize("name", [*ROWS, *MIRRORED])
def test_copies_of_any_tensor_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they pay or not."""
    monkeypatch.setattr("polytc.rewrite.tidy.transposed_copies.REUSE", 0)
    body = (ROWS[name] if name in ROWS else MIRRORED[name][0]).replace("N", str(SMALL))
    shapes = dict.fromkeys("ATR", (SMALL, SMALL))
    text = f"def f(i32[{SMALL},{SMALL}] A, inout i32[{SMALL},{SMALL}] T, inout i32[{SMALL},{SMALL}] R) -> (T, R) {{\n{body}\n}}"
    p = build(text, shapes, dict.fromkeys("ATR", "i32"))
    found = add_copies(p)
    assert len(found.tensors) > len(p.tensors)
    given = {n: a[:SMALL, :SMALL].copy() for n, a in arrays().items()}
    same(evaluate(found, given), evaluate(p, given))
