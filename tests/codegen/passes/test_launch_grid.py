"""Loops over work-groups and items with constant bounds: the same stores, in whatever order, with each axis once."""

from __future__ import annotations

import random

import numpy as np
import pytest

from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes import launch_grid, simplify
from polytc.program.scalars import I64
from tests.codegen import loop_programs as P
from tests.codegen.loop_steps import Event, Run

Y = L.Buffer("Y", I64, (40, 40, 40))
HOST, CHAIN = ("s", "t"), ("g", "h", "x", "y")


def end(rng: random.Random, around: list[str], fn: str, number: int) -> L.Expr:
    """A number, sometimes limited by a variable around, or one of the two."""
    if not around or rng.random() < 0.5:
        return L.const(number)
    if rng.random() < 0.2:
        var = L.Var(rng.choice(around))
        return L.Select(L.binary("<", var, L.const(2)), L.const(number), var, I64)
    moved = P.add(P.scaled(rng.choice(around), rng.choice((1, 1, 2, -1))), L.const(rng.randint(0, 4) + (fn == "min") * 2))
    return L.Call(fn, (L.const(number), moved), I64)


def kernel(seed: int) -> L.Kernel:
    """Loops of the host around groups and items, whose bounds are numbers or limited by variables around."""
    rng = random.Random(seed)
    host: list[L.For] = []
    for name in HOST[:rng.randint(0, 2)]:
        lower, upper = end(rng, [s.var for s in host], "max", rng.randint(0, 1)), L.const(rng.randint(2, 4))
        host.append(L.For(name, lower, upper, rng.choice((1, 1, 2)), L.Block(())))
    around = [s.var for s in host]
    chain: list[L.For] = []
    kinds = rng.choice((("block", "block", "thread", "thread"), ("block", "thread", "thread", "block"),
                        ("block", "block", "block", "thread")))
    for name, kind in list(zip(CHAIN, kinds, strict=True))[:rng.randint(1, 4)]:
        lower = end(rng, around, "max", rng.randint(0, 2))
        if kind == "thread" and host and rng.random() < 0.4:  # begins elsewhere in each launch, and ends so much later
            lower = L.Var(rng.choice([s.var for s in host]))
            upper: L.Expr = P.add(lower, L.const(rng.randint(1, 3)))
        else:
            upper = end(rng, around, "min", rng.randint(3, 5))
        chain.append(L.For(name, lower, upper, rng.choice((1, 1, 1, 2)), L.Block(()), kind, rng.randint(0, 1)))
        around.append(name)
    at = tuple(P.add(L.Var(around[n]), L.const(5)) for n in (-1, 0, len(around) // 2))
    code: L.Expr = L.const(0)
    for name in around:
        code = P.add(P.mul(code, L.const(31)), P.add(L.Var(name), L.const(7)))
    body: L.Stmt = L.Store(Y, at, code)
    for s in reversed(chain):
        body = L.For(s.var, s.lower, s.upper, s.step, body, s.kind, s.axis)
    return L.Kernel("k", (Y,), ("Y",), body, host=tuple(host))


def stored(k: L.Kernel) -> list[Event]:
    run = Run({"Y": np.zeros(Y.shape, np.int64)})
    return sorted(run.module(L.Module("m", (Y,), ("Y",), (), (k,))).stores)


@pytest.mark.part(2)
@pytest.mark.parametrize("start", range(0, 400, 100))
def test_the_same_stores(start: int) -> None:
    """A variable in the value tells each instance from the others."""
    for seed in range(start, start + 100):
        before = simplify.simplify_kernel(kernel(seed))  # without loops that never run
        after = launch_grid.map_kernel(before)
        assert stored(after) == stored(before), seed
        chain, _ = launch_grid.grid_loops(after)
        assert all(s.lower == L.const(0) and s.step == 1 and isinstance(s.upper, L.Const) for s in chain), seed
        axes = [(s.kind, s.axis) for s in chain]
        assert len(set(axes)) == len(axes), seed


def test_items_that_begin_elsewhere_in_each_launch_are_as_many_as_a_launch_needs() -> None:
    x, t = L.Var("x"), L.Var("t")
    item = L.For("x", t, P.add(t, L.const(4)), 1, L.Store(Y, (x, t, L.const(0)), x), "thread", 0)
    before = L.Kernel("k", (Y,), ("Y",), L.For("g", L.const(0), L.const(2), 1, item, "block", 0),
                      host=(L.For("t", L.const(0), L.const(20), 1, L.Block(())),))
    after = launch_grid.map_kernel(before)
    assert [s.upper for s in launch_grid.grid_loops(after)[0]] == [L.const(2), L.const(4)]
    assert stored(after) == stored(before)


@pytest.mark.parametrize("first", [-3, 0, 1])
def test_ends_that_follow_a_loop_of_the_host(first: int) -> None:
    """Sizes are 1 at least, loops of the host begin anywhere: with t = 0, t + 2 is less than 3."""
    t = L.Var("t", least=first, most=first + 4)
    upper = P.add(L.Call("min", (L.const(2), P.add(t, L.const(1))), I64), L.const(1))
    body = L.Store(Y, (P.add(t, L.const(3)), L.Var("x"), L.const(0)), L.Var("x"))
    before = L.Kernel("k", (Y,), ("Y",), L.For("x", L.const(0), upper, 1, body, "block", 0),
                      host=(L.For("t", L.const(first), L.const(first + 5), 1, L.Block(())),))
    after = launch_grid.map_kernel(before)
    assert [s.upper for s in launch_grid.grid_loops(after)[0]] == [L.const(3)]
    assert stored(after) == stored(before)


def test_items_below_the_top_have_the_name_of_their_axis() -> None:
    """With the bounds that they may have outside, and the true ones inside."""
    g, x, z = L.Var("g"), L.Var("x"), L.Var("z")
    upper = L.Call("min", (L.const(9), P.add(P.scaled("g", 3), L.const(4))), I64)
    first = L.For("x", L.const(2), upper, 1, L.Store(Y, (x, g, L.const(0)), P.mul(x, L.const(3))), "thread", 1)
    second = P.loop("z", 5, L.Store(Y, (z, g, L.const(1)), z), "thread", 0)
    before = L.Kernel("k", (Y,), ("Y",), L.For("g", L.const(0), L.const(3), 1, L.block(first, second), "block", 0))
    after = launch_grid.name_items(before)
    items = [s for s in traverse.walk_stmt(after.body) if isinstance(s, L.For) and s.kind == "thread"]
    assert [(s.var, s.lower, s.upper) for s in items] == [("item1", L.const(0), L.const(7)), ("item0", L.const(0), L.const(5))]
    assert stored(after) == stored(before)
