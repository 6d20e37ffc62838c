"""Tiles that a range does not divide: whole ones and the last one in loops of their own, with the same instances in order."""

from __future__ import annotations

import pytest

from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes.index_set_splitting import split_kernel
from polytc.program.scalars import F64
from tests.codegen import loop_programs as P
from tests.codegen.loop_steps import arrays_of, stores
from tests.codegen.passes.test_loop_versioning import tiles

X, Y = L.Buffer("X", F64, (600,)), L.Buffer("Y", F64, (600,))
B, U, T, Q = (L.Var(n) for n in "butq")


def limit(number: int, e: L.Expr) -> L.Expr:
    return L.Call("min", (L.const(number), e), e.dtype)


def split(body: L.Stmt) -> list[tuple[object, ...]]:
    """Bounds of the vector loops; checks that the instances stay."""
    made = split_kernel(P.module("m", (X, Y), ("Y",), body).kernels[0]).body
    arrays = arrays_of(X, Y)
    assert stores(made, arrays) == stores(body, arrays)
    found = [s for s in traverse.walk_stmt(made) if isinstance(s, L.For) and s.kind == "vector"]
    return [tuple(b.value if isinstance(b, L.Const) else b for b in (s.lower, s.upper)) for s in found]


def copy(first: L.Expr, upper: L.Expr) -> L.Stmt:
    place = P.add(first, Q)
    return P.loop("q", upper, L.Store(Y, (place,), P.load(X, place)), "vector")


@pytest.mark.parametrize(("count", "whole", "rest"), [(510, 24, 6), (504, 24, 0), (23, 24, 23), (25, 24, 1)])
def test_the_last_tile_has_a_loop_of_its_own(count: int, whole: int, rest: int) -> None:
    first = P.scaled("t", whole)
    nest = P.loop("t", -(-count // whole), copy(first, limit(whole, L.binary("-", L.const(count), first))))
    wholes = {(0, whole)} if count >= whole else set()
    assert set(split(nest)) == wholes | ({(0, rest)} if rest > 1 else set())  # a single element is in no loop


@pytest.mark.parametrize("count", [510, 500, 576, 400, 385, 384, 191, 193])
def test_tiles_of_tiles(count: int) -> None:
    """The last block of tiles, and in that the last tile."""
    first = P.scaled("b", 192, P.scaled("u", 24))
    left = L.binary("-", L.const(-(-count // 24)), P.scaled("b", 8))
    inner = P.loop("u", limit(8, left), copy(first, limit(24, L.binary("-", L.const(count), first))))
    bounds = split(P.loop("b", -(-count // 192), inner))
    assert all(isinstance(end, int) for pair in bounds for end in pair), bounds
    assert len(bounds) <= 3


@pytest.mark.part(4)
@pytest.mark.parametrize("start", range(0, 40, 10))
def test_tiles_of_any_bounds(start: int) -> None:
    for seed in range(start, start + 10):
        module, arrays = tiles(seed)
        made = L.block(*(split_kernel(k).body for k in module.kernels))
        assert stores(made, arrays) == stores(module, arrays), seed
