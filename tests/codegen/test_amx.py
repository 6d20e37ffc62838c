"""Tiles of a matrix unit in hand-made loops: rows of accumulators in any order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from llvm_modules import V, add, c, load, module

from polytc.codegen import loops
from polytc.codegen.interp import InterpTarget
from polytc.codegen.llvm.target import LLVMTarget
from polytc.lang.scalars import I32, U32
from polytc.machine import AVX512

AMX = replace(AVX512, features="+avx512vnni,+avx512vl,+avx512bw,+amx-tile,+amx-int8")
ROWS, WORDS, EDGE = 32, 20, 16


def strips(places: list[list[int]]) -> loops.Module:
    """O[row, 16 * s:] = the sum over k of dot(A[row, k], B[k, 16 * s:]), with the rows of strip s in an array of its own, at
    these places."""
    a, b = loops.Buffer("A", U32, (ROWS, WORDS)), loops.Buffer("B", U32, (WORDS, EDGE * len(places)))
    out = loops.Buffer("O", I32, (ROWS, EDGE * len(places)))
    held = [loops.Buffer(f"R{s}", I32, (max(rows) + 1, EDGE), "private") for s, rows in enumerate(places)]

    def lanes(base: int) -> loops.Expr:
        return loops.Ramp(c(base), 1, EDGE)

    def each(make) -> loops.Stmt:
        return loops.block(*(make(s, row, place) for s, rows in enumerate(places) for row, place in enumerate(rows)))

    def product(s: int, row: int, place: int) -> loops.Stmt:
        words = loops.Broadcast(load(a, c(row), V("k")), EDGE, U32), load(b, V("k"), lanes(EDGE * s), lanes=EDGE)
        old = load(held[s], c(place), lanes(0), lanes=EDGE)
        return loops.Store(held[s], (c(place), lanes(0)), add(old, loops.Call("dot_u8i8", words, I32, EDGE)))

    zero = loops.Broadcast(loops.Const(0, I32), EDGE, I32)
    body = loops.block(
        each(lambda s, row, place: loops.Store(held[s], (c(place), lanes(0)), zero)),
        loops.For("k", c(0), c(WORDS), 1, each(product)),
        each(lambda s, row, place: loops.Store(out, (c(row), lanes(EDGE * s)), load(held[s], c(place), lanes(0), lanes=EDGE))))
    for r in held:
        body = loops.Alloc(r, body)
    return module(body, a, b, out)


def test_rows_that_lie_evenly_in_one_array_only() -> None:
    """Two tiles of rows in the first strip, one in the second; what is left over is vector code."""
    even = list(range(ROWS))
    uneven = [*even[:EDGE], *(EDGE + 5 * n % EDGE for n in range(EDGE))]
    for places in ([even, uneven], [uneven, even], [even, even], [uneven, uneven]):
        m = strips(places)
        text = LLVMTarget(AMX).emit(m).text
        assert text.count("= call x86_amx @llvm.x86.tdpbusd.internal(") == (4 if places == [even, even] else 2)
        rng = np.random.default_rng(0)
        a, b = (rng.integers(0, 256, (*t.shape, 4), np.uint8) for t in m.args[:2])
        expected = np.einsum("ikw,kjw->ij", a.astype(np.int32), b.view(np.int8).astype(np.int32))
        arrays = [x.view(np.uint32)[..., 0] for x in (a, b)]
        targets = [InterpTarget(AMX)] + [LLVMTarget()] * LLVMTarget().machine.has("amx-int8")
        for target in targets:
            out = np.zeros(expected.shape, np.int32)
            target.load(target.build(target.emit(m)), 1).run([*arrays, out])
            np.testing.assert_array_equal(out, expected)
