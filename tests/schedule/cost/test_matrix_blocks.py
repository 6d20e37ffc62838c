"""What the second cache keeps of a product on a matrix unit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polytc.machine import AVX512, Cache
from polytc.schedule.cost import matrix_blocks

MIB = 1 << 20
MACHINE = replace(AVX512, caches=(Cache(48 << 10, 12, 64), Cache(2 * MIB, 16, 64), Cache(32 * MIB, 16, 64)))


@pytest.mark.parametrize(("rows", "columns", "results", "held"), [
    (0.5, 0.5, 1.0, "rows"), (0.5, 0.5, 1.1, "columns"), (0.2, 0.1, 3.0, "columns"), (0.5, 4.0, 1.0, "rows"),
    (4.0, 0.5, 1.0, "columns"), (4.0, 4.0, 4.0, "columns")])
def test_what_is_held(rows: float, columns: float, results: float, held: str) -> None:
    """Sizes in MiB. Where both stay, results decide, which are stored along their rows unless half of the cache keeps them."""
    found = matrix_blocks.least(rows * MIB, columns * MIB, results * MIB, (1,), MACHINE)
    assert found.held == held
    assert (found.blocks == 1) == (min(rows, columns) < 1)


def test_a_sum_is_cut_where_that_moves_less() -> None:
    """Two parts of 0.9 MiB of rows stay, each with all columns, which come once; the results come and go twice."""
    found = matrix_blocks.least(1.8 * MIB, 9 * MIB, 0.25 * MIB, (1, 2), MACHINE)
    assert (found.held, found.blocks, found.count) == ("rows", 1, 2)
    assert found.bytes == MIB
