"""How groups and items of GPUs divide statements, as lines of a record: followed, combined, refused."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc import decisions, errors
from polytc.machine import GENERIC_GPU
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget

HEAD = f"{decisions.HEAD} {decisions.VERSION}\n"
Shapes = dict[str, tuple[int, ...]]
MATMUL: tuple[str, Shapes] = ("C[i,j] += A[i,k]*B[k,j]", {"A": (130, 150), "B": (150, 140)})
TILED: tuple[str, Shapes] = (MATMUL[0], {"A": (40, 24), "B": (24, 36)})
"""Small, since the interpreter computes it."""
SMALL: tuple[str, Shapes] = (MATMUL[0], {"A": (26, 30), "B": (30, 28)})
ROWS: tuple[str, Shapes] = ("s[i] += X[i,k]", {"X": (100, 3000)})
COLUMNS: tuple[str, Shapes] = ("s[k] += X[i,k]", {"X": (500, 40)})
TURNED: tuple[str, Shapes] = ("Y[j,i] = X[i,j]", {"X": (64, 96)})
FEW: tuple[str, Shapes] = ("s += x[i]", {"x": (60000,)})
LOOPED: tuple[str, Shapes] = (
    "def power(f32[20,400] A, inout f32[20] x, f32[400] w) -> (x) "
    "{ for t in 0:2 { y[i] +=! A[i,j]*w[j]*x[i]; x[i] = y[i]/64 } }", {})
REGISTERS = "local_tiles S1_init: by=registers rows=j,i items={} elements={} along=k steps={}"
TILES = "local_tiles S1_init: by=tiles rows=j,i items={} elements={} along=k steps={}"


@pytest.mark.part(13)
@pytest.mark.parametrize(("program", "line", "shown"), [
    (TILED, TILES.format("8,16", "8,2", 8), ["A_tile[8, 36]", "B_tile[8, 64]"]),
    (TILED, TILES.format("32,4", "4,8", 12), ["A_tile[12, 32]", "B_tile[12, 128]"]),
    (TILED, "local_tiles S1: by=parts along=k steps=3\n" + TILES.format("8,16", "8,2", 4).replace("S1", "S1_parts")
     .replace("k ", "k_at "), ["C_parts[3, 40, 36]", "A_tile[4, 32]"]),
    (SMALL, REGISTERS.format("2,4", "8,2", 6), ["A_own[2, 6]", "B_own[6, 8]"]),
    (SMALL, REGISTERS.format("4,2", "4,4", 4), ["A_own[4, 4]", "B_own[4, 4]", "A_own2[4, 4]"]),
    (SMALL, "local_tiles: none", []),
    (ROWS, "local_tiles S1_init: by=reduction rows=i items=32,4", ["0:32", "0:4"]),
    (ROWS, "local_tiles S1_init: by=reduction items=128,1", ["0:128"]),
    (COLUMNS, "local_tiles S1_init: by=reduction rows=k items=8,16", ["0:8", "0:16"]),
    (TURNED, "local_tiles S1: by=transposition rows=i,j", ["X_tile"]),
    (FEW, "local_tiles S1: by=parts along=i steps=16\nlocal_tiles S1_parts_init: by=reduction items=64,1",
     ["s_parts[16]", "0:64"]),
    (FEW, "local_tiles S1: by=blocks", ["s_sums["]),
    (LOOPED, "work_groups_in_loops S1_init: by=reduction rows=i items=32,4", ["y_part[4, 32]"]),
])
def test_a_line_is_followed(program: tuple[str, Shapes], line: str, shown: list[str]) -> None:
    """It is found in the loops, and in the record, and computes what the program does."""
    text, shapes = program
    lowered = polytc.lower(text, OpenCLTarget(), shapes=shapes, decisions=HEAD + line)
    assert [x for x in line.splitlines() if x not in str(lowered.decisions)] == []
    assert [x for x in shown if x not in str(lowered.loops)] == []
    if not shown:
        assert "_tile" not in str(lowered.loops)
    built = polytc.build(text, shapes)
    rng = np.random.default_rng(1)
    arrays = {n: rng.integers(-4, 5, built.tensor(n).shape).astype("f4") for n in built.inputs}
    expected = polytc.evaluate(text, **{n: a.copy() for n, a in arrays.items()})
    found = polytc.compile(text, InterpTarget(GENERIC_GPU), shapes=shapes or None, decisions=HEAD + line)(**arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(("program", "line", "words"), [
    (MATMUL, "local_tiles S1_init: by=luck",
     "`by` is blocks, parts, atomics, tiles, matrix, registers, reduction, transposition"),
    (MATMUL, "local_tiles S1: by=blocks", "there is no long sum S1"),
    (MATMUL, "local_tiles S1: by=parts along=j steps=2", "groups may divide S1 along k"),
    (MATMUL, "local_tiles S1: by=parts along=k steps=76", "there may be 2 to 75 parts along k"),
    (MATMUL, "local_tiles S7: by=reduction items=4,1", "no group of statements begins with S7"),
    (MATMUL, "local_tiles S1_init: by=tiles rows=k,i items=8,8 elements=4,4 along=k steps=8", "the shared loops are i, j"),
    (MATMUL, "local_tiles S1_init: by=tiles rows=i,j items=8,8 elements=4,4 along=k steps=8", "`rows` is j,i"),
    (MATMUL, TILES.format("8", "4,4", 8), "`items` and `elements` have a number for each of `rows`"),
    (MATMUL, TILES.format("32,32", "4,4", 8), "`items` are 1 to 256 in all"),
    (MATMUL, TILES.format("8,8", "3,4", 8), "elements along j are a multiple of 4"),
    (MATMUL, TILES.format("8,8", "4,4", 151), "`along` and `steps` are some of k of 150 steps"),
    (MATMUL, TILES.format("16,16", "4,4", 150), "fit local memory"),
    (MATMUL, REGISTERS.format("8,8", "8,4", 150), "an item would keep 1800 elements of the operands, and 256 at most"),
    (MATMUL, "local_tiles S1_init: by=transposition rows=j,i", "there is nothing to transpose"),
    (TURNED, "local_tiles S1: by=transposition rows=j,i", "`rows` is i,j"),
    (TURNED, "local_tiles S1: by=reduction rows=i items=8,2", "it is no group of statements around reductions"),
    (TURNED, "local_tiles S1: by=tiles rows=j,i items=8,8 elements=4,4 along=k steps=8", "it is no contraction"),
    (ROWS, "local_tiles S1_init: by=reduction rows=i items=48,2", "`items` is two powers of two"),
    (ROWS, "local_tiles S1_init: by=reduction items=32,4", "the other axis has up to 128 items, along i"),
])
def test_what_does_not_fit_is_told(program: tuple[str, Shapes], line: str, words: str) -> None:
    with pytest.raises(errors.CompileError) as raised:
        polytc.lower(program[0], OpenCLTarget(), shapes=program[1], decisions=HEAD + line)
    assert raised.value.code == "E710"
    assert words in str(raised.value)
    assert "^" in str(raised.value)
