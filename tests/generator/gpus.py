"""Targets for tests: OpenCL with the schedules of a named device, whatever runs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from polytc.machine import DEVICES
from polytc.targets.opencl.target import OpenCLTarget


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

TARGETS = {made.args[1]: f"{__name__}:{name}" for name, made in (
    ("GENERIC", GENERIC), ("NVIDIA", NVIDIA), ("AMD", AMD), ("MALI", MALI), ("XE", XE))}
"""For compiler.TARGETS."""
