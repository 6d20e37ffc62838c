"""The emitted OpenCL C itself: goldens, sizes, types of indices, what is refused. Needs no device and no pyopencl."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import polytc
from polytc.codegen import loops as L
from polytc.codegen import ndrange
from polytc.errors import TargetError
from polytc.machine import AVX2
from polytc.program.scalars import BOOL, F16, F32, F64, I8, I32, I64
from polytc.targets.opencl.emit import emit
from tests.codegen import loop_programs as P

ROOT = Path(__file__).parents[3]


def padded() -> L.Module:
    """A guarded load, floor division, f16 and bool buffers, a cast of an index."""
    x, flags, y = L.Buffer("x", F16, (10,)), L.Buffer("flags", BOOL, (3,)), L.Buffer("y", F16, (12,))
    i = L.Var("i")
    at = P.add(i, L.const(-1))
    inside = P.all_of(L.binary(">=", at, L.const(0)), P.less(at, 10))
    value = P.add(L.Select(inside, P.load(x, at), L.Const(-0.5, F16), F16), L.Cast(i, F16))
    third = L.binary("//", at, L.const(4))
    chosen = L.Select(P.load(flags, L.Call("max", (third, L.const(0)), I64)), value, L.Const(float("inf"), F16), F16)
    return P.module("padded", (x, flags, y), ("y",), P.loop("i", 12, L.Store(y, (i,), chosen), "parallel"))


def softmax() -> L.Module:
    """Three kernels' worth of loops in one, with a scratch buffer between."""
    x, s, y = L.Buffer("x", F64, (6, 8)), L.Buffer("sum", F64, (6,)), L.Buffer("y", F64, (6, 8))
    i, j = L.Var("i"), L.Var("j")
    e = L.Call("exp", (P.load(x, i, j),), F64)
    sums = P.loop("i", 6, L.block(L.Store(s, (i,), L.Const(0.0, F64)),
                                  P.loop("j", 8, L.Store(s, (i,), P.add(P.load(s, i), e)))), "parallel")
    out = P.loop("i", 6, P.loop("j", 8, L.Store(y, (i, j), L.Binary("/", e, P.load(s, i), F64)), "parallel"), "parallel")
    return P.module("softmax", (x, y), ("y",), L.block(sums, out), scratch=(s,), precise=True)


@pytest.mark.parametrize("m", [P.matmul(5, 6, 7), P.tiled_matmul(8, 4), P.vector_matmul(4, 16, 5, 2, 4), padded(), softmax()],
                         ids=lambda m: m.name)
def test_golden(m: L.Module, golden: Callable[[str, str], None]) -> None:
    golden(f"{m.name}.cl", str(emit(m)))


def test_wrapping_sums_of_products_are_cast_once() -> None:
    low = polytc.lower("C[i,j] += i32(A[i,k]) * i32(B[k,j])", target="opencl", shapes={"A": (64, 64), "B": (64, 64)},
                       dtypes={"A": "i8", "B": "i8"})
    assert "as_int4(as_uint4(C_acc) + as_uint4((int4)(" in re.sub(r"\s+", " ", low.source.text)
    assert "as_uint4(as_int4(" not in low.source.text
    scalar = polytc.lower("y[i] += x[i,j] * x[i,j]", target="opencl", shapes={"x": (7, 3)}, dtypes={"x": "i32"})
    assert "(uint)(int)" not in scalar.source.text.replace("(uint)((int)", "(uint)(int)")


def test_numbers_of_items_are_natural_and_those_of_the_only_group_are_not_written() -> None:
    shapes = {"Q": (32, 64), "K": (32, 64)}
    assert "floordiv" not in polytc.lower("S[i,j] += Q[i,d] * K[j,d]", target="opencl", shapes=shapes).source.text
    text = polytc.lower("s += x[i]", target="opencl", shapes={"x": (40,)}).source.text
    assert "get_group_id" not in text
    assert "get_local_id(0) ==" not in text


def test_where_an_item_is_has_a_name() -> None:
    text = polytc.lower("B[i,j] = A[i-1,j] + A[i+1,j] + A[i,j]", target="opencl", shapes={"A": (200, 300)}).source.text
    assert "const int i = i_group * 8 + i_item;" in text
    assert "A[(i - 1) * 300 + j]" in text


def test_lanes_that_lie_equally_far_apart_are_one_call() -> None:
    x, y = L.Buffer("x", F32, (16, 9)), L.Buffer("y", F32, (5, 16, 3))

    def text(s: L.Stmt) -> str:
        return emit(P.module("turn", (x, y), ("y",), s)).text
    column = P.load(x, L.Ramp(L.const(0), 1, 16), L.const(5), lanes=16)
    there = L.Store(y, (L.const(2), L.Ramp(L.const(0), 1, 16), L.const(1)), column)
    assert "polytc_scatter_float16(polytc_gather_float16(x + 5, 9), y + 97, 3);" in text(there)
    diagonal = P.load(x, *(2 * [L.Ramp(L.const(0), 1, 8)]), lanes=8)
    back = L.Store(y, (L.const(2), L.Ramp(L.const(15), -1, 8), L.const(1)), diagonal)
    assert "polytc_scatter_float8(polytc_gather_float8(x, 10), y + 142, -3);" in text(back)


def test_sizes_names_and_options() -> None:
    source = emit(P.matmul(5, 6, 7))
    (launch,) = source.launches
    assert launch.entry == "polytc_matmul_k0"
    assert launch.args == ("A", "B", "C")
    assert (launch.global_size, launch.local_size) == ((8, 8), (4, 4))
    assert "reqd_work_group_size(4, 4, 1)" in source.text
    assert source.options["build"] == "-cl-std=CL1.2"
    assert "#pragma OPENCL" not in source.text


def test_doubles_and_precise_modules_say_so() -> None:
    source = emit(softmax())
    assert "#pragma OPENCL EXTENSION cl_khr_fp64 : enable" in source.text
    assert "#pragma OPENCL FP_CONTRACT OFF" in source.text
    assert source.options == {"build": "-cl-std=CL1.2 -cl-opt-disable", "fp64": "yes", "local_bytes": "0", "alignment": "0"}


def test_parallel_nests_in_sequence_are_separate_launches() -> None:
    source = emit(softmax())
    assert [launch.entry for launch in source.launches] == ["polytc_softmax_k0_0", "polytc_softmax_k0_1"]
    assert [launch.global_size for launch in source.launches] == [(6,), (8, 6)]
    assert [launch.args for launch in source.launches] == [("x", "sum"), ("x", "y", "sum")]


def test_local_bytes_are_counted_once_a_buffer() -> None:
    assert emit(P.tiled_matmul(8, 4)).options["local_bytes"] == str(2 * 16 * 4)


def test_indices_beyond_32_bits_are_long() -> None:
    x, y = L.Buffer("x", I8, (1 << 20, 1 << 12)), L.Buffer("y", I8, (1,))
    far = P.module("far", (x, y), ("y",), P.loop("i", 1 << 20, L.Store(y, (L.const(0),), P.load(x, L.Var("i"), L.const(5)))))
    assert "for (long i = 0; i < 1048576; ++i)" in str(emit(far))
    assert "i * 4096L" in str(emit(far))
    x = L.Buffer("x", I8, (1 << 10, 1 << 12))
    near = P.module("near", (x, y), ("y",), P.loop("i", 9, L.Store(y, (L.const(0),), P.load(x, L.Var("i"), L.const(5)))))
    assert "for (int i" in str(emit(near))


def test_an_index_that_overflows_on_the_way_is_long() -> None:
    x, y = L.Buffer("x", F32, (100,)), L.Buffer("y", F32, (100,))
    at = L.binary("%", P.scaled("i", 1 << 28), L.const(100))
    m = P.module("hash", (x, y), ("y",), P.loop("i", 100, L.Store(y, (L.Var("i"),), P.load(x, at))))
    assert "for (long i" in str(emit(m))


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5, 6, 7), (5, 2, 7, 0, 6, 1, 4, 3)])
def test_what_statements_share_is_loaded_in_the_order_of_the_text(order: tuple[int, ...]) -> None:
    """And not in that of hashes, which differ from process to process: the text is the key of what drivers make of it."""
    y, z = L.Buffer("y", F32, (4,)), L.Buffer("z", F32, (4,))
    inputs = [L.Buffer(f"x{n}", F32, (4,)) for n in range(8)]
    i = L.Var("i")
    total: L.Expr = L.Const(0.0, F32)
    for n in order:
        total = L.Binary("+", total, P.load(inputs[n], i), F32)
    both = L.block(L.Store(y, (i,), total), L.Store(z, (i,), L.Binary("*", total, total, F32)))
    text = str(emit(P.module("sums", (*inputs, y, z), ("y", "z"), P.loop("i", 4, both))))
    assert re.findall(r"const float x(\d)_value", text) == [str(n) for n in order]


@pytest.mark.parametrize(("lower", "text"), [(0, "i / 4"), (-8, "polytc_floordiv_index(i, 4)")])
def test_floor_division_is_cheap_where_it_can_be(lower: int, text: str) -> None:
    y = L.Buffer("y", I32, (8,))
    index = P.add(L.binary("//", L.Var("i"), L.const(4)), L.const(2))
    m = P.module("floor", (y,), ("y",), P.loop("i", 8, L.Store(y, (index,), L.Const(1, I32)), lower=lower))
    assert text in str(emit(m))


def test_aligned_vectors_are_wide_accesses() -> None:
    x, y = L.Buffer("x", F32, (64,)), L.Buffer("y", F32, (64,))
    aligned, shifted = L.Ramp(P.scaled("i", 8), 1, 4), L.Ramp(P.scaled("i", 8, L.const(1)), 1, 4)
    m = P.module("wide", (x, y), ("y",), P.loop("i", 7, L.block(
        L.Store(y, (aligned,), P.load(x, aligned, lanes=4)), L.Store(y, (shifted,), P.load(x, shifted, lanes=4)))))
    source = emit(m)
    assert "*(__global float4*)(y + i * 8) = *(__global const float4*)(x + i * 8);" in source.text
    assert "vstore4(vload4(0, x + i * 8 + 1), 0, y + i * 8 + 1);" in source.text
    assert source.options["alignment"] == "64"
    assert "multiples of 64 bytes" in source.text
    for_cpus = emit(m, AVX2)
    assert "((__global polytc_packed_float4*)(y + i * 8))->v = vload4(0, x + i * 8);" in for_cpus.text
    assert for_cpus.options["alignment"] == "0"
    assert "multiples of" not in for_cpus.text


def test_private_buffers_of_one_name_and_other_shapes_are_apart() -> None:
    y, i = L.Buffer("y", F32, (8,)), L.Var("i")

    def part(extent: int) -> L.Stmt:
        t = L.Buffer("t", F32, (extent,), "private")
        return L.Alloc(t, L.block(L.Store(t, (L.const(extent - 1),), L.Const(1.0, F32)),
                                  L.Store(y, (i,), P.load(t, L.const(extent - 1)))))

    text = str(emit(P.module("shapes", (y,), ("y",), P.loop("i", 8, L.block(part(5), part(3))))))
    assert "float t[5];" in text
    assert "float t_2[3];" in text


def test_unsupported_widths_and_operations_are_refused() -> None:
    x, y = L.Buffer("x", F32, (64,)), L.Buffer("y", F32, (64,))
    at = L.Ramp(L.const(0), 1, 5)
    with pytest.raises(TargetError, match="no vectors of 5 lanes") as info:
        emit(P.module("odd", (x, y), ("y",), L.Store(y, (at,), P.load(x, at, lanes=5))))
    assert info.value.code == "E512"
    of_int = L.Call("exp", (L.Const(1, I32),), I32)
    with pytest.raises(TargetError, match="'exp' of i32") as info:
        emit(P.module("exp", (x, y), ("y",), L.Store(y, (L.const(0),), L.Cast(of_int, F32))))
    assert info.value.code == "E513"


def misplaced() -> dict[str, L.Stmt]:
    y, t, b = L.Buffer("y", F32, (64,)), L.Var("t"), L.Var("b")
    store = L.Store(y, (t,), L.Const(1.0, F32))
    n = L.Buffer("n", I64, (1,), "private")
    unknown = P.loop("t", P.load(n, L.const(0)), store, "thread")
    return {
        "block loop inside a thread loop": P.loop("i", 4, P.loop("b", 4, L.Store(y, (b,), L.Const(1.0, F32)), "block"),
                                                  "thread"),
        "two thread loops of one axis": P.loop("s", 4, P.loop("t", 4, store, "thread"), "thread"),
        "extent read from memory": L.Alloc(n, unknown),
        "axis 3": P.loop("t", 4, store, "thread", axis=3),
    }


@pytest.mark.parametrize("name", misplaced())
def test_misplaced_loops_are_refused(name: str) -> None:
    with pytest.raises(TargetError) as info:
        emit(P.module("bad", (L.Buffer("y", F32, (64,)),), ("y",), misplaced()[name]))
    assert info.value.code == "E510"


@pytest.mark.parametrize("under", ["condition", "short thread loop", "loop of differing length"])
def test_barriers_that_not_all_items_reach_are_refused(under: str) -> None:
    y, t = L.Buffer("y", F32, (8,)), L.Var("t")
    store = L.Store(y, (t,), L.Const(1.0, F32))
    body: L.Stmt = L.block(store, L.Barrier())
    match under:
        case "condition":
            body = P.loop("t", 8, L.If(P.less(t, 4), body), "thread")
        case "short thread loop":
            body = L.block(P.loop("t", 4, body, "thread"), P.loop("t", 8, store, "thread"))
        case _:
            body = P.loop("t", 8, L.For("k", L.const(0), t, 1, body), "thread")
    with pytest.raises(TargetError) as info:
        emit(P.module("bad", (y,), ("y",), body))
    assert info.value.code == "E511"


def test_barrier_under_a_uniform_condition_is_fine() -> None:
    y, t = L.Buffer("y", F32, (8,)), L.Var("t")
    inner = L.If(P.less(L.Var("k"), 1), L.block(L.Store(y, (t,), L.Const(1.0, F32)), L.Barrier()))
    body = P.loop("t", 8, P.loop("k", 2, inner), "thread")
    assert "barrier(CLK_LOCAL_MEM_FENCE);" in str(emit(P.module("good", (y,), ("y",), body)))


def test_trips_of_loops() -> None:
    empty, stepped = P.loop("i", 0, L.Barrier()), P.loop("i", 10, L.Barrier(), step=4)
    assert (ndrange.trips(empty, {}), ndrange.trips(stepped, {})) == (0, 3)


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that runs `code`."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60, check=False)


_IMPORT = "from tests.codegen import loop_programs as P\nfrom polytc.targets.opencl.target import OpenCLTarget\n"
_BLOCKED = "import sys; sys.modules['pyopencl'] = None\n" + _IMPORT
_LOAD = "t = OpenCLTarget(); t.load(t.build(t.emit(P.matmul(2, 2, 2))))"


def test_emission_needs_no_pyopencl() -> None:
    done = python(_BLOCKED + "print(OpenCLTarget().emit(P.matmul(2, 2, 2)))")
    assert done.returncode == 0, done.stderr
    assert "__kernel" in done.stdout


def test_without_pyopencl_the_cure_is_named() -> None:
    done = python(_BLOCKED + _LOAD)
    assert done.returncode == 1
    assert "TargetError: E501" in done.stderr
    assert "pip install 'polytc[opencl]'" in done.stderr


def test_without_a_driver_the_error_names_where_it_looked(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    done = python(_IMPORT + _LOAD, OCL_ICD_VENDORS=f"{tmp_path}/")
    assert done.returncode == 1
    assert "TargetError: E503" in done.stderr, done.stderr
    assert str(tmp_path) in done.stderr


def test_a_device_that_does_not_exist_is_an_error_that_lists_those_there_are() -> None:
    pytest.importorskip("pyopencl")
    done = python("from polytc.targets.opencl.driver import devices\n"
                  "found = devices.find()\n"
                  "try:\n    devices.choose()\nexcept devices.errors.TargetError as e:\n"
                  "    assert e.code == 'E503', e\n    assert not found or len(e.notes) == len(found), e.notes\n"
                  "    print('refused')",
                  POLYTC_OPENCL_DEVICE="no such device")
    assert done.stdout == "refused\n", done.stderr


@pytest.mark.parametrize("lower", [-3, 0, 2])
def test_loops_over_items_that_begin_anywhere(lower: int) -> None:
    """The variable is the number of the item, counted on from there."""
    y = L.Buffer("y", I64, (16,))
    store = L.Store(y, (P.add(L.Var("i"), L.const(3)),), L.Var("i"))
    text = emit(P.module("m", (y,), ("y",), P.loop("b", 1, P.loop("i", 8, store, "thread", lower=lower), "block"))).text
    (value,) = re.findall(r"const \w+ i\w* = (.*);", text)
    assert [eval(re.sub(r"\((int|long)\)", "", value), {"get_local_id": lambda _, n=n: n}) for n in range(3)] == \
        [lower, lower + 1, lower + 2]
