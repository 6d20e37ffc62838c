"""Products of tiles by matrix units in CUDA C: the text on the processor beside numpy, where it stands and where it must not,
and that a copy that nobody waits for, or a thread that its warp waits for, would be found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import polytc
from polytc import decisions, stages
from polytc.codegen.target import Source
from polytc.export import bundle, cuda
from polytc.machine import DEVICES, Machine
from polytc.program.scalars import BF16
from polytc.targets.cuda import emit, matrix_unit, nvrtc
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.cuda_here import COMPILER, CompiledCuda, Divergent, LoadedCuda, callers, library
from tests.nvrtc_here import NEEDS_NVRTC

HERE = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
GPU = DEVICES["nvidia-sm90"]
MATMUL = "C[i,j] += A[i,k]*B[k,j]"
SINGLE = "def f(f16[I,K] A, f16[K,J] B) -> (f32[I,J] C) { C[i,j] += f32(A[i,k])*f32(B[k,j]) }"
RELU = f"{MATMUL}\nY[i,j] = max(C[i,j] + b[j], 0)"
UNIT = {
    "rows": (MATMUL, {"A": (128, 96), "B": (96, 160)}, "ik,kj->ij"),
    "rows that no tile divides": (MATMUL, {"A": (72, 104), "B": (104, 136)}, "ik,kj->ij"),
    "sizes of two": (MATMUL, {"A": (254, 122), "B": (122, 258)}, "ik,kj->ij"),
    "odd sizes": (MATMUL, {"A": (255, 123), "B": (123, 257)}, "ik,kj->ij"),
    "A'": ("C[i,j] += A[k,i]*B[k,j]", {"A": (64, 128), "B": (64, 128)}, "ki,kj->ij"),
    "B'": ("C[i,j] += A[i,k]*B[j,k]", {"A": (128, 64), "B": (96, 64)}, "ik,jk->ij"),
    "both, the other way round": ("C[i,j] += B[j,k]*A[k,i]", {"A": (72, 136), "B": (136, 72)}, "ki,jk->ij"),
    "a batch": ("C[b,i,j] += A[b,i,k]*B[b,k,j]", {"A": (3, 66, 64), "B": (3, 64, 72)}, "bik,bkj->bij"),
    "sums of f32": (SINGLE, {"A": (128, 64), "B": (64, 128)}, "ik,kj->ij"),
    "a convolution of 1 x 1": ("O[n,m,p] += X[n,c,p]*W[m,c]", {"X": (2, 64, 392), "W": (64, 64)}, "ncp,mc->nmp"),
    "windows, channels last": ("O[n,h,w,m] += X[n,h+r,w+s,c]*W[r,s,c,m]", {"X": (2, 18, 18, 64), "W": (3, 3, 64, 64)},
                               "nhwcrs,rscm->nhwm"),
    "windows along memory": ("O[n,m,h,w] += X[n,c,h+r,w+s]*W[m,c,r,s]", {"X": (1, 64, 30, 30), "W": (64, 64, 3, 3)},
                             "nchwrs,mcrs->nmhw"),
    "a long sum": (MATMUL, {"A": (64, 3000), "B": (3000, 64)}, "ik,kj->ij"),
}
"""Text, shapes, and the same for numpy."""


def halves(shapes: dict[str, tuple[int, ...]], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: rng.standard_normal(s).astype(np.float16) for n, s in shapes.items()}


def text(program: str, shapes: dict[str, tuple[int, ...]], dtype: str = "f16", target: CudaTarget | None = None) -> Source:
    return polytc.lower(program, target or CudaTarget(), shapes=shapes, dtypes=dict.fromkeys(shapes, dtype)).source


def close(got: np.ndarray, wanted: np.ndarray, digits: float = 2**-10) -> None:
    assert np.abs(got.astype(np.float64) - wanted).max() <= digits * np.abs(wanted).max()


@HERE
@pytest.mark.part(13)
@pytest.mark.parametrize("name", UNIT)
def test_products_beside_numpy(name: str) -> None:
    program, shapes, einsum = UNIT[name]
    assert "polytc_multiply_half(" in text(program, shapes).text
    given = halves(shapes)
    wide = [a.astype(np.float64) for a in given.values()]
    if name.startswith("windows"):
        image = tuple(n for n, c in enumerate(einsum.split(",")[0]) if c in "hw")
        wide[0] = np.lib.stride_tricks.sliding_window_view(wide[0], (3, 3), image)
    wanted = np.einsum(einsum, *wide)
    close(polytc.compile(program, CompiledCuda())(**given), wanted, 2**-20 if name == "sums of f32" else 2**-10)


@HERE
def test_what_follows_is_done_to_the_sums() -> None:
    shapes = {"A": (72, 64), "B": (64, 72), "b": (72,)}
    given = halves(shapes)
    a, b, bias = (x.astype(np.float64) for x in given.values())
    assert text(RELU, shapes).text.count("__global__") == 1
    close(polytc.compile(RELU, CompiledCuda())(**given), np.maximum(a @ b + bias, 0))


@HERE
def test_sums_go_on_from_what_there_is() -> None:
    program = "def f(f16[I,K] A, f16[K,J] B, inout f32[I,J] C) { C[i,j] += f32(A[i,k])*f32(B[k,j]) }"
    given = halves({"A": (67, 64), "B": (64, 72)})
    start = np.random.default_rng(1).standard_normal((67, 72)).astype(np.float32)
    types = {"A": "f16", "B": "f16", "C": "f32"}
    shapes = {"A": (67, 64), "B": (64, 72), "C": (67, 72)}
    assert "polytc_multiply_half(" in polytc.lower(program, CudaTarget(), shapes=shapes, dtypes=types).source.text
    c = start.copy()
    polytc.compile(program, CompiledCuda())(**given, C=c)
    close(c, start + given["A"].astype(float) @ given["B"].astype(float), 2**-20)


@HERE
def test_bfloats() -> None:
    given = {n: a.astype(np.float32).astype(BF16.numpy) for n, a in halves({"A": (64, 64), "B": (64, 64)}).items()}
    program = "def f(bf16[I,K] A, bf16[K,J] B) -> (f32[I,J] C) { C[i,j] += f32(A[i,k])*f32(B[k,j]) }"
    assert "polytc_multiply_bfloat(" in text(program, {"A": (64, 64), "B": (64, 64)}, "bf16").text
    close(polytc.compile(program, CompiledCuda())(**given), given["A"].astype(float) @ given["B"].astype(float), 2**-20)


@HERE
def test_infinities_and_subnormals_stay_what_they_are() -> None:
    given = halves({"A": (64, 64), "B": (64, 64)})
    given["A"][3, 5], given["A"][9, 9], given["B"][:, 7] = np.inf, np.nan, 2.0**-24
    with np.errstate(invalid="ignore"):
        wanted = given["A"].astype(np.float64) @ given["B"].astype(np.float64)
    got = polytc.compile(SINGLE, CompiledCuda())(**given)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_array_equal(got == np.inf, wanted == np.inf)
    close(got[20:], wanted[20:], 2**-20)
    np.testing.assert_allclose(got[20:, 7], wanted[20:, 7], rtol=1e-5, atol=2**-30)


@pytest.mark.part(2)
@pytest.mark.parametrize(("program", "shapes", "why"), [
    (f"precise def f(f16[I,K] A, f16[K,J] B) -> (f16[I,J] C) {{ {MATMUL} }}", {"A": (128, 64), "B": (64, 128)}, "precise"),
    (f"{MATMUL} where k <= i", {"A": (128, 128), "B": (128, 128)}, "a triangle of a factor"),
    ("C[i,j] max= A[i,k]*B[k,j]", {"A": (128, 64), "B": (64, 128)}, "no sum"),
    ("O[n,m,h,w] += X[n,c,2*h+r,2*w+s]*W[m,c,r,s]", {"X": (2, 64, 65, 65), "W": (64, 64, 3, 3)}, "strides along memory"),
    (MATMUL, {"A": (5, 128), "B": (128, 5)}, "few results")])
def test_other_sums_are_multiply_adds(program: str, shapes: dict[str, tuple[int, ...]], why: str) -> None:
    assert "polytc_multiply" not in text(program, shapes).text, why


def test_f32_stays_f32() -> None:
    assert "polytc_multiply" not in text(MATMUL, {"A": (1024, 1024), "B": (1024, 1024)}, "f32").text


@pytest.mark.part(2)
@pytest.mark.parametrize("machine", [replace(GPU, matrix_unit=None), DEVICES["amd-gfx90a"], DEVICES["generic-gpu"]],
                         ids=["without", "amd", "generic"])
def test_machines_without_a_unit(machine: Machine) -> None:
    assert "polytc_multiply" not in text(MATMUL, {"A": (512, 512), "B": (512, 512)}, target=CudaTarget(machine)).text


def test_opencl_has_none() -> None:
    made = polytc.lower(MATMUL, OpenCLTarget(GPU), shapes={"A": (512, 512), "B": (512, 512)}, dtypes={"A": "f16", "B": "f16"})
    assert "multiply" not in made.source.text
    assert "matrix" not in str(made.loops)


SMALL = "polytc decisions 1\nlocal_tiles S1_init: by=matrix rows=j,i items=4,{0},{1} elements={2},{3} along=k steps={4}\n"


@pytest.mark.part(2)
@pytest.mark.parametrize("sizes", [(8, 1, 4, 2, 16), (16, 2, 8, 4, 32)], ids=str)
def test_the_loops_by_themselves(sizes: tuple[int, ...]) -> None:
    """What the interpreter does with loops of the kind 'matrix' is what they say."""
    record = decisions.read(SMALL.format(*sizes))
    given = halves({"A": (17, 40), "B": (40, 19)})
    target = InterpTarget(GPU)
    made = polytc.compile(MATMUL, target, decisions=record)
    assert "matrix for" in str(polytc.lower(MATMUL, target, shapes={n: a.shape for n, a in given.items()},
                                            dtypes=dict.fromkeys(given, "f16"), decisions=record).loops)
    close(made(**given), given["A"].astype(float) @ given["B"].astype(float))


@HERE
@pytest.mark.part(5)
@pytest.mark.parametrize("sizes", [
    (8, 1, 4, 2, 16), (8, 4, 4, 4, 32), (32, 1, 8, 2, 16), (16, 2, 16, 8, 32), (8, 1, 12, 6, 48)], ids=str)
def test_groups_of_other_shapes(sizes: tuple[int, ...]) -> None:
    given = halves({"A": (130, 104), "B": (104, 136)})
    made = polytc.compile(MATMUL, CompiledCuda(), decisions=decisions.read(SMALL.format(*sizes)))
    close(made(**given), given["A"].astype(float) @ given["B"].astype(float))


@pytest.mark.part(2)
@pytest.mark.parametrize("sizes", ["4,16,4 elements=16,8 along=k steps=32", "4,16,2 elements=16,4 along=k steps=64"])
def test_large_tiles_and_their_longer_rows_fit_a_group(sizes: str) -> None:
    record = decisions.read(f"polytc decisions 1\nlocal_tiles S1_init: by=matrix rows=j,i items={sizes}\n")
    shapes = {"A": (1024, 1024), "B": (1024, 1024)}
    made = polytc.lower(MATMUL, CudaTarget(), shapes=shapes, dtypes=dict.fromkeys(shapes, "f16"), decisions=record).source
    assert "polytc_multiply_half(" in made.text
    assert int(made.options["local_bytes"]) <= GPU.local_bytes


@pytest.mark.part(4)
@HERE
@pytest.mark.parametrize(("old", "new"), [
    ("polytc_wait_for_copies();", ""), ("k_at + lane % 16", "k_at + lane % 8"), ("+ j_vector % 2 * 2", ""),
    ("            __syncthreads();", "            if (item_x < 3) __syncthreads();")],
    ids=["no waiting", "other rows", "other columns", "half a warp"])
def test_mistakes_would_be_found(old: str, new: str) -> None:
    shapes = {"A": (64, 128), "B": (128, 64)}
    source = text(MATMUL, shapes)
    old = old if old in source.text else "lane % 16 + k_at"
    wrong = source.text.replace(old, new.replace("k_at + lane % 8", "lane % 8 + k_at"))
    assert wrong != source.text
    given = halves(shapes)
    out = np.zeros((64, 64), np.float16)
    target = CompiledCuda()
    kernel = LoadedCuda(replace(target.build(source), code=library(f"{wrong}\n{callers(wrong)}")))
    try:
        kernel.call([given["A"], given["B"], out])
    except Divergent:
        return
    with pytest.raises(AssertionError):
        close(out, given["A"].astype(float) @ given["B"].astype(float))


def test_a_step_has_few_instructions_beside_products() -> None:
    source = text(MATMUL, {"A": (4096, 4096), "B": (4096, 4096)}).text
    loop = source[source.index("for (int k_step"):source.index("S1_round")]
    assert loop.count("polytc_copy_16(") == 16, "eight copies of 16 bytes for each of two steps of 32"
    assert loop.count("__syncthreads()") == 2
    assert "[32][136]" in source, "rows of an odd number of blocks"


@pytest.mark.parametrize("architecture", [50, 75, 80, 86, 87, 90, 100])
def test_devices_from_8_0_on_have_a_unit(architecture: int) -> None:
    from polytc.targets.cuda.devices import matrix_unit as found

    assert (found(architecture) is None) == (architecture < 80)
    if architecture >= 100:
        assert found(architecture) == GPU.matrix_unit


def test_a_kernel_without_products_has_no_unit() -> None:
    made = polytc.lower(MATMUL, CudaTarget(), shapes={"A": (64, 64), "B": (64, 64)})
    assert matrix_unit.of_kernel(made.loops.kernels[0]) == matrix_unit.Unit()


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", UNIT)
class TestWithNvrtc:
    pytestmark = NEEDS_NVRTC

    def test_the_instructions_are_there(self, name: str, architecture: str) -> None:
        program, shapes, _ = UNIT[name]
        source = text(program, shapes)
        ptx = nvrtc.compiled(source.text, architecture, []).decode()
        assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in ptx
        assert ptx.count("ldmatrix") > 0
        assert nvrtc.compiled(source.text, architecture, [], ptx=False)[:4] == b"\x7fELF"


def test_hip_has_no_instructions_of_nvidia(tmp_path: Path) -> None:
    """Neither from loops that were made for a unit, nor on the command line."""
    program = stages.build(MATMUL, {"A": (128, 128), "B": (128, 128)}, {"A": "f16", "B": "f16"})
    made = bundle.of_program(program, CudaTarget(), "mm")
    cuda.write(made, GPU, tmp_path / "cuda")
    cuda.write(made, GPU, tmp_path / "hip", cuda.HIP)
    assert "mma.sync" in (tmp_path / "cuda" / "mm.cu").read_text()
    assert "asm volatile" not in (tmp_path / "hip" / "mm.hip").read_text()


@HERE
def test_loops_without_a_unit_do_the_same() -> None:
    given = halves({"A": (40, 32), "B": (32, 40)})
    source = text(MATMUL, {n: a.shape for n, a in given.items()}, target=CudaTarget())
    plain = emit.emit(source.module, replace(GPU, matrix_unit=None))
    assert "polytc_multiply" not in plain.text
    out = np.zeros((40, 40), np.float16)
    LoadedCuda(CompiledCuda().build(plain)).call([given["A"], given["B"], out])
    close(out, given["A"].astype(float) @ given["B"].astype(float))


@pytest.mark.part(2)
@pytest.mark.parametrize(("depth", "copies"), [(32, False), (64, True), (96, True), (256, True)])
def test_two_steps_have_two_copies_of_their_tiles(depth: int, copies: bool) -> None:
    source = text(MATMUL, {"A": (1024, depth), "B": (depth, 1024)}).text
    assert ("A_tile_other" in source) == copies
    assert "A_tile_other" not in text(MATMUL, {"A": (1024, 48), "B": (48, 1024)}, "f32").text
