"""What is asked of OpenCL drivers: their devices, and to compile. pyopencl is imported when first needed, and only here."""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from dataclasses import dataclass
from typing import Any

from polytc import errors
from polytc.native import forks
from polytc.targets.opencl.driver.bootstrap import bootstrap

errors.register(E501="pyopencl is not installed")

_COMPILER = forks.Lock()
"""Held by who builds: one at a time, as drivers do anyway."""


@dataclass(frozen=True)
class Device:
    """A device. handle: pyopencl's. kind: 'gpu', 'cpu' or 'other'."""

    name: str
    platform: str
    version: str
    kind: str
    handle: Any

    def __str__(self) -> str:
        return f"{self.name} ({self.platform})"

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells it, with its driver, from others."""
        platform = self.handle.platform.version.strip()
        return self.name, self.platform, platform, self.version, self.handle.driver_version.strip()


@functools.cache
def pyopencl() -> Any:
    """The pyopencl module, with pip's runtimes made visible. Raises TargetError E501 where it is not installed.

    PoCL would compile each kernel twice: in general for the program's binary, and at the first launch for the size of the work,
    which gains our kernels nothing: theirs is in the text.
    """
    bootstrap()
    os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")
    try:
        cl = importlib.import_module("pyopencl")
    except ImportError as e:
        raise errors.fail("E501", f"the OpenCL target needs pyopencl, which cannot be imported: {e}", kind=errors.TargetError,
                          notes=["pip install 'polytc[opencl]' installs it, with a runtime for x86-64 CPUs on Linux"]) from e
    return cl


def build(context: Any, text: str, options: list[str]) -> Any:
    """The compiled program. Without the warning that the compiler had something to say, as Intel's has for every build.

    It does not come from pyopencl's own cache, where the lock of a process that was killed stops all others for a minute.
    """
    cl = pyopencl()
    with _COMPILER, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = cl.Program(context, text)
        program.get_info(cl.program_info.NUM_DEVICES)  # who asks before the build is not served from that cache
        return program.build(options)


def load(context: Any, device: Device, binary: bytes, options: list[str]) -> Any:
    """The program that a device's compiler made before. Raises pyopencl's error where the driver does not take it."""
    cl = pyopencl()
    with _COMPILER, warnings.catch_warnings():
        warnings.simplefilter("ignore", category=cl.CompilerWarning)
        return cl.Program(context, [device.handle], [binary]).build(options)


def find() -> list[Device]:
    """All devices of all platforms, best first, untested. Raises TargetError E501 without pyopencl."""
    cl = pyopencl()
    try:
        platforms = cl.get_platforms()
    except cl.Error:
        # the loader's way to say that there are none
        platforms = []
    found = []
    for platform in platforms:
        try:
            handles = platform.get_devices()
        except cl.Error:
            continue
        for handle in handles:
            found.append(of(handle))
    return sorted(found, key=_rank)


def of(handle: Any) -> Device:
    """The device behind pyopencl's handle."""
    types = pyopencl().device_type
    kind = "gpu" if handle.type & types.GPU else "cpu" if handle.type & types.CPU else "other"
    return Device(handle.name.strip(), handle.platform.name.strip(), handle.version.strip(), kind, handle)


def _rank(d: Device) -> int:
    """Position in the order of preference; equals stay as the loader lists them."""
    if d.kind == "gpu":
        return 0
    return 1 if "intel" in d.platform.lower() else 2 if "portable computing" in d.platform.lower() else 3
