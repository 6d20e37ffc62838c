"""Which loops of the C that polytc writes are for threads."""

from __future__ import annotations

import re

import loop_programs as P

from polytc.codegen import loops as L
from polytc.codegen.c.target import CTarget
from polytc.lang.scalars import F32

X, T = L.Buffer("X", F32, (8, 8)), L.Buffer("T", F32, (8,), "local")
I, J = L.Var("i"), L.Var("j")


def marked(body: L.Stmt) -> list[str]:
    """The variables of the loops that threads divide."""
    text = CTarget().emit(P.module("m", (X,), ("X",), body)).text
    return re.findall(r"^ *PARALLEL\n *for \(\w+ (\w+)", text, re.MULTILINE)


def fill(var: str) -> L.For:
    return P.loop(var, 8, L.Store(X, (L.const(0), L.Var(var)), L.Const(1.0, F32)), "parallel")


def test_threads_divide_the_outermost_loops_that_are_parallel() -> None:
    """Each of several, also behind nests and arrays; never one inside of another, nor one that shares an array of its own."""
    nest = P.loop("i", 8, P.loop("j", 8, L.Store(X, (I, J), L.Const(1.0, F32)), "parallel"), "parallel")
    inside = P.loop("s", 8, fill("a"))
    shared = L.Alloc(T, L.block(L.Store(T, (L.const(0),), L.Const(1.0, F32)), fill("b"), fill("c")))
    assert marked(L.block(nest, fill("d"), inside, shared, fill("e"), fill("f"))) == ["i", "d", "a", "e", "f"]
    assert marked(P.loop("i", 8, P.loop("j", 8, L.Store(X, (I, J), L.Const(1.0, F32))))) == []
