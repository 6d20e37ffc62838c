"""Emitted CUDA C run on the processor, thread by thread: kernels with barriers, tiles, vectors, open sizes and host loops; and
that a missing barrier, a barrier that some threads do not reach, or a write beside an array would be found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import compiler, stages
from polytc.codegen import loops as L
from polytc.lang import evaluate
from polytc.machine import DEVICES
from polytc.program.program import Program
from polytc.program.scalars import BF16, BOOL, F16, F32, F64, I8, I32, U8, DType, named
from polytc.program.sizes import specialised
from polytc.runtime.sized import sized
from tests import guarded
from tests.codegen import loop_programs as P
from tests.cuda_here import COMPILER, CompiledCuda, Divergent, LoadedCuda, callers, library
from tests.targets.opencl.sanitized import OPEN, STAGED, STEPS, WIDE

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
TARGET = CompiledCuda()
MACHINES = ["generic-gpu", "nvidia-sm90", "amd-gfx90a", "amd-gfx1100", "apple-m1", "intel-xe", "mali"]


def compared(program: Program, target: CompiledCuda, text: str = "") -> None:
    """Run a program between canaries, and compare it with the evaluator. text: what its source must have."""
    source = compiler.lower_program(program, target).source
    assert text in source.text
    given = {n: np.random.default_rng(1).integers(-4, 5, program.tensor(n).shape).astype(program.tensor(n).dtype.numpy)
             for n in program.inputs}
    expected = evaluate(program, {n: a.copy() for n, a in given.items()})
    arrays = {n: given.get(n, np.zeros(program.tensor(n).shape, program.tensor(n).dtype.numpy)) for n in program.arrays}
    guarded.run(target.load(target.build(source)), [arrays[b.name] for b in source.module.args])
    for n, wanted in expected.items():
        np.testing.assert_allclose(arrays[n], wanted, rtol=1e-5)


@pytest.mark.part(63)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("text", "shapes"), STAGED, ids=lambda x: x[:30] if isinstance(x, str) else "")
def test_tiles_in_shared_memory(text: str, shapes: Mapping[str, tuple[int, ...]], machine: str) -> None:
    compared(stages.build(text, shapes, dict.fromkeys(shapes, "f32")), CompiledCuda(DEVICES[machine]))


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "shapes"), WIDE, ids=lambda x: x[:30] if isinstance(x, str) else "")
def test_whole_vectors(text: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    small = CompiledCuda(replace(DEVICES["generic-gpu"], cores=1))
    compared(stages.build(text, shapes, dict.fromkeys(shapes, "f32")), small, "*(f32x4*)")


@pytest.mark.part(6)
@pytest.mark.parametrize("launch", [0.0, 1e9], ids=["host", "block"])
@pytest.mark.parametrize(("text", "shapes"), STEPS, ids=["heat", "sweeps", "eliminate"])
def test_loops_of_the_host_and_barriers_of_a_block(text: str, shapes: Mapping[str, tuple[int, ...]], launch: float) -> None:
    target = CompiledCuda(replace(DEVICES["generic-gpu"], max_work_group=16).costing({"launches.launch": launch}))
    compared(stages.build(text, shapes, dict.fromkeys(shapes, "f32")), target, "__syncthreads();" if launch else "")


@pytest.mark.part(4)
@pytest.mark.parametrize(("text", "shapes"), OPEN, ids=lambda x: x[:30] if isinstance(x, str) else "")
def test_open_sizes(text: str, shapes: Mapping[str, tuple[str, ...]]) -> None:
    low = polytc.lower(text, shapes=shapes, target=TARGET)
    executable = compiler.compile_program(low.program, TARGET)
    for sizes in ({"M": 37, "K": 21, "N": 29}, {"M": 1, "K": 1, "N": 1}, {"M": 128, "K": 130, "N": 64}):
        program = specialised(low.program, sizes)
        rng = np.random.default_rng(1)
        given = {n: rng.integers(-4, 5, [sizes[d] for d in s]).astype(np.float32) for n, s in shapes.items()}
        results = {n: np.zeros(program.tensor(n).shape, np.float32) for n in program.outputs}
        made = sized(executable, compiler.options(executable), {n: sizes[n] for n in low.program.sizes})
        guarded.run(made, [*given.values(), *results.values()])
        for n, wanted in evaluate(program, given).items():
            np.testing.assert_array_equal(results[n], wanted)


def many_blocks(count: int) -> L.Module:
    """An array of two dimensions, a block of the axis y for each row."""
    x = L.Buffer("x", I32, (count, 2))
    store = L.Store(x, (L.Var("i"), L.Var("j")), L.Cast(P.add(P.mul(L.Var("i"), L.const(2)), L.Var("j")), I32))
    return P.module("rows", (x,), ("x",), P.loop("i", count, P.loop("j", 2, store, "block"), "block", axis=1))


@pytest.mark.part(2)
@pytest.mark.parametrize("count", [65535, 65536, 70000])
def test_more_blocks_than_an_axis_has(count: int) -> None:
    source = TARGET.emit(many_blocks(count))
    assert source.launches[0].global_size == ((2, count) if count == 65535 else (2 * count,))
    x = np.zeros((count, 2), np.int32)
    TARGET.load(TARGET.build(source)).run([x])
    np.testing.assert_array_equal(x.ravel(), np.arange(2 * count))


@pytest.mark.part(24)
@pytest.mark.parametrize("dtype", [BOOL, I8, U8, I32, F16, BF16, F32, F64], ids=str)
@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_vectors_of_every_type(dtype: DType, lanes: int) -> None:
    """Copied through aligned and through other addresses, apart and backwards; compared and chosen."""
    x, y = L.Buffer("x", dtype, (64,)), L.Buffer("y", dtype, (5, 64))

    def load(first: int, stride: int = 1) -> L.Expr:
        return P.load(x, L.Ramp(L.const(first), stride, lanes), lanes=lanes)

    def store(row: int, first: int, value: L.Expr, stride: int = 1) -> L.Stmt:
        return L.Store(y, (L.const(row), L.Ramp(L.const(first), stride, lanes)), value)

    less = L.Binary("<", load(0), load(16), BOOL, lanes)
    chosen = L.Call("min", (load(0), load(16)), dtype, lanes)
    body = L.block(store(0, 16, load(16)), store(1, 3, load(5)), store(2, 0, load(3), 2), store(2, 63, load(40), -2),
                   store(3, 0, load(0, 2)), store(4, 0, chosen),
                   L.Store(y, (L.const(3), L.const(63)), L.Cast(L.Reduce("|", less, BOOL), dtype)))
    m = P.module("vectors", (x, y), ("y",), body)
    values = np.random.default_rng(2).integers(0, 2 if dtype == BOOL else 9, 64).astype(dtype.numpy)
    got = np.zeros((5, 64), dtype.numpy)
    guarded.run(TARGET.load(TARGET.build(TARGET.emit(m))), [values, got])
    want = np.zeros((5, 64), dtype.numpy)
    n = np.arange(lanes)
    want[0, 16 + n], want[1, 3 + n] = values[16 + n], values[5 + n]
    want[2, 2 * n], want[2, 63 - 2 * n] = values[3 + n], values[40 + n]
    want[3, n], want[4, n] = values[2 * n], np.minimum(values[n], values[16 + n])
    want[3, 63] = (values[n] < values[16 + n]).any()
    np.testing.assert_array_equal(got, want)


# ---- what is wrong is found


def test_a_missing_barrier_gives_other_results() -> None:
    m = P.tiled_matmul(8, 4)
    a, b = (np.random.default_rng(0).standard_normal(x.shape).astype(np.float32) for x in m.args[:2])
    source, found = TARGET.emit(m), []
    for text in (source.text, source.text.replace("__syncthreads();", "")):
        c = np.zeros((8, 8), np.float32)
        TARGET.load(TARGET.build(replace(source, text=text))).run([a, b, c])
        found.append(np.allclose(c, a @ b, rtol=1e-4, atol=1e-5))
    assert found == [True, False]


KERNEL = """\
extern "C" __global__ void __launch_bounds__(4)
k(float* __restrict__ x)
{{
    {body}
}}
"""


@pytest.mark.part(6)
@pytest.mark.parametrize(("body", "fault"), [
    ("if (threadIdx.x < 2) { __syncthreads(); } x[threadIdx.x] = 1.0f;", Divergent),
    ("x[threadIdx.x + 1] = 1.0f;", guarded.Stray)])
def test_a_barrier_that_some_do_not_reach_and_a_write_beside(body: str, fault: type[AssertionError]) -> None:
    text = KERNEL.format(body=body)
    x = L.Buffer("x", F32, (4,))
    m = P.module("m", (x,), ("x",), P.loop("i", 4, L.Store(x, (L.Var("i"),), L.Const(1.0, F32)), "thread"))
    source = TARGET.emit(m)
    (launch,) = source.launches
    binary = replace(TARGET.build(source), code=library(text + callers(text)), launches=(replace(launch, entry="k"),))
    with pytest.raises(fault):
        guarded.run(LoadedCuda(binary), [np.zeros(4, np.float32)])


@pytest.mark.part(8)
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_integers_wrap_in_vectors(dtype: str) -> None:
    a = np.array([-1, -2, 3, 0x7fffffff] * 1024).astype(named(dtype).numpy)
    target = CompiledCuda(replace(DEVICES["generic-gpu"], cores=1))
    text = "C[i] = A[i] * A[i] - A[i]; D[i] = -A[i] * 3 >> 1"
    source = polytc.lower(text, target, shapes={"A": a.shape}, dtypes={"A": dtype}).source.text
    assert dtype[1:] == "8" or "polytc_vector" in source
    c, d = polytc.compile(text, target=target)(a)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(c, a * a - a)
        np.testing.assert_array_equal(d, -a * a.dtype.type(3) >> 1)
