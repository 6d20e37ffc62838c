"""Loops of the CPU target: what LLVM is told of them, and which threads run them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from polytc.codegen import loops
from polytc.program.scalars import F32
from polytc.targets.llvm import ir, memory
from tests.targets.llvm.llvm_modules import TARGET, V, add, c, load, module, run


def test_large_loops_of_vectors_are_not_unrolled_further() -> None:
    """It costs time to compile; small ones, and loops of scalars, are left to LLVM."""
    a, out = loops.Buffer("a", F32, (2000,)), loops.Buffer("out", F32, (2000,))

    def told(stores: int, lanes: int) -> bool:
        rows = []
        for k in range(stores):
            start = add(loops.binary("*", V("i"), c(7 * k + 1)), c(k))
            at = start if lanes == 1 else loops.Ramp(start, 1, lanes)
            rows.append(loops.Store(out, (at,), load(a, at, lanes=lanes)))
        text = TARGET.emit(module(loops.For("i", c(0), c(8), 1, loops.block(*rows)), a, out)).text
        number = re.findall(r"br label .*, !llvm\.loop !(\d+)", text)
        assert len(number) <= 1
        if number:
            (fact,) = re.findall(rf"^!{number[0]} = distinct !{{!{number[0]}, !(\d+)}}$", text, re.MULTILINE)
            assert f'!{fact} = !{{!"llvm.loop.unroll.disable"}}' in text
        return bool(number)

    assert [told(2, 8), told(20, 8), told(20, 1)] == [False, True, False]


@pytest.mark.parametrize(("type_", "vectors"), [("float", 0), ("<8 x float>", 4), ("<1 x float>", 4)])
def test_instructions_that_read_or_make_vectors_are_counted(type_: str, vectors: int) -> None:
    """Also those whose result is none: a store, and the bits of a vector as one number."""
    fn = ir.Function(ir.Text(), "f", [])
    value = ir.Value(type_, "%v")
    fn.binary("fadd", value, value)
    fn.bitcast(value, f"i{32 * ir.lanes_of(type_)}")
    memory.store(fn, F32, ir.Value("ptr", "%p"), value)
    fn.call_void("take", (value,))
    fn.do("br label %next")
    assert fn.vectors == vectors


@pytest.mark.parametrize("threads", [1, 3])
def test_a_parallel_loop_inside_of_a_parallel_one_is_a_loop(threads: int) -> None:
    """The threads are busy already."""
    out = loops.Buffer("out", F32, (6, 40))
    one = loops.Const(1.0, F32)
    inner = loops.For("j", c(0), c(40), 1, loops.Store(out, (V("i"), V("j")), add(load(out, V("i"), V("j")), one)), "parallel")
    m = module(loops.For("i", c(0), c(6), 1, inner, "parallel"), out)
    assert TARGET.emit(m).text.count("call void %launch(") == 1
    assert np.array_equal(run(m, threads=threads), np.ones((6, 40)))


@pytest.mark.part(4)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("weights", [(1, 1), (2, 1), (1, 3), (3, 2, 1), (7, 1, 4, 2)], ids=str)
def test_loops_that_run_at_once_do_each_iteration_once(weights: tuple[int, ...], threads: int) -> None:
    """One region, in which an iteration of a heavy loop counts for several."""
    n = 13
    buffers = [loops.Buffer(f"t{k}", F32, (n,)) for k in range(len(weights))]
    nests = []
    for k, (b, weight) in enumerate(zip(buffers, weights, strict=True)):
        more = loops.Store(b, (V(f"i{k}"),), add(load(b, V(f"i{k}")), loops.Const(1.0, F32)))
        nests.append(loops.For(f"i{k}", c(0), c(n), 1 + k % 2, loops.For("r", c(0), c(weight), 1, more), "parallel"))
    kernel = loops.Kernel("k", tuple(buffers), tuple(b.name for b in buffers), loops.block(*nests))
    source = TARGET.emit(loops.Module("m", tuple(buffers), kernel.writes, (), (kernel,)))
    assert source.text.count("call void %launch(") == 1
    arrays = [np.zeros(n, np.float32) for _ in buffers]
    TARGET.load(TARGET.build(source), threads).run(arrays)
    for k, (found, weight) in enumerate(zip(arrays, weights, strict=True)):
        assert np.array_equal(found, weight * (np.arange(n) % (1 + k % 2) == 0))
