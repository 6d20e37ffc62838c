"""The emitted CUDA C itself: what it begins with, names, launches, what is refused. Needs no device and no compiler."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

import polytc
from polytc.codegen import loops as L
from polytc.errors import TargetError
from polytc.machine import AVX2, DEVICES
from polytc.program.scalars import F32, I8
from polytc.targets.cuda import types
from polytc.targets.cuda.emit import emit
from polytc.targets.cuda.target import CudaTarget, architecture
from tests.codegen import loop_programs as P
from tests.targets.opencl.test_text import padded, softmax

MACHINE = DEVICES["nvidia-sm90"]
SHAPES = {"A": (64, 64), "B": (64, 64)}


@pytest.mark.parametrize("m", [P.matmul(5, 6, 7), P.tiled_matmul(8, 4), P.vector_matmul(4, 16, 5, 2, 4), padded(), softmax()],
                         ids=lambda m: m.name)
def test_golden(m: L.Module, golden: Callable[[str, str], None]) -> None:
    golden(f"{m.name}.cu", str(emit(m, MACHINE)))


def test_nothing_of_opencl_is_left() -> None:
    words = r"__kernel|__global |__local|get_\w+_id|vload|vstore|\bas_|\bconvert_|\b(uchar|uint|ulong)\b"
    for m in (P.vector_matmul(4, 16, 5, 2, 4), P.tiled_matmul(8, 4), padded(), softmax()):
        assert not re.search(words, emit(m, MACHINE).text)


def test_sizes_names_and_options() -> None:
    source = emit(P.matmul(5, 6, 7), MACHINE)
    (launch,) = source.launches
    assert (launch.entry, launch.args) == ("polytc_matmul_k0", ("A", "B", "C"))
    assert (launch.global_size, launch.local_size) == ((8, 8), (4, 4))
    assert "grid 2 x 2, block 4 x 4" in source.text
    assert 'extern "C" __global__ void __launch_bounds__(16)\npolytc_matmul_k0(' in source.text
    assert source.options == {"build": "", "alignment": "0", "local_bytes": "0"}


def test_precise_modules_are_not_contracted() -> None:
    assert emit(softmax(), MACHINE).options["build"] == "--fmad=false"


def test_indices_beyond_32_bits_are_long_long() -> None:
    x, y = L.Buffer("x", I8, (1 << 20, 1 << 12)), L.Buffer("y", I8, (1,))
    far = P.module("far", (x, y), ("y",), P.loop("i", 1 << 20, L.Store(y, (L.const(0),), P.load(x, L.Var("i"), L.const(5)))))
    assert "for (long long i = 0; i < 1048576; ++i)" in emit(far, MACHINE).text


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["threadIdx", "float4", "f32x4", "min", "cudaMalloc", "half", "class", "template", "bool"])
def test_names_of_the_language_are_spelled_otherwise(name: str) -> None:
    text = polytc.lower(f"C[i,j] += {name}[i,k]*B[k,j]", "cuda", shapes={name: (64, 64), "B": (64, 64)}).source.text
    assert re.search(rf"const float\* __restrict__ {name}_\b", text)
    assert name in types.RESERVED or name.startswith(types.RESERVED_PREFIXES)


@pytest.mark.parametrize(("items", "axis", "right"), [(1024, 0, True), (1025, 0, False), (64, 2, True), (65, 2, False)])
def test_blocks_have_limits(items: int, axis: int, right: bool) -> None:
    x = L.Buffer("x", F32, (items,))
    m = P.module("m", (x,), ("x",), P.loop("i", items, L.Store(x, (L.Var("i"),), L.Const(1.0, F32)), "thread", axis))
    if right:
        assert f"__launch_bounds__({items})" in emit(m, MACHINE).text
    else:
        with pytest.raises(TargetError) as refusal:
            emit(m, MACHINE)
        assert refusal.value.code == "E505"


def test_vectors_are_there_only_where_they_are_used() -> None:
    assert "polytc_vector" not in emit(P.matmul(5, 6, 7), MACHINE).text
    text = emit(P.vector_matmul(4, 16, 5, 2, 4), MACHINE).text
    assert re.findall(r"^typedef .*", text, re.MULTILINE)[-1:] == ["typedef polytc_vector<float, 4> f32x4;"]
    assert text.index("polytc_vector {") < text.index("typedef polytc_vector<float, 4> f32x4;") < text.index("__global__")


def test_open_sizes_are_arguments_and_grids_formulas() -> None:
    source = polytc.lower("C[i,j] += A[i,k]*B[k,j]", "cuda", shapes={"A": ("M", "K"), "B": ("K", "N")}).source
    assert re.search(r"const int K,\s+const int N\)", source.text)
    assert source.launches[0].global_size[0].at({"M": 100, "K": 9, "N": 64}) % source.launches[0].local_size[0] == 0
    assert source.options["elements"] == str(2**30)
    assert "blockIdx.y" not in source.text, "an axis may have too many blocks"


def test_a_machine_is_named_or_described() -> None:
    described = polytc.lower("C[i,j] += A[i,k]*B[k,j]", "cuda", shapes=SHAPES, machine="apple-m1")
    assert described.target.machine.local_bytes == DEVICES["apple-m1"].local_bytes
    with pytest.raises(TargetError) as refusal:
        CudaTarget().described(AVX2)
    assert refusal.value.code == "E541"


def test_the_architecture_is_that_of_the_record() -> None:
    found = {name: architecture(CudaTarget(machine).machine) for name, machine in DEVICES.items()}
    assert {n: a for n, a in found.items() if a != "sm_80"} == {
        "nvidia-sm86": "sm_86", "nvidia-sm89": "sm_89", "nvidia-sm90": "sm_90"}


def test_no_device_and_no_library_is_asked() -> None:
    script = ("import sys, polytc; polytc.lower('C[i] = A[i]', 'cuda', shapes={'A': (4,)}); "
              "assert not [m for m in sys.modules if m == 'cuda' or m.startswith(('cuda.', 'pyopencl'))]")
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(("text", "dtype", "long"), [
    ("Y[i,d] = E[x[i],d]", "i32", False), ("Y[i,d] = E[x[i],d]", "u16", False), ("Y[i,d] = E[x[i],d]", "u32", True),
    ("Y[i,d] = E[x[i],d]", "i64", True), ("H[x[i]] += E[i,0] -> (f32[30] H)", "i32", False)])
def test_places_of_32_bits_stay_such(text: str, dtype: str, long: bool) -> None:
    """They are compared and clamped in int, and a scatter loads each once; wider ones in what holds them."""
    source = polytc.lower(text, CudaTarget(), shapes={"x": (1000,), "E": (1000, 8)}, dtypes={"x": dtype}).source.text
    kernel = source[source.index("__global__"):]
    assert ("long" in kernel) == long
    assert len(re.findall(r"[^_]x\[", kernel)) == (1 if "H" in text else source.count("x["))
