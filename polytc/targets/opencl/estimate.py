"""What bounds a kernel on a GPU, by a model: peak rates of the device, and the traffic that is counted in the kernel.

A kernel takes as long as the slowest of: its multiply-adds and its passes over local memory on the compute unit that has most
groups; what its warps ask of the second cache; its arrays, moved once by memory; and the loads that wait for each other. (After
Williams et al., Roofline, CACM 2009; no more than a guess at which one it is.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from polytc.machine import DEVICES, Machine
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
    "nvidia-sm80": Rates(1.41e9, 64, 4.0e12, 1.555e12, 0.4e-6),
    "nvidia-sm86": Rates(1.71e9, 128, 1.8e12, 0.76e12, 0.4e-6),
    "nvidia-sm89": Rates(2.52e9, 128, 5.0e12, 1.008e12, 0.4e-6),
    "amd-gfx90a": Rates(1.7e9, 64, 7.0e12, 1.638e12, 0.5e-6),
    "amd-gfx1030": Rates(2.25e9, 64, 2.0e12, 0.512e12, 0.5e-6),
    "amd-gfx1100": Rates(2.5e9, 64, 3.5e12, 0.96e12, 0.5e-6),
    "apple-m1": Rates(1.28e9, 128, 0.4e12, 0.068e12, 0.5e-6),
    "intel-xe": Rates(2.1e9, 128, 2.0e12, 0.56e12, 0.4e-6),
    "mali": Rates(0.85e9, 64, 0.2e12, 0.051e12, 0.5e-6),
    "adreno": Rates(0.67e9, 128, 0.2e12, 0.044e12, 0.5e-6),
    "generic-gpu": Rates(1.5e9, 64, 1.5e12, 0.4e12, 0.4e-6),
}
"""Of devices of machine.DEVICES. Sources: NVIDIA's H100 SXM data sheet (67 TFLOP/s of f32, 3.35 TB/s) and AMD's CDNA 2 white
paper (one die of an MI250); caches and waiting as microbenchmarks that are published have them, to about a fifth. Those of
the A100 of 40 GB, the GeForce RTX 3080 and 4090, the Radeon RX 6800 XT and 7900 XTX, Apple's M1, Intel's Arc A770 and of
phones are from their makers' data sheets, with caches and waiting guessed; the generic GPU's are all guessed."""
MOST_GROUPS = 32
"""That a compute unit holds at once, whatever they use."""


def rates_of(machine: Machine) -> Rates:
    """The rates of a described device; of others the generic ones."""
    known = next((n for n, m in DEVICES.items() if n in RATES and (m.cores, m.warp, m.local_bytes, m.max_work_group) ==
                  (machine.cores, machine.warp, machine.local_bytes, machine.max_work_group)), "generic-gpu")
    return RATES[known]


def resident(items: int, local_bytes: int, machine: Machine) -> int:
    """Groups that a compute unit holds at once, by their items and local memory; registers are not known here."""
    by_items = machine.costs.launches.items // items
    by_memory = (machine.unit_local_bytes or machine.local_bytes) // local_bytes if local_bytes else MOST_GROUPS
    return max(1, min(by_items, by_memory, MOST_GROUPS))


def shared(traffic: Traffic, groups: int, array_bytes: int, machine: Machine, rates: Rates) -> float:
    """Seconds of the same work on a device all of whose units are busy: the largest of its bounds but for waiting."""
    each = groups / machine.cores / rates.clock
    return max(array_bytes / rates.memory, traffic.moved * groups / rates.cache, traffic.operations * each / rates.lanes,
               traffic.passes * each)


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
