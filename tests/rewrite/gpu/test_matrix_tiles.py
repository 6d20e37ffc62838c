"""Contractions for matrix units: which index is summed, numbers that are copied at once, and how records say it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

import polytc
from polytc import decisions, errors, stages
from polytc.machine import DEVICES, GENERIC_GPU, MatrixUnit
from polytc.rewrite import dot_words
from polytc.rewrite.gpu import contraction_tiles, matrix_tiles
from polytc.rewrite.step import Decision
from polytc.schedule.facts.fusion_groups import is_contraction, partition
from polytc.targets.cuda.target import CudaTarget

GPU = DEVICES["nvidia-sm90"]
MATMUL = "C[i,j] += A[i,k]*B[k,j]"
Shapes = dict[str, tuple[int, ...]]
HALVES = matrix_tiles.Numbers(2, 9.6)


def contraction(text: str, shapes: Shapes, dtype: str = "f16"):
    program = stages.build(text, shapes, dict.fromkeys(shapes, dtype))
    group = next(g for g in partition(program, "smart") if any(map(is_contraction, g.statements)))
    return program, group, next(s for s in group.statements if is_contraction(s))


@pytest.mark.parametrize(("text", "shapes", "x", "y", "along"), [
    (MATMUL, {"A": (64, 64), "B": (64, 64)}, "j", "i", "k"),
    ("C[i,j] += A[k,i]*B[j,k]", {"A": (64, 64), "B": (64, 64)}, "j", "i", "k"),
    ("O[n,m,h,w] += X[n,c,h+r,w+s]*W[m,c,r,s]", {"X": (2, 32, 34, 34), "W": (32, 32, 3, 3)}, "w", "m", "c"),
    ("O[n,h,w,m] += X[n,2*h+r,2*w+s,c]*W[r,s,c,m]", {"X": (2, 35, 35, 32), "W": (3, 3, 32, 32)}, "m", "w", "c"),
    ("O[n,m,h,w] += X[n,c,2*h+r,2*w+s]*W[m,c,r,s]", {"X": (2, 32, 35, 35), "W": (32, 32, 3, 3)}, "w", "m", ""),
    ("O[i,j] += A[i+k]*B[k,j] where i in 0:64, k in 0:64", {"A": (127,), "B": (64, 64)}, "j", "i", ""),
    ("C[i,j] += A[i,2*k]*B[k,j]", {"A": (64, 127), "B": (64, 64)}, "j", "i", ""),
    ("C[i,j] += (A[i,k-1] else 1)*B[k,j] where k in 0:64", {"A": (64, 64), "B": (64, 64)}, "j", "i", ""),
    ("C[i,j] += A[i,k]*B[k,j]*2", {"A": (64, 64), "B": (64, 64)}, "j", "i", ""),
    ("C[i,j] += A[i,k]*B[j,k]*A[j,k]", {"A": (64, 64), "B": (64, 64)}, "j", "i", ""),
])
def test_what_is_summed(text: str, shapes: Shapes, x: str, y: str, along: str) -> None:
    program, _, s = contraction(text, shapes)
    assert matrix_tiles.steps_along(program, s, s.where, x, y, GPU) == along


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_wider_floats_are_not(dtype: str) -> None:
    program, _, s = contraction(MATMUL, {"A": (64, 64), "B": (64, 64)}, dtype)
    assert matrix_tiles.steps_along(program, s, s.where, "j", "i", GPU) == ""


@pytest.mark.parametrize("unit", [None, MatrixUnit(16, 8, 8, ("f16", "bf16"), 9.6), MatrixUnit(16, 8, 16, ("bf16",), 9.6)])
def test_other_units(unit: MatrixUnit | None) -> None:
    program, _, s = contraction(MATMUL, {"A": (64, 64), "B": (64, 64)})
    assert matrix_tiles.steps_along(program, s, s.where, "j", "i", replace(GPU, matrix_unit=unit)) == ""


@pytest.mark.parametrize(("text", "shapes", "x", "along", "lanes"), [
    (MATMUL, {"A": (64, 64), "B": (64, 64)}, "j", "k", (8, 8)),
    (MATMUL, {"A": (65, 68), "B": (68, 66)}, "j", "k", (2, 4)),
    (MATMUL, {"A": (64, 63), "B": (63, 64)}, "j", "k", (8, 1)),
    ("O[n,m,h,w] += X[n,c,h+r,w+s]*W[m,c,r,s]", {"X": (2, 32, 34, 34), "W": (32, 32, 3, 3)}, "w", "c", (1, 1)),
    ("O[n,h,w,m] += X[n,h+r,w+s,c]*W[r,s,c,m]", {"X": (2, 34, 34, 32), "W": (3, 3, 32, 32)}, "m", "c", (8, 8)),
    ("C[i,j] += A[i,k+4]*B[k,j] where k in 0:64", {"A": (64, 72), "B": (64, 64)}, "j", "k", (8, 4)),
])
def test_numbers_that_are_copied_at_once(text: str, shapes: Shapes, x: str, along: str, lanes: tuple[int, int]) -> None:
    program, _, s = contraction(text, shapes)
    assert matrix_tiles.lanes(program, s, along, x) == lanes


@pytest.mark.parametrize(("extent", "whole", "rows", "columns", "steps", "why"), [
    (4096, False, 128, 128, 32, ""), (16, False, 128, 128, 16, ""), (48, True, 128, 128, 16, ""), (40, True, 128, 128, 0, ""),
    (4096, False, 128, 256, 16, "two copies of longer tiles do not fit"),
    (4096, False, 16 * 127 + 1, 128, 0, "nor do rows with a stride of 16")])
def test_steps(extent: int, whole: bool, rows: int, columns: int, steps: int, why: str) -> None:
    assert matrix_tiles.steps(extent, whole, lambda n: [(n, columns), (1, rows, n)], GPU, HALVES) == steps, why


def test_estimates_grow_with_what_there_is_to_do() -> None:
    def time(elements: tuple[int, int], lanes: int = 8, stride: int = 1) -> float:
        boxes = [(32, 8 * elements[0]), (stride * (16 * elements[1] - 1) + 1, 32)]
        return matrix_tiles.time((4, 16, 2), elements, boxes, (lanes, lanes), 32, GPU, HALVES)
    assert all(a < b for a, b in pairwise(time(e) for e in ((4, 2), (8, 2), (8, 4), (16, 8))))
    assert time((16, 8), 8) < time((16, 8), 1)
    assert time((16, 8)) < time((16, 8), stride=16)


@pytest.mark.part(2)
@pytest.mark.parametrize("stride", [2, 5, 16])
def test_windows_far_apart_fit_local_memory(stride: int) -> None:
    """A step copies what lies between them, too, of which there may be too much for tiles of many rows."""
    shapes = {"X": (8, 600 * stride + 2, 64), "W": (stride + 2, 64, 128)}
    made = polytc.lower(f"O[n,w,m] += X[n,{stride}*w+s,c]*W[s,c,m]", CudaTarget(), shapes=shapes,
                        dtypes=dict.fromkeys(shapes, "f16"))
    assert 0 < int(made.source.options["local_bytes"]) <= GPU.local_bytes, "tiles that do not fit are none"


@pytest.mark.parametrize("name", ["nvidia-sm80", "nvidia-sm86", "nvidia-sm89", "nvidia-sm90"])
def test_large_products_take_the_unit(name: str) -> None:
    program, group, _ = contraction(MATMUL, {"A": (2048, 2048), "B": (2048, 2048)})
    found = contraction_tiles.choose(program, group, DEVICES[name])
    assert found is not None
    assert found.matrix
    times = contraction_tiles.seconds(program, group, DEVICES[name])
    assert times is not None
    assert 1e-5 < times[0] < times[1] < 1e-1


def test_words_have_half_as_many_steps_for_the_bytes_of_halves() -> None:
    words = matrix_tiles.Numbers(4, GPU.matrix_unit.bytes_faster / 4 if GPU.matrix_unit else 0.0)
    assert (HALVES.steps, words.steps) == ((32, 16), (16, 8))
    assert matrix_tiles.steps(1024, False, lambda n: [(n, 128), (128, n)], GPU, words) == 16
    boxes = [(8 * 16, 16), (16 * 8, 16)]
    half, byte = (matrix_tiles.time((4, 16, 2), (16, 8), boxes, (lanes, lanes), n, GPU, of) / steps
                  for of, lanes, n, steps in ((HALVES, 8, 32, 1), (words, 4, 16, 4)))
    assert byte < half, "of a product of bytes, four of which are a step"


@pytest.mark.parametrize(("text", "shapes", "along"), [
    ("C[i,j] += i32(A[i,k])*i32(B[j,k])", {"A": (64, 64), "B": (64, 64)}, "k"),
    ("C[i,j] += i32(A[k,i])*i32(B[j,k])", {"A": (64, 64), "B": (64, 64)}, ""),
    ("C[i,j] max= i32(A[i,k])*i32(B[j,k])", {"A": (64, 64), "B": (64, 64)}, ""),
])
def test_words_lie_along_the_sum(text: str, shapes: Shapes, along: str) -> None:
    """Words of what lies otherwise are for items alone, as blocks of words cannot be transposed."""
    program = stages.build(text, shapes, {"A": "i8", "B": "i8"})
    dots = [dot_words.DotWords("S1", "dot_i8i8", "k")] if "max" not in text else []
    program = dot_words.group(program, Decision(GPU, tuple(dots)))
    s = program.statement("S1")
    assert matrix_tiles.steps_along(program, s, s.where, "j", "i", GPU) == along


def test_no_unit_no_products() -> None:
    program, group, _ = contraction(MATMUL, {"A": (2048, 2048), "B": (2048, 2048)})
    found = contraction_tiles.choose(program, group, GENERIC_GPU)
    assert found is not None
    assert not found.matrix
    assert contraction_tiles.seconds(program, group, GENERIC_GPU) is None


LINE = "local_tiles S1_init: by=matrix rows={} items={} elements={} along={} steps={}"


def lowered(line: str, text: str = MATMUL, dtype: str = "f16", sizes: tuple[int, int] = (256, 256)) -> str:
    shapes = {"A": sizes, "B": sizes}
    return polytc.lower(text, CudaTarget(), shapes=shapes, dtypes=dict.fromkeys(shapes, dtype),
                        decisions=decisions.read(f"polytc decisions 1\n{line}")).source.text


def test_a_record_says_how_warps_divide() -> None:
    text = lowered(LINE.format("j,i", "4,16,2", "8,4", "k", 16))
    assert "block 4 x 16 x 2" in text
    assert "polytc_multiply_half(" in text
    tiles = lowered("local_tiles S1_init: by=tiles rows=j,i items=16,16 elements=4,4 along=k steps=16")
    assert "polytc_multiply_half(" not in tiles


@pytest.mark.parametrize(("line", "words"), [
    (LINE.format("j,i", "8,16,2", "8,4", "k", 16), "`items` are 4, a multiple of 8"),
    (LINE.format("j,i", "4,12,2", "8,4", "k", 16), "`items` are 4, a multiple of 8"),
    (LINE.format("j,i", "4,16", "8,4", "k", 16), "`items` are 4, a multiple of 8"),
    (LINE.format("j,i", "4,16,2", "6,4", "k", 16), "a multiple of 4 columns and of 2 rows"),
    (LINE.format("j,i", "4,16,2", "8,4", "k", 20), "`steps` are a multiple of 16"),
    (LINE.format("i,j", "4,16,2", "8,4", "k", 16), "`rows` is j,i"),
    (LINE.format("j,i", "4,64,2", "16,8", "k", 64), "operands of"),
])
def test_what_does_not_fit_is_told(line: str, words: str) -> None:
    with pytest.raises(errors.CompileError) as raised:
        lowered(line)
    assert raised.value.code == "E710"
    assert words in str(raised.value)


def test_f32_refuses_the_unit() -> None:
    with pytest.raises(errors.CompileError, match="a matrix unit may not do it"):
        lowered(LINE.format("j,i", "4,16,2", "8,4", "k", 16), dtype="f32")
