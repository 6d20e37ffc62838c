"""Loops of the host: kernels taken apart and put together store the same in the same order."""

from __future__ import annotations

import random

import numpy as np
import pytest

from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes import host_loops
from polytc.program.scalars import I64
from tests.codegen import loop_programs as P
from tests.codegen.loop_steps import arrays_of, stores

T, G = L.Buffer("T", I64, (16, 16)), L.Buffer("G", I64, (16,))


def index(rng: random.Random, around: list[str]) -> L.Expr:
    """A number in 0..15, most often of a variable."""
    return L.Var(rng.choice(around)) if around and rng.random() < 0.9 else L.const(rng.randint(0, 9))


def statement(rng: random.Random, around: list[str], depth: int) -> L.Stmt:
    """Loops on the host's and on work-groups' level, conditions and updates, nested at random."""
    kind = rng.choice(("block", "nest", "for", "for", "if") if depth < 3 else ("store",))
    match kind:
        case "block":
            return L.block(*(statement(rng, around, depth + 1) for _ in range(rng.randint(2, 3))))
        case "nest" | "for":
            name = rng.choice("abc") + str(depth)
            lower = rng.choice((L.const(0), L.const(1), index(rng, around), P.load(G, index(rng, around))))
            limited = L.Call("min", (P.add(lower, L.const(3)), L.const(9)), I64)
            upper = rng.choice((L.const(3), P.add(lower, L.const(2)), limited))
            inside = statement(rng, [*around, name], depth + 1)
            if kind == "nest":
                return L.For(name, L.const(0), L.const(3), 1, inside, "block")
            return L.For(name, lower, upper, rng.choice((1, 1, 2)), inside, title=rng.choice(("", "t", name)))
        case "if":
            other = statement(rng, around, depth + 1) if rng.random() < 0.5 else None
            read = P.load(G, index(rng, around)) if rng.random() < 0.3 else index(rng, around)
            return L.If(L.binary("<", read, L.const(rng.randint(0, 4))), statement(rng, around, depth + 1), other)
    at = (index(rng, around), index(rng, around))
    new = P.add(P.mul(P.load(T, *at), L.const(3)), P.add(index(rng, around), L.const(rng.randint(0, 9))))
    return L.Store(T, at, L.binary("%", new, L.const(1009)))


def module(seed: int) -> tuple[L.Module, dict[str, np.ndarray]]:
    rng = random.Random(seed)
    bodies = [statement(rng, [], 0) for _ in range(rng.randint(1, 3))]
    return P.module("m", (G, T), ("T",), *bodies), {"T": arrays_of(T)["T"] % 3, "G": np.arange(16) * 5 % 7}


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_apart_and_together(start: int) -> None:
    taken_apart = 0
    for seed in range(start, start + 100):
        whole, arrays = module(seed)
        expected = stores(whole, arrays)
        apart = host_loops.split(whole, host_loops.GRID)
        assert stores(apart, arrays) == expected, seed
        assert stores(host_loops.merge(apart), arrays) == expected, seed
        names = [s.var for k in apart.kernels for s in k.host]
        taken_apart += bool(names)
        assert len({k.name for k in apart.kernels}) == len(apart.kernels), seed
        assert not any(k.host for k in host_loops.merge(apart).kernels), seed
    assert taken_apart > 20


def test_what_has_no_nest_stays_one_kernel() -> None:
    """Before, between and behind the nests of a loop, and around it."""
    one = L.Store(T, (L.const(0), L.const(0)), L.const(1))
    nest = P.loop("b", 4, L.Store(T, (L.Var("t"), L.Var("b")), L.Var("t")), "block")
    body = L.block(one, one, P.loop("t", 3, L.block(one, nest, one, one)), one)
    apart = host_loops.split(P.module("m", (G, T), ("T",), body), host_loops.GRID)
    assert [len(k.host) for k in apart.kernels] == [0, 1, 1, 1, 0]
    assert [sum(isinstance(s, L.Store) for s in traverse.walk_stmt(k.body)) for k in apart.kernels] == [2, 1, 1, 2, 1]
    assert len(host_loops.merge(apart).kernels) == 3
