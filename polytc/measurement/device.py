"""What launches, barriers and memory take on an OpenCL device, by kernels that do one thing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from polytc.measurement.findings import Finding
from polytc.measurement.native_loops import fastest
from polytc.targets.opencl.driver.devices import Device, build, pyopencl

TEXT = """
__kernel void nothing(__global float* x) { }
__kernel void barriers(__global float* x, int n)
{
    __local float tile[64];
    const int t = get_local_id(0);
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) { tile[t] = sum + t; barrier(CLK_LOCAL_MEM_FENCE); sum += tile[63 - t]; }
    x[t] = sum;
}
__kernel void chase(__global const int* next, __global int* x, int n)
{
    int place = 0;
    for (int k = 0; k < n; ++k) place = next[place];
    x[0] = place;
}
__kernel void copy(__global const float4* a, __global float4* b)
{
    const size_t k = get_global_id(0);
    b[k] = a[k];
}
"""
LAUNCHES, BARRIERS, LOADS, COPIED, ROUNDS = 200, 2000, 4000, 64 << 20, 6


def findings(device: Device) -> Iterator[Finding]:
    """All rates; that of a copy decides nothing."""
    cl = pyopencl()
    context = cl.Context([device.handle])
    queue = cl.CommandQueue(context, device.handle)
    program = build(context, TEXT, ["-cl-std=CL1.2"])
    small = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)

    def each(name: str, size: int, group: int, arguments: tuple[Any, ...], times: int) -> float:
        kernel = cl.Kernel(program, name)
        kernel.set_args(*arguments)

        def run(_: int) -> None:
            for _ in range(times):
                cl.enqueue_nd_range_kernel(queue, kernel, (size,), (group,))
            queue.finish()
        return fastest(run, least=0.0, rounds=ROUNDS) / times

    launch = each("nothing", 64, 64, (small,), LAUNCHES)
    yield Finding("launches.launch", launch, f"{LAUNCHES} launches of nothing in a row", "seconds")
    with_barriers = each("barriers", 64, 64, (small, np.int32(BARRIERS)), 1)
    barrier = max(0.0, with_barriers - launch) / BARRIERS
    yield Finding("launches.barrier", barrier, "a group of 64 that meets again and again", "seconds")
    order = np.random.default_rng(0).permutation(1 << 16).astype(np.int32)
    ring = np.empty_like(order)
    ring[order] = np.roll(order, -1)
    chain = cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=ring)
    walked = each("chase", 1, 1, (chain, small, np.int32(LOADS)), 1)
    waits = max(0.0, walked - launch) / LOADS
    for name in ("step", "group_step"):
        yield Finding(f"launches.{name}", waits, "loads that wait for each other, in 256 KiB", "seconds")
    source, target = (cl.Buffer(context, cl.mem_flags.READ_WRITE, COPIED) for _ in range(2))
    copied = each("copy", COPIED // 16, 64, (source, target), 1)
    yield Finding("", 2 * COPIED / copied / 1e9, f"a copy of {COPIED >> 20} MiB, read and written", "GB/s")
