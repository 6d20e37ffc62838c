"""Machine: the description of a processor or device as data."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from polytc.machine.costs import COSTS, Costs


@dataclass(frozen=True)
class Cache:
    """One level of data cache: bytes visible to one core, associativity, bytes of a line."""

    bytes: int
    ways: int
    line: int


@dataclass(frozen=True)
class MatrixUnit:
    """What the items of a warp use together to add a product of two tiles of numbers to one of f32 (NVIDIA's tensor cores).

    rows, columns: of the results; steps: of the sum. types: of the factors, whose products are exact and are added up in f32.
    faster: products in the time of one multiply-add of f32. bytes_faster: the same of products of bytes of either sign, of
    which a tile has twice as many steps, and which are added up in i32, exactly; 0: there are none.
    """

    rows: int
    columns: int
    steps: int
    types: tuple[str, ...]
    faster: float
    bytes_faster: float = 0.0


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
    max_work_group, local_bytes: limits of a group on a device (0 for the LLVM target). unit_local_bytes: local memory of a
    compute unit, for all groups on it; 0: as much as one may have. warp: work-items that run in lockstep;
    item_registers: 32-bit registers of a work-item where a group of 256 still fits; fast_local_memory: local memory is faster
    than the caches, so that operands of several items are worth copying there; matrix_unit: of a compute unit, None where there
    is none, or where code cannot use it (CPUs' are among their features, see `multiplies_tiles`); word_dots: the dot products
    of words (calls.words.DOTS) that a GPU has instructions for, the fastest first; waiting_groups: groups may wait for what
    others publish that began before them: these go on meanwhile, and words of 64 bits are stored and loaded in one piece. cpu,
    features: LLVM's names, '' for a device that LLVM does not see. faults: what the device's driver compiles wrongly, see
    targets/opencl/driver. clock: cycles a second. costs: what things take, see costs.py. origins: where fields come from whose
    values are not the described ones, e.g. ("costs.threads.region", "measured: on this machine").
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
    unit_local_bytes: int = 0
    warp: int = 1
    item_registers: int = 0
    fast_local_memory: bool = False
    matrix_unit: MatrixUnit | None = None
    word_dots: tuple[str, ...] = ()
    waiting_groups: bool = False
    cpu: str = ""
    features: str = ""
    faults: frozenset[str] = frozenset()
    clock: float = 3.0e9
    costs: Costs = COSTS
    origins: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    @property
    def room_beside(self) -> int:
        """Bytes of local memory of a group that leave as much to each of the others that a unit should have."""
        return min(self.local_bytes, (self.unit_local_bytes or self.local_bytes) // self.costs.groups.per_unit)

    def lanes(self, scalar_bytes: int) -> int:
        """Elements of a vector register."""
        return max(1, self.vector_bytes // scalar_bytes)

    @property
    def second_cache(self) -> Cache:
        """The first one where there is one only."""
        return self.caches[min(1, len(self.caches) - 1)]

    def costing(self, values: Mapping[str, float]) -> Machine:
        """The machine with other costs, by their names: {"threads.region": 5000.0}."""
        costs = self.costs
        for name, value in values.items():
            theme, _, cost = name.partition(".")
            costs = replace(costs, **{theme: replace(getattr(costs, theme), **{cost: value})})
        return replace(self, costs=costs)

    @property
    def has_fma(self) -> bool:
        """Whether a fused multiply-add is one instruction."""
        return self.vector_bytes >= 32 or self.has("fma") or self.has("neon") or is_arm()

    @property
    def shuffles(self) -> bool:
        """Do its vectors take rows of two elements apart, and put them together?"""
        return self.kind == "cpu"

    @property
    def dots(self) -> tuple[str, ...]:
        """The dot products of words (calls.words.DOTS) that are one or two instructions on whole vectors, and faster than
        multiply-adds; the fastest first."""
        if self.kind == "gpu":
            return self.word_dots
        if self.max_work_group:  # how a CPU's compiler for OpenCL C makes them is not known
            return ()
        arm, words = self.has("neon"), self.has("avx512bw") or not self.features
        vnni = (self.has("avx512vnni") and self.has("avx512vl")) or (self.has("avxvnni") and self.vector_bytes == 32)
        found = {"dot_u8i8": self.has("i8mm") if arm else vnni,
                 "dot_i8i8": arm and self.has("dotprod"), "dot_u8u8": arm and self.has("dotprod"),
                 "dot_i16i16": not arm and (self.vector_bytes == 32 or (self.vector_bytes == 64 and words)),
                 "dot_bf16": self.has("avx512bf16") and self.has("avx512vl") and self.vector_bytes == 64
                 and (self.costs.arithmetic.pairs < 2 or self.multiplies_tiles("dot_bf16"))}
        return tuple(name for name, there in found.items() if there)

    def multiplies_tiles(self, dot: str) -> bool:
        """Whether a matrix unit does this dot product for all pairs of 16 rows and 16 columns of 16 words (x86's AMX)."""
        feature = {"dot_u8i8": "amx-int8", "dot_bf16": "amx-bf16", "dot_f32": "amx-bf16", "dot_f32_bf16": "amx-bf16"}.get(dot)
        return feature is not None and self.vector_bytes == 64 and self.has(feature)

    @property
    def architecture(self) -> str:
        """'x86_64', 'aarch64', or what the system calls another one."""
        here = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
        return "aarch64" if self.has("neon") else "x86_64" if "+sse" in self.features else here

    def has(self, feature: str) -> bool:
        """Whether LLVM's feature, e.g. 'avx512f', is among the machine's."""
        return f"+{feature}" in self.features.split(",")


def is_arm() -> bool:
    """Whether the system runs on a 64-bit Arm processor."""
    return platform.machine().lower() in ("aarch64", "arm64")
