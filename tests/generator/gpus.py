"""Targets for tests: OpenCL with the schedules of a named device, whatever runs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from polytc.codegen.target import Target
from polytc.machine import DEVICES
from polytc.targets.opencl.target import OpenCLTarget
from tests.c_here import CompiledC


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


def named(name: str) -> str | Target:
    """The target of a case: one of these, C with a compiler behind it, or one of polytc's own by its name."""
    return CompiledC() if name == "cc" else TARGETS[name]() if name in TARGETS else name
