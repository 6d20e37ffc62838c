"""What is counted about memory, against counts by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

import polytc
from polytc import decisions
from polytc.codegen import loops as L
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.program.scalars import BOOL, F32, I64
from polytc.targets.ctext import unroll_hints
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.opencl import warp_traffic
from polytc.targets.opencl.estimate import Rates, estimate
from tests.codegen import loop_programs as P

ITEM = L.Var("item0")


def kernel(body: L.Stmt, items: int = 64) -> L.Kernel:
    inside = P.loop("item0", items, body, "thread")
    return P.module("m", [X, Y], ["Y"], P.loop("b", 4, inside, "block")).kernels[0]


X, Y = L.Buffer("X", F32, (4096,)), L.Buffer("Y", F32, (4096,))


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (8, 32), (64, 32), (0, 1)])
def test_sectors_of_a_warp(stride: int, sectors: int) -> None:
    copy = L.Store(Y, (P.add(P.scaled("b", 64), ITEM),), P.load(X, P.scaled("item0", stride)))
    found = warp_traffic.count(kernel(copy), (64,), GENERIC_GPU)
    assert found is not None
    assert found.moved == 32 * 2 * (sectors + 4)
    assert found.wanted == 4 * 2 * ((32 if stride else 1) + 32)
    assert (found.barriers, found.waits, found.passes) == (0, 1, 0)


@pytest.mark.parametrize(("stride", "passes"), [(1, 1), (2, 2), (32, 32), (33, 1), (0, 1)])
def test_banks_of_local_memory(stride: int, passes: int) -> None:
    tile = L.Buffer("tile", F32, (32 * 64 + 64,), "local")
    store = L.Store(tile, (P.scaled("item0", stride),), L.Const(1.0, F32))
    body = L.Alloc(tile, P.loop("item0", 64, store, "thread"))
    found = warp_traffic.count(P.module("m", [Y], ["Y"], P.loop("b", 4, body, "block")).kernels[0], (64,), GENERIC_GPU)
    assert found is not None
    assert (found.passes, found.words) == (2 * passes, 2)


def test_guards_loops_and_vectors() -> None:
    def sum_of(lanes: int) -> L.Stmt:
        at: L.Expr = P.add(P.scaled("k", 256), P.scaled("item0", lanes))
        at = L.Ramp(at, 1, lanes) if lanes > 1 else at
        inner = L.Store(Y, (at,), P.add(P.load(Y, at, lanes=lanes), P.mul(P.load(X, at, lanes=lanes),
                                                                         P.load(X, at, lanes=lanes))))
        return P.loop("k", 8, L.If(P.less(ITEM, 48), inner))
    for lanes in (1, 4):
        found = warp_traffic.count(kernel(sum_of(lanes)), (64,), GENERIC_GPU)
        assert found is not None
        assert found.operations == 8 * 48 * lanes                      # a product and a sum are one multiply-add
        assert found.moved == found.wanted == 8 * 48 * lanes * 4 * 3   # X once, Y read and written
        assert found.waits == 8 / warp_traffic.AHEAD


CONDITIONS = {
    "t < 40": lambda t: t < 40, "t <= 40": lambda t: t <= 40, "t > 40": lambda t: t > 40, "t >= 40": lambda t: t >= 40,
    "t == 40": lambda t: t == 40, "t != 40": lambda t: t != 40, "!": lambda t: not t < 40, "-": lambda t: -t > -40,
    "&&": lambda t: 10 <= t < 40, "||": lambda t: t < 10 or t >= 40, "//": lambda t: t // 3 < 7, "%": lambda t: t % 5 < 2,
    "-7": lambda t: t - 7 < 12, "min": lambda t: min(t, 50, 63 - t) < 9, "max": lambda t: max(t, 50) < 60,
    "select": lambda t: (t if t < 20 else 63 - t) < 10, "cast": lambda t: t < 40,
    "memory": lambda t: True, "flags": lambda t: True}


@pytest.mark.parametrize("name", CONDITIONS)
def test_items_that_a_condition_lets_pass(name: str) -> None:
    """One addition each. What memory holds is taken for 0 or true."""
    t, n = ITEM, L.const
    less = L.binary("<", t, n(40))
    made: dict[str, L.Expr] = {
        "!": L.Unary("!", less, BOOL), "-": L.binary(">", L.Unary("-", t, I64), n(-40)),
        "&&": L.binary("&&", L.binary(">=", t, n(10)), less), "||": L.binary("||", P.less(t, 10), L.binary(">=", t, n(40))),
        "//": P.less(L.binary("//", t, n(3)), 7), "%": P.less(L.binary("%", t, n(5)), 2),
        "-7": P.less(L.binary("-", t, n(7)), 12),
        "min": P.less(L.Call("min", (t, n(50), L.binary("-", n(63), t)), I64), 9),
        "max": P.less(L.Call("max", (t, n(50)), I64), 60),
        "select": P.less(L.Select(P.less(t, 20), t, L.binary("-", n(63), t), I64), 10),
        "cast": L.binary("<", L.Cast(t, F32), L.Const(40.0, F32)),
        "memory": L.binary("==", P.load(X, t), L.Const(0.0, F32)), "flags": P.load(L.Buffer("F", BOOL, (64,)), t)}
    cond = made.get(name) or L.binary(name.split()[1], t, n(40))
    once = L.Store(Y, (t,), P.add(P.load(X, t), L.Const(1.0, F32)))
    found = warp_traffic.count(kernel(L.If(cond, once)), (64,), GENERIC_GPU)
    other = warp_traffic.count(kernel(L.If(cond, L.Store(Y, (t,), L.Const(1.0, F32)), once)), (64,), GENERIC_GPU)
    assert found is not None
    assert other is not None
    passed = sum(CONDITIONS[name](t) for t in range(64))
    assert (found.operations, other.operations) == (passed, 64 - passed)


@pytest.mark.parametrize("split", [0, 8, 40, 64])
def test_items_load_the_side_that_they_choose(split: int) -> None:
    """Sectors of 8 numbers: of one array below the item `split`, of the other from there on. What decides is loaded by all."""
    z = L.Buffer("Z", F32, (4096,))
    flags = L.Buffer("F", F32, (64,))

    def moved(cond: L.Expr) -> float:
        value = L.Select(cond, P.load(X, ITEM), P.load(z, P.scaled("item0", 8)), F32)
        found = warp_traffic.count(kernel(L.Store(Y, (ITEM,), value)), (64,), GENERIC_GPU)
        assert found is not None
        return found.moved - 64 * 4

    both = split // 8 * 32 + (64 - split) * 32
    assert moved(P.less(ITEM, split)) == both
    decided = L.binary("||", P.less(ITEM, split), L.binary("!=", P.load(flags, ITEM), L.Const(0.0, F32)))
    assert moved(decided) == both + 64 * 4


def test_open_sizes_are_not_counted() -> None:
    store = L.Store(Y, (ITEM,), P.load(X, P.add(ITEM, L.Var("n"))))
    assert warp_traffic.count(kernel(store), (64,), GENERIC_GPU) is None


def test_the_slowest_bounds_a_kernel() -> None:
    machine, rates = DEVICES["nvidia-sm90"], Rates(1e9, 100, 1e12, 1e11, 1e-6)
    busy = warp_traffic.Traffic(moved=1e3, operations=1e6, passes=1e3, waits=2)
    found = estimate(busy, machine.cores + 1, 1, 1000, machine, rates)
    assert (found.bound, found.seconds) == ("arithmetic", pytest.approx(2e-5))
    assert estimate(warp_traffic.Traffic(moved=1e3, waits=2), 1, 1, 10**6, machine, rates).bound == "memory"
    assert estimate(warp_traffic.Traffic(waits=2), 1, 1, 1000, machine, rates).bound == "waiting"


def test_short_loops_of_arithmetic_are_unrolled() -> None:
    at = P.add(ITEM, L.Var("k"))
    update = L.Store(Y, (ITEM,), P.add(P.load(Y, ITEM), P.mul(P.load(X, at), P.load(X, at))))
    kinds = {}
    for extent in (16, 32, 33):
        marked = unroll_hints.mark_short_loops(kernel(P.loop("k", extent, update)), GENERIC_GPU)
        kinds[extent] = [s.kind for s in P.traverse.walk_stmt(marked.body) if isinstance(s, L.For)][-1]
    assert kinds == {16: "unroll", 32: "unroll", 33: "sequential"}
    with_barrier = unroll_hints.mark_short_loops(kernel(P.loop("k", 4, L.block(update, L.Barrier()))), GENERIC_GPU)
    assert not any(isinstance(s, L.For) and s.kind == "unroll" for s in P.traverse.walk_stmt(with_barrier.body))


@pytest.mark.parametrize(("registers", "copies"), [(128, 0), (16, 0), (15, 4), (8, 4), (7, 2), (2, 1)])
def test_loops_are_unrolled_as_far_as_registers_hold_their_loads(registers: int, copies: int) -> None:
    """Eight steps of one load, and no sum that stays in a register."""
    two = P.add(P.load(X, L.Var("k")), P.load(X, P.add(ITEM, L.Var("k"))))
    update = L.Store(Y, (ITEM,), P.add(two, two))
    gpu = replace(DEVICES["amd-gfx90a"], item_registers=registers)
    marked = unroll_hints.mark_short_loops(kernel(P.loop("k", 8, update)), gpu)
    assert [(s.kind, s.copies) for s in P.traverse.walk_stmt(marked.body) if isinstance(s, L.For)][-1] == ("unroll", copies)


def test_products_of_a_matrix_unit() -> None:
    """4 x 16 x 2 items, 128 x 128 results and 32 steps: a warp reads its 64 rows and 64 columns for 16 steps in 8 reads of four
    passes, and multiplies as fast as the record says."""
    gpu = DEVICES["nvidia-sm90"]
    shapes = {"A": (128, 32), "B": (32, 128)}
    record = "polytc decisions 1\nlocal_tiles S1_init: by=matrix rows=j,i items=4,16,2 elements=16,8 along=k steps=32"
    made = polytc.lower("C[i,j] += A[i,k]*B[k,j]", CudaTarget(), shapes=shapes, dtypes=dict.fromkeys(shapes, "f16"),
                        decisions=decisions.read(record))
    (body,) = [k for k in made.loops.kernels if "matrix for" in str(k)]
    with_unit, without = (warp_traffic.count(body, (4, 16, 2), m) for m in (gpu, GENERIC_GPU))
    assert with_unit is not None
    assert without is not None
    assert gpu.matrix_unit is not None
    assert with_unit.operations == pytest.approx(without.operations / gpu.matrix_unit.faster)
    reads = 4 * 2 * (4 + 4) * 4
    copies = 2 * 128 * 32 * 2 / 128
    assert reads + copies <= with_unit.passes <= reads + 4 * copies
