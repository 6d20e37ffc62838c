"""Digests of generated code, for machines that are described, so that they are the same on every processor."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from polytc import compiler, errors
from polytc.codegen import passes
from polytc.codegen.target import Target
from polytc.machine import AVX2, AVX512, DEVICES, NEON
from polytc.targets.c.target import CTarget
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.digests.programs import Named

TILES = "+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16"

TARGETS: dict[str, Target] = {
    "avx2": LLVMTarget(AVX2),
    "avx512": LLVMTarget(AVX512),
    "amx": LLVMTarget(replace(AVX512, cores=4, features=TILES)),
    "neon": LLVMTarget(NEON),
    "c": CTarget(),
    "generic-gpu": OpenCLTarget(),
    "nvidia-sm90": OpenCLTarget(DEVICES["nvidia-sm90"]),
    "pocl-cpu": OpenCLTarget(DEVICES["pocl-cpu"]),
}


def digests(programs: Iterable[Named], target: str) -> dict[str, str]:
    return {name: _digest(program, TARGETS[target]) for name, program in programs}


def _digest(program: compiler.Program, target: Target) -> str:
    """Of the source texts, whose loops keep the invariant behind every pass; the code of the error for a refused program."""
    try:
        lowered = compiler.lower_program(program, target)
    except errors.CompileError as refusal:
        return refusal.code
    for x in (lowered.prologue, lowered):
        if x is not None:
            passes.verify_each(x.passes)
    texts = [x.source.text for x in (lowered.prologue, lowered) if x is not None]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
