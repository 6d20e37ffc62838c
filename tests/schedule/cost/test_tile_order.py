"""The order of tile loops and the blocks of reductions, for caches that are only described."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polytc.lang import build
from polytc.machine import AVX2, Machine
from polytc.program import program as pr
from polytc.schedule.cost import tile_order


def with_second(size: int) -> Machine:
    first, second, *others = AVX2.caches
    return replace(AVX2, caches=(replace(first, bytes=4096), replace(second, bytes=size), *others))


@pytest.mark.parametrize(("second", "size"), [(1 << 20, None), (4 * 4 * 16 * 1024, None), (4 * 4 * 16 * 1024 - 1, 512),
                                              (4 * 4 * 16 * 512, 512), (4 * 4 * 16 * 128, 128), (4 * 4 * 16 * 16, 16),
                                              (4 * 4 * 16 * 15, None)])
def test_a_reduction_is_cut_where_what_the_innermost_loop_reuses_fills_a_quarter_of_it(second: int, size: int | None) -> None:
    """16 columns of B, of which a block takes a quarter at most; the block lies inside of the loop over columns."""
    program = build("C[i,j] += A[i,k] * B[k,j]", {"A": (512, 1024), "B": (1024, 512)})
    s, sizes = program.statements[-1], {"i": 6, "j": 16}
    found = tile_order.block(program, s, sizes, (1, 0), with_second(second))
    assert found == (None if size is None else tile_order.Block("S1", "k", size, 1))


@pytest.mark.parametrize(("shapes", "order"), [
    ({"A": (512, 64), "B": (64, 512)}, ("j", "i")),            # a tile of A has 6 rows, one of B 16 columns: A is replaced
    ({"A": (6, 64), "B": (64, 512)}, ("i", "j")),              # one tile of rows
    ({"A": (512, 64), "B": (64, 16)}, ("j", "i")),
    ({"A": (6, 64), "B": (64, 16)}, ("i", "j")),
])
def test_the_innermost_loop_replaces_the_fewest_bytes(shapes: dict[str, tuple[int, ...]], order: tuple[str, ...]) -> None:
    program = build("C[i,j] += A[i,k] * B[k,j]", shapes)
    rows = tile_order.of_tiles(program, program.statements[-1], {"i": 6, "j": 16}, AVX2)
    assert tuple("ij"[r] for r in rows) == order


@pytest.mark.parametrize(("shapes", "order"), [
    ({"A": (64, 64), "B": (64, 64, 32)}, (2, 0, 1)),           # A is read in 2 tiles of j or in 64 of b
    ({"A": (64, 64), "B": (3, 64, 64)}, (0, 2, 1)),
    ({"A": (64, 64), "B": (5, 64, 32)}, (2, 0, 1)),            # less than half as often
    ({"A": (64, 64), "B": (3, 64, 32)}, (0, 2, 1)),            # little less
])
def test_the_outermost_loop_is_one_for_which_large_operands_are_read_less_often(
        shapes: dict[str, tuple[int, ...]], order: tuple[int, ...]) -> None:
    program = build("C[b,i,j] += A[i,k] * B[b,k,j]", {**shapes, "A": (4096, 64)})
    assert tile_order.of_tiles(program, program.statements[-1], {"b": 1, "i": 1, "j": 16}, with_second(1 << 10)) == order


def test_bytes_of_boxes() -> None:
    program = build("O[h,w] += I[2*h+r,w+s] * W[r,s] where h in 0:20, w in 0:30", {"I": (60, 40), "W": (3, 5)})
    s = program.statements[-1]
    image, weights = pr.reads(s)
    assert tile_order.footprint(program, s, weights, {}) == 4 * 3 * 5
    assert tile_order.footprint(program, s, image, {"h": 2, "w": 8}) == 4 * (2 * 1 + 2 + 1) * (7 + 4 + 1)
    assert tile_order.footprint(program, s, image, {}) == 4 * (2 * 19 + 2 + 1) * (29 + 4 + 1)
