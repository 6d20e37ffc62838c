"""Dot products of words in hand-made loops, on the processors that this one can be, and as ARM's on any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from polytc import machine as machines
from polytc.codegen import loops
from polytc.program.calls.words import WORD
from polytc.program.scalars import U32, named
from polytc.targets.llvm.target import LLVMTarget
from tests.targets.llvm.emulated_tiles import with_dots
from tests.targets.llvm.llvm_modules import V, add, c, load, module

OPERANDS = {"dot_u8i8": ("u8", "i8", "i32"), "dot_i8i8": ("i8", "i8", "i32"), "dot_u8u8": ("u8", "u8", "i32"),
            "dot_i16i16": ("i16", "i16", "i32"), "dot_bf16": ("bf16", "bf16", "f32")}
HERE = LLVMTarget()
ARM = LLVMTarget(replace(machines.NEON, features="+neon,+dotprod,+i8mm"))
TARGETS = [t for t in (HERE, LLVMTarget(machines.AVX2), LLVMTarget(machines.AVX512)) if not t.lacks()] + [ARM]
CASES = [(name, n, lanes) for n, t in enumerate(TARGETS) for name in t.machine.dots for lanes in (1, 2, 4, 8, 16)
         if t is ARM or 4 * lanes <= t.machine.vector_bytes]
COUNT = 16


def numbers(dtype: str, count: int, seed: int) -> np.ndarray:
    """Of the whole range, but bf16 whose sums are exact."""
    low, high = (-9, 9) if dtype == "bf16" else (np.iinfo(dtype.replace("i", "int").replace("u", "uint")).min, 2**7)
    return np.random.default_rng(seed).integers(low, high, count).astype(named(dtype).numpy)


@pytest.mark.part(2)
@pytest.mark.parametrize(("name", "target", "lanes"), CASES)
def test_dot_products_alone_and_in_sums(name: str, target: int, lanes: int) -> None:
    """Of words in memory, and of words that are made of neighbouring or far numbers; one operand may be one word."""
    first, second, wide = OPERANDS[name]
    group = 4 // named(first).numpy.itemsize
    a, b = loops.Buffer("a", U32, (COUNT,)), loops.Buffer("b", U32, (COUNT,))
    near, far = (loops.Buffer(n, named(first), (group * COUNT,)) for n in ("near", "far"))
    t, out = loops.Buffer("t", named(wide), (COUNT,)), loops.Buffer("out", named(wide), (6, COUNT))
    at: loops.Expr = V("i") if lanes == 1 else loops.Ramp(V("i"), 1, lanes)

    def word(buffer: loops.Buffer, offset: int, stride: int) -> loops.Expr:
        parts = []
        for k in range(group):
            start = add(loops.binary("*", V("i"), c(stride)), c(offset * k))
            where = start if lanes == 1 else loops.Ramp(start, stride, lanes)
            parts.append(load(buffer, where, lanes=lanes))
        return loops.Call(WORD, tuple(parts), U32, lanes)

    def dot(x: loops.Expr, y: loops.Expr) -> loops.Expr:
        return loops.Call(name, (x, y), named(wide), lanes)

    x, y, total = load(a, at, lanes=lanes), load(b, at, lanes=lanes), load(t, at, lanes=lanes)
    single = load(a, c(3)) if lanes == 1 else loops.Broadcast(load(a, c(3)), lanes, U32)
    values = [dot(x, y), add(total, dot(x, y)), add(dot(x, y), total), dot(single, y), dot(word(near, 1, group), y),
              add(total, dot(word(far, COUNT, 1), y))]
    row = [loops.Store(out, (c(k), at), e) for k, e in enumerate(values)]
    m = module(loops.For("i", c(0), c(COUNT), lanes, loops.block(*row)), a, b, near, far, t, out)
    parts = [numbers(second if k == 1 else first, group * COUNT, k) for k in range(4)]
    start = numbers("i16", COUNT, 4).astype(named(wide).numpy)
    got = np.zeros((6, COUNT), named(wide).numpy)
    to = TARGETS[target]
    made = to.build(to.emit(m)) if to is not ARM else HERE.build(with_dots(to.emit(m)))
    HERE.load(made, 1).run([parts[0].view(np.uint32), parts[1].view(np.uint32), *parts[2:], start, got])
    p, q, r = (x.astype(np.int64).reshape(COUNT, group) for x in parts[:3])
    s = parts[3].astype(np.int64).reshape(group, COUNT).T
    alone = (p * q).sum(1)
    want = [alone, start + alone, alone + start, (p[3] * q).sum(1), (r * q).sum(1), start + (s * q).sum(1)]
    np.testing.assert_array_equal(got, np.array(want).astype(np.int64))
