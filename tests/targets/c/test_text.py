"""The C that polytc writes: loops for threads, and vectors as loops."""

from __future__ import annotations

import re

import numpy as np
import pytest

from polytc.codegen import loops as L
from polytc.program.scalars import BF16, F16, F32, I64, DType
from polytc.targets.c.target import CTarget
from tests.c_here import COMPILERS, CompiledC
from tests.codegen import loop_programs as P

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


@pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
def test_reductions_of_vectors_of_several_widths_in_one_store() -> None:
    a, out = L.Buffer("a", I64, (40,)), L.Buffer("out", I64, (2,))

    def reduced(op: str, first: int, lanes: int) -> L.Expr:
        return L.Reduce(op, P.load(a, L.Ramp(L.const(first), 1, lanes), lanes=lanes), I64)

    value = P.add(L.binary("-", reduced("+", 0, 8), reduced("max", 8, 2)), P.mul(reduced("*", 10, 4), reduced("min", 16, 16)))
    m = P.module("m", (a, out), ("out",), L.block(L.Store(out, (L.const(0),), value),
                                                   L.Store(out, (L.const(1),), reduced("^", 32, 8))))
    x = np.random.default_rng(0).integers(-9, 10, 40)
    target = CompiledC()
    got = P.run(target.load(target.build(target.emit(m))), m, {"a": x})["out"]
    want = x[:8].sum() - x[8:10].max() + x[10:14].prod() * x[16:32].min()
    assert list(got) == [want, np.bitwise_xor.reduce(x[32:])]


@pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
def test_stores_of_vectors_of_any_width() -> None:
    """Side by side, apart, and where what is loaded is stored in another order."""
    widths = (1, 2, 4, 8)
    a, out = L.Buffer("a", I64, (64,)), L.Buffer("out", I64, (len(widths), 3, 16))
    x = np.random.default_rng(0).integers(-99, 99, 64)
    stores: list[L.Stmt] = []
    want = np.zeros(out.shape, np.int64)

    def ramp(base: int, stride: int, lanes: int) -> L.Expr:
        return L.const(base) if lanes == 1 else L.Ramp(L.const(base), stride, lanes)

    for k, lanes in enumerate(widths):
        places = [ramp(3, 1, lanes), ramp(1, 2, lanes), ramp(0, 1, lanes)]
        values = [P.load(a, ramp(first, step, lanes), lanes=lanes) for first, step in ((5, 1), (40, -2), (9, 1))]
        values[1] = P.mul(values[1], L.const(3, lanes))
        held = P.load(out, L.const(k), L.const(2), places[2], lanes=lanes)
        moved = L.Store(out, (L.const(k), L.const(2), ramp(1, 1, lanes)), held)
        stores += [*(L.Store(out, (L.const(k), L.const(n), places[n]), values[n]) for n in range(3)), moved]
        want[k, 0, 3:3 + lanes] = x[5:5 + lanes]
        want[k, 1, 1:1 + 2 * lanes:2] = 3 * x[40:40 - 2 * lanes:-2]
        want[k, 2, :lanes] = x[9:9 + lanes]
        want[k, 2, 1:1 + lanes] = x[9:9 + lanes]
    m = P.module("m", (a, out), ("out",), L.block(*stores))
    target = CompiledC()
    np.testing.assert_array_equal(P.run(target.load(target.build(target.emit(m))), m, {"a": x})["out"], want)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_functions_on_halves_are_there(dtype: DType) -> None:
    """Also where all that is done is to load and to store; no function is called that the text has not defined before."""
    x, y = L.Buffer("X", dtype, (8,)), L.Buffer("Y", dtype, (8,))
    text = CTarget().emit(P.module("m", (x, y), ("Y",), P.loop("i", 8, L.Store(y, (I,), P.load(x, I))))).text
    for name in {"f16": ("polytc_half", "polytc_of_half"), "bf16": ("polytc_bfloat", "polytc_of_bfloat")}[dtype.name]:
        defined = re.search(rf"^static inline \w+ {name}\(", text, re.MULTILINE)
        assert defined is not None
        assert defined.end() <= min(m.end() for m in re.finditer(rf"\b{name}\(", text))
