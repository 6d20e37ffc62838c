"""Each broken invariant of the Loop AST is found and named."""

from __future__ import annotations

from dataclasses import replace

import pytest

import polytc
from polytc.codegen import loops, passes, verify
from polytc.program.scalars import BOOL, F32, F64, I32

A, OUT = loops.Buffer("A", F32, (8, 4)), loops.Buffer("out", F32, (8,))
PRIVATE = loops.Buffer("t", F32, (4,), "private")
I, c = loops.Var("i"), loops.const
ZERO = loops.Const(0.0, F32)
LOAD = loops.Load(A, (I, c(1)), F32)


def kernel(body: loops.Stmt, writes: tuple[str, ...] = ("out",)) -> loops.Kernel:
    return loops.Kernel("k", (A, OUT), writes, body)


def loop(body: loops.Stmt, **changes: object) -> loops.For:
    return loops.For(**{"var": "i", "lower": c(0), "upper": c(8), "step": 1, "body": body, **changes})


def store(value: loops.Expr, *at: loops.Expr) -> loops.Store:
    return loops.Store(OUT, at or (I,), value)


def test_what_is_right_passes() -> None:
    body = loop(loops.Alloc(PRIVATE, loops.block(
        loops.Store(PRIVATE, (loops.Ramp(c(0), 1, 4),), loops.Load(A, (I, loops.Ramp(c(0), 1, 4)), F32, 4)),
        store(loops.Reduce("+", loops.Load(PRIVATE, (loops.Ramp(c(0), 1, 4),), F32, 4), F32)))))
    k = kernel(body)
    assert verify.verify_kernel(k) is k
    m = loops.Module("m", (A, OUT), ("out",), (), (k,))
    assert verify.verify(m) is m


@pytest.mark.parametrize(("body", "words"), [
    (store(ZERO), "no loop variable i"),
    (loop(store(loops.Const(0.0, F64))), "a f64 into a buffer of f32"),
    (loop(store(ZERO, I, I)), "2 indices into 1 dimensions"),
    (loop(store(loops.Load(PRIVATE, (I,), F32))), "no buffer t"),
    (loop(store(loops.Binary("+", LOAD, loops.Const(1, I32), F32))), "operands f32 and i32"),
    (loop(store(loops.Binary("<", LOAD, LOAD, F32))), "a f32 from f32"),
    (loop(store(loops.Call("exp", (LOAD, LOAD), F32))), "number of arguments"),
    (loop(store(loops.Call("nothing", (LOAD,), F32))), "no intrinsic nothing"),
    (loop(store(loops.Cast(loops.Call("exp", (c(1),), c(1).dtype), F32))), "exp of i64"),
    (loop(store(loops.Select(LOAD, LOAD, LOAD, F32))), "a condition is bool"),
    (loop(store(loops.Load(A, (I, loops.Ramp(I, 1, 4)), F32, 8))), "lanes"),
    (loop(store(loops.Const(0.0, F32, 4))), "4 lanes into 1"),
    (loop(store(ZERO), step=0), "a step is positive"),
    (loop(loop(store(ZERO))), "loop variable i is taken"),
    (loop(store(ZERO), upper=loops.Const(8, I32)), "a bound is an i64"),
    (loop(loops.If(LOAD, store(ZERO))), "a condition is one bool"),
    (loop(loops.Store(A, (I, c(0)), ZERO)), "A is not among the buffers written"),
    (store(ZERO, c(8)), "index 8 of extent 8"),
    (loops.Alloc(OUT, loop(store(ZERO))), "an allocation is local or private"),
    (loop(store(loops.Const(0.5, I32))), "whole"),
    (loop(store(loops.Reduce("-", LOAD, F32))), "no reduction -"),
    (loop(store(loops.Unary("?", LOAD, F32))), "no operator ?"),
    (loop(store(loops.Broadcast(loops.Const(0.0, F32, 4), 4, F32), loops.Ramp(I, 1, 4))), "a broadcast repeats a scalar"),
    (loop(store(loops.Const(True, BOOL))), "a bool into a buffer of f32"),
])
def test_what_is_wrong_is_named(body: loops.Stmt, words: str) -> None:
    with pytest.raises(AssertionError, match=words.replace("?", r"\?")):
        verify.verify_kernel(kernel(body))


def test_modules() -> None:
    k = kernel(loop(store(ZERO)))
    with pytest.raises(AssertionError, match="two kernels"):
        verify.verify(loops.Module("m", (A, OUT), ("out",), (), (k, k)))
    with pytest.raises(AssertionError, match="not a buffer of the module"):
        verify.verify(loops.Module("m", (OUT,), ("out",), (), (k,)))
    with pytest.raises(AssertionError, match="writes"):
        verify.verify_kernel(kernel(loop(store(ZERO)), ("other",)))


def test_a_constant_index_under_a_condition_is_not_judged() -> None:
    guarded = loops.Select(loops.binary("<", c(9), c(8)), loops.Load(OUT, (c(9),), F32), ZERO, F32)
    verify.verify_kernel(kernel(store(guarded, c(0))))


def test_the_pass_that_breaks_the_loops_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(module: loops.Module, *_: object) -> loops.Module:
        return replace(module, outputs=("nothing",))
    where = [p.name for p in passes.PASSES].index("vectorize")
    table = (*passes.PASSES[:where], passes.Pass("breaks", "an output goes", broken), *passes.PASSES[where:])
    monkeypatch.setattr(passes, "PASSES", table)
    monkeypatch.setenv("POLYTC_CHECK", "1")
    with pytest.raises(AssertionError, match=r"stage 'loops'.*pass 'breaks': .*an output is no argument"):
        polytc.lower("C[i,j] += A[i,k]*B[k,j]", shapes={"A": (4, 5), "B": (5, 6)})


COUNTS = loops.Buffer("n", I32, (8,), "local")


def counted(value: loops.Expr, kind: str) -> loops.Kernel:
    """Atomic updates of an element by the iterations of a loop."""
    update = loops.Store(COUNTS, (c(3),), value, atomic=True)
    return kernel(loops.For("b", c(0), c(2), 1, loops.Alloc(COUNTS, loop(update, kind=kind)), "block"), ())


def test_atomic_updates_are_of_items() -> None:
    old, one = loops.Load(COUNTS, (c(3),), I32), loops.Const(1, I32)
    assert verify.verify_kernel(counted(loops.Binary("+", old, one, I32), "thread"))
    assert verify.verify_kernel(counted(loops.Call("max", (old, one), I32), "sequential"))
    for kind in ("parallel", "vector"):
        with pytest.raises(AssertionError, match="items of a group alone"):
            verify.verify_kernel(counted(loops.Binary("+", old, one, I32), kind))
    for value in (one, loops.Binary("-", old, one, I32), loops.Binary("+", replace(old, indices=(c(4),)), one, I32)):
        with pytest.raises(AssertionError, match="combines an element"):
            verify.verify_kernel(counted(value, "thread"))
    assert "atomic n[3] = (n[3] + 1)" in str(counted(loops.Binary("+", old, one, I32), "thread"))
