"""Code for 64-bit Arm, on whatever processor the tests run: what it says of vectors, and that it is Arm's."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest

import polytc
from polytc import machine as machines
from polytc import processors
from polytc.targets.llvm.target import LLVMTarget

NEOVERSE_V1 = replace(machines.NEON, cpu="neoverse-v1", features="+neon,+sve")
"""As it is detected: NEON's vectors, and longer registers of which the code makes nothing."""


@pytest.mark.parametrize(("machine", "units"), [(NEOVERSE_V1, "vscale_range(1,16)"), (machines.SVE, "vscale_range(2,16)")])
def test_no_register_of_sve_is_said_to_have_an_exact_length(machine: machines.Machine, units: str) -> None:
    """Wrong was: 'exactly 16 bytes', for every detected processor. LLVM then stores whole registers, which have 32 on a
    Neoverse V1: the rows of this program wrote over each other."""
    target = LLVMTarget(machine)
    low = polytc.lower("for t in 9:-1:-1 { H[t,i] = 0.5 * (H[t+1,i] else 0) + A[t,i] }", target, shapes={"A": (10, 600)},
                       schedule="program")
    assert set(re.findall(r"vscale_range\(.*?\)", low.source.text)) == {units}
    assert not re.findall(r"st1b\s.*", target.assembly(low.source)), "a vector of 16 bytes is stored as a whole register"


@pytest.mark.parametrize(("length", "lacks"), [(0, True), (16, True), (32, False), (64, False)])
def test_code_for_long_registers_runs_where_they_are_long(length: int, lacks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "detect", lambda *_: machines.SVE)
    monkeypatch.setattr(processors, "scalable_bytes", lambda: length)
    assert LLVMTarget(machines.SVE).lacks() == ("registers of 32 bytes" if lacks else "")


@pytest.mark.parametrize("machine", [machines.NEON, machines.SVE, machines.AVX2, machines.GENERIC_CPU])
def test_assembly_is_of_the_architecture_that_was_given(machine: machines.Machine) -> None:
    """LLVM was asked for code of the processor that it runs on: words of AVX2 for a record of NEON, or it ended the process."""
    target = LLVMTarget(replace(machine, features=machine.features or "+sse"))
    text = target.assembly(polytc.lower("C[i,j] += A[i,k] * B[k,j]", target, shapes={"A": (32, 32), "B": (32, 32)}).source)
    arm = target.machine.architecture == "aarch64"
    assert bool(re.search(r"\bfml[as]\b|\bfmadd\b|\bfmad\b", text)) == arm
    assert bool(re.search(r"\bv?mov[au]ps\b", text)) != arm


def test_assembly_of_dot_products() -> None:
    target = LLVMTarget(replace(machines.NEON, features="+neon,+dotprod"))
    low = polytc.lower("C[i,j] += i32(A[i,k]) * i32(B[k,j])", target, shapes={"A": (32, 32), "B": (32, 32)},
                       dtypes={"A": "i8", "B": "i8"})
    assert re.search(r"\bsdot\s+v\d+\.4s", target.assembly(low.source))


ENDS_LLVM = """
from dataclasses import replace
import polytc
from polytc.targets.llvm.target import LLVMTarget
from polytc import machine as machines
text = '''def f(f32[3,1] X, bf16[1,5] Y, f32[1,1] Z) -> (T, S) {
    S[i,j] = X[i,j]
    for t in 0:4 {
        T[i,j] +=! X[i,k]*Y[k,j]
        S[i,j] += (0.0 + X[i//2,k])*Z[l,l] where l in 0:1, k in 0:1, j in i:1, i in 0:3
    } }'''
target = LLVMTarget(replace(machines.NEON, features="+neon,+dotprod,+fullfp16"))
low = polytc.lower(text, target, shapes={"X": (3, 1), "Y": (1, 5), "Z": (1, 1)}, schedule="program")
print(len(target.assembly(low.source)))
"""


def test_loops_over_bf16_do_not_end_llvm() -> None:
    """An assertion of its loop vectoriser fails on this one, which ends the process."""
    found = subprocess.run([sys.executable, "-c", ENDS_LLVM], capture_output=True, text=True)
    assert (found.returncode, found.stdout.strip().isdigit()) == (0, True), found.stderr[-500:]
