"""Rows of local arrays: longer where neighbouring items meet in a bank, and only there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes.bank_conflicts import pad_kernel
from polytc.machine import GENERIC_CPU, GENERIC_GPU
from polytc.program.scalars import F32, F64, DType
from tests.codegen import loop_programs as P
from tests.codegen.loop_steps import arrays_of, results

ITEM, K = L.Var("item0"), L.Var("k")
Y = L.Buffer("Y", F32, (32, 32))
ROW, COLUMN = (K, ITEM), (ITEM, K)


def phase(body: L.Stmt, times: int = 32) -> L.Stmt:
    return P.loop("item0", 32, P.loop("k", times, body), "thread")


def kernel(local: L.Buffer, *phases: L.Stmt) -> L.Kernel:
    return P.module("m", (Y,), ("Y",), P.loop("g", 1, L.Alloc(local, L.block(*phases)), "block")).kernels[0]


def rows(k: L.Kernel) -> list[tuple[int, ...]]:
    return [s.buffer.shape for s in traverse.walk_stmt(k.body) if isinstance(s, L.Alloc)]


def turned(local: L.Buffer, put: tuple[L.Expr, ...], get: tuple[L.Expr, ...], times: int = 32) -> L.Kernel:
    """Items store in one order and load in another."""
    return kernel(local, phase(L.Store(local, put, P.load(Y, *put))), phase(L.Store(Y, ROW, P.load(local, *get)), times))


@pytest.mark.parametrize(("put", "get", "width"), [(ROW, ROW, 32), (ROW, COLUMN, 33), (COLUMN, ROW, 33), (COLUMN, COLUMN, 33)])
def test_columns_get_rows_of_one_more_element(put: tuple[L.Expr, ...], get: tuple[L.Expr, ...], width: int) -> None:
    before = turned(L.Buffer("T", F32, (32, 32), "local"), put, get)
    after = pad_kernel(before, GENERIC_GPU)
    assert rows(after) == [(32, width)]
    arrays = arrays_of(Y)
    np.testing.assert_array_equal(results(after.body, arrays)["Y"], results(before.body, arrays)["Y"])


@pytest.mark.parametrize(("shape", "dtype", "width"), [
    ((32, 32), F64, 33), ((32, 16), F64, 17), ((32, 16), F32, 17), ((32, 33), F32, 33), ((32, 31), F32, 31),
    ((32, 34), F32, 35), ((32, 64), F32, 65), ((32, 8), F32, 9)])
def test_rows_of_any_length(shape: tuple[int, int], dtype: DType, width: int) -> None:
    """Items of odd rows, in words, meet in no bank."""
    local = L.Buffer("T", dtype, shape, "local")
    column = L.Store(Y, (L.const(0), ITEM), L.Cast(P.load(local, ITEM, L.const(0)), F32))
    assert rows(pad_kernel(kernel(local, phase(column)), GENERIC_GPU)) == [(32, width)]


def test_vectors_keep_their_alignment() -> None:
    local = L.Buffer("T", F32, (32, 32), "local")
    ramp = L.Ramp(P.scaled("k", 4), 1, 4)
    store = L.Store(local, (ITEM, ramp), L.Load(Y, (ITEM, ramp), F32, 4))
    assert rows(pad_kernel(kernel(local, phase(store, 8)), GENERIC_GPU)) == [(32, 36)]


def test_what_runs_often_decides() -> None:
    """Along the other diagonal, items of rows of 33 elements meet in one bank, those of rows of 34 in none."""
    local = L.Buffer("T", F32, (32, 32), "local")
    diagonal = L.Store(Y, ROW, P.load(local, ITEM, L.binary("-", L.const(31), ITEM)))
    column = L.Store(Y, ROW, P.load(local, *COLUMN))

    def found(columns: int, diagonals: int) -> list[tuple[int, ...]]:
        return rows(pad_kernel(kernel(local, phase(column, columns), phase(diagonal, diagonals)), GENERIC_GPU))
    assert found(1, 4000) == [(32, 32)]
    assert found(1, 32) == [(32, 34)]
    assert found(400, 1) == [(32, 33)]
    both = P.loop("item1", 8, phase(diagonal, 1), "thread", 1)  # more items are no more turns of each
    assert rows(pad_kernel(kernel(local, phase(column, 100), both), GENERIC_GPU)) == [(32, 33)]


def test_longer_rows_fit_local_memory() -> None:
    local = L.Buffer("T", F32, (32, 32), "local")
    k = turned(local, ROW, COLUMN)
    assert rows(pad_kernel(k, replace(GENERIC_GPU, local_bytes=4 * 32 * 33))) == [(32, 33)]
    assert rows(pad_kernel(k, replace(GENERIC_GPU, local_bytes=4 * 32 * 33 - 1))) == [(32, 32)]
    assert rows(pad_kernel(k, GENERIC_CPU)) == [(32, 32)]


def test_longer_rows_of_several_arrays_fit_together() -> None:
    first, second = L.Buffer("T", F32, (32, 32), "local"), L.Buffer("U", F32, (32, 32), "local")
    phases = [phase(L.Store(Y, ROW, P.load(b, *COLUMN))) for b in (first, second)]
    k = P.module("m", (Y,), ("Y",), P.loop("g", 1, L.Alloc(first, L.Alloc(second, L.block(*phases))), "block")).kernels[0]
    for extra, widths in ((2 * 128, (33, 33)), (2 * 128 - 1, (33, 32)), (128, (33, 32)), (127, (32, 32))):
        made = pad_kernel(k, replace(GENERIC_GPU, local_bytes=2 * 4 * 32 * 32 + extra))
        assert rows(made) == [(32, width) for width in widths]
