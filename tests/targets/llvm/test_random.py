"""Random expressions on the CPU target against the interpreter: two implementations of one semantics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polytc.codegen import loops, verify
from polytc.program.scalars import BOOL, F32, F64, I8, I32, I64, U8, DType
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget

CPU, INTERP = LLVMTarget(), InterpTarget()
N, ROWS = 48, 5
BUFFERS = {d: loops.Buffer(f"in_{d}", d, (ROWS, N)) for d in (I8, I32, I64, U8, F64, F32)}
c, I, R = loops.const, loops.Var("i"), loops.Var("r")
INT_OPS = ("+", "-", "*", "//", "%", "&", "|", "^")


@st.composite
def index(draw: st.DrawFn, lanes: int) -> tuple[loops.Expr, bool]:
    """A column, and whether it lies in the buffer for certain. i runs over 0, 8, 16."""
    offset = draw(st.integers(-9, 9))
    stride = draw(st.sampled_from([1, 1, 1, 0, 2, 3, -1]))
    start = loops.binary("+", I, c(offset))
    low = offset + min(0, stride * (lanes - 1))
    high = 16 + offset + max(0, stride * (lanes - 1))
    at = start if lanes == 1 else loops.Ramp(start, stride, lanes)
    if draw(st.booleans()):
        at = loops.binary("%", at, c(draw(st.sampled_from([7, 8, 48])), lanes))
        return at, True
    return at, low >= 0 and high < N


@st.composite
def load(draw: st.DrawFn, dtype: DType, lanes: int) -> loops.Expr:
    at, inside = draw(index(lanes))
    row = draw(st.sampled_from([c(2), R, loops.binary("%", loops.binary("*", R, c(3)), c(ROWS))]))
    value = loops.Load(BUFFERS[dtype], (row, at), dtype, lanes)
    if inside:
        return value
    guard = loops.binary("&&", loops.binary(">=", at, c(0, lanes)), loops.binary("<", at, c(N, lanes)))
    other = draw(expression(dtype, lanes, 0))
    return loops.Select(guard, value, other, dtype, lanes)


@st.composite
def expression(draw: st.DrawFn, dtype: DType, lanes: int, depth: int) -> loops.Expr:
    if depth == 0:
        return loops.Const(draw(st.integers(0, 5)) if dtype.kind == "u" else draw(st.integers(-5, 5)), dtype, lanes)
    kind = draw(st.sampled_from(["load", "load", "binary", "binary", "call", "select", "cast", "broadcast", "index"]))
    if kind == "load" or dtype == BOOL:
        return draw(load(dtype, lanes))
    sub = expression(dtype, lanes, depth - 1)
    if kind == "binary":
        op = draw(st.sampled_from(("+", "-", "*") if dtype.is_float else INT_OPS))
        return loops.binary(op, draw(sub), draw(sub))
    if kind == "call":
        fn = draw(st.sampled_from(["min", "max", "abs", "sign"]))
        return loops.Call(fn, tuple(draw(sub) for _ in range(2 if fn in ("min", "max") else 1)), dtype, lanes)
    if kind == "select":
        test = loops.binary(draw(st.sampled_from(["<", "==", ">="])), draw(sub), draw(sub))
        return loops.Select(test, draw(sub), draw(sub), dtype, lanes)
    if kind == "cast":
        source = draw(st.sampled_from([I8, I32, I64, U8]))
        return loops.Cast(draw(expression(source, lanes, depth - 1)), dtype, lanes)
    if kind == "broadcast" and lanes > 1:
        return loops.Broadcast(draw(expression(dtype, 1, depth - 1)), lanes, dtype)
    at, _ = draw(index(lanes))
    return loops.Cast(at, dtype, lanes) if dtype != I64 else at


@st.composite
def modules(draw: st.DrawFn) -> loops.Module:
    stores, outs = [], []
    for n in range(3):
        dtype, lanes = draw(st.sampled_from([I8, I32, I64, U8, F64])), draw(st.sampled_from([1, 4, 8]))
        out = loops.Buffer(f"out{n}", dtype, (ROWS, N))
        outs.append(out)
        at = I if lanes == 1 else loops.Ramp(I, 1, lanes)
        stores.append(loops.Store(out, (R, at), draw(expression(dtype, lanes, 3))))
    columns = loops.For("i", c(0), c(24), 8, loops.Block(tuple(stores)))
    kind = draw(st.sampled_from(["sequential", "parallel"]))
    body = loops.For("r", c(0), c(ROWS), 1, columns, kind)
    args = (*BUFFERS.values(), *outs)
    names = tuple(b.name for b in outs)
    kernel = loops.Kernel("k", args, names, body, precise=True)
    return verify.verify(loops.Module("m", args, names, (), (kernel,)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(modules())
def test_same_as_the_interpreter(m: loops.Module) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0 if d.kind == "u" else -100, 100, (ROWS, N)).astype(d.numpy) for d in BUFFERS]
    results = []
    for target in (INTERP, CPU):
        outs = [np.zeros(b.shape, b.dtype.numpy) for b in m.args[len(inputs):]]
        target.load(target.build(target.emit(m)), 2).run([*inputs, *outs])
        results.append(outs)
    for want, got in zip(*results, strict=True):
        assert np.array_equal(want, got, equal_nan=True)
