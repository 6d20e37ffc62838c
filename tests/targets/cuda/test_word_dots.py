"""Sums of products of bytes in CUDA C: dot products of words, and products of a matrix unit, on the processor beside numpy;
where they stand; and what NVIDIA's and AMD's compilers make of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import polytc
from polytc import decisions
from polytc.export import bundle, cuda
from polytc.machine import DEVICES, Machine
from polytc.targets.cuda import nvrtc
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.opencl import static
from tests.byte_sums import PRODUCTS, SIGNS, Sum, random_sum
from tests.cuda_here import COMPILER, CompiledCuda
from tests.nvrtc_here import NEEDS_NVRTC

HERE = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
EAGER = {"launches.launch": 0.0, "groups.integer": 1000.0}
"""Costs by which small sums are made of words, too."""
MACHINES = {name: DEVICES[name].costing(EAGER) for name in ("nvidia-sm90", "amd-gfx90a", "amd-gfx1100", "intel-xe")}
MACHINES["without a unit"] = replace(MACHINES["nvidia-sm90"], matrix_unit=None)
TURING = replace(DEVICES["nvidia-sm86"], matrix_unit=None, cores=40)
MATMUL = "C[i,j] += i32(X[i,k])*i32(W[k,j])"


def text(s: Sum, signs: tuple[str, str], machine: Machine) -> str:
    return polytc.lower(s.text, CudaTarget(machine), shapes=s.shapes, dtypes=s.types(signs)).source.text


def compared(s: Sum, signs: tuple[str, str], machine: Machine, seed: int = 0, extreme: bool = False) -> None:
    given = s.inputs(signs, seed, extreme)
    got = polytc.compile(s.text, CompiledCuda(machine))(**given)
    np.testing.assert_array_equal(got if isinstance(got, np.ndarray) else got[-1], s.wanted(given))


@HERE
@pytest.mark.part(150)
@pytest.mark.parametrize("signs", SIGNS, ids="".join)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_sums_beside_numpy(name: str, machine: str, signs: tuple[str, str]) -> None:
    assert re.search(r"polytc_(dot|multiply)_[iu]8[iu]8\(", text(PRODUCTS[name], signs, MACHINES[machine]))
    compared(PRODUCTS[name], signs, MACHINES[machine])


@pytest.mark.part(6)
@HERE
@pytest.mark.parametrize("signs", SIGNS, ids="".join)
@pytest.mark.parametrize("machine", ["nvidia-sm90", "without a unit", "amd-gfx90a"])
def test_sums_of_the_ends_of_the_ranges_do_not_saturate(machine: str, signs: tuple[str, str]) -> None:
    """-128 * -128 and 255 * 127 many times, and with a bias beyond the range of i32."""
    long = Sum(f"{MATMUL}\nY[i,j] = C[i,j] + b[j]", {"X": (33, 1024), "W": (1024, 40), "b": (40,)},
               lambda a: a["X"] @ a["W"] + a["b"])
    compared(long, signs, MACHINES[machine], extreme=True)


@pytest.mark.part(16)
@HERE
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("machine", ["nvidia-sm90", "amd-gfx90a"])
def test_random_sums(machine: str, seed: int) -> None:
    s, signs = random_sum(seed)
    compared(s, signs, MACHINES[machine], seed)


@HERE
@pytest.mark.long
@pytest.mark.parametrize("seed", range(8, 120))
@pytest.mark.parametrize("machine", MACHINES)
def test_more_random_sums(machine: str, seed: int) -> None:
    s, signs = random_sum(seed)
    compared(s, signs, MACHINES[machine], seed, extreme=seed % 3 == 0)


@HERE
def test_sums_go_on_from_what_there_is() -> None:
    program = f"def f(i8[I,K] X, i8[K,J] W, inout i32[I,J] C) {{ {MATMUL} }}"
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((65, 64), (64, 72)))
    for machine in (MACHINES["nvidia-sm90"], MACHINES["amd-gfx90a"]):
        c = rng.integers(-(2**31), 2**31, (65, 72)).astype(np.int32)
        wanted = c.astype(np.int64) + x.astype(np.int64) @ w
        polytc.compile(program, CompiledCuda(machine))(X=x, W=w, C=c)
        np.testing.assert_array_equal(c, (wanted & 0xFFFFFFFF).astype(np.uint32).view(np.int32))


@HERE
def test_rows_of_a_tile_that_do_not_exist() -> None:
    """Half of the rows of the unit's tile are beyond the end, and so is where their sums start."""
    machine = DEVICES["nvidia-sm80"].costing({**EAGER, "groups.dot": 500.0})
    s = Sum("C[j,i] += i32(X[4*i,k])*(i32(W[j,k]) - 5)", {"X": (256, 40), "W": (28, 40)},
            lambda a: (a["W"] - 5) @ a["X"][::4].T)
    assert "polytc_multiply_u8u8(" in text(s, ("u8", "u8"), machine)
    compared(s, ("u8", "u8"), machine)


# ---- where they stand

def kinds(s: Sum, machine: Machine, signs: tuple[str, str] = ("i8", "i8")) -> set[str]:
    return set(re.findall(r"polytc_(dot|multiply)_", text(s, signs, machine)))


def product(n: int, turned: bool = False) -> Sum:
    w = "W[j,k]" if turned else "W[k,j]"
    return Sum(f"C[i,j] += i32(X[i,k])*i32({w})", {"X": (n, n), "W": (n, n)}, lambda a: a["X"])


@pytest.mark.part(4)
@pytest.mark.parametrize(("machine", "large", "small"), [
    (DEVICES["nvidia-sm90"], {"multiply"}, {"dot"}), (DEVICES["nvidia-sm80"], {"multiply"}, {"dot"}),
    (TURING, {"dot"}, {"dot"}), (DEVICES["amd-gfx90a"], {"dot"}, {"dot"}), (DEVICES["intel-xe"], {"dot"}, {"dot"}),
    (DEVICES["generic-gpu"], set(), set()), (DEVICES["apple-m1"], set(), set())],
    ids=["sm90", "sm80", "sm75", "gfx90a", "xe", "generic", "m1"])
def test_what_is_quickest_is_chosen(machine: Machine, large: set[str], small: set[str]) -> None:
    """A small product has no time for a kernel that turns an operand for the matrix unit."""
    assert kinds(product(2048), machine) == large
    assert kinds(product(128), machine) == small


def test_operands_along_the_sum_need_no_other_kernel() -> None:
    for machine in (DEVICES["nvidia-sm90"], DEVICES["amd-gfx90a"]):
        assert text(product(1024, turned=True), ("i8", "i8"), machine).count("__global__") == 1
    assert text(product(1024), ("i8", "i8"), DEVICES["amd-gfx90a"]).count("__global__") == 1
    assert text(product(1024), ("i8", "i8"), DEVICES["nvidia-sm90"]).count("__global__") == 2


def test_copies_of_bytes_pass_no_registers() -> None:
    made = text(product(1024, turned=True), ("i8", "i8"), DEVICES["nvidia-sm90"])
    assert re.search(r"polytc_copy_16\(&X_words_tile\[[^;]*, X \+ ", made)


def test_bytes_across_the_sum_are_turned_by_those_that_copy_them() -> None:
    made = text(product(1024), ("i8", "i8"), DEVICES["amd-gfx90a"])
    assert re.search(r"\*\(u32x4\*\)&W_words_tile\[[^;]*=\s*polytc_word_i8_x4\(\*\(const i8x4\*\)\(W ", made)


@pytest.mark.parametrize(("program", "dtypes", "told"), [
    ("C[i,j] max= i32(X[i,k])*i32(W[k,j])", {}, "it is `max=`, and no sum"),
    ("C[i,j] += i32(X[i,k])*i32(W[k,j]) where k <= i", {}, "its terms have conditions"),
    ("C[i,j] += f32(X[i,k])*f32(W[k,j])", {"X": "f16", "W": "f16"}, ""),
])
def test_others_stay_and_say_why(program: str, dtypes: dict[str, str], told: str) -> None:
    given = {"X": "i8", "W": "i8"} | dtypes
    shown = str(polytc.explain(program, CudaTarget(DEVICES["amd-gfx90a"]), shapes={"X": (128, 128), "W": (128, 128)},
                               dtypes=given))
    assert f"not dot products of words: {told}" in shown if told else "dot products of words:" not in shown


def test_the_reason_has_what_each_way_takes() -> None:
    shown = str(polytc.explain(MATMUL, CudaTarget(DEVICES["nvidia-sm90"]), shapes={"X": (1024, 1024), "W": (1024, 1024)},
                               dtypes={"X": "i8", "W": "i8"}))
    by = r"[\d.]+ us by "
    assert re.search(f"for dot_i8i8: {by}multiply-adds of i32, {by}dot_i8i8, {by}the matrix unit", shown)
    shown = str(polytc.explain(MATMUL, CudaTarget(DEVICES["nvidia-sm90"]), shapes={"X": (32, 33), "W": (33, 32)},
                               dtypes={"X": "i8", "W": "i8"}))
    assert re.search(r"not dot_i8i8: [\d.]+ ns by multiply-adds of i32, [\d.]+ us by dot_i8i8", shown)


def test_a_record_says_how() -> None:
    def made(line: str) -> str:
        return polytc.lower(MATMUL, CudaTarget(DEVICES["nvidia-sm90"]), shapes={"X": (1024, 1024), "W": (1024, 1024)},
                            dtypes={"X": "i8", "W": "i8"}, decisions=decisions.read(f"polytc decisions 1\n{line}")).source.text
    assert "polytc_dot_i8i8" in made("dot_words S1: dot=dot_i8i8 along=k")
    assert "polytc_multiply_i8i8" in made("dot_words S1: dot=dot_i8i8 along=k rows=1")
    assert not re.search("polytc_(dot|multiply)", made("dot_words: none"))
    tiles = "local_tiles S1_init: by=matrix rows=j,i items=4,16,2 elements=8,4 along=k steps=8"
    assert "k_at += 8" in made(f"dot_words S1: dot=dot_i8i8 along=k rows=1\n{tiles}")


# ---- what compilers make of them

@pytest.mark.parametrize(("machine", "architectures", "instruction"), [
    (TURING, ("sm_75", "sm_80", "sm_90"), b"dp4a.s32.s32"), (DEVICES["nvidia-sm90"], ("sm_80", "sm_90"), b"m16n8k32")],
    ids=["dp4a", "mma"])
@pytest.mark.parametrize("n", [1024, 4096])
class TestNvidia:
    pytestmark = NEEDS_NVRTC

    def test_it_is_taken(self, machine: Machine, architectures: tuple[str, ...], instruction: bytes, n: int) -> None:
        for architecture in architectures:
            assert instruction in nvrtc.compiled(text(product(n), ("i8", "i8"), machine), architecture)
            nvrtc.compiled(text(product(n), ("i8", "i8"), machine), architecture, ptx=False)

    @pytest.mark.skipif(static.ptxas() is None, reason="ptxas is not here")
    def test_nothing_is_spilled(self, machine: Machine, architectures: tuple[str, ...], instruction: bytes, n: int) -> None:
        source = polytc.lower(MATMUL, CudaTarget(machine), shapes=product(n).shapes, dtypes={"X": "i8", "W": "i8"}).source
        ptx = nvrtc.compiled(source.text, "sm_90").decode().rstrip("\0")
        used = static.of_ptx(re.sub(r"^\.version .*$", ".version 8.0", ptx, flags=re.M), source.launches, "sm_90")
        assert {entry: x.spilled for entry, x in used.items() if x.spilled} == {}
        assert max(x.registers for x in used.values()) <= 240


RUNTIME = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
struct three { unsigned x, y, z; };
#define of(what) (three{__builtin_amdgcn_##what##_id_x(), __builtin_amdgcn_##what##_id_y(), __builtin_amdgcn_##what##_id_z()})
#define threadIdx of(workitem)
#define blockIdx of(workgroup)
__device__ inline void __syncthreads() { __builtin_amdgcn_s_barrier(); }
"""
"""What kernels need of HIP's headers."""


@pytest.mark.part(5)
@pytest.mark.skipif(shutil.which("clang-14") is None, reason="clang-14 is not here")
@pytest.mark.parametrize(("architecture", "signs", "instruction"), [
    ("gfx90a", ("i8", "i8"), "v_dot4c_i32_i8"), ("gfx90a", ("u8", "u8"), "v_dot4_u32_u8"),
    ("gfx90a", ("u8", "i8"), "v_dot4c_i32_i8"), ("gfx1030", ("i8", "i8"), "v_dot4c_i32_i8"),
    ("gfx1030", ("u8", "u8"), "v_dot4_u32_u8")])
def test_hip(architecture: str, signs: tuple[str, str], instruction: str, tmp_path: Path) -> None:
    machine = DEVICES[f"amd-{architecture}"]
    (tmp_path / "k.hip").write_text(RUNTIME + text(product(1024), signs, machine))
    done = subprocess.run(["clang-14", "-x", "hip", f"--offload-arch={architecture}", "--cuda-device-only", "-nogpulib",
                           "-nogpuinc", "-std=c++17", "-O2", "-S", "k.hip", "-o", "k.s"], cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    assert (tmp_path / "k.s").read_text().count(instruction) > 100


def test_an_exported_folder_has_the_dot_products(tmp_path: Path) -> None:
    s = product(1024)
    for dialect, name in ((cuda.CUDA, "nvidia-sm90"), (cuda.HIP, "amd-gfx90a")):
        program = polytc.build(s.text, shapes=s.shapes, dtypes=s.types(("i8", "i8")))
        target = CudaTarget(DEVICES[name])
        files = cuda.write(bundle.of_program(program, target, "mm"), target.machine, tmp_path / name, dialect)
        assert re.search("polytc_(dot|multiply)_i8i8", next(f for f in files if f.suffix in (".cu", ".hip")).read_text())
