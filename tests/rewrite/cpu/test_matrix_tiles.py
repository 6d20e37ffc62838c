"""Words in the order in which a matrix unit loads them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polytc.lang import build
from polytc.machine import AVX512
from polytc.program import program as pr
from polytc.rewrite import dot_words
from polytc.rewrite.cpu import matrix_tiles, pack
from tests.rewrite.equal import same_results

VNNI = replace(AVX512, features="+avx512vnni,+avx512bf16,+avx512vl,+avx512bw")
AMX = replace(VNNI, features=VNNI.features + ",+amx-tile,+amx-int8,+amx-bf16")
MATMUL = "C[i,j] += i32(A[i,k]) * i32(B[k,j])"
IMAGE = "O[h,w,m] += i32(X[h+r,w+s,c]) * i32(W[r,s,c,m]) where h in 0:{h}, w in 0:{w}"


def in_words(text: str, shapes: dict[str, tuple[int, ...]], dtypes: tuple[str, str]) -> pr.Program:
    program = build(text, shapes, dict(zip(shapes, dtypes, strict=True)))
    return dot_words.group(program, dot_words.decide(program, AMX))


def tiled(program: pr.Program) -> pr.Program:
    return matrix_tiles.lay_out(program, matrix_tiles.decide(program, AMX))


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (70, 90, 150), (17, 33, 130), (9, 100, 64)])
@pytest.mark.parametrize("dtypes", [("u8", "i8"), ("i8", "i8"), ("bf16", "bf16")], ids="-".join)
def test_matrices_mean_the_same(m: int, n: int, k: int, dtypes: tuple[str, str]) -> None:
    """Also where blocks are not full, and words are put together from what is left; bytes of one sign are summed as well."""
    text = MATMUL.replace("i32", "f32") if dtypes[0] == "bf16" else MATMUL
    before = in_words(text, {"A": (m, k), "B": (k, n)}, dtypes)
    after = tiled(before)
    assert after != before
    same_results(before, after)


@pytest.mark.parametrize(("h", "w", "c", "m"), [(3, 14, 64, 48), (2, 30, 70, 20)])
def test_images_mean_the_same(h: int, w: int, c: int, m: int) -> None:
    """Windows overlap, so that an image is in no blocks of rows; the weights are, panel by panel, in the order of the sum."""
    before = in_words(IMAGE.format(h=h, w=w), {"X": (h + 2, w + 2, c), "W": (3, 3, c, m)}, ("u8", "i8"))
    after = tiled(before)
    assert after.tensor("X_words").shape == (h + 2, w + 2, -(-c // 64), 16)
    assert after.tensor("W_words").shape[1:3] == (3, 3)
    assert after.tensor("W_words").shape[-2] == 16
    same_results(before, after)


def test_columns_that_windows_move_keep_their_order() -> None:
    """An image with its rows last: its words lie across, beside those of the next pixel."""
    text = "O[m,h,w] += i32(W[r,s,c,m]) * i32(X[c,h+r,w+s]) where h in 0:4, w in 0:20"
    before = in_words(text, {"W": (3, 3, 64, 40), "X": (64, 6, 22)}, ("i8", "u8"))
    after = tiled(before)
    assert after.tensor("X_words").shape == (1, 16, 6, 22)
    same_results(before, after)


def test_tensors_that_others_use_stay_as_they_are() -> None:
    """Of a machine that has the unit, temporaries alone, and those that others read whole."""
    program = in_words(MATMUL, {"A": (64, 64), "B": (64, 64)}, ("u8", "i8"))
    assert matrix_tiles.decide(program, AMX).choices
    assert not matrix_tiles.decide(program, VNNI).choices
    shown = replace(program, outputs=(*program.outputs, "A_words"))
    assert not matrix_tiles.decide(shown, AMX).choices


def test_what_lies_in_tiles_is_not_packed() -> None:
    program = tiled(in_words(MATMUL, {"A": (256, 512), "B": (512, 256)}, ("u8", "i8")))
    assert not pack.decide(program, AMX).choices


def test_what_fits() -> None:
    program = in_words(MATMUL, {"A": (70, 128), "B": (128, 90)}, ("u8", "i8"))
    own, = matrix_tiles.decide(program, AMX).choices
    assert own == matrix_tiles.Tiles("S1", "k", "i", 24, "j", 32)
    assert [option.choices for option in matrix_tiles.options(program, AMX)[0]] == [(), (own,)]
    for tiles, told in ((own, ""), (replace(own, high=0), ""), (replace(own, along="i"), "along is 'k'"),
                        (replace(own, rows="j"), "rows is 'i'"), (replace(own, columns="k"), "columns is 'j'"),
                        (replace(own, high=33), "high is 32 at most, and wide a multiple of 16 below 106, or 0"),
                        (replace(own, wide=20), "high is 32 at most, and wide a multiple of 16 below 106, or 0"),
                        (replace(own, statement="S1_init"),
                         "S1_init is no sum of dot products of words that a matrix unit does")):
        assert matrix_tiles.fits(program, AMX, tiles) == told
    assert matrix_tiles.fits(program, VNNI, own).startswith("S1 is no sum")
    for other in (replace(own, high=0), replace(own, wide=0), replace(own, high=7, wide=48)):
        same_results(program, matrix_tiles.lay_out(program, replace(matrix_tiles.decide(program, AMX), choices=(other,))))
