"""What bounds a kernel on a GPU, by a model: peak rates of the device, and the traffic that is counted in the kernel.

A kernel takes as long as the slowest of: its multiply-adds and its passes over local memory on the compute unit that has most
groups; what its warps ask of the second cache; its arrays, moved once by memory; and the loads that wait for each other. (After
Williams et al., Roofline, CACM 2009; no more than a guess at which one it is.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from polytc.machine import Machine
from polytc.targets.opencl.warp_traffic import Traffic


@dataclass(frozen=True)
class Rates:
    """clock: a second; lanes: multiply-adds of f32 that a compute unit starts in a cycle; cache, memory: bytes a second; wait:
    seconds from a load of global memory to its use."""

    clock: float
    lanes: int
    cache: float
    memory: float
    wait: float


RATES = {
    "nvidia-sm90": Rates(1.98e9, 128, 5.5e12, 3.35e12, 0.4e-6),
    "amd-gfx90a": Rates(1.7e9, 64, 7.0e12, 1.638e12, 0.5e-6),
}
"""Of devices of machine.DEVICES. Sources: NVIDIA's H100 SXM data sheet (67 TFLOP/s of f32, 3.35 TB/s) and AMD's CDNA 2 white
paper (one die of an MI250); caches and waiting as microbenchmarks that are published have them, to about a fifth."""


@dataclass(frozen=True)
class Estimate:
    """bound: 'arithmetic', 'local memory', 'cache', 'memory' or 'waiting'."""

    seconds: float
    bound: str


def estimate(traffic: Traffic, groups: int, resident: int, array_bytes: int, machine: Machine, rates: Rates) -> Estimate:
    """The model's time of a kernel. groups: of the launch; resident: groups that a compute unit holds at once; array_bytes: of
    the arrays that it is given."""
    turns = ceil(groups / machine.cores)
    times = {
        "memory": array_bytes / rates.memory,
        "cache": traffic.moved * groups / rates.cache,
        "arithmetic": traffic.operations * turns / (rates.lanes * rates.clock),
        "local memory": traffic.passes * turns / rates.clock,
        "waiting": traffic.waits * rates.wait * ceil(groups / (machine.cores * max(1, resident))),
    }
    bound = max(times, key=times.__getitem__)
    return Estimate(times[bound], bound)
