"""What the CPU target promises LLVM, and where it puts memory: read from its text, since false promises may go unnoticed."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from polytc import machine as machines
from polytc.codegen import loops
from polytc.program.scalars import BOOL, F32, F64, I8, I16, I32, I64, REAL, U8, U16, U32, U64, DType
from polytc.targets.llvm import modules
from polytc.targets.llvm.target import LLVMTarget
from tests import guarded
from tests.targets.llvm.llvm_modules import TARGET, V, add, c, elementwise, load, module, run

MEMORY = {F32: "float", BOOL: "i8"}


@pytest.mark.parametrize("shape", [(), (7,), (3, 5)], ids=str)
@pytest.mark.parametrize("dtype", REAL.values(), ids=str)
def test_arguments_reach_as_far_as_their_arrays(dtype: DType, shape: tuple[int, ...]) -> None:
    """Loads within what is promised may be done early, those beyond it would read what is not ours."""
    a, out = loops.Buffer("a", dtype, shape), loops.Buffer("out", dtype, (1,))
    first = load(a, *(c(0) for _ in shape))
    text = TARGET.emit(module(loops.Store(out, (c(0),), first), a, out)).text
    promised = dict(re.findall(r"ptr (noalias [^%]*)%p\.(\w+)", text)[k][::-1] for k in (0, 1))
    for name, nbytes in (("a", np.zeros(shape, dtype.numpy).nbytes), ("out", dtype.numpy.itemsize)):
        assert f"dereferenceable({nbytes}) align {dtype.numpy.itemsize} " in promised[name]
    assert "readonly" in promised["a"]
    assert "readonly" not in promised["out"]


def test_an_empty_array_reaches_nowhere() -> None:
    a, out = loops.Buffer("a", F32, (0, 3)), loops.Buffer("out", F32, (1,))
    text = TARGET.emit(module(loops.Store(out, (c(0),), loops.Const(1.0, F32)), a, out)).text
    assert re.findall(r"dereferenceable\((\d+)\)", text) == ["4"]


def test_large_buffers_that_live_at_once_lie_apart() -> None:
    """Nested ones one behind the other, ones that follow each other at the same place, small ones on the stack; each begins a
    line."""
    large = [loops.Buffer(f"t{n}", F32, (5000 + n,), "local") for n in range(4)]
    small, one = loops.Buffer("s", F32, (9,), "local"), loops.Buffer("o", F32, (), "local")
    out = loops.Buffer("out", F32, (1,))

    def use(b: loops.Buffer, inside: loops.Stmt | None = None) -> loops.Stmt:
        at = (c(0),) * len(b.shape)
        fill = loops.Store(b, at, loops.Const(1.0, F32))
        back = loops.Store(out, (c(0),), add(load(out, c(0)), load(b, *at)))
        return loops.Alloc(b, loops.block(fill, *([inside] if inside else []), back))

    body = loops.block(use(large[0], use(large[1], use(small, use(one)))), use(large[2], use(large[3])))
    source = TARGET.emit(module(body, out))
    line = 64
    sizes = [-(-4 * b.size // line) * line for b in large]
    places = [int(n) for n in re.findall(r"getelementptr inbounds i8, ptr %arena, i64 (\d+)", source.text)]
    assert places == [0, sizes[0], 0, sizes[2]]
    assert int(source.options["arena_bytes"]) == sizes[2] + sizes[3]
    assert re.findall(r"alloca \[(\d+) x float\], align 64", source.text) == ["9", "1"]
    assert run(module(body, out)) == 6


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_addresses_are_promised_to_be_inside_only_where_all_lanes_count(masked: bool, stride: int) -> None:
    a, out = loops.Buffer("a", F32, (200,)), loops.Buffer("out", F32, (40,))
    active = loops.binary("<", loops.Ramp(V("i"), 1, 8), c(37, 8)) if masked else None
    source = loops.Ramp(add(loops.binary("*", V("i"), c(stride)), c(5)), stride, 8, active=active)
    store = loops.Store(out, (loops.Ramp(V("i"), 1, 8, active=active),), load(a, source, lanes=8))
    m = module(loops.For("i", c(0), c(40), 8, store), a, out)
    text, _, _ = modules.emit_module(m, TARGET.machine)
    steps = [s for s in re.findall(r"= (getelementptr .*ptr .*)", text.render([], "")) if "%buffers" not in s]
    assert any("inbounds" in s for s in steps) is not masked
    x = np.arange(200, dtype=np.float32)
    want = x[5::stride][:40] * (np.arange(40) < (37 if masked else 40))
    assert np.array_equal(run(m, x), want)


@pytest.mark.part(2)
@pytest.mark.parametrize("stride", [1, 2, 3, 70, -1, -2])
@pytest.mark.parametrize("active", [1, 3, 5, 7])
@pytest.mark.parametrize("dtype", [F32, BOOL], ids=str)
def test_idle_lanes_touch_nothing(dtype: DType, active: int, stride: int) -> None:
    """The lanes that count end where the memory does: loads, and stores that leave what lies between."""
    lanes, many = 8, 600
    base = many - (active - 1) * stride - 1 if stride > 0 else -stride * (active - 1)
    a, b, out = loops.Buffer("a", dtype, (many,)), loops.Buffer("b", dtype, (lanes,)), loops.Buffer("out", dtype, (lanes,))
    there, here = loops.Ramp(c(base), stride, lanes, active=active), loops.Ramp(c(0), 1, lanes, active=active)
    rng = np.random.default_rng(0)
    x, y, which = rng.integers(0, 2, many), rng.integers(0, 2, lanes), base + stride * np.arange(active)
    both = loops.block(loops.Store(out, (here,), load(a, there, lanes=lanes)),
                       loops.Store(a, (there,), load(b, here, lanes=lanes)))
    kernel = loops.Kernel("k", (a, b, out), ("a", "out"), both)
    m = loops.Module("m", (a, b, out), ("a", "out"), (), (kernel,))
    arrays = [x.astype(dtype.numpy), y.astype(dtype.numpy), np.zeros(lanes, dtype.numpy)]
    guarded.run(TARGET.load(TARGET.build(TARGET.emit(m)), 1), arrays, "end" if stride > 0 else "start")
    if stride == 1:
        assert all(f"call {kind} @llvm.masked." in TARGET.emit(m).text for kind in (f"<{lanes} x {MEMORY[dtype]}>", "void"))
    read, x = x[which], x.copy()
    x[which] = y[:active]
    assert np.array_equal(arrays[0], x)
    assert np.array_equal(arrays[2], [*read, *[0] * (lanes - active)])


@pytest.mark.parametrize("active", [1, 3, 7])
def test_idle_lanes_of_a_guarded_gather_touch_nothing(active: int) -> None:
    """Neither where a mask says so nor beyond those that count: there the indices lie far outside."""
    lanes = 8
    at, out = loops.Buffer("at", I64, (lanes,)), loops.Buffer("out", F32, (lanes,))
    ramp = loops.Ramp(c(0), 1, lanes, active=active)
    where = load(at, loops.Ramp(c(0), 1, lanes), lanes=lanes)
    cond = loops.binary("!=", loops.binary("%", loops.Ramp(c(0), 1, lanes), c(3, lanes)), c(1, lanes))
    indices = loops.Ramp(c(0), 0, lanes, active=active), where
    table = loops.Buffer("a", F32, (1, 50))
    value = loops.Select(cond, load(table, *indices, lanes=lanes), loops.Const(7.0, F32, lanes), F32, lanes)
    m = module(loops.Store(out, (ramp,), value), at, table, out)
    x, places = np.random.default_rng(0).random((1, 50), np.float32), np.arange(lanes) * 6
    idle = (np.arange(lanes) % 3 == 1) | (np.arange(lanes) >= active)
    got = run(m, np.where(idle, 1 << 40, places), x)
    want = [7 if lane % 3 == 1 else x[0, 6 * lane] for lane in range(active)]
    assert np.array_equal(got, np.array([*want, *[0] * (lanes - active)], np.float32))


@pytest.mark.parametrize("source", [F32, F64], ids=str)
def test_floats_become_integers_of_the_least_width_that_holds_them(source: DType) -> None:
    """Processors before AVX-512 convert to 64 bits one number at a time. Where the integer has its own width, the number that
    stands for all that it does not hold is the processor's."""
    widths = {I8: "i32", U8: "i32", I16: "i32", U16: "i32", I32: "i32", U32: "i64", I64: "i64"}
    for target, wide in widths.items():
        a, out = loops.Buffer("a", source, (8,)), loops.Buffer("out", target, (8,))
        m = elementwise(lambda at, w, a=a, t=target: loops.Cast(load(a, at, lanes=w), t, w), out, a, lanes=8)
        assert re.findall(r"fpto[su]i <8 x \w+> %\S+ to <8 x (\w+)>", TARGET.emit(m).text) == [wide], target
    assert U64 not in widths, "it takes two conversions"


def test_what_a_processor_lacks_of_a_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    here = replace(machines.AVX2, features="+sse2,+avx2,+bmi2,+f16c,+fma,-avx512f")
    monkeypatch.setattr(machines, "detect", lambda *_: here)
    asked = {"": "", "+sse2,+fma": "", "+avx2,+amx-tile": "amx-tile", "+avx512f,+avx512bw,-sse3": "avx512bw, avx512f"}
    for features, lacking in asked.items():
        assert LLVMTarget(replace(machines.AVX2, features=features)).lacks() == lacking
    assert LLVMTarget(machines.AVX512).lacks() == "avx512bw, avx512cd, avx512dq, avx512f, avx512vl"
    assert LLVMTarget().lacks() == ""
    assert "aarch64" in LLVMTarget(machines.NEON).lacks()
    assert "'gpu'" in LLVMTarget(machines.GENERIC_GPU).lacks()


def test_functions_are_for_the_machine_that_is_given() -> None:
    out = loops.Buffer("out", F32, (1,))
    m = module(loops.Store(out, (c(0),), loops.Const(1.0, F32)), out)
    for machine, cpu in ((machines.AVX2, "x86-64-v3"), (machines.AVX512, "x86-64-v4"), (machines.NEON, "")):
        attributes = LLVMTarget(machine).emit(m).text.partition("attributes #0 = {")[2]
        assert f'"prefer-vector-width"="{8 * machine.vector_bytes}"' in attributes
        assert ('"target-cpu"=' in attributes) == bool(cpu)
        assert f'"target-cpu"="{cpu}"' in attributes or not cpu
        assert (f'"target-features"="{machine.features}"' in attributes) == bool(machine.features)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("op", ["+", "*"])
def test_lanes_are_combined_in_their_order_only_where_that_is_asked_for(op: str, dtype: DType) -> None:
    """A precise kernel's sum is that of a loop; in others the lanes may be added by halves, and nothing but the lanes."""
    a, out = loops.Buffer("a", dtype, (16,)), loops.Buffer("out", dtype, ())
    value = loops.Reduce(op, load(a, loops.Ramp(c(0), 1, 16), lanes=16), dtype)
    x = np.random.default_rng(0).uniform(0.5, 1.5, 16).astype(dtype.numpy)
    running = x[0]
    for number in x[1:]:
        running = running + number if op == "+" else running * number
    precise = module(loops.Store(out, (), value), a, out, precise=True)
    assert run(precise, x) == running
    assert "reassoc" not in TARGET.emit(precise).text
    (line,) = (x for x in TARGET.emit(module(loops.Store(out, (), value), a, out)).text.splitlines() if "reassoc" in x)
    assert "@llvm.vector.reduce.f" in line


@pytest.mark.parametrize(("dtype", "whole"), [(F32, 16), (F64, 8)], ids=str)
def test_whole_vectors_of_avx512_are_taken_apart_by_instructions(dtype: DType, whole: int) -> None:
    has = LLVMTarget(replace(machines.AVX512, features="+avx512f")), LLVMTarget(machines.AVX2)
    for name, instruction in (("exp", "scalef"), ("exp2", "scalef"), ("log", "getexp"), ("log2", "getmant")):
        found = {}
        for lanes in (whole // 2, whole):
            a, out = loops.Buffer("a", dtype, (whole,)), loops.Buffer("out", dtype, (whole,))
            m = elementwise(lambda at, w, a=a, fn=name: loops.Call(fn, (load(a, at, lanes=w),), dtype, w), out, a, lanes=lanes)
            found[lanes] = [f"avx512.mask.{instruction}" in target.emit(m).text for target in has]
        assert found == {whole // 2: [False, False], whole: [True, False]}, name
