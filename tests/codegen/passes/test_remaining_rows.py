"""Rows that are left of a register tile of open size: smaller tiles, whose results stay in registers, and numpy's results."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.codegen import loops, traverse
from polytc.codegen.passes import strip_mining
from polytc.codegen.target import Target
from polytc.machine import AVX2, AVX512, NEON, Machine
from polytc.program.scalars import F32, I64
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget

PRODUCT = "C[i,j] += A[i,k]*B[k,j]"
LAYER = "T[i,j] += A[i,k]*B[k,j]\nC[i,j] = max(T[i,j] + b[j], 0.0)"
MACHINES = {"avx2": AVX2, "avx512": AVX512, "neon": NEON}
TARGETS: dict[str, Target] = {"cpu": LLVMTarget(), **{n: InterpTarget(m) for n, m in MACHINES.items()}}
ROWS = (1, 2, 3, 5, 6, 7, 11, 13, 14, 15, 29)


@pytest.mark.part(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", [PRODUCT, LAYER])
def test_every_number_of_rows(text: str, target: str) -> None:
    r = np.random.default_rng(1)
    b, bias = r.standard_normal((5, 32)).astype(np.float32), r.standard_normal(32).astype(np.float32)
    more = {"b": bias} if text == LAYER else {}
    shapes = {"A": ("n", 5), "B": (5, 32)} | ({"b": (32,)} if more else {})
    op = polytc.compile(text, shapes=shapes, target=TARGETS[target], threads=1)
    for n in ROWS:
        a = r.standard_normal((n, 5)).astype(np.float32)
        wanted = a.astype(np.float64) @ b
        np.testing.assert_allclose(op(A=a, B=b, **more), np.maximum(wanted + bias, 0) if more else wanted, rtol=2e-5, atol=1e-5)


def tiles(text: str, shapes: dict[str, tuple[int | str, ...]], machine: Machine) -> set[int]:
    """Rows of the tiles of results that stay in registers."""
    lowered = polytc.lower(text, shapes=shapes, target=LLVMTarget(machine))
    allocs = [s for k in lowered.loops.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, loops.Alloc)]
    return {s.buffer.shape[0] for s in allocs if s.buffer.dtype == F32 and s.buffer.space == "private"}


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_left_of_a_tile_stays_in_registers(machine: str) -> None:
    """More than one tile in one kernel: for the rows that are left, as many as fill a smaller one, and single ones."""
    assert len(tiles(PRODUCT, {"A": ("n", 512), "B": (512, 512)}, MACHINES[machine])) >= 3


@pytest.mark.parametrize("machine", MACHINES)
def test_rows_are_not_along_an_open_batch(machine: str) -> None:
    """Where another loop serves as well: a batch of one image would fill one row of a tile."""
    text = "Y[n,h,w,m] += X[n,h+r,w+s,c]*W[r,s,c,m]"
    decisions = polytc.lower(text, shapes={"X": ("N", 16, 16, 64), "W": (3, 3, 64, 64)}, target=LLVMTarget(MACHINES[machine]),
                             algebra="direct")
    (tile,) = [d for d in str(decisions.decisions).splitlines() if d.startswith("tile S1")]
    rows, sizes = (part.split("=")[1].split(",") for part in tile.split()[2:4])
    assert dict(zip(rows, map(int, sizes), strict=True))["n"] == 1


C = loops.Buffer("C", F32, (12,))
P, Q = loops.Var("p"), loops.Var("q")


def one_row(store: loops.Stmt) -> loops.Stmt:
    end = loops.Call("min", (loops.const(6), loops.Var("n")), I64)
    return loops.For("k", loops.const(0), loops.const(9), 1, loops.For("p", loops.const(0), end, 1, store, "unroll"))


@pytest.mark.parametrize(("read", "written"), [
    (loops.binary("+", P, loops.const(1)), P), (P, loops.binary("+", P, loops.Var("k"))), (loops.const(0), P),
    (P, loops.const(0))])
def test_rows_that_touch_each_other_stay_in_order(read: loops.Expr, written: loops.Expr) -> None:
    store = loops.Store(C, (written,), loops.Load(C, (read,), F32))
    assert strip_mining.rows(one_row(store), {"p"}, 6, iter(range(99))) is None


def test_rows_apart_become_tiles_of_halves() -> None:
    store = loops.Store(C, (P,), loops.Load(C, (P,), F32))
    made = strip_mining.rows(one_row(store), {"p"}, 6, iter(range(99)))
    assert isinstance(made, loops.Block)
    assert [(s.step, s.kind) for s in made.stmts if isinstance(s, loops.For)] == [(n, "sequential") for n in (4, 2, 1)]
    inner = [x for x in traverse.walk_stmt(made) if isinstance(x, loops.For) and x.var == "p"]
    assert [x.upper for x in inner] == [loops.const(4), loops.const(2), loops.const(1)]
