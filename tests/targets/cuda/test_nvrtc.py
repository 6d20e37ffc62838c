"""Emitted kernels through NVIDIA's compiler, which needs no GPU: PTX for sm_80, code for sm_90."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import polytc
from polytc import compiler, errors
from polytc.errors import TargetError
from polytc.export import bundle, cuda
from polytc.targets import registry
from polytc.targets.cuda import nvrtc
from polytc.targets.cuda.target import CudaTarget
from polytc.targets.opencl import static
from polytc.testing.cases import CASES, Case
from tests.digests.programs import of_language, of_operators
from tests.nvrtc_here import NEEDS_NVRTC

pytestmark = NEEDS_NVRTC
TARGET = CudaTarget()


def assembled(lowered: compiler.Lowered) -> int:
    """How many kernels were; NVRTC takes all of them, or there is an exception."""
    for part in (lowered.prologue, lowered):
        if part is not None:
            options = part.source.options["build"].split()
            assert b".visible .entry" in nvrtc.compiled(part.source.text, "sm_80", options)
            assert nvrtc.compiled(part.source.text, "sm_90", options, ptx=False)[:4] == b"\x7fELF"
    return len(lowered.source.launches)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_programs_of_every_kind_assemble(case: Case) -> None:
    assert assembled(polytc.lower(case.text, "cuda", shapes=case.shapes, dtypes=case.dtypes)) > 0


@pytest.mark.skipif(static.ptxas() is None, reason="ptxas is not here")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_registers_suffice(case: Case, architecture: str) -> None:
    source = polytc.lower(case.text, "cuda", shapes=case.shapes, dtypes=case.dtypes).source
    ptx = nvrtc.compiled(source.text, architecture, source.options["build"].split()).decode().rstrip("\0")
    used = static.of_ptx(ptx, source.launches, architecture)
    assert {entry: x.spilled for entry, x in used.items() if x.spilled} == {}
    assert max(x.registers for x in used.values()) <= 128


@pytest.mark.long
@pytest.mark.parametrize("name", ["language", "operators"])
def test_kernels_of_the_language_and_of_the_node_suite_assemble(name: str) -> None:
    seen, count = set[str](), 0
    for _, program in of_language() if name == "language" else of_operators("cuda", each=True):
        try:
            lowered = compiler.lower_program(program, TARGET)
        except errors.CompileError:
            continue
        if lowered.source.text not in seen:
            seen.add(lowered.source.text)
            count += assembled(lowered)
    assert count > (100 if name == "language" else 1000)


def test_loads_of_aligned_vectors_are_wide() -> None:
    low = polytc.lower("C[i,j] += A[i,k]*B[k,j]", "cuda", shapes={"A": (512, 512), "B": (512, 512)})
    ptx = nvrtc.compiled(low.source.text, "sm_90").decode()
    assert {"ld.shared.v4.f32", "ld.global.nc.v4.f32", "st.global.v4.f32"} <= {*re.findall(r"(?:ld|st)\.[\w.]+", ptx)}
    assert ".local" not in ptx.replace(".local.", "")                      # nothing is spilled, or indexed in memory


def test_an_exported_source_is_taken_as_it_is(tmp_path: Path) -> None:
    program = polytc.build("C[i,j] += A[i,k]*B[k,j]", shapes={"A": ("M", "K"), "B": ("K", "N")})
    cuda.write(bundle.of_program(program, TARGET, "mm"), TARGET.machine, tmp_path)
    assert b"mm_1" in nvrtc.compiled((tmp_path / "mm.cu").read_text(), "sm_80")


def test_ptx_is_the_assembly_of_the_target() -> None:
    low = polytc.lower("C[i] = A[i]", registry.target("cuda"), shapes={"A": (64,)})
    assert ".target sm_90" in TARGET.assembly(low.source)


def test_what_the_compiler_refuses_is_told_with_its_words() -> None:
    with pytest.raises(TargetError, match=r"undefined_name") as refusal:
        nvrtc.compiled('extern "C" __global__ void k(float *p) { *p = undefined_name; }', "sm_90")
    assert refusal.value.code == "E525"
