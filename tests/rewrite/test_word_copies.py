"""Words that are made where they are copied: which tensors of words go, and which stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polytc import stages
from polytc.lang import evaluate
from polytc.machine import DEVICES
from polytc.program import program as pr
from polytc.rewrite import word_copies
from polytc.rewrite.dot_words import DotWords, group
from polytc.rewrite.step import Decision
from polytc.rewrite.table import named

GPU = DEVICES["nvidia-sm90"]
MATMUL = "C[i,j] += i32(A[i,k])*i32(B[k,j])"


def words(text: str, shapes: dict[str, tuple[int, ...]], constants: tuple[str, ...] = (), rows: int = 0, tiles: bool = True
          ) -> pr.Program:
    """The program of dot products of words, in tiles, without another decision."""
    program = replace(stages.build(text, shapes, dict.fromkeys(shapes, "i8")), constants=constants)
    made = group(program, Decision(GPU, (DotWords("S1", "dot_i8i8", "k", rows=rows),)))
    return named("local_tiles").run(made, GPU) if tiles else made


def kept(program: pr.Program) -> set[str]:
    """The tensors of words that are left."""
    return {t.name for t in word_copies.inline(program).tensors if t.name.endswith("_words")}


@pytest.mark.parametrize(("text", "shapes", "rows", "left"), [
    (MATMUL, {"A": (128, 64), "B": (64, 128)}, 0, set()),
    (MATMUL, {"A": (256, 128), "B": (128, 256)}, 1, {"B_words"}),
    ("C[i,j] += i32(A[i,k])*i32(B[j,k])", {"A": (256, 128), "B": (256, 128)}, 1, set()),
    (MATMUL, {"A": (128, 66), "B": (66, 128)}, 0, {"A_words", "B_words"}),
    ("C[i,j] += i32(A[i,k])*i32(B[j,k+2]) where k in 0:64", {"A": (128, 64), "B": (128, 68)}, 0, None),
])
def test_which_tensors_stay(text: str, shapes: dict[str, tuple[int, ...]], rows: int, left: set[str] | None) -> None:
    """For a matrix unit those that it does not find in rows; everywhere those with a last word that is no whole one."""
    if left is None:
        with pytest.raises(StopIteration):
            words(text, shapes, rows=rows)
        return
    assert kept(words(text, shapes, rows=rows)) == left


def test_what_is_read_by_itself_is_no_copy() -> None:
    """Words of rows are one access for whoever reads them, those of columns are not."""
    assert kept(words("y[i] += i32(A[i,k])*i32(B[k])", {"A": (128, 64), "B": (64,)}, tiles=False)) == set()
    assert kept(words("y[i] += i32(A[k,i])*i32(B[k])", {"A": (64, 128), "B": (64,)}, tiles=False)) == {"A_words"}


@pytest.mark.parametrize("size", [64, 68])
def test_the_same_numbers(size: int) -> None:
    program = words(MATMUL, {"A": (40, size), "B": (size, 48)}, tiles=False)
    turned = words("C[i,j] += i32(A[i,k])*i32(B[j,k])", {"A": (40, size), "B": (48, size)}, tiles=False)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((40, size), (size, 48)))
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(evaluate(word_copies.inline(program), {"A": a, "B": b})["C"], wanted)
    np.testing.assert_array_equal(evaluate(word_copies.inline(turned), {"A": a, "B": b.T.copy()})["C"], wanted)


def test_words_of_constants_are_made_once() -> None:
    assert kept(words(MATMUL, {"A": (128, 64), "B": (64, 128)}, ("B",))) == {"B_words"}
