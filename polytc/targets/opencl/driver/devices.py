"""OpenCL devices: finding them, checking that they work, choosing one, describing it as a Machine.

A target's name (`opencl:1`, `opencl:portable`) or POLYTC_OPENCL_DEVICE chooses by number, in the order of `polytc devices`, or
by a part of the device's or platform's name; else the order is GPUs, Intel's CPU runtime, PoCL, others, of those that pass the
probe.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from polytc import errors
from polytc.disk import cache
from polytc.machine import DEVICES, Cache, Machine, detect_caches
from polytc.machine.described import EITHER_SIGN
from polytc.native import forks
from polytc.targets.opencl.driver import child
from polytc.targets.opencl.driver.drivers import Device, build, find, load, of, pyopencl

errors.register(E503="no OpenCL device", E504="an OpenCL device does not work")

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

DOTS = (6, 1)
"""The first compute capability with dot products of bytes (NVIDIA, PTX ISA, dp4a)."""

__all__ = ["PROBE", "Device", "build", "choose", "describe", "find", "has_double", "load", "machine_of", "of", "probe",
           "pyopencl", "takes_addresses"]

_LOCK = forks.Lock()


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
    x = np.arange(8, dtype=np.float32) / 4
    question = child.Run(PROBE, ("-cl-std=CL1.2",), "polytc_probe", (8,), (4,), (x, np.zeros_like(x)))
    try:
        answer = child.answer(device, question)
    except child.CrashedError as e:
        return f"crashes at a small kernel ({e})"
    if isinstance(answer, child.Refused):
        lines = [line.strip() for line in answer.log.splitlines() if line.strip()]
        return f"cannot build or run a small kernel ({lines[0] if lines else 'no reason given'})"
    expected = np.repeat(np.exp(x).reshape(2, 4).sum(axis=1), 4)
    return None if np.allclose(answer[-1], expected, rtol=1e-5) else "computes wrong numbers"


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
    fast_local_memory = gpu and d.local_mem_type == pyopencl().device_local_mem_type.LOCAL  # else in the caches anyway
    return Machine("gpu" if gpu else "cpu", vector, registers, 4, 1 if gpu else 2, caches, d.max_compute_units,
                   max_work_group=d.max_work_group_size, local_bytes=d.local_mem_size, warp=_warp(d) if gpu else 1,
                   item_registers=registers if gpu else 0, fast_local_memory=fast_local_memory,
                   word_dots=_word_dots(d) if gpu else ())


def _word_dots(handle: Any) -> tuple[str, ...]:
    """See Machine.word_dots: what the extension says, or NVIDIA's compute capability, or the name of AMD's architecture
    ('gfx90a:sramecc+:xnack-'), of which a described one has them."""
    if "cl_khr_integer_dot_product" in handle.extensions.split():
        return EITHER_SIGN
    try:
        capability = (handle.compute_capability_major_nv, handle.compute_capability_minor_nv)
        return EITHER_SIGN if capability >= DOTS else ()
    except (AttributeError, pyopencl().Error):
        described = DEVICES.get(f"amd-{handle.name.split(':')[0]}")
        return described.word_dots if described is not None else ()


def _warp(handle: Any) -> int:
    """Work-items that run in lockstep, as vendors' extensions tell; 32 where none does."""
    for name in ("warp_size_nv", "wavefront_width_amd"):
        try:
            return int(getattr(handle, name))
        except (AttributeError, pyopencl().Error):
            continue
    return 32


def describe(faults: Callable[[Device], frozenset[str]] = lambda device: frozenset()) -> list[dict[str, object]]:
    """What `polytc devices` prints, a row a device, best first. faults: of a device that works. Raises TargetError E501 without
    pyopencl."""
    rows: list[dict[str, object]] = []
    for device in find():
        d = device.handle
        reason = probe(device)
        rows.append({
            "name": device.name, "platform": device.platform, "version": device.version, "driver": d.driver_version.strip(),
            "kind": device.kind, "compute units": d.max_compute_units, "memory": f"{d.global_mem_size >> 20} MiB",
            "local memory": f"{d.local_mem_size >> 10} KiB", "work-group limit": d.max_work_group_size,
            "f64": "yes" if has_double(device) else "no",
            "faults": ", ".join(sorted(faults(device))) if reason is None else "",
            "status": "works" if reason is None else reason})
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
