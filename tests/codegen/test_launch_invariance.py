"""Loops of the host that tell launches of a kernel apart, by what these do with the elements of a buffer."""

from __future__ import annotations

import pytest

from polytc.codegen import launch_invariance
from polytc.codegen import loops as L
from polytc.program.scalars import F32, I64
from tests.codegen import loop_programs as P

X, Y, B = L.Buffer("X", F32, (9, 9)), L.Buffer("Y", F32, (9, 9)), L.Buffer("T", F32, (9, 9))
G = L.Buffer("G", I64, (9,))
S, T, I = L.Var("s"), L.Var("t"), L.Var("i")
ZERO = L.const(0)
HOST = tuple(L.For(v, ZERO, L.const(9), 1, L.Block(())) for v in "st")
USE = L.Store(Y, (T, I), P.load(B, I, ZERO))
MAKE = L.Store(B, (I, ZERO), P.load(X, T, I))


@pytest.mark.parametrize(("body", "told"), [
    (L.block(MAKE, USE), ""),                                                    # values differ, elements do not
    (L.Store(B, (T, I), P.load(X, T, I)), "t"),
    (L.Store(B, (S, T), P.load(X, T, I)), "st"),
    (L.Store(Y, (I, I), P.load(B, T, I)), "t"),
    (L.Store(Y, (I, I), P.add(P.load(X, I, I), P.load(B, ZERO, P.add(S, I)))), "s"),
    (L.If(L.binary("==", T, ZERO), MAKE), "t"),
    (L.If(L.binary("==", T, ZERO), MAKE, USE), "t"),
    (L.If(L.binary("==", S, ZERO), L.Store(Y, (I, I), P.load(X, T, I))), ""),    # of another buffer
    (L.Store(Y, (I, I), L.Select(L.binary("<", T, I), P.load(B, I, I), P.load(X, I, I), F32)), "t"),
    (L.Store(Y, (I, I), L.Select(L.binary("<", T, I), P.load(X, I, I), P.load(B, I, I), F32)), "t"),
    (L.Store(Y, (I, I), L.Select(L.binary("<", T, I), P.load(X, I, I), P.load(X, I, T), F32)), ""),
    (P.loop("k", T, MAKE), "t"), (P.loop("k", L.const(3), P.loop("l", P.add(S, T), USE)), "st"),
    (P.loop("k", T, L.Store(Y, (I, I), P.load(X, I, I))), ""),
    (L.If(L.binary("<", P.load(B, S, I), L.Const(1.0, F32)), L.Store(Y, (I, I), P.load(X, I, I))), "st"),
    (L.Store(B, (P.load(G, I), I), P.load(X, I, I)), "st"),                       # where it lies is in memory that changes
    (L.If(L.binary("<", P.load(G, I), ZERO), MAKE), "st"),
    (L.Store(Y, (P.load(G, I), T), P.load(B, I, I)), ""),
])
def test_loops_that_tell_launches_apart(body: L.Stmt, told: str) -> None:
    kernel = L.Kernel("k", (X, G, B, Y), ("T", "Y"), P.loop("i", 9, body, "block"), host=HOST)
    found = launch_invariance.deciding_loops(kernel, "T", frozenset("GTY"))
    assert "".join(s.var for s in found) == told
    assert launch_invariance.deciding_loops(L.Kernel("k", (X,), (), body), "T", frozenset("GTY")) == ()


def test_memory_that_stays_tells_nothing() -> None:
    body = P.loop("i", 9, L.Store(B, (P.load(G, I), I), P.load(X, I, I)), "block")
    kernel = L.Kernel("k", (X, G, B), ("T",), body, host=HOST)
    assert launch_invariance.deciding_loops(kernel, "T", frozenset("TY")) == ()
