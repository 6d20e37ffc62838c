"""Tiles of a matrix unit, which numpy is here: in hand-made loops, with rows of accumulators in any order, and in programs."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from polytc.codegen import loops
from polytc.codegen.target import Source
from polytc.compiler import lower_program
from polytc.lang import build
from polytc.machine import AVX512
from polytc.program.scalars import I32, U32, named
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from tests.targets.llvm.emulated_tiles import Unit
from tests.targets.llvm.llvm_modules import V, add, c, load, module

AMX = replace(AVX512, features="+avx512vnni,+avx512bf16,+avx512vl,+avx512bw,+amx-tile,+amx-int8,+amx-bf16")
ROWS, WORDS, EDGE = 32, 20, 16


def in_numpy(made: Source, *arrays: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The result where numpy is the matrix unit."""
    unit, here = Unit(), LLVMTarget()
    here.load(here.build(unit.source(made)), 1).run([*arrays, out])
    assert unit.used
    assert unit.wrong == []
    return out


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
        assert text.count("call void @llvm.x86.tdpbusd(") == (4 if places == [even, even] else 2)
        rng = np.random.default_rng(0)
        a, b = (rng.integers(0, 256, (*t.shape, 4), np.uint8) for t in m.args[:2])
        expected = np.einsum("ikw,kjw->ij", a.astype(np.int32), b.view(np.int8).astype(np.int32))
        arrays = [x.view(np.uint32)[..., 0] for x in (a, b)]
        out = np.zeros(expected.shape, np.int32)
        interp = InterpTarget(AMX)
        interp.load(interp.build(interp.emit(m)), 1).run([*arrays, out])
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(in_numpy(LLVMTarget(AMX).emit(m), *arrays, out=np.zeros_like(out)), expected)


def numbers(dtype: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Numbers whose sums are exact."""
    low, high = {"u8": (0, 256), "i8": (-128, 128), "bf16": (-9, 10)}[dtype]
    return np.random.default_rng(seed).integers(low, high, shape).astype(named(dtype).numpy)


@pytest.mark.part(9)
@pytest.mark.parametrize("dtypes", [("u8", "i8"), ("i8", "u8"), ("bf16", "bf16")], ids="-".join)
@pytest.mark.parametrize(("m", "n", "k"), [
    (32, 32, 128), (70, 90, 150), (17, 33, 67), (9, 48, 64), (33, 20, 200), (12, 77, 96)])
def test_products_with_numpy_as_the_matrix_unit(m: int, n: int, k: int, dtypes: tuple[str, str]) -> None:
    """Strips, rows, columns and steps that fill tiles, and that do not."""
    wide = "f32" if dtypes[0] == "bf16" else "i32"
    program = build(f"C[i,j] += {wide}(A[i,k]) * {wide}(B[k,j])", {"A": (m, k), "B": (k, n)},
                    dict(zip("AB", dtypes, strict=True)))
    a, b = numbers(dtypes[0], (m, k), 0), numbers(dtypes[1], (k, n), 1)
    out = in_numpy(lower_program(program, LLVMTarget(AMX)).source, a, b, out=np.full((m, n), 77, named(wide).numpy))
    np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("dtypes", [("u8", "i8"), ("bf16", "bf16"), ("i8", "u8")], ids="-".join)
def test_columns_end_where_their_tensor_does(dtypes: tuple[str, str]) -> None:
    """57 columns from the third on of 60 words, which lie in no blocks: the last 9 are all that is there of their row."""
    wide = "f32" if dtypes[0] == "bf16" else "i32"
    program = build(f"Y[o,x] += {wide}(W[o,c]) * {wide}(X[c,x+3]) where x in 0:57", {"W": (32, 64), "X": (64, 60)},
                    dict(zip("WX", dtypes, strict=True)))
    w, x = numbers(dtypes[0], (32, 64), 0), numbers(dtypes[1], (64, 60), 1)
    unit, here, out = Unit(), LLVMTarget(), np.full((32, 57), 77, named(wide).numpy)
    source = lower_program(program, LLVMTarget(AMX)).source
    here.load(here.build(unit.source(source)), 1).run([w, x, out])
    np.testing.assert_array_equal(out, w.astype(np.int64) @ x.astype(np.int64)[:, 3:])
    assert unit.wrong == []
    assert unit.widths == {64, 4 * 9}


@pytest.mark.parametrize(("m", "loops_of"), [(96, ["0:32:8"]), (81, ["0:24:8"]), (10, ["0:10:2", "0:10:5", "0:10:2"])])
def test_what_comes_behind_a_product_runs_some_rows_at_a_time(m: int, loops_of: list[str]) -> None:
    """Tiles of 32 rows, of 27, of which three are left, and of 10, whose results lie in memory before and behind."""
    text = "S[i,j] += i32(A[i,k])*i32(B[k,j]); Y[i,j] = u8(clamp(round(f32(S[i,j] + b[j])*0.0011/0.37) + 7, 0, 255))"
    program = build(text, {"A": (m, 96), "B": (96, 64), "b": (64,)}, {"A": "u8", "B": "i8", "b": "i32"})
    lowered = lower_program(program, LLVMTarget(AMX))
    assert re.findall(r"_first in (\S+) *[{:]?$", str(lowered.loops), re.MULTILINE) == loops_of
    a, b, bias = numbers("u8", (m, 96), 0), numbers("i8", (96, 64), 1), np.arange(64, dtype=np.int32) * 999 - 30_000
    sums = (a.astype(np.int64) @ b.astype(np.int64) + bias).astype(np.float32)
    quotients = sums * np.float32(0.0011) / np.float32(0.37)
    expected = np.clip(np.round(quotients) + 7, 0, 255).astype(np.uint8)
    out = in_numpy(lowered.source, a, b, bias, out=np.full((m, 64), 77, np.uint8))
    np.testing.assert_array_equal(out, expected)
