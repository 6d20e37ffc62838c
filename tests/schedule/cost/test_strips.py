"""Panels at long strides: what stays in a cache is checked against a cache simulated line by line."""

import pytest

import polytc
from polytc.machine import AVX2, AVX512, Cache
from polytc.rewrite import table
from polytc.schedule.cost import strips
from polytc.schedule.cost.strips import resident_lines


def lines_that_stay(cache: Cache, stride: int, rows: int, row: int) -> int:
    """Of `rows` rows, how many lines a second walk finds, in a cache that replaces what was used longest ago."""
    sets = cache.bytes // (cache.ways * cache.line)
    content: dict[int, list[int]] = {}
    found = 0
    for walk in range(2):
        for line in (r * stride // cache.line + n for r in range(rows) for n in range(row)):
            ways = content.setdefault(line % sets, [])
            if line in ways:
                found += walk
                ways.remove(line)
            ways.append(line)
            del ways[:-cache.ways]
    return found


@pytest.mark.parametrize("stride", [64, 128, 1024, 3072, 4096, 8192, 12288, 8256])
@pytest.mark.parametrize("cache", [Cache(1 << 20, 16, 64), Cache(2 << 20, 16, 64), Cache(32 << 10, 8, 64)])
def test_held_is_what_a_cache_holds(cache: Cache, stride: int) -> None:
    row = 1 if stride == 64 else 2
    fits = resident_lines(cache, stride, row) // row
    assert lines_that_stay(cache, stride, fits, row) == fits * row
    if fits * row < cache.bytes // cache.line:  # some sets are never used: one row more and something is lost
        assert lines_that_stay(cache, stride, fits + fits // 4 + 1, row) < (fits + fits // 4 + 1) * row


@pytest.mark.parametrize(("m", "k", "n", "packed"), [
    (49, 512, 2048, True),       # rows 8 KiB apart, 4 tiles of rows
    (128, 768, 3072, True),
    (1, 512, 2048, False),       # nothing is read twice
    (8, 512, 2000, False),       # few rows: walked row by row
])
def test_variable_operands_are_packed_where_their_rows_collide(m: int, k: int, n: int, packed: bool) -> None:
    program = polytc.build("C[i,j] += A[i,k]*B[k,j]", {"A": (m, k), "B": (k, n)})
    for machine in (AVX512, AVX2):
        names = [s.name for s in table.named("pack").run(program, machine).statements]
        assert any("B_packed" in name for name in names) == packed, machine


@pytest.mark.parametrize(("m", "k", "n", "packed"), [
    (96, 128, 384, True),        # rows 1536 bytes apart: 16 of 64 sets
    (96, 128, 400, False),       # 1600: all sets
    (4, 128, 384, False),        # one tile of rows
])
def test_variable_operands_are_packed_where_their_rows_leave_the_first_cache(m: int, k: int, n: int, packed: bool) -> None:
    program = polytc.build("C[i,j] += A[i,k]*B[k,j]", {"A": (m, k), "B": (k, n)})
    names = [s.name for s in table.named("pack").run(program, AVX2).statements]
    assert any("B_packed" in name for name in names) == packed


@pytest.mark.parametrize(("stride", "rows", "row"), [
    (1536, 128, 96), (1600, 128, 96), (2048, 256, 64), (832, 200, 96), (4096, 7, 64)])
def test_lost_lines_are_those_of_a_cache(stride: int, rows: int, row: int) -> None:
    """Whole lines of rows that begin at lines."""
    first = Cache(32 << 10, 8, 64)
    lines = -(-row // 64)
    lost = lines_that_stay(first, stride // 64 * 64, rows, lines) < rows * lines
    assert bool(strips._lost_lines(first, rows, stride // 64 * 64, lines * 64)) == lost
