"""Emitted OpenCL C against numpy, on the device that is here; skipped without one."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from polytc import compiler
from polytc.codegen import loops as L
from polytc.codegen.target import Executable
from polytc.errors import TargetError
from polytc.lang import build, evaluate
from polytc.machine import AVX2, AVX512, Machine
from polytc.program import scalars
from polytc.program.scalars import BOOL, F16, F32, F64, I8, I32, I64, REAL, U8, DType
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl import executable
from polytc.targets.opencl.driver import devices
from polytc.targets.opencl.target import OpenCLTarget
from tests.codegen import loop_programs as P
from tests.opencl_here import NEEDS_OPENCL
from tests.targets import numpy_semantics as S

RNG = np.random.default_rng(0)


pytestmark = NEEDS_OPENCL


def opencl(m: L.Module) -> Executable:
    target = OpenCLTarget()
    return target.load(target.build(target.emit(m)), 1)


def interp(m: L.Module) -> Executable:
    target = InterpTarget()
    return target.load(target.build(target.emit(m)), 1)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def both(m: L.Module, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs on OpenCL, which must be those of the interpreter, to the last bit except for floats."""
    got, want = P.run(opencl(m), m, inputs), P.run(interp(m), m, inputs)
    for name, x in want.items():
        inexact = x.dtype.kind == "f"
        np.testing.assert_allclose(got[name], x, rtol=1e-5 * inexact, atol=1e-6 * inexact)
    return got


QUICK = {"f16": (1, 4), "bf16": (1, 8), "f32": (1, 2, 16), "f64": (1, 8), "bool": (1, 4, 16), "i8": (1, 16), "u8": (1, 2),
         "i16": (1, 4), "u16": (1, 8), "i32": (1, 8), "u32": (1, 2), "i64": (1, 16), "u64": (1, 4)}
"""Lanes: each number of them for signed and unsigned integers and for floats."""


@pytest.mark.part(17)
@pytest.mark.parametrize(("dtype", "lanes"), [
    pytest.param(t, n, marks=() if n in QUICK[str(t)] else pytest.mark.long)
    for t in REAL.values() for n in (1, 2, 4, 8, 16)], ids=str)
def test_every_operation_is_numpys(dtype: DType, lanes: int) -> None:
    if dtype == F64 and not devices.has_double(devices.choose()):
        pytest.skip("the device has no f64")
    m, which = P.elementwise(dtype, lanes, 64)
    inputs = {x: P.samples(dtype, 64, seed) for seed, x in enumerate("abc")}
    outputs = P.run(opencl(m), m, inputs)
    for (kind, name), got in zip(which, outputs.values(), strict=True):
        want, defined = S.expected(kind, name, dtype, *inputs.values()), S.defined(kind, name, dtype, inputs["a"])
        S.assert_agrees(got[defined], want[defined], S.places(name, 6), f"{kind} {name} of {dtype}")
        assert got.dtype != np.bool_ or got.view(np.uint8).max() <= 1, f"{kind} {name} stores a bool other than 0 and 1"


@pytest.mark.parametrize("dtype", [t for t in REAL.values() if t.is_int], ids=str)
def test_integer_power(dtype: DType) -> None:
    x, y, z = (L.Buffer(n, dtype, (20,)) for n in "xyz")
    i = L.Var("i")
    power = L.Call("pow", (P.load(x, i), P.load(y, i)), dtype)
    m = P.module("power", (x, y, z), ("z",), P.loop("i", 20, L.Store(z, (i,), power)))
    inputs = {"x": P.samples(dtype, 20, 1), "y": np.arange(20, dtype=dtype.numpy)}
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(both(m, inputs)["z"], inputs["x"] ** inputs["y"])


@pytest.mark.part(2)
@pytest.mark.parametrize("m", [
    P.matmul(5, 6, 7), P.matmul(37, 53, 29, (8, 16)), P.tiled_matmul(32, 8), P.vector_matmul(8, 64, 20, 4, 16),
    P.vector_matmul(4, 16, 9, 2, 8)], ids=lambda m: f"{m.name}{m.args[2].shape}")
def test_matmuls(m: L.Module) -> None:
    a, b = (floats(*buffer.shape) for buffer in m.args[:2])
    np.testing.assert_allclose(P.run(opencl(m), m, {"A": a, "B": b})["C"], a @ b, rtol=1e-4, atol=1e-4)


def test_register_tile_is_an_array_of_vectors() -> None:
    text = str(OpenCLTarget().emit(P.vector_matmul(8, 64, 20, 4, 16)))
    assert "float16 acc[8];" in text
    assert "acc[7] = fma(" in text


@pytest.mark.part(4)
@pytest.mark.parametrize(("dtype", "lanes"), [
    pytest.param(t, n, marks=() if (n in (2, 16)) == (t in (F32, F64, I8)) or t == I8 else pytest.mark.long)
    for t in (F16, F32, F64, I8, U8, I64, BOOL) for n in (2, 4, 8, 16)], ids=str)
def test_reductions_of_vectors(dtype: DType, lanes: int) -> None:
    ops = [op for op in scalars.REDUCTIONS if dtype.kind in "iub" or op not in "&|^"]
    x = L.Buffer("x", dtype, (4, lanes))
    outputs = [L.Buffer(f"o{n}", dtype, (4,)) for n in range(len(ops))]
    vector = P.load(x, L.Var("i"), L.Ramp(L.const(0), 1, lanes), lanes=lanes)
    body = L.block(*(L.Store(o, (L.Var("i"),), L.Reduce(op, vector, dtype)) for op, o in zip(ops, outputs, strict=True)))
    m = P.module("reduce", (x, *outputs), [o.name for o in outputs], P.loop("i", 4, body))
    low = 0 if dtype.kind in "ub" else -3
    x0 = RNG.integers(low, 2 if dtype.kind == "b" else 4, (4, lanes)).astype(dtype.numpy)
    ufunc = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum,
             "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
    got = P.run(opencl(m), m, {"x": x0})
    for op, o in zip(ops, outputs, strict=True):
        np.testing.assert_array_equal(got[o.name], ufunc[op].reduce(x0, axis=1, dtype=dtype.numpy), err_msg=op)


def test_guarded_loads_scalar_and_vector() -> None:
    x, y, z = L.Buffer("x", F32, (13,)), L.Buffer("y", F32, (16,)), L.Buffer("z", F32, (16,))
    at = P.add(L.Var("i"), L.const(-2))
    scalar = L.Select(P.all_of(L.binary(">=", at, L.const(0)), P.less(at, 13)), P.load(x, at), L.Const(9.0, F32), F32)
    ramp = L.Ramp(P.scaled("j", 8), 1, 8)
    moved = L.Ramp(P.scaled("j", 8, L.const(-2)), 1, 8)
    inside = L.binary("&&", L.binary(">=", moved, L.Const(0, I64, 8)), L.binary("<", moved, L.Const(13, I64, 8)))
    vector = L.Select(inside, P.load(x, moved, lanes=8), L.Const(9.0, F32, 8), F32, 8)
    m = P.module("pad", (x, y, z), ("y", "z"), P.loop("i", 16, L.Store(y, (L.Var("i"),), scalar)),
                 P.loop("j", 2, L.Store(z, (ramp,), vector)))
    x0 = floats(13)
    got = both(m, {"x": x0})
    want = np.pad(x0, (2, 1), constant_values=9)
    np.testing.assert_array_equal(got["y"], want)
    np.testing.assert_array_equal(got["z"], want)


@pytest.mark.parametrize("dtype", [F16, F32, I8, I64, BOOL, F64], ids=str)
def test_vector_select_by_mask_of_another_width(dtype: DType) -> None:
    x, a, b, y = L.Buffer("x", F32, (8,)), L.Buffer("a", dtype, (8,)), L.Buffer("b", dtype, (8,)), L.Buffer("y", dtype, (8,))
    at = L.Ramp(L.const(0), 1, 8)
    positive = L.Binary(">", P.load(x, at, lanes=8), L.Const(0.0, F32, 8), BOOL, 8)
    m = P.module("mask", (x, a, b, y), ("y",),
                 L.Store(y, (at,), L.Select(L.Unary("!", positive, BOOL, 8), L.Broadcast(P.load(a, L.const(3)), 8, dtype),
                                            L.Cast(L.Cast(L.Const(1, I32, 8), F32, 8), dtype, 8), dtype, 8)))
    x0, a0 = floats(8), P.samples(dtype, 8, 3)
    got = P.run(opencl(m), m, {"x": x0, "a": a0, "b": a0})["y"]
    np.testing.assert_array_equal(got, np.where(~(x0 > 0), a0[3], np.ones((), dtype.numpy)))


def test_strided_gathered_and_scattered_vectors() -> None:
    x, at, y = L.Buffer("x", F32, (4, 20)), L.Buffer("at", I64, (8,)), L.Buffer("y", F32, (3, 16))
    strided = P.load(x, L.const(1), L.Ramp(L.const(3), 2, 8), lanes=8)
    picked = L.Call("min", (P.load(at, L.Ramp(L.const(0), 1, 8), lanes=8), L.Const(19, I64, 8)), I64, 8)
    gathered = P.load(x, L.const(2), picked, lanes=8)
    column = P.load(x, L.Ramp(L.const(0), 1, 4), L.const(5), lanes=4)
    body = L.block(L.Store(y, (L.const(0), L.Ramp(L.const(0), 2, 8)), strided),
                   L.Store(y, (L.const(1), L.Ramp(L.const(4), 1, 8)), gathered),
                   L.Store(y, (L.const(2), L.Ramp(L.const(15), -1, 4)), column))
    m = P.module("strides", (x, at, y), ("y",), body)
    x0, at0 = floats(4, 20), np.array([5, 0, 19, 25, 3, 3, 7, 1], np.int64)
    y0 = both(m, {"x": x0, "at": at0})["y"]
    np.testing.assert_array_equal(y0[0, ::2], x0[1, 3:19:2])
    np.testing.assert_array_equal(y0[1, 4:12], x0[2, np.minimum(at0, 19)])
    np.testing.assert_array_equal(y0[2, 15:11:-1], x0[:, 5])


def test_floor_division_of_indices_that_may_be_negative() -> None:
    y = L.Buffer("y", I64, (4, 24))
    i = L.Var("i")
    shifted = P.add(i, L.const(-12))
    rows = [L.binary("//", shifted, L.const(5)), L.binary("%", shifted, L.const(5)), L.binary("//", i, L.const(8)),
            L.binary("%", i, L.const(7))]
    as_value = [L.Store(y, (L.const(n), i), e) for n, e in enumerate(rows)]
    as_index = L.Store(y, (P.add(L.binary("//", shifted, L.const(12)), L.const(1)), i), L.Const(77, I64))
    m = P.module("floor", (y,), ("y",), L.block(P.loop("i", 24, L.block(*as_value)), P.loop("i", 3, as_index)))
    got = both(m, {})["y"]
    np.testing.assert_array_equal(got[1], (np.arange(24) - 12) % 5)
    np.testing.assert_array_equal(got[0, :4], [77, 77, 77, -2])


def test_group_writes_once_and_private_memory_outlives_thread_loops() -> None:
    y, z = L.Buffer("y", I32, (3,)), L.Buffer("z", I32, (3, 4))
    s, p, t = L.Buffer("s", I32, (4,), "local"), L.Buffer("p", I32, (), "private"), L.Var("t")
    work = P.loop("t", 4, L.block(L.Store(s, (t,), L.Cast(t, I32)), L.Store(p, (), L.Cast(t, I32))), "thread")
    bump = L.Store(y, (L.Var("b"),), P.add(P.load(y, L.Var("b")), P.load(s, L.const(3))))
    last = P.loop("t", 2, L.Store(z, (L.Var("b"), t), P.load(p)), "thread")
    group = L.Alloc(s, L.Alloc(p, L.block(work, L.Barrier(), bump, last)))
    m = P.module("once", (y, z), ("y", "z"), P.loop("b", 3, group, "block"))
    got = both(m, {"y": np.array([10, 20, 30], np.int32)})
    np.testing.assert_array_equal(got["y"], [13, 23, 33])
    np.testing.assert_array_equal(got["z"], [[0, 1, 0, 0]] * 3)


def test_block_loops_that_share_an_axis_with_bounds_and_steps() -> None:
    y = L.Buffer("y", I32, (3, 5, 12))
    t = P.add(L.Var("b2"), L.Var("t"))
    body: L.Stmt = L.Store(y, (L.Var("b0"), L.Var("b1"), t), L.Cast(P.add(P.scaled("b0", 100), P.scaled("b1", 10, t)), I32))
    body = P.loop("t", L.Call("min", (L.const(4), L.binary("-", L.const(10), L.Var("b2"))), I64), body, "thread")
    body = P.loop("b2", 12, body, "block", 0, lower=0, step=4)
    m = P.module("digits", (y,), ("y",), P.loop("b0", 3, P.loop("b1", 5, body, "block", 0, lower=1), "block", 0))
    source = OpenCLTarget().emit(m)
    assert source.launches[0].global_size == (3 * 4 * 3 * 4,)
    got = both(m, {})["y"]
    want = np.add.outer(np.add.outer(np.arange(3) * 100, np.arange(5) * 10), np.arange(12))
    want[:, 0], want[:, :, 10:] = 0, 0
    np.testing.assert_array_equal(got, want)


def test_loops_around_parallel_ones_are_the_hosts() -> None:
    x, y = L.Buffer("x", F32, (6, 8)), L.Buffer("y", F32, (6, 8))
    i, j = L.Var("i"), L.Var("j")
    body = P.loop("i", 6, P.loop("j", 8, L.Store(y, (i, j), P.add(P.load(x, i, j), L.Const(1.0, F32))), "parallel"))
    m = P.module("inside", (x, y), ("y",), body)
    launch = OpenCLTarget().emit(m).launches[0]
    assert launch.global_size == (8,)
    assert [str(r) for r in launch.loops] == ["for wave in 0:6"]
    assert launch.args == ("x", "y", "wave")
    x0 = floats(6, 8)
    np.testing.assert_array_equal(both(m, {"x": x0})["y"], x0 + 1)


def test_scratch_and_several_kernels() -> None:
    x, t, y = (L.Buffer(n, F32, (50,)) for n in ("x", "t", "y"))
    i = L.Var("i")
    back = P.add(L.const(49), L.Unary("-", i, I64))
    first = P.loop("i", 50, L.Store(t, (i,), P.mul(P.load(x, i), P.load(x, i))), "parallel")
    second = P.loop("i", 50, L.Store(y, (i,), P.add(P.load(t, i), P.load(t, back))), "parallel")
    m = P.module("two", (x, y), ("y",), first, second, scratch=(t,))
    x0 = floats(50)
    np.testing.assert_allclose(both(m, {"x": x0})["y"], x0**2 + x0[::-1] ** 2, rtol=1e-6)


def test_names_that_are_words_of_c() -> None:
    x, y = L.Buffer("half", F32, (4,)), L.Buffer("exp", F32, (4,))
    i = L.Var("int")
    m = P.module("kernel", (x, y), ("exp",), P.loop("int", 4, L.Store(y, (i,), L.Call("exp", (P.load(x, i),), F32))))
    x0 = floats(4)
    np.testing.assert_allclose(P.run(opencl(m), m, {"half": x0})["exp"], np.exp(x0), rtol=1e-6)


def test_elements_that_no_kernel_writes_keep_their_values() -> None:
    y = L.Buffer("y", F32, (6,))
    m = P.module("holes", (y,), ("y",), P.loop("i", 3, L.Store(y, (P.scaled("i", 2),), L.Const(1.0, F32))))
    y0 = np.full(6, 5, np.float32)
    opencl(m).run([y0])
    np.testing.assert_array_equal(y0, [1, 5, 1, 5, 1, 5])


def test_aligned_read_only_and_empty_arrays() -> None:
    m = P.matmul(16, 16, 16)
    raw = np.zeros(16 * 16 * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    c = raw[start:start + 1024].view(np.float32).reshape(16, 16)
    a, b = floats(16, 16), floats(16, 16)
    a.flags.writeable = False
    executable = opencl(m)
    executable.run([a, b, c])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)
    call = executable.bind([b, a, c])
    call()
    np.testing.assert_allclose(c, b @ a, rtol=1e-4, atol=1e-5)
    x, y = L.Buffer("x", F32, (0,)), L.Buffer("y", F32, (0,))
    empty = P.module("empty", (x, y), ("y",), P.loop("i", 0, L.Store(y, (L.Var("i"),), P.load(x, L.Var("i"))), "parallel"))
    assert P.run(opencl(empty), empty, {"x": np.zeros(0, np.float32)})["y"].shape == (0,)


def test_threads_may_share_an_executable() -> None:
    m = P.matmul(20, 20, 20)
    executable = opencl(m)
    work = [(floats(20, 20), floats(20, 20), np.zeros((20, 20), np.float32)) for _ in range(8)]
    threads = [threading.Thread(target=lambda w=w: [executable.run(w) for _ in range(5)]) for w in work]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for a, b, c in work:
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_what_the_device_cannot_hold_is_a_diagnostic() -> None:
    device = devices.choose()
    y = L.Buffer("y", F32, (1 << 20,))
    m = P.module("wide", (y,), ("y",), P.loop("t", 1 << 20, L.Store(y, (L.Var("t"),), L.Const(1.0, F32)), "thread"))
    with pytest.raises(TargetError, match="work-items") as info:
        opencl(m)
    assert info.value.code == "E505"
    s = L.Buffer("s", F32, (device.handle.local_mem_size,), "local")
    m = P.module("big", (y,), ("y",), L.Alloc(s, L.block(L.Store(s, (L.const(0),), L.Const(1.0, F32)),
                                                         L.Store(y, (L.const(0),), P.load(s, L.const(0))))))
    with pytest.raises(TargetError, match="local memory") as info:
        opencl(m)
    assert info.value.code == "E505"


def test_a_failed_build_is_a_diagnostic() -> None:
    binary = OpenCLTarget().build(OpenCLTarget().emit(P.matmul(2, 2, 2)))
    broken = replace(binary, code=binary.code.replace(b"float acc =", b"flaot acc ="))
    with pytest.raises(TargetError, match="refuses") as info:
        executable.OpenCLExecutable(broken, devices.choose())
    assert info.value.code == "E506"
    assert any("flaot" in note for note in info.value.notes)


def test_devices_are_described() -> None:
    rows = devices.describe()
    chosen = devices.choose()
    assert any(row["name"] == chosen.name and row["status"] == "works" for row in rows)
    machine = devices.machine_of(chosen)
    assert machine.kind in ("cpu", "gpu")
    assert machine.max_work_group >= 1
    assert machine.lanes(4) >= 1


def test_a_device_that_fails_the_probe_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "PROBE", devices.PROBE.replace("exp(x[i])", "x[i]"))
    devices._probe.cache_clear()
    try:
        assert devices.probe(devices.find()[0]) == "computes wrong numbers"
        with pytest.raises(TargetError, match="passes the probe") as info:
            devices._choose.__wrapped__("")
        assert info.value.code == "E504"
        monkeypatch.setattr(devices, "PROBE", "no kernel at all")
        devices._probe.cache_clear()
        assert str(devices.describe()[0]["status"]).startswith("cannot build or run a small kernel")
    finally:
        devices._probe.cache_clear()


def test_a_failed_launch_is_a_diagnostic() -> None:
    executable = opencl(P.matmul(4, 4, 4))
    kernel, launch = executable._kernels[0]  # type: ignore[attr-defined]
    executable._kernels[0] = (kernel, replace(launch, global_size=(7, 7)))  # type: ignore[attr-defined]
    with pytest.raises(TargetError) as info:
        executable.run([floats(4, 4) for _ in range(3)])
    assert info.value.code == "E507"


@pytest.mark.parametrize("machine", [AVX2, AVX512], ids=["avx2", "avx512"])
def test_kernels_for_cpus_run_here_too(machine: Machine) -> None:
    """Vectors and parallel loops, as the strategy for CPUs makes them, from text to result."""
    program = build("O[m,h,w] += (I[c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:9, w in 0:21\n"
                    "Y[m,h,w] = max(O[m,h,w] + b[m], 0)", {"I": (3, 9, 21), "W": (5, 3, 3, 3), "b": (5,)})
    target = OpenCLTarget(machine)
    source = compiler.lower_program(program, target).source
    assert f"float{machine.lanes(4)}" in source.text
    inputs = {n: floats(*program.tensor(n).shape) for n in program.inputs}
    out = np.zeros((5, 9, 21), np.float32)
    target.load(target.build(source)).run([*inputs.values(), out])
    np.testing.assert_allclose(out, evaluate(program, inputs)["Y"], rtol=1e-4, atol=1e-5)


def test_vectors_wider_than_those_of_opencl_are_divided() -> None:
    x, y, z = L.Buffer("x", I8, (64,)), L.Buffer("y", I8, (64,)), L.Buffer("z", I8, (2,))
    at = L.Ramp(L.const(0), 1, 64)
    doubled = L.binary("+", P.load(x, at, lanes=64), L.Broadcast(P.load(x, L.const(1)), 64, I8))
    sums = [L.Store(z, (L.const(n),), L.Reduce(op, P.load(x, at, lanes=64), I8)) for n, op in enumerate(("+", "max"))]
    m = P.module("wide", (x, y, z), ("y", "z"), L.block(L.Store(y, (at,), doubled), *sums))
    x0 = RNG.integers(-128, 128, 64).astype(np.int8)
    got = both(m, {"x": x0})
    np.testing.assert_array_equal(got["y"], x0 + x0[1])
    np.testing.assert_array_equal(got["z"], [x0.sum(dtype=np.int8), x0.max()])


def test_shared_indices_have_the_type_of_values() -> None:
    """What is computed once as an `int` meets a gathered i64: OpenCL's `min` takes one type."""
    program = build("Y[i] = X[min(max(I[i], 0), i//8)] + Z[i//8] where i in 0:64", dict.fromkeys("XIZ", (64,)),
                    {"X": I32, "I": I64, "Z": I32})
    x, z = (RNG.integers(0, 99, 64).astype(np.int32) for _ in range(2))
    i, y, blocks = RNG.integers(-3, 12, 64), np.empty(64, np.int32), np.arange(64) // 8
    compiler.compile_program(program, "opencl").bind([x, i, z, y])()
    np.testing.assert_array_equal(y, x[np.minimum(np.maximum(i, 0), blocks)] + z[blocks])
