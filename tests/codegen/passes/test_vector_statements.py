"""Vectors of iterations: each lane is what its iteration was, and loops inside run once for all."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import polytc
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes import vector_statements
from polytc.codegen.passes.vector_statements import Chunk
from polytc.codegen.passes.vectorize import expand_kernel
from polytc.machine import AVX2, AVX512, NEON
from polytc.program.scalars import BOOL, F64, I64
from polytc.program.sizes import Size
from polytc.targets.llvm.target import LLVMTarget
from tests.codegen import loop_programs as P
from tests.codegen.loop_steps import Run, arrays_of, results

V, W = L.Var("v"), L.Var("w")
G = L.Buffer("G", I64, (64,))
A, B, Y = (L.Buffer(n, F64, (24, 24)) for n in "ABY")
LANES = 4
SCALARS: dict[str, L.Expr] = {
    "number": L.const(3), "none": L.const(0), "negative": L.const(-2), "other": W, "its own": V, "turned": L.Unary("-", V, I64),
    "moved": P.add(V, L.const(5)), "scaled": P.scaled("v", 3), "loaded": P.load(G, V), "shared": P.load(G, W),
    "chosen": L.Select(L.binary("<", V, W), V, L.const(7), I64), "larger": L.Call("max", (V, W), I64)}


def lanes(e: L.Expr, base: int, stride: int) -> list[object]:
    """What a vector for v = base, base + stride, ... has in its lanes."""
    ramp = L.Ramp(L.const(base), stride, LANES)
    made = vector_statements.broadcast(vector_statements.vector_expr(e, "v", ramp), LANES)
    return [Run({"G": np.arange(64) * 7 % 11}).lane(made, n, {"w": 6}) for n in range(LANES)]


@pytest.mark.parametrize("op", ["+", "-", "*", "<", ">=", "//"])
def test_every_pair_of_operands(op: str) -> None:
    for (one, a), (two, b) in product(SCALARS.items(), repeat=2):
        for base, stride in ((4, 1), (2, 3)) if op != "//" or two in ("number", "other") else ():
            e = L.binary(op, a, b)
            expected = [Run({"G": np.arange(64) * 7 % 11}).lane(e, 0, {"v": base + stride * n, "w": 6}) for n in range(LANES)]
            assert lanes(e, base, stride) == expected, (one, op, two)


def test_what_stays_a_ramp() -> None:
    """An access through a ramp is one to neighbours, or to places a known step apart; others are gathers."""
    for e, stride in ((P.add(V, W), 1), (P.add(W, V), 1), (L.binary("-", V, W), 1), (L.binary("-", W, V), -1),
                      (P.scaled("v", 3), 3), (P.mul(L.const(3), V), 3), (P.add(V, P.scaled("v", 2)), 3),
                      (L.binary("-", V, P.scaled("v", 2)), -1), (L.binary("-", L.const(9), P.scaled("v", 2)), -2)):
        made = vector_statements.vector_expr(e, "v", L.Ramp(L.const(2), 1, LANES))
        assert isinstance(made, L.Ramp), L.format_expr(e)
        assert made.stride == stride, L.format_expr(e)


MASKS: list[int | L.Expr | None] = [None, 3, L.Binary("<", L.Ramp(L.const(0), 1, 4), L.Broadcast(W, 4, I64), BOOL, 4)]


@pytest.mark.parametrize("active", range(len(MASKS)))
def test_conditions_are_masks_of_both_branches(active: int) -> None:
    """In those lanes that count: of all, of the first three, of the first two."""
    chunk = Chunk(L.const(5), 2, 4, MASKS[active])
    odd = L.binary("<", P.load(G, V), L.const(4))
    inner = L.If(L.binary("<", V, L.const(8)), L.Store(A, (V, W), L.Const(1.0, F64)), L.Store(A, (W, V), L.Const(2.0, F64)))
    s = L.block(L.If(odd, inner, L.Store(B, (V, V), L.Const(3.0, F64))), L.If(L.binary("<", W, L.const(9)), L.Store(
        B, (W, V), L.Const(4.0, F64)), L.Store(B, (V, W), L.Const(5.0, F64))))
    arrays = {**arrays_of(A, B), "G": np.arange(64) * 7 % 11}
    made = results(P.loop("w", 3, vector_statements.vector(s, "v", chunk), lower=2), arrays)
    count = (4, 3, 2)[active]
    expected = results(P.loop("w", 3, L.For("v", L.const(5), L.const(5 + 2 * count), 2, s), lower=2), arrays)
    for name in "AB":
        np.testing.assert_array_equal(made[name], expected[name])


@pytest.mark.parametrize("extent", [8, 21, 32])
@pytest.mark.parametrize("machine", [AVX2, AVX512, NEON])
def test_a_loop_in_a_vector_loop_runs_once_for_all_vectors(machine: object, extent: int) -> None:
    """Also under a condition that all lanes meet alike, and beside other statements."""
    update = L.Store(Y, (W, V), P.add(P.load(Y, W, V), P.mul(P.load(A, W, L.Var("k")), P.load(B, L.Var("k"), V))))
    inner = P.loop("k", 5, update)
    wide = [L.Buffer(b.name, F64, (24, 40)) for b in (A, B, Y)]
    body = L.block(L.Store(Y, (W, V), L.Const(0.0, F64)), L.If(L.binary("<", W, L.const(2)), inner, inner))
    body = traverse.map_stmt(body, lambda s: L.Store(wide[2], s.indices, s.value) if isinstance(s, L.Store) else s,
                             lambda e: traverse.map_expr(e, lambda x: L.Load(wide["ABY".index(x.buffer.name)], x.indices, F64)
                                                         if isinstance(x, L.Load) else x))
    nest = P.loop("w", 3, P.loop("v", extent, body, "vector"))
    kernel = P.module("m", wide, ("Y",), nest).kernels[0]
    made = expand_kernel(kernel, machine)
    loops = [s for s in traverse.walk_stmt(made.body) if isinstance(s, L.For) and s.var == "k"]
    assert len(loops) == 2
    arrays = arrays_of(*wide)
    np.testing.assert_array_equal(results(made.body, arrays)["Y"], results(nest, arrays)["Y"])


SIZE = Size.named("n", 9)


@pytest.mark.parametrize(("low", "high", "stride", "inside"), [
    (0, 0, 1, True), (0, 20, 1, True), (0, 21, 1, False), (-1, 20, 1, False), (3, 23, -1, True), (2, 23, -1, False),
    (0, 14, 3, True), (0, 15, 3, False), (9, 23, -3, True), (8, 23, -3, False), (3, 24, -1, False)])
def test_ramps_that_lie_in_a_buffer(low: int, high: int, stride: int, inside: bool) -> None:
    """Masked vectors of four that begin in low..high load all lanes, if no lane can lie outside of the 24 columns."""
    mask = L.Binary("<", L.Ramp(L.const(0), 1, 4), L.Broadcast(V, 4, I64), BOOL, 4)
    load = L.Load(A, (L.const(0), L.Ramp(W, stride, 4, active=mask)), F64, 4)
    store = L.Store(Y, (L.const(0), L.Ramp(L.const(0), 1, 4, active=mask)), load)
    made = vector_statements.widen_masked_loads(store, {"w": (low, high)}, frozenset("Y"))
    (found,) = [e for e, _ in traverse.loads(made.value)]
    assert (found.indices[1].active is None) == inside
    assert vector_statements.widen_masked_loads(store, {"w": (low, high)}, frozenset("AY")) == store
    assert made.indices == store.indices


@pytest.mark.parametrize(("low", "high", "limits"), [(0, 8, 1), (-3, 8, 2), (0, 20, 1), (-1, None, 2), (None, 3, 2)])
@pytest.mark.parametrize("most", [None, -1, 0])
def test_shared_loads_stay_in_buffers_of_open_sizes(low: int | None, high: int | None, limits: int, most: int | None) -> None:
    """Where they were inside, they stay what they were; what cannot be outside is not limited. most: beyond the size."""
    below = most == -1
    x = L.Buffer("X", F64, (SIZE,))
    at = W if most is None else L.Call("min", (W, P.add(L.Var("n", least=1), L.const(most))), I64)
    loop = P.loop("v", 9, L.Store(Y, (L.const(0), V), P.load(x, at)), "vector")
    made = vector_statements.clamp_shared_loads(loop, {"w": (low, high)})
    assert isinstance(made.body, L.Store)
    (load,) = [e for e, _ in traverse.loads(made.body.value)]
    assert vector_statements.shared_loads_safe(made, {"w": (low, high)}) or below
    assert L.format_expr(load.indices[0]).count("m") == limits + (most == 0)
    for n, w in product(range(1, 12), range(-3 if low is None else low, 12 if high is None else high + 1)):
        run, env = Run({}), {"n": n, "w": w}
        place, old = run.lane(load.indices[0], 0, env), run.lane(at, 0, env)
        assert 0 <= place < n
        assert place == old or not 0 <= old < n


@pytest.mark.parametrize("masks", [False, True])
def test_what_can_be_vectors(masks: bool) -> None:
    store = L.Store(A, (W, V), L.Const(1.0, F64))
    own = L.Buffer("own", F64, (4,), "private")
    condition, alike = L.binary("<", V, L.const(3)), L.binary("<", W, L.const(3))
    moving, loaded = P.loop("k", V, store), L.binary("<", P.load(G, W), L.const(3))
    for s, possible in (
            (store, True), (L.block(store, store), True), (P.loop("k", 3, store), True), (L.If(alike, store), True),
            (L.If(alike, store, store), True), (L.If(condition, store), masks), (L.If(condition, store, store), masks),
            (moving, False), (P.loop("k", P.load(G, W), store), False), (P.loop("k", 3, store, "parallel"), False),
            (L.Alloc(own, store), False), (L.block(store, L.Barrier()), False), (L.block(store, moving), False),
            (L.If(loaded, store), masks), (L.If(alike, moving), False), (L.If(alike, store, moving), False),
            (L.Store(A, (W, L.Ramp(V, 1, 4)), L.Const(1.0, F64, 4)), False)):
        assert vector_statements.is_vectorizable(s, "v", masks) == possible, s


@pytest.mark.parametrize("machine", [AVX2, AVX512])
def test_a_sum_of_unknown_length_in_a_vector_loop(machine: object) -> None:
    """Its partial results are memory of its own: the loop around runs one by one."""
    x, y = L.Buffer("X", F64, (20, 20)), L.Buffer("Z", F64, (20, 20))
    inner = L.For("k", L.const(0), W, 1, L.Store(y, (W, V), P.add(P.load(y, W, V), P.load(x, V, L.Var("k")))), "reduce")
    nest = P.loop("w", 20, P.loop("v", 20, inner, "vector"))
    made = expand_kernel(P.module("m", (x, y), ("Z",), nest).kernels[0], machine)
    arrays = arrays_of(x, y)
    np.testing.assert_array_equal(results(made.body, arrays)["Z"], results(nest, arrays)["Z"])


@pytest.mark.parametrize(("low", "relaxed"), [(0, True), (-1, False), (None, False)])
def test_a_mask_that_keeps_lanes_inside_is_relaxed_only_if_the_first_is(low: int | None, relaxed: bool) -> None:
    """Lanes below the buffer have no other guard than the whole mask."""
    x = L.Buffer("X", F64, (SIZE,))
    inside = L.binary("-", L.Var("n", least=1), W)
    most = L.Call("min", (inside, P.scaled("m", 16)), I64)
    ramp = L.Ramp(W, 1, 4, active=L.Binary("<", L.Ramp(L.const(0), 1, 4), L.Broadcast(most, 4, I64), BOOL, 4))
    store = L.Store(Y, (L.const(0), L.Ramp(L.const(0), 1, 4, active=ramp.active)), L.Load(x, (ramp,), F64, 4))
    made = vector_statements.relax_masks(store, {"w": (low, 20), "m": (-3, 3), "n": (1, None)}, frozenset("Y"))
    (found,) = [e for e, _ in traverse.loads(made.value)]
    assert (found != store.value) == relaxed
    for n, w, m, lane in product(range(1, 6), range(-3 if low is None else low, 7), range(-3, 4), range(4)):
        run, env = Run({}), {"n": n, "w": w, "m": m}
        assert 0 <= w + lane < n or not run.counts(found.indices, lane, env) or run.counts(store.value.indices, lane, env)


@pytest.mark.parametrize(("text", "lanes"), [
    ("O[b,d] += T[I[b,k],d]", 16),                      # the row of the table is one number for all of d
    ("O[b,d] = T[b,d]*f32(I[b,0])", 16),
    ("O[b,d] = T[b,d]*f32(I[b,d])", 8)],                 # an i64 for each d
    ids=["row", "factor", "each"])
def test_lanes_are_those_of_what_differs_between_iterations(text: str, lanes: int) -> None:
    low = polytc.lower(text, LLVMTarget(AVX512), shapes={"I": (64, 64), "T": (64, 64)}, dtypes={"I": "i64", "T": "f32"})
    updates = [s for k in low.loops.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, L.Store)
               and any(e.buffer.name == "T" for e, _ in traverse.loads(s.value))]
    assert {s.value.lanes for s in updates} == {lanes}
