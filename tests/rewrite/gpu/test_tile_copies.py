"""Copies of tiles: each element by one item, once, and nothing beyond the ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from polytc.program import program as pr
from polytc.program.affine import Affine
from polytc.program.names import Names
from polytc.rewrite.gpu import tile_copies
from polytc.rewrite.gpu.tile_copies import Operand
from polytc.stages import build


def operand(widths: tuple[int, int], shape: tuple[int, int]) -> tuple[pr.Program, Operand]:
    """A tile of A for each g: rows from 8*g."""
    program = build("Y[i,j] = A[i,j]", {"A": shape})
    (read,) = pr.reads(program.statement("S1"))
    base = (Affine(0, (("g", widths[0]),)), Affine(0, ()))
    return program, Operand(read, program.tensor("A"), base, widths, ((0, shape[0]), (0, shape[1])), (0, 1))


def copied(widths: tuple[int, int], shape: tuple[int, int], most: int) -> dict[tuple[int, ...], list[object]]:
    """What a copy puts into each element of the tile: the places in A, or the number in its stead."""
    program, o = operand(widths, shape)
    groups = -(-shape[0] // widths[0])
    made = tile_copies.copy(o, "copy", "A_tile", (pr.Range("g", 0, groups),), (8, 4), most, Names.of(program))
    found: dict[tuple[int, ...], list[object]] = {}
    for at in points(made):
        cell = tuple(value(e, at) for e in made.subscripts)
        found.setdefault(cell, []).append(value(made.value, at))
    return found


def points(s: pr.Statement) -> Iterator[dict[str, int]]:
    """The instances of a statement, those outside of its ranges in linear bounds left out."""
    def walk(ranges: tuple[pr.Range, ...], at: dict[str, int]) -> Iterator[dict[str, int]]:
        if not ranges:
            if all(value(b.lower, at) <= at[b.index] < value(b.upper, at) for b in s.bounds):
                yield at
            return
        for v in range(ranges[0].lower, ranges[0].upper):
            yield from walk(ranges[1:], {**at, ranges[0].index: v})
    yield from walk(s.ranges, {})


def value(e: pr.Expr, at: dict[str, int]) -> Any:
    """Of an index expression; a read is its place."""
    match e:
        case pr.Index():
            return at[e.name]
        case pr.Const():
            return int(e.value)
        case pr.Read():
            return tuple(value(s, at) for s in e.subscripts)
        case pr.Select():
            return value(e.a if value(e.cond, at) else e.b, at)
        case pr.Binary():
            return eval(f"a {'and' if e.op == '&&' else e.op} b", {"a": value(e.a, at), "b": value(e.b, at)})
        case pr.Unary(op="-"):
            return -value(e.a, at)
    raise AssertionError(e)


@pytest.mark.part(2)
@pytest.mark.parametrize(("widths", "shape", "most"), [((8, 16), (32, 16), 1), ((8, 16), (32, 16), 4), ((8, 10), (32, 10), 4),
                                                        ((8, 16), (30, 16), 1), ((5, 7), (20, 7), 1)])
def test_each_element_is_copied_once(widths: tuple[int, int], shape: tuple[int, int], most: int) -> None:
    found = copied(widths, shape, most)
    groups = -(-shape[0] // widths[0])
    assert sorted(found) == [(g, y, x) for g in range(groups) for y in range(widths[0]) for x in range(widths[1])]
    for (g, y, x), sources in found.items():
        row = g * widths[0] + y
        assert sources == [(row, x) if row < shape[0] else 0]


def test_vectors_only_where_all_is_a_multiple_of_them() -> None:
    assert operand((8, 16), (32, 16))[1].lanes(4) == 4
    assert operand((8, 10), (32, 10))[1].lanes(4) == 1
    assert operand((8, 16), (32, 18))[1].lanes(4) == 1
