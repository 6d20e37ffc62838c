"""Nests of loops that a matrix unit may do: which are products of tiles, and which only look like ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polytc.codegen import loops as L
from polytc.codegen import matrix_products
from polytc.codegen.passes import bank_conflicts
from polytc.machine import DEVICES
from polytc.program.scalars import BF16, F16, F32, I64

ACC = L.Buffer("acc", F32, (4, 2, 2), "private")
LEFT = L.Buffer("A_tile", F16, (64, 32), "local")
RIGHT = L.Buffer("B_tile", F16, (32, 64), "local")
NAMES = ("k", "r", "c", "p")


def var(name: str) -> L.Var:
    return L.Var(name)


def times(name: str, n: int) -> L.Expr:
    return L.Binary("*", var(name), L.const(n), I64)


def plus(*terms: L.Expr) -> L.Expr:
    total = terms[0]
    for t in terms[1:]:
        total = L.Binary("+", total, t, I64)
    return total


def load(b: L.Buffer, *indices: L.Expr) -> L.Load:
    return L.Load(b, indices, b.dtype)


A = load(LEFT, plus(var("item1"), times("r", 16)), var("k"))
B = load(RIGHT, var("k"), plus(times("item0", 2), times("c", 8), var("p")))


def store(a: L.Expr = A, b: L.Expr = B, acc: L.Buffer = ACC) -> L.Store:
    cell = tuple(map(var, NAMES[1:]))
    value = L.Binary("*", L.Cast(a, F32), L.Cast(b, F32), F32)
    return L.Store(acc, cell, L.Binary("+", load(acc, *cell), value, F32))


def nest(s: L.Stmt, extents: tuple[int, ...] = (32, 4, 2, 2), kind: L.LoopKind = "matrix") -> L.For:
    for name, n in reversed(list(zip(NAMES, extents, strict=True))):
        s = L.For(name, L.const(0), L.const(n), 1, s, kind)
    assert isinstance(s, L.For)
    return s


def test_a_product() -> None:
    for s in (store(), store(B, A)):
        found = matrix_products.product_of(nest(s))
        assert found is not None
        assert (found.left, found.right) == (A, B)
        assert [x.var for x in (found.steps, found.rows, found.columns, found.pair)] == list(NAMES)
    within = L.For("s", L.const(0), L.const(3), 1, L.block(nest(store()), nest(store())))
    assert len(list(matrix_products.products(within))) == 2
    assert matrix_products.tiles(within) == {"A_tile", "B_tile"}


@pytest.mark.parametrize("s", [
    nest(store(), kind="unroll"),
    nest(store(), (24, 4, 2, 2)), nest(store(), (32, 3, 2, 2)), nest(store(), (32, 4, 2, 4)),
    nest(store(load(replace(LEFT, dtype=F32), *A.indices), B)),
    nest(store(load(replace(LEFT, space="global"), *A.indices), B)),
    nest(store(load(replace(LEFT, dtype=BF16), *A.indices), B)),
    nest(store(acc=replace(ACC, space="local"))),
    nest(store(acc=replace(ACC, dtype=F16))),
    nest(store(A, load(RIGHT, var("k"), plus(times("c", 8), var("r"))))),
    nest(store(load(LEFT, plus(var("item1"), times("r", 16)), L.const(0)), B)),
    nest(L.Store(ACC, tuple(map(var, ("r", "c", "p"))), L.Cast(A, F32))),
], ids=range(12))
def test_other_nests(s: L.For) -> None:
    assert matrix_products.product_of(s) is None
    assert matrix_products.tiles(s) == frozenset()


@pytest.mark.parametrize(("columns", "padded"), [(32, 40), (40, 40), (128, 136), (16, 24), (20, 24)])
def test_rows_have_an_odd_number_of_blocks(columns: int, padded: int) -> None:
    """Eight rows at once then begin in all banks, whatever lies along them."""
    tile = L.Buffer("A_tile", F16, (64, columns), "local")
    body: L.Stmt = nest(store(load(tile, *A.indices)))
    for axis, n in ((0, 4), (1, 16)):
        body = L.For(f"item{axis}", L.const(0), L.const(n), 1, body, "thread", axis)
    body = L.Alloc(tile, L.Alloc(RIGHT, L.Alloc(ACC, body)))
    kernel = L.Kernel("k", (), (), L.For("g", L.const(0), L.const(1), 1, body, "block"))
    text = str(bank_conflicts.pad_kernel(kernel, DEVICES["nvidia-sm90"]))
    assert f"A_tile[64, {padded}]" in text
    assert len({r * padded * 2 // 16 % 8 for r in range(8)}) == 8
