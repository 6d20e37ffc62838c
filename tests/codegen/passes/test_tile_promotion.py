"""Register tiles: random regions of copies keep their results; the array has the shape of the tile, and room for all lanes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes import tile_promotion, unrolling
from polytc.codegen.passes.scalar_replacement import promote_kernel
from polytc.codegen.verify import verify_kernel
from polytc.compiler import lower_program
from polytc.machine import AVX2, AVX512, Machine
from polytc.program.scalars import F32
from polytc.targets.llvm.target import LLVMTarget
from tests.codegen import loop_programs as P
from tests.codegen.loop_steps import arrays_of, results
from tests.codegen.loop_text import statements

C, A, B = (L.Buffer(name, F32, (12, 40)) for name in "CAB")


def promoted(text: str) -> L.Kernel:
    """The kernel after the pass; checks its form, and that results stay, with copies as loops and written out."""
    body = statements(text, {"C": C, "A": A, "B": B})
    kernel = P.module("m", (A, B, C), ("C",), body).kernels[0]
    made = verify_kernel(promote_kernel(kernel, AVX512, frozenset()))
    wanted = results(body, arrays_of(A, B, C))["C"]
    np.testing.assert_array_equal(results(made.body, arrays_of(A, B, C))["C"], wanted)
    np.testing.assert_array_equal(results(unrolling.written_out(made.body), arrays_of(A, B, C))["C"], wanted)
    assert all(is_row(i) for i in tile_accesses(made)), "elsewhere than in a row a vector is as many loads as it has lanes"
    return made


def tile_accesses(k: L.Kernel) -> list[tuple[L.Expr, ...]]:
    """The indices of all accesses of arrays that stand for tiles."""
    stores = [s for s in traverse.walk_stmt(k.body) if isinstance(s, L.Store)]
    loaded = [e for s in stores for top in traverse.expressions(s) for e, _ in traverse.loads(top)]
    return [x.indices for x in [*stores, *loaded] if x.buffer.space == "private"]


def is_row(indices: tuple[L.Expr, ...]) -> bool:
    """Does an access take an element, or neighbours in a row?"""
    return all(i.lanes == 1 for i in indices[:-1]) and all(i.stride == 1 for i in indices[-1:] if isinstance(i, L.Ramp))


def arrays(k: L.Kernel) -> list[tuple[int, ...]]:
    return [s.buffer.shape for s in traverse.walk_stmt(k.body) if isinstance(s, L.Alloc)]


def copies(k: L.Kernel) -> int:
    return sum(map(unrolling.is_copies, traverse.walk_stmt(k.body)))


def update(place: str, value: str = "A[0, k]") -> str:
    return f"C[{place}] = C[{place}] + {value}"


def test_a_tile_is_one_array_and_stays_loops_of_copies() -> None:
    made = promoted("for i in 0:2 { for k in 0:9 { unroll for r in 0:6 { unroll for c in 0:16:8 {"
                    + update("i*6 + r, ramp(c, 1, 8)", "x8(A[r, k]) * B[k, ramp(c, 1, 8)]") + "} } } }")
    assert arrays(made) == [(6, 16)]
    assert copies(made) == 6, "of the loads before, the updates, and the stores behind"


def test_a_form_is_what_the_copies_of_an_access_touch() -> None:
    nest = [P.loop(v, n, L.block()) for v, n in (("r", 2), ("c", 3), ("unused", 4))]
    r, c, i = L.Var("r"), L.Var("c"), L.Var("i")
    made = tile_promotion.form((P.add(i, r), L.Ramp(P.add(c, r), 1, 8)), 8, nest)
    assert made is not None
    assert [x.var for x in made.copies] == ["r", "c"]
    assert made.slots == tuple((a, a + b) for a in range(2) for b in range(3))
    assert made.spans == (1, 8)


def test_masked_vectors_have_room_for_all_lanes() -> None:
    made = promoted("for k in 0:9 { unroll for r in 0:6 { " + update("r, ramp(0, 1, 8)", "x8(A[r, k])") + "; "
                    + update("r, ramp(8, 1, 8, active 3)", "x8(A[r, k])") + "} }")
    assert arrays(made) == [(6, 16)]


def test_vectors_across_memory_are_rows_of_the_array() -> None:
    made = promoted("for k in 0:9 { unroll for r in 0:6 { " + update("ramp(0, 1, 8), r", "x8(A[r, k])") + "} }")
    assert arrays(made) == [(6, 8)]


@pytest.mark.part(4)
@pytest.mark.parametrize(("rows", "columns"), [(1152, 49), (128, 49), (2048, 49), (192, 196), (64, 33)])
@pytest.mark.parametrize("machine", [AVX2, AVX512], ids=["avx2", "avx512"])
def test_a_product_with_lanes_along_its_rows_adds_up_in_rows(rows: int, columns: int, machine: Machine) -> None:
    """A 1x1 convolution of a small image: the weights are packed along the features, which lie far apart in the result."""
    program = polytc.lower("O[m,p] += W[m,c]*I[c,p]", shapes={"W": (rows, 192), "I": (192, columns)}).program
    module = lower_program(replace(program, constants=("W",)), LLVMTarget(machine)).loops
    tiles = [x for k in module.kernels for x in tile_accesses(k)]
    assert tiles
    assert all(is_row(i) for i in tiles)


@pytest.mark.parametrize("text", [
    "for k in 0:9 { unroll for r in 0:6 { " + update("ramp(0, 1, 8), r", "x8(A[r, k])") + "; "
    + update("8, ramp(0, 1, 8)", "x8(A[r, k])") + "} }",
    "for k in 0:9 { unroll for r in 0:6 { " + update("r, ramp(0, 2, 8)", "x8(A[r, k])") + "} }",
    "for k in 0:9 { unroll for r in 0:6 { " + update("r, 0") + "; " + update("r + 1, 0") + "} }",
    "for k in 0:9 { unroll for r in 0:6 { " + update("r, ramp(0, 1, 8)", "x8(A[r, k])") + "; " + update("r, 4") + "} }",
    "for i in 0:3 { for k in 0:9 { unroll for r in 0:6 { " + update("r, 0") + "; " + update("i, r + 1") + "} } }",
    "for k in 0:9 { unroll for r in 0:6 { " + update("2*r, 0") + "}; unroll for r in 0:3 { " + update("r + 1, 0") + "} }"],
    ids=["both ways", "every second", "shifted", "lanes and an element", "two bases", "in part the same"])
def test_what_is_no_tile_is_written_out(text: str) -> None:
    assert not copies(promoted(text))


def test_what_is_stored_first_is_not_loaded() -> None:
    made = promoted("for i in 0:2 { unroll for r in 0:6 { C[i*6 + r, 0] = 1.0 }; for k in 0:9 { unroll for r in 0:6 { "
                    + update("i*6 + r, 0") + "} } }")
    assert arrays(made) == [(6,)]
    loaded = [e for s in traverse.walk_stmt(made.body) for top in traverse.expressions(s) for e, _ in traverse.loads(top)]
    assert not any(e.buffer.name == "C" for e in loaded)


@pytest.mark.part(2)
@pytest.mark.parametrize("seed", range(80))
def test_random_regions_keep_their_results(seed: int) -> None:
    """Nests of copies that cross, shift, mask, repeat and update each other's elements, around and inside of loops."""
    rng = random.Random(seed)

    def place(loops: list[str]) -> str:
        row = " + ".join([*(f"{rng.choice((1, 1, 2))}*{v}" for v in loops if rng.random() < .7), str(rng.randrange(2))])
        column = " + ".join([*(v for v in loops if rng.random() < .5), str(8 * rng.randrange(2))])
        lanes = rng.choice(("", "8", "8", "8, active 5"))
        if lanes and rng.random() < .2:
            return f"ramp({' + '.join(v for v in loops if rng.random() < .5) or '0'}, 1, 8), {column}"
        return f"{row}, ramp({column}, {rng.choice((1, 1, 1, 2))}, {lanes})" if lanes else f"{row}, {column}"

    def store(loops: list[str]) -> str:
        at = place(loops)
        wide = "ramp" in at
        term = rng.choice(("A[0, k]", "A[1, 2]", f"B[0, {loops[-1]}]" if loops else "B[0, 1]", "2.0"))
        old = f"C[{at}]" if rng.random() < .7 else "x8(1.0)" if wide else "1.0"
        return f"C[{at}] = {old} + {f'x8({term})' if wide else term}"

    def nest(depth: int) -> str:
        names = [f"u{n}" for n in range(depth)]
        stores = "; ".join(store(names) for _ in range(rng.choice((1, 1, 2))))
        for name in reversed(names):
            stores = f"unroll for {name} in {rng.randrange(2)}:{rng.randrange(2, 4)} {{ {stores} }}"
        return stores

    body = "; ".join(nest(rng.randrange(3)) for _ in range(rng.randrange(1, 4)))
    promoted(f"for k in 0:3 {{ {body} }}")
