"""Places of loops that are counted, and the option of LLVM that goes with them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polytc
from polytc.codegen import loops
from polytc.codegen.addresses import address
from polytc.compiler import lower_program
from polytc.machine import AVX512, NEON
from polytc.native import jit
from polytc.stages import build
from polytc.targets.llvm import ir, walks
from polytc.targets.llvm.target import LLVMTarget

R = np.random.default_rng(7)
HERE = pytest.mark.skipif(not jit.counts_places(polytc.machine.detect(*jit.host()).architecture), reason="other addresses")


def form(*terms: tuple[str, int], constant: int = 0) -> Any:
    total: loops.Expr = loops.const(constant)
    for name, factor in terms:
        total = loops.binary("+", total, loops.binary("*", loops.Var(name), loops.const(factor)))
    return address(total)


def walk(var: str) -> dict[str, walks.Walk]:
    return {var: walks.Walk(var, ir.constant(0, "i64"), 1)}


def test_what_stays_comes_in_the_order_of_the_loops() -> None:
    both = walk("i") | walk("k")
    fixed, moving = walks.parts(form(("j", 5), ("k", 64), ("i", 3072), constant=7), both, ["i", "j", "k"])
    assert [(a.name, c) for a, c in fixed] == [("i", 3072), ("j", 5)]
    assert moving == ((loops.Var("k"), 64),)
    fixed, moving = walks.parts(form(("j", 5), ("i", 3072)), both, ["j", "i", "k"])
    assert moving == ((loops.Var("i"), 3072),)
    assert walks.parts(form(("j", 3)), both, ["i", "j", "k"]) == ((), ())


QUARTER = loops.binary("//", loops.Var("c"), loops.const(4))


@pytest.mark.parametrize(("lower", "upper", "step", "once"), [
    (QUARTER, loops.binary("+", QUARTER, loops.const(1)), 1, True), (loops.const(0), loops.const(3), 1, False),
    (loops.Var("i"), loops.binary("+", loops.Var("i"), loops.const(8)), 8, True), (loops.Var("i"), loops.const(9), 1, False)])
def test_loops_of_one_iteration(lower: loops.Expr, upper: loops.Expr, step: int, once: bool) -> None:
    assert walks.runs_once(loops.For("k", lower, upper, step, loops.Block(()))) == once


def test_a_variable_inside_of_a_quotient_is_no_walk() -> None:
    quotient = address(loops.binary("//", loops.Var("k"), loops.const(3)))
    assert walks.parts(quotient, walk("k"), ["k"]) == ((), ())


@pytest.mark.parametrize("factor", [1, 3, 64, -1])
@pytest.mark.parametrize("lower", [ir.constant(3, "i64"), ir.Value("i64", "%lower")], ids=["number", "value"])
def test_a_counter_is_the_variable_times_a_number(factor: int, lower: ir.Value) -> None:
    fn = ir.Function(ir.Text(), "f", [])
    walk = walks.Walk("k", lower, 2)
    value = walk.counter(fn, factor)
    assert walk.counter(fn, factor) == value
    first, heads = walk.count(fn, "before")
    start = str(3 * factor) if lower.number is not None else r"%start\.\d+"
    assert [re.sub(r" = .*", "", line.strip()) for line in first] == re.findall(r"%start\.\d+", heads[0])
    assert re.fullmatch(rf"  %step\.\d+ = phi i64 \[ {start}, %before \], \[ %v\d+, %entry \]", heads[0])
    assert fn.lines[-1].endswith(f"add nsw i64 {value.ref}, {2 * factor}")


def source(text: str, shapes: dict[str, tuple[int, ...]], machine: Any = AVX512) -> str:
    return str(lower_program(build(text, shapes), replace(LLVMTarget(), given=machine)).source)


def test_the_text_of_a_product_counts_its_rows() -> None:
    shapes = {"A": (510, 512), "B": (512, 512)}
    assert "%step." in source("C[i,j] += A[i,k]*B[k,j]", shapes)
    assert "%step." not in source("C[i,j] += A[i,k]*B[k,j]", shapes, NEON)


PROGRAMS = [
    ("C[i,j] += A[i,k]*B[k,j]", {"A": (37, 41), "B": (41, 53)}, lambda A, B: A @ B),
    ("Y[i,j] = X[36-i,j]*2", {"X": (37, 41)}, lambda X: X[::-1] * 2),
    ("Y[i,j] = X[i,40-j] + 1", {"X": (37, 41)}, lambda X: X[:, ::-1] + 1),
    ("Y[i] += X[3*i+1,j]", {"X": (60, 70)}, lambda X: X[1::3].sum(1)),
    ("Y[i,j] = X[2*i+1,3*j+2] where i in 0:20, j in 0:21", {"X": (41, 70)}, lambda X: X[1:41:2, 2:65:3][:, :21]),
    ("Y[j] += X[i,j]", {"X": (60, 70)}, lambda X: X.sum(0)),
    ("Y[j,i] = X[i,j]", {"X": (61, 43)}, lambda X: X.T),
    ("Y[i,j] = X[i,j] where j <= i, i in 0:40, j in 0:40; Y[i,j] = 0 where j > i, i in 0:40, j in 0:40", {"X": (40, 40)},
     np.tril),
    ("Y[b,i,j] += X[b,i,k]*W[k,j]", {"X": (3, 5, 70), "W": (70, 40)}, lambda X, W: X @ W),
    ("Y[y,x] += X[y+r,x+s]*W[r,s]", {"X": (20, 70), "W": (3, 3)},
     lambda X, W: sum(X[r:r + 18, s:s + 68] * W[r, s] for r in range(3) for s in range(3))),
]


@HERE
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("text", "shapes", "expected"), PROGRAMS, ids=[p[0][:24] for p in PROGRAMS])
def test_results(text: str, shapes: dict[str, tuple[int, ...]], expected: Any, dtype: str) -> None:
    given = {n: R.standard_normal(s).astype({"f32": np.float32, "f64": np.float64}[dtype]) for n, s in shapes.items()}
    for schedule in (None, "program"):
        found = polytc.compile(text, threads=1, schedule=schedule)(**given)
        np.testing.assert_allclose(found, expected(*given.values()), rtol=2e-5, atol=2e-5)


@HERE
def test_the_option_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where LLVM fails; and set for such code alone."""
    seen: list[str] = []
    monkeypatch.setattr(jit.llvm, "set_option", lambda name, option: seen.append(option))

    class Machine:
        triple = "x86_64-unknown-linux-gnu"

    def fails(module: object) -> bytes:
        seen.append("made")
        raise RuntimeError
    with pytest.raises(RuntimeError):
        jit._made(fails, object(), Machine(), True)
    assert seen == ["-disable-lsr=true", "made", "-disable-lsr=false"]
    assert jit._made(lambda module: b"code", object(), Machine(), False) == b"code"
    Machine.triple = "aarch64-unknown-linux-gnu"
    assert jit._made(lambda module: b"code", object(), Machine(), True) == b"code"
    assert len(seen) == 3
