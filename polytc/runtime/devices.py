"""OpenCL devices: finding them, checking that they work, choosing one, describing it as a Machine.

A target's name (`opencl:1`, `opencl:portable`) or POLYTC_OPENCL_DEVICE chooses by number, in the order of `polytc devices`, or
by a part of the device's or platform's name; else the order is GPUs, Intel's CPU runtime, PoCL, others, of those that pass the
probe. pyopencl is imported when first needed, here and nowhere else.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc import errors
from polytc.disk import cache
from polytc.machine import Cache, Machine, detect_caches
from polytc.runtime import forks
from polytc.runtime.opencl_bootstrap import bootstrap

errors.register(E501="pyopencl is not installed", E503="no OpenCL device", E504="an OpenCL device does not work")

PROBE = """
__kernel __attribute__((reqd_work_group_size(4, 1, 1)))
void polytc_probe(__global const float* restrict x, __global float* restrict y)
{
    __local float tile[4];
    const int t = get_local_id(0);
    const int i = get_group_id(0) * 4 + t;
    tile[t] = exp(x[i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (int k = 0; k < 4; ++k) sum += tile[k];
    y[i] = sum;
}
"""
"""What a device must build and compute: some drivers are listed and then fail every build."""

_LOCK = forks.Lock()
_COMPILER = forks.Lock()
"""Held by who builds: one at a time, as drivers do anyway. Not `_LOCK`, so that devices can be asked for meanwhile."""


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


def choose(wanted: str = "") -> Device:
    """The device to run on. wanted: a number, or a part of a name; that of POLYTC_OPENCL_DEVICE if nothing is said.

    Raises TargetError E501 without pyopencl, E503 if there is no device or none is meant, E504 if all that may be used fail
    the probe.
    """
    with _LOCK:
        return _choose(wanted or os.environ.get("POLYTC_OPENCL_DEVICE", ""))


@functools.cache
def _choose(wanted: str) -> Device:
    found = find()
    if not found:
        raise errors.fail("E503", "there is no OpenCL device", kind=errors.TargetError, notes=[
            f"looked for drivers in {os.environ.get('OCL_ICD_VENDORS') or '/etc/OpenCL/vendors'}",
            "pip install 'polytc[opencl]' brings a runtime for x86-64 CPUs on Linux; elsewhere install the device's driver"])
    if wanted.isdecimal():
        matching = found[int(wanted):int(wanted) + 1]
    else:
        matching = [d for d in found if wanted.lower() in f"{d.name} {d.platform}".lower()]
    if not matching:
        what = f"has the number {wanted}" if wanted.isdecimal() else f"has {wanted!r} in its name"
        raise errors.fail("E503", f"no OpenCL device {what}", kind=errors.TargetError,
                          notes=[f"{n}: {d}" for n, d in enumerate(found)])
    failures = []
    for device in matching:
        reason = probe(device)
        if reason is None:
            return device
        failures.append(f"{device}: {reason}")
    raise errors.fail("E504", "no OpenCL device passes the probe", kind=errors.TargetError, notes=failures)


def probe(device: Device) -> str | None:
    """None if the device builds and runs a small kernel correctly, else the reason."""
    with _LOCK:
        return _probe(device)


@functools.cache
def _probe(device: Device) -> str | None:
    """A device that passed once is not asked again by other processes, as long as its driver is the same."""
    key = hashlib.sha256(repr(("probe", PROBE, device.identity)).encode()).hexdigest()
    if cache.get(key) is not None:
        return None
    reason = _tried(device)
    if reason is None:
        cache.put(key, b"works")
    return reason


def _tried(device: Device) -> str | None:
    cl = pyopencl()
    x = np.arange(8, dtype=np.float32) / 4
    y = np.zeros_like(x)
    try:
        context = cl.Context([device.handle])
        queue = cl.CommandQueue(context)
        kernel = cl.Kernel(build(context, PROBE, ["-cl-std=CL1.2"]), "polytc_probe")
        flags = cl.mem_flags
        source = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
        result = cl.Buffer(context, flags.WRITE_ONLY, y.nbytes)
        kernel(queue, (8,), (4,), source, result)
        cl.enqueue_copy(queue, y, result)
        queue.finish()
    except Exception as e:
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        return f"cannot build or run a small kernel ({lines[0] if lines else type(e).__name__})"
    expected = np.repeat(np.exp(x).reshape(2, 4).sum(axis=1), 4)
    return None if np.allclose(y, expected, rtol=1e-5) else "computes wrong numbers"


@functools.cache
def machine_of(device: Device) -> Machine:
    """The device as the strategies see it."""
    d = device.handle
    vector = 4 * max(1, d.native_vector_width_float) if device.kind == "cpu" else 16
    line = d.global_mem_cacheline_size or 64
    caches = detect_caches() if device.kind == "cpu" else (
        Cache(max(d.local_mem_size, 16 << 10), 4, line), Cache(max(d.global_mem_cache_size, 1 << 20), 16, line))
    registers = 128 if device.kind == "gpu" else 32 if vector >= 64 else 16
    gpu = device.kind == "gpu"
    staging = gpu and d.local_mem_type == pyopencl().device_local_mem_type.LOCAL  # elsewhere it is in the caches anyway
    return Machine("gpu" if gpu else "cpu", vector, registers, 4, 1 if gpu else 2, caches, d.max_compute_units,
                   max_work_group=d.max_work_group_size, local_bytes=d.local_mem_size, warp=_warp(d) if gpu else 1,
                   item_registers=registers if gpu else 0, staging=staging)


def _warp(handle: Any) -> int:
    """Work-items that run in lockstep, as vendors' extensions tell; 32 where none does."""
    for name in ("warp_size_nv", "wavefront_width_amd"):
        try:
            return int(getattr(handle, name))
        except (AttributeError, pyopencl().Error):
            continue
    return 32


def describe() -> list[dict[str, object]]:
    """What `polytc devices` prints, a row a device, best first. Raises TargetError E501 without pyopencl."""
    rows: list[dict[str, object]] = []
    for device in find():
        d = device.handle
        reason = probe(device)
        rows.append({
            "name": device.name, "platform": device.platform, "version": device.version, "driver": d.driver_version.strip(),
            "kind": device.kind, "compute units": d.max_compute_units, "memory": f"{d.global_mem_size >> 20} MiB",
            "local memory": f"{d.local_mem_size >> 10} KiB", "work-group limit": d.max_work_group_size,
            "f64": "yes" if has_double(device) else "no", "status": "works" if reason is None else reason})
    return rows


def takes_addresses(device: Device) -> bool:
    """Whether kernels work on any memory of the host by its address (OpenCL's fine-grained system SVM). PoCL's on CPUs do, and
    say it in later versions only."""
    cl = pyopencl()
    if device.kind == "cpu" and "portable computing" in device.platform.lower():
        return True
    try:
        return bool(device.handle.svm_capabilities & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM)
    except (AttributeError, cl.Error):                                # before OpenCL 2.0
        return False


def has_double(device: Device) -> bool:
    """Whether the device computes with f64."""
    return "cl_khr_fp64" in device.handle.extensions.split()
