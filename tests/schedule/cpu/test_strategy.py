"""Tiles of groups on CPUs: which loop becomes vectors, what fits the registers, and that the nest has each statement."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from polytc.compiler import lower_program
from polytc.machine import AVX2, AVX512, NEON, Machine
from polytc.poly import nest
from polytc.schedule.cpu import given_tiles, strategy
from polytc.schedule.cpu.tile import Tile
from polytc.schedule.facts.fusion_groups import partition
from polytc.stages import build
from polytc.targets.llvm.target import LLVMTarget

MATMUL = "C[i,j] += A[i,k]*B[k,j]"


def tile(text: str, shapes: dict[str, tuple[int, ...]], machine: Machine) -> strategy.Tile:
    program = build(text, shapes)
    (group,) = partition(program, "smart")
    return strategy.choose_tile(program, group, machine)


@pytest.mark.parametrize("machine", [AVX2, AVX512, NEON])
def test_accumulators_of_a_product_fit_the_registers(machine: Machine) -> None:
    found = tile(MATMUL, {"A": (512, 512), "B": (512, 512)}, machine)
    lanes = machine.vector_bytes // 4
    assert found.vector == 1, "along j, in which C and B are contiguous"
    assert found.sizes[1] % lanes == 0
    assert 4 <= prod(found.sizes) // lanes < machine.vector_registers
    assert sorted(found.order) == [0, 1]


def test_what_runs_once_is_not_transposed_in_registers() -> None:
    """The code would be long, and hardly faster."""
    program = build("Y[j,i] = X[i,j]", {"X": (512, 512)})
    (group,) = partition(program, "smart")
    often, once = (strategy.choose_tile(p, group, AVX512) for p in (program, replace(program, once=True)))
    assert (often.sizes, once.sizes) == ((16, 16), (1, 16))
    assert (often.vector, often.order, often.caches) == (once.vector, once.order, once.caches)
    texts = [str(lower_program(p, LLVMTarget(AVX512)).source) for p in (program, replace(program, once=True))]
    assert [text.count("shufflevector") for text in texts] == [64, 0]
    assert texts[1].count("\n") + 64 < texts[0].count("\n")


@pytest.mark.parametrize(("text", "vector"), [
    ("Y[i,j] = X[i,j]*2", 1), ("Y[j,i] = X[j,i]*2 + X[i,j]", 1), ("Y[i,j] = X[i,0]*2 where j in 0:500", 1),
    ("S[j] += X[i,j]", 0)])
def test_vectors_run_where_accesses_are_contiguous(text: str, vector: int) -> None:
    assert tile(text, {"X": (500, 500)}, AVX2).vector == vector


def test_scans_down_the_rows_take_several_lines_of_each() -> None:
    """Strips of 16 columns met another page at each step: 3 to 5 times slower."""
    text = "def f(f32[M,N] X) -> (f32[M,N] Y) { Y[i,j] += X[k,j] where k <= i }"
    loops = str(lower_program(build(text, {"X": (2000, 2000)}), LLVMTarget(AVX2)).loops)
    assert "* 64)" in loops


@pytest.mark.parametrize(("text", "order"), [
    ("Y[c,p] = X[p,c]", (1, 0)), ("Y[c,p] = X[p,2-c] where c in 0:3", (1, 0)), ("Y[p,c] = X[p,c]*2", (0, 1))])
def test_channels_that_images_have_side_by_side_run_innermost(text: str, order: tuple[int, ...]) -> None:
    """LLVM makes vectors of the pixels around; with the channels outside it loads them one by one (16 times slower)."""
    assert tile(text, {"X": (5000, 3)}, AVX2).order == order


def test_the_nest_has_each_statement_once() -> None:
    program = build(f"{MATMUL}; D[i,j] = max(C[i,j], 0); s[i] += D[i,j]", {"A": (40, 41), "B": (41, 42)})
    found = strategy.nest(program, AVX2, prefix="Part")
    assert sorted(nest.statements(found)) == sorted(s.name for s in program.statements)
    names = [n.name for n in walk(found) if isinstance(n, nest.Band)]
    assert all(name.startswith("Part") for name in names)
    assert len(set(names)) == len(names)


def walk(n: nest.Nest):
    yield n
    for child in n.children if isinstance(n, nest.Sequence) else (n.child,) if isinstance(n, nest.Band) else ():
        yield from walk(child)


@pytest.mark.parametrize(("text", "shapes"), [
    (MATMUL, {"A": (512, 512), "B": (512, 512)}), (MATMUL, {"A": (40, 4000), "B": (4000, 3000)}),
    ("Y[i,j] = X[j,i]", {"X": (300, 400)}), ("O[i,j] += X[i+r,j+s]*W[r,s]", {"X": (66, 66), "W": (3, 3)})])
def test_a_tile_is_what_its_line_says(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    program = build(text, shapes)
    (group,) = partition(program, "smart")
    found = strategy.choose_tile(program, group, AVX2)
    assert isinstance(found, Tile)
    assert given_tiles.read(group, given_tiles.written(group, found)) == found
