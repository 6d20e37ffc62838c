"""Targets for tests: OpenCL with the schedules of a named device, whatever runs them, CUDA C on the processor, and Arm in an
emulator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from polytc.codegen.target import Target
from polytc.machine import DEVICES
from polytc.targets.opencl.target import OpenCLTarget
from tests.aarch64_here import PLAIN, EmulatedArm, unicorn
from tests.c_here import CompiledC
from tests.cuda_here import COMPILER, CompiledCuda


@dataclass(frozen=True)
class Named(OpenCLTarget):
    """A target whose machine stays what it is."""

    def here(self) -> Named:
        return self


GENERIC = partial(Named, DEVICES["generic-gpu"], "gpu")
NVIDIA = partial(Named, DEVICES["nvidia-sm90"], "gpu-nvidia")
AMD = partial(Named, DEVICES["amd-gfx90a"], "gpu-amd")
MALI = partial(Named, DEVICES["mali"], "gpu-mali")
XE = partial(Named, DEVICES["intel-xe"], "gpu-xe")

TARGETS = {made.args[1]: made for made in (GENERIC, NVIDIA, AMD, MALI, XE)}
"""By the names that cases have."""


CUDA = {"gpu-cuda": partial(CompiledCuda, DEVICES["nvidia-sm90"]),
        "gpu-cuda-generic": partial(CompiledCuda, DEVICES["generic-gpu"])}
"""CUDA C with a C++ compiler behind it, by the names that cases have."""
ALL = (*TARGETS, *(CUDA if COMPILER else ()))

ARM = {"arm": EmulatedArm, "arm-plain": partial(EmulatedArm, PLAIN)} if unicorn is not None else {}
"""Code for Arm in an emulator, with dot products and without."""


def named(name: str) -> str | Target:
    """The target of a case: one of these, C with a compiler behind it, or one of polytc's own by its name."""
    made = {**TARGETS, **CUDA, **ARM, "cc": CompiledC}.get(name)
    return name if made is None else made()
