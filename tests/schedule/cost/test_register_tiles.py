"""The register tile's decisions, for machines that are only described."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

import polytc
from polytc.compiler import compile_program, lower_program
from polytc.lang import build
from polytc.machine import AVX2, AVX512, NEON, Machine
from polytc.program import program as pr
from polytc.program.program import Program
from polytc.rewrite import table
from polytc.schedule.cost import register_tiles
from polytc.schedule.facts.fusion_groups import coincident_indices
from polytc.schedule.facts.strides import of_statement, panel_width
from polytc.targets.llvm.target import LLVMTarget
from tests.behind import rewritten
from tests.processor_here import target_for

DEPTHWISE = "O[c,h,w] += I[c,h+r,w+s]*W[c,r,s] where h in 0:28, w in 0:28"


def chosen(program: Program, name: str, machine: Machine) -> register_tiles.RegisterTile:
    s = next(x for x in program.statements if x.name == name)
    tile = register_tiles.best(s, of_statement(program, s), coincident_indices(s), machine.lanes(4), machine)
    assert tile is not None
    return tile


@pytest.mark.parametrize("machine", [AVX2, AVX512, NEON])
def test_a_packed_operand_fixes_the_width_of_the_tile(machine: Machine) -> None:
    program = replace(build("C[i,j] += A[i,k]*B[k,j]", {"A": (512, 512), "B": (512, 512)}), constants=("B",))
    packed = table.named("pack").run(program, machine)
    s = packed.statements[-1]
    panel = panel_width(s, "j")
    tile = chosen(packed, s.name, machine)
    assert panel == tile.width * machine.lanes(4)
    assert tile.rows * tile.width + tile.width + 1 <= machine.vector_registers


@pytest.mark.parametrize("machine", [AVX2, AVX512, NEON])
def test_a_stencil_is_straight_code_over_several_rows(machine: Machine) -> None:
    tile = chosen(build(DEPTHWISE, {"I": (32, 30, 30), "W": (32, 3, 3)}), "S1", machine)
    assert (tile.vector, tile.jam, tile.straight) == ("w", "h", 2)
    assert tile.rows > 1


def test_a_long_reduction_stays_a_loop() -> None:
    program = build(DEPTHWISE, {"I": (32, 40, 40), "W": (32, 11, 11)})
    assert not chosen(program, "S1", AVX512).straight


def test_straight_code_keeps_its_results_in_registers() -> None:
    lowered = lower_program(build(DEPTHWISE, {"I": (32, 30, 30), "W": (32, 3, 3)}), LLVMTarget(AVX512))
    text = str(lowered.loops)
    assert "alloc private f32 O_tile[" in text
    assert text.replace("unroll for ", "").count("for ") == 2, "only the loops over channels and over tiles of rows are left"


def test_a_loop_shorter_than_its_panel() -> None:
    x = np.arange(200, dtype=np.float32).reshape(40, 5)
    for extent in (4, 6, 12, 40):
        found = polytc.run(f"T[i] += X[i % 40, j] where i in 0:{extent}", X=x)
        np.testing.assert_array_equal(found, x[:extent].sum(1))


TRANSPOSED = {"A": (500, 70), "B": (500, 90)}


@pytest.mark.parametrize("machine", [AVX2, AVX512, NEON])
def test_an_operand_that_the_reduction_walks_in_long_strides_is_packed_as_high_as_the_tile(machine: Machine) -> None:
    packed = table.named("pack").run(build("C[i,j] += A[k,i]*B[k,j]", {"A": (1500, 1500), "B": (1500, 1500)}), machine)
    s = packed.statements[-1]
    assert {r.tensor for r in pr.reads(s)} == {"A_packed", "B_packed"}
    tile = chosen(packed, s.name, machine)
    assert (panel_width(s, tile.vector), panel_width(s, tile.jam or "")) == (tile.width * machine.lanes(4), tile.rows)


@pytest.mark.part(3)
@pytest.mark.parametrize(("machine", "where"), [
    (AVX2, ""), (AVX2, "where i <= j"), (AVX2, "where i <= k"), (AVX512, ""),
    *(pytest.param(AVX512, where, marks=pytest.mark.long) for where in ("where i <= j", "where i <= k"))])
def test_packed_operands_give_the_same_product(where: str, machine: Machine) -> None:
    program = build(f"C[i,j] += A[k,i]*B[k,j] {where}", TRANSPOSED, dict.fromkeys(TRANSPOSED, "f64"))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape) for shape in TRANSPOSED.values())
    assert any(t.name.endswith("_packed") for t in rewritten(program, machine).tensors)
    out = np.zeros((70, 90))
    compile_program(program, target_for(machine), 1).run([a, b, out])
    k, i, j = np.ogrid[:500, :70, :90]
    inside = np.broadcast_to({"": True, "where i <= j": i <= j, "where i <= k": i <= k}[where], (500, 70, 90))
    np.testing.assert_allclose(out, np.einsum("kij,ki,kj->ij", inside, a, b), rtol=1e-9, atol=1e-9)


def test_one_tensor_read_in_two_places_is_packed_as_well() -> None:
    packed = table.named("pack").run(build("C[i,j] += A[k,i]*A[k,j] where j >= i", {"A": (1500, 1500)}), AVX512)
    assert sum(t.name.startswith("A_packed") for t in packed.tensors) == 2


@pytest.mark.parametrize(("order", "jam"), [("m,h,w", "w"), ("m,w,h", "h")])
def test_rows_of_results_that_are_stored_one_by_one_are_neighbours(order: str, jam: str) -> None:
    """Threads share the other loop and write to lines of their own."""
    program = build(f"O[{order}] += X[c,h+r,w+s] * P[c,r,s,m]", {"X": (128, 17, 17), "P": (128, 2, 2, 64)})
    tile = chosen(program, "S1", AVX512)
    assert (tile.vector, tile.jam) == ("m", jam)


@pytest.mark.part(2)
@pytest.mark.parametrize("text", ["Y[i, i//4, j] += A[k,i] * B[k,j]", "Y[i, j, j//4] += A[k,i] * B[k,j]",
                                  "Y[i, i, j] += A[k,i] * B[k,j]", "Y[i, 23-i, j] += A[k,i] * B[k,j]",
                                  "Y[j, i, 23-j] += A[k,i] * B[k,j]"])
def test_results_that_are_nowhere_in_a_row(text: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (7, 24)).astype(np.float32) for _ in range(2))
    i, j = np.ogrid[:24, :24]
    place = {"Y[i, i//4, j]": (i, i // 4, j), "Y[i, j, j//4]": (i, j, j // 4), "Y[i, i, j]": (i, i, j),
             "Y[i, 23-i, j]": (i, 23 - i, j), "Y[j, i, 23-j]": (j, i, 23 - j)}[text.partition(" +=")[0]]
    found = polytc.run(text, A=a, B=b)
    expected = np.zeros_like(found)
    expected[place] = a.T @ b
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("machine", [AVX2, AVX512])
@pytest.mark.parametrize(("terms", "vector"), [(4, "i"), (16, "i"), (512, "j")])
def test_few_terms_are_no_reason_to_store_results_one_by_one(terms: int, vector: str, machine: Machine) -> None:
    """Vectors run along the results where the sums are short, along an operand where they are long."""
    program = build("C[j,i] += A[i,k] * B[k,j]", {"A": (512, terms), "B": (terms, 512)})
    assert chosen(program, "S1", machine).vector == vector


@pytest.mark.part(6)
@pytest.mark.parametrize("machine", [AVX2, AVX512, NEON])
@pytest.mark.parametrize("constants", ["", "A", "B", "AB"])
@pytest.mark.parametrize("text", ["C[{0},{1}] += A[{0},{2}] * B[{2},{1}]", "C[{0},{1}] += A[{2},{0}] * B[{2},{1}]",
                                  "C[{1},{0}] += A[{0},{2}] * B[{2},{1}]"])
def test_names_of_indices_decide_nothing(text: str, constants: str, machine: Machine) -> None:
    """Which operands are packed in panels of what width, and the tile behind, whichever of them are constant."""
    found = set()
    for names in permutations("imz"):
        program = replace(build(text.format(*names), {"A": (1024, 1024), "B": (1024, 1024)}), constants=tuple(constants))
        packed = table.named("pack").run(program, machine)
        tile = chosen(packed, "S1", machine)
        jam = names.index(tile.jam) if tile.jam is not None else None
        found.add((tuple(t.shape for t in packed.tensors), names.index(tile.vector), jam, tile.rows, tile.width))
    assert len(found) == 1


@pytest.mark.part(2)
@pytest.mark.parametrize("text", ["C[i,j] += A[k//2,i] * B[k,j]", "C[i,j] += A[i,k//2] * B[k%50,j]",
                                  "C[i,j] += A[k%99,i] * B[j,k]"])
def test_operands_that_the_reduction_walks_in_no_even_strides(text: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (100, 100)).astype(np.float32) for _ in range(2))
    k = np.arange(100)
    expected = {"C[i,j] += A[k//2,i] * B[k,j]": a[k // 2].T @ b, "C[i,j] += A[i,k//2] * B[k%50,j]": a[:, k // 2] @ b[k % 50],
                "C[i,j] += A[k%99,i] * B[j,k]": a[k % 99].T @ b.T}[text]
    box = {"A": (100, 100), "B": (100, 100)}
    program = replace(build(f"{text} where k in 0:100, i in 0:100, j in 0:100", box), constants=("A", "B"))
    found = np.zeros((100, 100), np.float32)
    compile_program(program, target_for(AVX2), 1).run([a, b, found])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("rows", "tile"), [(1, (None, 8)), (4, ("b", 3))])
def test_weights_in_panels_are_read_in_the_order_of_memory_where_nothing_is_read_twice(rows: int, tile: tuple[str | None, int]
                                                                                       ) -> None:
    """One row of products goes through a panel as wide as the tile; several rows share what they read."""
    program = build("G[b,p,i] += H[b,k]*R[p,k,i]", {"H": (rows, 512), "R": (32, 512, 64)})
    found = chosen(program, "S1", AVX2)
    assert (found.vector, found.jam, found.width) == ("i", *tile)
