"""Machine: the description of a processor as data. Strategies read it; nothing else knows the hardware."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from polytc import processors

ALIGNMENT = 64
"""Bytes of a cache line and of the widest vector register: where arrays, weights and values in arenas begin."""


@dataclass(frozen=True)
class Cache:
    """One level of data cache: bytes visible to one core, associativity, bytes of a line."""

    bytes: int
    ways: int
    line: int


@dataclass(frozen=True)
class Machine:
    """What decisions depend on.

    kind: 'cpu', or 'gpu' where work-items run in lockstep warps.
    vector_bytes: width of a vector register, e.g. 32 for AVX2, 64 for AVX-512, 16 for NEON.
    vector_registers: how many there are, e.g. 16 for AVX2, 32 for AVX-512 and NEON.
    fma_latency, fma_ports: cycles of a fused multiply-add of whole vectors, and how many start in a cycle; their product is how
    many must be in flight. load_ports: loads of whole vectors that start in a cycle.
    caches: L1 first; cores: hardware threads that may be used.
    masked: loads and stores of the first lanes of a vector cost no more than whole ones (AVX-512, SVE).
    max_work_group, local_bytes: limits of an OpenCL device (0 for the LLVM target). warp: work-items that run in lockstep;
    item_registers: 32-bit registers of a work-item where a group of 256 still fits; fast_local_memory: local memory is faster
    than the caches, so that tiles of operands are worth copying there. cpu, features: LLVM's names, '' for a device that LLVM
    does not see. faults: what the device's driver compiles wrongly (see targets/opencl/driver/conformance.py).
    """

    kind: str
    vector_bytes: int
    vector_registers: int
    fma_latency: int
    fma_ports: int
    caches: tuple[Cache, ...]
    cores: int
    load_ports: int = 2
    masked: bool = False
    max_work_group: int = 0
    local_bytes: int = 0
    warp: int = 1
    item_registers: int = 0
    fast_local_memory: bool = False
    cpu: str = ""
    features: str = ""
    faults: frozenset[str] = frozenset()

    def lanes(self, scalar_bytes: int) -> int:
        """Elements of a vector register."""
        return max(1, self.vector_bytes // scalar_bytes)

    @property
    def has_fma(self) -> bool:
        """Whether a fused multiply-add is one instruction."""
        return self.vector_bytes >= 32 or self.has("fma") or self.has("neon") or _is_arm()

    @property
    def dots(self) -> tuple[str, ...]:
        """The dot products of words (program.words.DOTS) that are one or two instructions on whole vectors, fastest first."""
        if self.kind != "cpu" or self.max_work_group:  # OpenCL C does not have them
            return ()
        arm, words = self.has("neon"), self.has("avx512bw") or not self.features
        vnni = (self.has("avx512vnni") and self.has("avx512vl")) or (self.has("avxvnni") and self.vector_bytes == 32)
        found = {"dot_u8i8": self.has("i8mm") if arm else vnni,
                 "dot_i8i8": arm and self.has("dotprod"), "dot_u8u8": arm and self.has("dotprod"),
                 "dot_i16i16": not arm and (self.vector_bytes == 32 or (self.vector_bytes == 64 and words)),
                 "dot_bf16": self.has("avx512bf16") and self.has("avx512vl") and self.vector_bytes == 64}
        return tuple(name for name, there in found.items() if there)

    def multiplies_tiles(self, dot: str) -> bool:
        """Whether a matrix unit does this dot product for all pairs of 16 rows and 16 columns of 16 words (x86's AMX)."""
        feature = {"dot_u8i8": "amx-int8", "dot_bf16": "amx-bf16"}.get(dot)
        return feature is not None and self.vector_bytes == 64 and self.has(feature)

    @property
    def architecture(self) -> str:
        """'x86_64', 'aarch64', or what the system calls another one."""
        here = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
        return "aarch64" if self.has("neon") else "x86_64" if "+sse" in self.features else here

    def has(self, feature: str) -> bool:
        """Whether LLVM's feature, e.g. 'avx512f', is among the machine's."""
        return f"+{feature}" in self.features.split(",")


GENERIC_CPU = Machine("cpu", 16, 16, 4, 2, (Cache(32 << 10, 8, 64), Cache(256 << 10, 8, 64)), 1)
AVX2 = Machine("cpu", 32, 16, 4, 2, (Cache(32 << 10, 8, 64), Cache(512 << 10, 8, 64), Cache(16 << 20, 16, 64)), 2)
AVX512 = Machine("cpu", 64, 32, 4, 2, (Cache(48 << 10, 12, 64), Cache(1 << 20, 16, 64), Cache(32 << 20, 16, 64)), 2,
                 masked=True)
NEON = Machine("cpu", 16, 32, 4, 2, (Cache(64 << 10, 4, 64), Cache(1 << 20, 8, 64)), 4, features="+neon")
SVE = Machine("cpu", 32, 32, 4, 2, (Cache(64 << 10, 4, 64), Cache(1 << 20, 8, 64), Cache(32 << 20, 16, 64)), 4,
              masked=True, cpu="neoverse-v1", features="+neon,+sve")
GENERIC_GPU = Machine("gpu", 16, 128, 4, 1, (Cache(32 << 10, 4, 128), Cache(4 << 20, 16, 128)), 32,
                      max_work_group=256, local_bytes=32 << 10, warp=32, item_registers=128, fast_local_memory=True)
"""Descriptions for tests and for generating code without the machine."""


def _gpu(cores: int, warp: int, local: int, group: int, line: int, l2: int, *, registers: int = 128,
         fast_local_memory: bool = True) -> Machine:
    """A GPU: compute units, work-items in lockstep, bytes of local memory of a group, items of a group, bytes of a cache line
    and of the second cache."""
    return Machine("gpu", 16, registers, 4, 1, (Cache(32 << 10, 4, line), Cache(l2, 16, line)), cores, max_work_group=group,
                   local_bytes=local, warp=warp, item_registers=registers, fast_local_memory=fast_local_memory)


DEVICES = {
    "generic-gpu": GENERIC_GPU,
    "nvidia-sm90": _gpu(132, 32, 48 << 10, 1024, 128, 50 << 20),
    "amd-gfx90a": _gpu(104, 64, 64 << 10, 1024, 128, 8 << 20),
    "intel-xe": _gpu(32, 16, 64 << 10, 1024, 64, 16 << 20, fast_local_memory=False),
    "mali": _gpu(10, 16, 32 << 10, 512, 64, 2 << 20, registers=64, fast_local_memory=False),
    "adreno": _gpu(6, 64, 32 << 10, 1024, 64, 1 << 20, registers=64),
    "pocl-cpu": Machine("cpu", 64, 32, 4, 2, AVX512.caches, 2, max_work_group=4096, local_bytes=1 << 20),
}
"""OpenCL devices by name, for code that is made without them. Sources: NVIDIA's H100 white paper (132 SMs; 48 KiB of static
shared memory a block), AMD's CDNA 2 white paper (104 of 110 compute units of one die, wavefronts of 64, 64 KiB LDS), Intel's
and Arm's programming guides (Xe cores with sub-groups of 16; Mali keeps local memory in the caches). On Xe and Mali the tuned
kernels of CLBlast's database read operands from the caches, so that nothing is copied to local memory there."""


def _is_arm() -> bool:
    return platform.machine().lower() in ("aarch64", "arm64")


DOUBLE_PUMPED = ("znver4",)
"""Processors (LLVM's names) that run a 512-bit operation as two halves: one multiply-add and one load a cycle."""


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


def detect(cpu: str, features: str) -> Machine:
    """The machine we run on. cpu, features: LLVM's host name and feature string ('+avx2,-avx512f,...')."""
    if "+amx-tile" in features and not processors.allow_tiles():
        features = features.replace("+amx-", "-amx-")
    have = {f[1:] for f in features.split(",") if f.startswith("+")}
    vector_bytes = 64 if "avx512f" in have else 32 if "avx2" in have else 16
    registers = 32 if _is_arm() or "avx512f" in have else 16
    ports = 1 if cpu in DOUBLE_PUMPED else 2
    return Machine("cpu", vector_bytes, registers, 4, ports, detect_caches(), processors.usable(), load_ports=ports,
                   masked="avx512vl" in have, cpu=cpu, features=features)
