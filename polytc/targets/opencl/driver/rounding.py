"""Quotients and roots of f32 on OpenCL devices: within 2.5 and 3 units in the last place by OpenCL's rules, by ours rounded
correctly where the device can.

Devices that say that they can get the flag for it. Others may do so all the same, as runtimes for processors do: they compute
some quotients and roots once, and are warned of (once in a process) if one of them is not the nearest float.
"""

from __future__ import annotations

import functools
import re
import warnings
from typing import Any

import numpy as np

from polytc.targets.opencl.driver import devices

FLAG = "-cl-fp32-correctly-rounded-divide-sqrt"
LOOSE = "-cl-mad-enable"
"""What kernels that are `fast` are built with."""

_PROBE = """__kernel void probe(__global const float *a, __global const float *b, __global float *q, __global float *r)
{
    const int i = get_global_id(0);
    q[i] = a[i] / b[i];
    r[i] = sqrt(a[i]);
}
"""
_NUMBERS = 1 << 14


def options(given: list[str], text: str, device: devices.Device, context: Any) -> list[str]:
    """The flags with which to build a text for a device."""
    if LOOSE in given:
        return given
    if _says_so(device):
        return [*given, FLAG]
    if re.search(r" / |\bsqrt\(", text) and not _rounds(device, context):
        _warn(str(device))
    return given


def _says_so(device: devices.Device) -> bool:
    cl = devices.pyopencl()
    return bool(device.handle.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT)


@functools.lru_cache(maxsize=16)
def _rounds(device: devices.Device, context: Any) -> bool:
    """Are quotients and roots of random numbers the nearest floats?"""
    cl, rng = devices.pyopencl(), np.random.default_rng(0)
    a, b = ((1 + rng.random(_NUMBERS)) * 2.0 ** rng.integers(-20, 20, _NUMBERS) for _ in range(2))
    a, b = a.astype(np.float32), b.astype(np.float32)
    q, r = np.empty_like(a), np.empty_like(a)
    flags, queue = cl.mem_flags, cl.CommandQueue(context)
    given = [cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x) for x in (a, b)]
    found = [cl.Buffer(context, flags.WRITE_ONLY, x.nbytes) for x in (q, r)]
    try:
        devices.build(context, _PROBE, []).probe(queue, (_NUMBERS,), None, *given, *found)
        for array, buffer in zip((q, r), found, strict=True):
            cl.enqueue_copy(queue, array, buffer)
    except cl.Error:
        return False
    return bool((q == a / b).all() and (r == np.sqrt(a)).all())


@functools.cache
def _warn(device: str) -> None:
    warnings.warn(f"{device} does not round quotients and roots of f32 correctly: they are within 2.5 and 3 units in the last "
                  "place there (docs/accuracy.md)", RuntimeWarning, stacklevel=2)
