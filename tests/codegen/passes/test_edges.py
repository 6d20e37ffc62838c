"""Windows at the edges of images with channels last: loops are cut where guards begin to hold, and nothing is copied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.codegen import loops, traverse
from polytc.lang import build
from polytc.machine import GENERIC_CPU
from polytc.targets.llvm.target import LLVMTarget

DEPTHWISE = """def f(X[H,W,C], K[3,3,C]) -> (Y) {{
    Y[h,w,c] += (X[{s}*h+r-1,{s}*w+q-1,c] else 0) * K[r,q,c] where h in 0:{h}, w in 0:{w}
}}"""
POOL = """def f(X[H,W,C]) -> (Y) {{
    Y[h,w,c] max= (X[{s}*h+r-1,{s}*w+q-1,c] else -inf) where h in 0:{h}, w in 0:{w}, r in 0:3, q in 0:3
}}"""
SIZES = [(12, 9, 32, 1), (13, 8, 40, 2), (1, 1, 16, 1), (2, 3, 24, 1), (7, 7, 48, 1), (56, 5, 16, 2)]
ON_TARGETS = [pytest.param(*s, t, marks=pytest.mark.long if s[2] == 48 or (t == "interp" and s[0] in (12, 56)) else ())
              for s in SIZES for t in ("cpu", "interp")]


def text_of(form: str, height: int, width: int, stride: int) -> str:
    return form.format(s=stride, h=-(-height // stride), w=-(-width // stride))


def padded(x: np.ndarray, value: float) -> np.ndarray:
    return np.pad(x, ((1, 2), (1, 2), (0, 0)), constant_values=value)


@pytest.mark.part(2)
@pytest.mark.parametrize(("h", "w", "c", "stride", "target"), ON_TARGETS)
def test_depthwise_products(h: int, w: int, c: int, stride: int, target: str) -> None:
    rng = np.random.default_rng(h + w)
    x, k = rng.standard_normal((h, w, c)).astype(np.float32), rng.standard_normal((3, 3, c)).astype(np.float32)
    p = padded(x, 0)
    rows, columns = -(-h // stride), -(-w // stride)
    expected = sum(p[r:r + stride * rows:stride, q:q + stride * columns:stride] * k[r, q] for r in range(3) for q in range(3))
    found = polytc.run(text_of(DEPTHWISE, h, w, stride), X=x, K=k, target=target)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.part(4)
@pytest.mark.parametrize(("h", "w", "c", "stride", "target"), ON_TARGETS)
def test_pools(h: int, w: int, c: int, stride: int, target: str) -> None:
    x = np.random.default_rng(h * w).standard_normal((h, w, c)).astype(np.float32) - 9
    p = padded(x, -np.inf)
    rows, columns = -(-h // stride), -(-w // stride)
    expected = np.max([p[r:r + stride * rows:stride, q:q + stride * columns:stride] for r in range(3) for q in range(3)], 0)
    np.testing.assert_array_equal(polytc.run(text_of(POOL, h, w, stride), X=x, target=target), expected)


@pytest.mark.parametrize("form", [DEPTHWISE, POOL])
def test_no_copy_and_no_guard_but_at_the_edges(form: str) -> None:
    shapes = {"X": (56, 56, 64), "K": (3, 3, 64)}
    program = build(text_of(form, 56, 56, 1), {n: s for n, s in shapes.items() if f"{n}[" in form})
    lowered = compiler.lower_program(program, LLVMTarget(replace(GENERIC_CPU, vector_bytes=64, vector_registers=32)))
    assert not [b.name for b in lowered.loops.scratch if b.name.startswith("X")]
    (kernel,) = lowered.loops.kernels
    outermost = [s for s in traverse.children(kernel.body) if isinstance(s, loops.For)]
    inner = max(outermost, key=lambda s: int(s.upper.value) if isinstance(s.upper, loops.Const) else 0)
    assert not [e for s in traverse.walk_stmt(inner) if isinstance(s, loops.Store) for e in traverse.walk_expr(s.value)
                if isinstance(e, loops.Select)]
