"""CUDA devices through the driver API of cuda-python, and what strategies read of them."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from polytc import errors
from polytc.machine import DEVICES, Cache, Machine, MatrixUnit
from polytc.targets.cuda import nvrtc

errors.register(E526="a CUDA call failed")

ANY = -1
"""In place of the number of a device, see `holder`."""
DOTS = 61
"""The first compute capability with dot products of bytes (NVIDIA, PTX ISA, dp4a)."""
OUT_OF_MEMORY = 2
"""A result of the driver's."""


@dataclass(frozen=True)
class Device:
    """number: in the driver's order. architecture: its compute capability, 90 of 9.0. among: how many devices there are."""

    number: int
    name: str
    architecture: int
    machine: Machine
    among: int = 1


@functools.cache
def choose() -> Device:
    """Device 0, or the one whose number POLYTC_CUDA_DEVICE has. Raises TargetError E524 where there is none."""
    driver = nvrtc.bindings("driver")
    number = os.environ.get("POLYTC_CUDA_DEVICE", "0")
    try:
        call(driver.cuInit(0))
        count = call(driver.cuDeviceGetCount())
    except Exception as e:  # without a driver, what is raised differs from version to version
        raise errors.fail("E524", f"there is no CUDA device: {e}", kind=errors.TargetError, notes=[nvrtc.CURE]) from None
    if not number.isdigit() or int(number) >= count:
        raise errors.fail("E524", f"there is no CUDA device {number}: there are {count}", kind=errors.TargetError,
                          notes=["POLYTC_CUDA_DEVICE chooses by number, from 0"])
    return replace(_described(driver, int(number)), among=count)


def holder(address: int) -> int | None:
    """The number of the device on which memory lies, ANY for memory that moves between them and the host; None for other
    addresses."""
    driver = nvrtc.bindings("driver")
    kinds = driver.CUpointer_attribute
    code, number = driver.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)
    if int(code):
        return None
    code, managed = driver.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_IS_MANAGED, address)
    return ANY if not int(code) and managed else int(number)


def _described(driver: Any, number: int) -> Device:
    handle = call(driver.cuDeviceGet(number))

    def fact(name: str) -> int:
        attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(call(driver.cuDeviceGetAttribute(attribute, handle)))

    name = bytes(call(driver.cuDeviceGetName(256, handle))).split(b"\0")[0].decode()
    known = DEVICES["nvidia-sm90"]
    first, second = known.caches
    architecture = fact("COMPUTE_CAPABILITY_MAJOR") * 10 + fact("COMPUTE_CAPABILITY_MINOR")
    machine = replace(known, cores=fact("MULTIPROCESSOR_COUNT"),
                      local_bytes=fact("MAX_SHARED_MEMORY_PER_BLOCK"),
                      unit_local_bytes=fact("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"), matrix_unit=matrix_unit(architecture),
                      word_dots=known.word_dots if architecture >= DOTS else (),
                      warp=fact("WARP_SIZE"), max_work_group=fact("MAX_THREADS_PER_BLOCK"),
                      caches=(first, Cache(fact("L2_CACHE_SIZE") or second.bytes, second.ways, second.line)))
    return Device(number, name, architecture, machine)


def matrix_unit(architecture: int) -> MatrixUnit | None:
    """That of GPUs of a compute capability, 90 of 9.0: of the newest described one that is not newer."""
    known = {int(n[9:]): m.matrix_unit for n, m in DEVICES.items() if n.startswith("nvidia-sm")}
    return next((known[n] for n in sorted(known, reverse=True) if n <= architecture), None)


def describe() -> list[dict[str, object]]:
    """What is known of the device in use; nothing where there is none."""
    try:
        found = choose()
    except errors.TargetError:
        return []
    return [{"name": found.name, "architecture": f"sm_{found.architecture}", "multiprocessors": found.machine.cores,
             "shared memory": f"{found.machine.local_bytes >> 10} KiB a block", "status": "not tried"}]


def call(result: Sequence[Any]) -> Any:
    """What a call of the driver gave behind its code. Raises TargetError E526 for a failure."""
    code, *rest = result
    if int(code):
        full = ["the device has no memory left: free other arrays on it, or use less"] if int(code) == OUT_OF_MEMORY else []
        raise errors.fail("E526", f"the CUDA driver says {getattr(code, 'name', code)}", kind=errors.TargetError, notes=full)
    return rest[0] if rest else None
