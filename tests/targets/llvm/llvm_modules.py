"""Hand-made Loop AST modules for the CPU target, and how to run one."""

from __future__ import annotations

import numpy as np

from polytc.codegen import loops, verify
from polytc.targets.llvm.target import LLVMTarget

TARGET = LLVMTarget()
c, V, add = loops.const, loops.Var, lambda a, b: loops.binary("+", a, b)


def module(body: loops.Stmt, *args: loops.Buffer, precise: bool = False, fast: bool = False) -> loops.Module:
    """One kernel; the last argument is the output."""
    kernel = loops.Kernel("k", args, (args[-1].name,), body, precise, fast=fast)
    return verify.verify(loops.Module("m", args, (args[-1].name,), (), (kernel,)))


def run(m: loops.Module, *arrays: np.ndarray, threads: int = 1) -> np.ndarray:
    out = np.zeros(m.args[-1].shape, m.args[-1].dtype.numpy)
    TARGET.load(TARGET.build(TARGET.emit(m)), threads).run([*arrays, out])
    return out


def load(b: loops.Buffer, *indices: loops.Expr, lanes: int = 1) -> loops.Load:
    return loops.Load(b, indices, b.dtype, lanes)


def elementwise(value, out: loops.Buffer, *args: loops.Buffer, lanes: int = 1) -> loops.Module:
    n = out.shape[0]
    at: loops.Expr = V("i") if lanes == 1 else loops.Ramp(V("i"), 1, lanes)
    body = loops.For("i", c(0), c(n), lanes, loops.Store(out, (at,), value(at, lanes)))
    return module(body, *args, out)
