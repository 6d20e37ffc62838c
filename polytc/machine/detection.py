"""The processor that we run on, as the system and LLVM tell it."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

from polytc import processors
from polytc.machine.described import GENERIC_CPU
from polytc.machine.records import Cache, Machine, is_arm

DOUBLE_PUMPED = ("znver4",)
"""Processors (LLVM's names) that run a 512-bit operation as two halves: one multiply-add and one load a cycle."""

QUICK_PAIRS = "znver"
"""How LLVM's names of processors begin that start a dot product of bf16 in each cycle; Intel's take as long as for four
multiply-adds."""

HARDWARE, MORE_HARDWARE = 16, 26
"""AT_HWCAP and AT_HWCAP2: what Linux says of a processor in a process's auxiliary vector."""

ARM_FEATURES = {"neon": (HARDWARE, 1), "fullfp16": (HARDWARE, 10), "dotprod": (HARDWARE, 20), "i8mm": (MORE_HARDWARE, 13),
                "bf16": (MORE_HARDWARE, 14)}
"""LLVM's name of a feature of 64-bit Arm -> Linux's bit of it (HWCAP_ASIMD, _ASIMDHP, _ASIMDDP, HWCAP2_I8MM, _BF16)."""


def arm_features(root: Path = Path("/")) -> list[str]:
    """What a 64-bit Arm processor has of ARM_FEATURES, '+dotprod', and has not, '-dotprod': LLVM 22 looks for few of them on
    Linux, and for no dot products. It takes the others from the processor's name, which is that of one core where they differ,
    and beside a virtual machine that hides some. Each has NEON, which is also all that other systems tell here."""
    try:
        said = {MORE_HARDWARE: 0} | dict(struct.iter_unpack("=QQ", (root / "proc/self/auxv").read_bytes()))
        return [f"{'+' if said[word] >> bit & 1 else '-'}{name}" for name, (word, bit) in ARM_FEATURES.items()]
    except (OSError, struct.error, KeyError):
        return ["+neon"]


def detect_caches() -> tuple[Cache, ...]:
    """The data caches of core 0 as the system tells them; those of GENERIC_CPU where it does not."""
    found: dict[int, Cache] = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (entry / "type").read_text().strip() == "Instruction":
                continue
            size = (entry / "size").read_text().strip()
            number = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1], 0)
            found[int((entry / "level").read_text())] = Cache(
                number, int((entry / "ways_of_associativity").read_text()), int((entry / "coherency_line_size").read_text()))
        except (OSError, ValueError):
            continue
    return tuple(found[level] for level in sorted(found)) or GENERIC_CPU.caches


def detect_clock(root: Path = Path("/")) -> tuple[float, str]:
    """Cycles a second, and who says so: Linux's highest frequency of core 0, or the name of the processor ('... @ 2.10GHz');
    that of GENERIC_CPU, a guess, where neither does. What changes from moment to moment would change keys of compiled code."""
    try:
        highest = int((root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").read_text())
        if highest > 0:
            return highest * 1e3, "documented: Linux, cpuinfo_max_freq"
    except (OSError, ValueError):
        pass
    try:
        found = re.search(r"^model name.*@ *([0-9.]+) *GHz", (root / "proc/cpuinfo").read_text(), re.M)
        if found is not None and float(found[1]) > 0:
            return float(found[1]) * 1e9, "documented: the name of the processor"
    except (OSError, ValueError):
        pass
    return GENERIC_CPU.clock, "guess: the system does not tell it"


def detect(cpu: str, features: str) -> Machine:
    """The machine we run on. cpu, features: LLVM's host name and feature string ('+avx2,-avx512f,...')."""
    if "+amx-tile" in features and not processors.allow_tiles():
        features = features.replace("+amx-", "-amx-")
    if is_arm():
        linux_says = arm_features()
        again = {f[1:] for f in linux_says}
        features = ",".join([*(f for f in features.split(",") if f and f[1:] not in again), *linux_says])
    have = {f[1:] for f in features.split(",") if f.startswith("+")}
    vector_bytes = 64 if "avx512f" in have else 32 if "avx2" in have else 16
    registers = 32 if is_arm() or "avx512f" in have else 16
    ports = 1 if cpu in DOUBLE_PUMPED else 2
    clock, source = detect_clock()
    found = Machine("cpu", vector_bytes, registers, 4, ports, detect_caches(), processors.usable(), load_ports=ports,
                    masked="avx512vl" in have, cpu=cpu, features=features, clock=clock, origins=(("clock", source),))
    if "avx512bf16" in have and not cpu.startswith(QUICK_PAIRS):
        origin = "guess: 111 GFLOP/s of vdpbf16ps, 222 of vfmadd231ps, on a Sapphire-Rapids-class processor"
        found = replace(found.costing({"arithmetic.pairs": 4.0}), origins=(*found.origins, ("costs.arithmetic.pairs", origin)))
    return found
