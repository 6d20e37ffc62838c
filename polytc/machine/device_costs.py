"""What launches and groups of work-items take on an OpenCL device."""

from __future__ import annotations

from dataclasses import dataclass

from polytc.machine.quantities import cost, documented, guess, measured

_BY_HAND = "set by hand; no GPU has been measured"


@dataclass(frozen=True)
class Launches:
    """Launches, and steps inside of them."""

    launch: float = cost(5.0e-6, "seconds", "from the start of a launch to that of the next one in its queue", guess(_BY_HAND))
    barrier: float = cost(0.3e-6, "seconds", "until all items of a group have met", guess(_BY_HAND))
    step: float = cost(0.4e-6, "seconds", "an instance that waits for memory, and those of other items beside it", guess(
        _BY_HAND))
    test: float = cost(4.0e-9, "seconds", "an instance that only tells that it has nothing to do", guess(_BY_HAND))
    group_step: float = cost(0.5e-6, "seconds", "an instance for all items of a group at once", guess(_BY_HAND))
    local_step: float = cost(0.1e-6, "seconds", "the same in local memory, and the barrier behind it", guess(
        "an NVIDIA H200: some 30 cycles for each of two loads and a store, and 55 until the items have met"))
    seen: float = cost(1.0e-6, "seconds", "until a group sees what another one has published, or takes from a counter", guess(
        "an NVIDIA H100: some 270 cycles to its second cache and as many back, twice where the first look was too early"))
    items: int = cost(2048, "work-items", "of a compute unit that are under way at once", documented(
        "NVIDIA, CUDA C++ Programming Guide, table of compute capabilities: threads of a multiprocessor"))
    groups: int = cost(32, "groups", "of a compute unit that are under way at once", documented(
        "NVIDIA, CUDA C++ Programming Guide, table of compute capabilities: blocks of a multiprocessor, of 8.0 and 9.0"))
    wave_groups: int = cost(4, "groups", "of a compute unit that run at once in a wavefront of tiles", guess(_BY_HAND))


@dataclass(frozen=True)
class Groups:
    """Work-groups of compute units, and their local memory."""

    smallest: int = cost(128, "work-items", "of a group that makes a tile of a contraction, at least", guess(
        "fewer would copy too much each"))
    per_unit: int = cost(2, "groups", "of a compute unit that hide each other's waiting", guess(_BY_HAND))
    hiding: float = cost(3.0, "ratio", "how soon more items of a unit hide the waiting of a group: the exponent of a norm",
                         measured("16 contractions with 770 tiles on an H200: of these the chosen take 1.09 of the best ones' "
                                  "time, 1.30 where the larger of both counts"))
    sector: int = cost(8, "elements", "that memory delivers at once", documented(
        "NVIDIA, CUDA C++ Best Practices Guide, 10.2.1: transactions of 32 bytes"))
    memory: float = cost(2.0e10, "bytes/second", "from and to memory, of a unit while all are busy", documented(
        "NVIDIA's white papers: 25e9 of an H100 (3.35 TB/s by 132), 14e9 of an A100, 11e9 of a GeForce RTX 3080"))
    in_flight: int = cost(16, "bytes", "that an item of an elementwise kernel asks memory for at once", guess(
        "copies by vectors of 16 bytes reach an H200's bandwidth; a stencil that asks for 4 an item reached 0.54 of it"))
    banks: int = cost(32, "banks", "of local memory, each of words of four bytes", documented(
        "NVIDIA, CUDA C++ Programming Guide, shared memory; AMD, CDNA 2 ISA, LDS"))
    atomic: float = cost(1.2e-9, "seconds", "an update in local memory by each item of a warp, in banks of their own", guess(
        "an NVIDIA H200: two cycles; updates in one bank follow one another"))
    own_update: float = cost(1.4e-8, "seconds", "an update by a unit of an item's own copy of a target, in memory", guess(
        "an NVIDIA H200: 7.3 ms for 2**26 updates of 2**18 copies of 256 i64, and to fill these"))
    own_cached: float = cost(1.5e-9, "seconds", "such an update in the second cache", guess(
        "a sector of 32 bytes there and back, at 5 TB/s"))
    copy: int = cost(2, "multiply-adds", "copying an element to local memory", guess(_BY_HAND))
    cached: int = cost(4, "multiply-adds", "an operand's element from the caches; from local memory 1", guess(_BY_HAND))
    division: int = cost(5, "multiply-adds", "a division that finds an element's place", guess(_BY_HAND))
    lanes: int = cost(128, "multiply-adds", "of f32 that a unit starts in a cycle", documented(
        "NVIDIA, CUDA C++ Programming Guide, arithmetic throughput of compute capabilities 8.6 to 9.0; 64 of 8.0"))
    double: float = cost(2.0, "multiply-adds", "of f32, in the time of one of f64", documented(
        "NVIDIA, CUDA C++ Programming Guide, arithmetic throughput: 64 of f64, 128 of f32 of compute capability 9.0"))
    integer: float = cost(2.0, "multiply-adds", "of f32, in the time of one of bytes in i32", documented(
        "NVIDIA, CUDA C++ Programming Guide, arithmetic throughput: 64 of i32, 128 of f32 of compute capabilities 8.6 to 9.0"))
    dot: float = cost(2.0, "multiply-adds", "of f32, in the time of a dot product of four bytes", guess(
        "NVIDIA's dp4a runs beside the multiply-adds of i32, of which a unit starts 64 in a cycle"))
    local_byte: float = cost(1.0, "multiply-adds", "of a unit in the time of a byte that a warp reads there", documented(
        "NVIDIA, CUDA C++ Programming Guide: 32 banks of four bytes in a cycle, beside 128 multiply-adds"))
    second_cache: float = cost(3.2, "multiply-adds", "of a unit in the time of a byte that it copies to local memory", guess(
        "5.5 TB/s of an H100's second cache: 40 bytes in a cycle of a unit, beside 128 multiply-adds"))
    beside: float = cost(0.25, "ratio", "what arithmetic, reads and copies cost that others hide", guess(_BY_HAND))
    meeting: float = cost(7000.0, "multiply-adds", "of a unit in the time of a step's barrier", guess(
        "some 55 cycles, beside 128 multiply-adds in each"))
    exponential: int = cost(20, "multiply-adds", "an exponential of f32, with what makes it of a score", guess(
        "one of the special function unit, at a quarter of the rate of multiply-adds, and some sixteen steps around it"))
    arrival: float = cost(1.5e-7, "seconds", "until what a group copies to local memory is there", guess(
        "some 270 cycles from the second cache of an NVIDIA A100: Abdelkhalik et al., Demystifying the Nvidia Ampere "
        "Architecture through Microbenchmarking, 2022"))
    guard: int = cost(6, "multiply-adds", "a test whether an element is there", guess("two comparisons of two indices"))
    access: int = cost(1, "multiply-adds", "a load or a store of memory, of a vector as of a number", guess(
        "an instruction is issued in the time of one"))
    partial: int = cost(60, "multiply-adds", "of a unit in the time of an element of a partial result, written and read", guess(
        "some 12 bytes of memory in a cycle of a unit, beside 128 multiply-adds"))
    second: int = cost(250_000, "multiply-adds", "of a unit in the time of a second kernel", guess("about a microsecond"))
    idle: float = cost(0.5, "ratio", "what the work of all units counts beside that of the busiest", guess(_BY_HAND))
    pieces: int = cost(2048, "elements", "of a group of a sum that is worth a second kernel", guess(_BY_HAND))
    coarse: int = cost(1 << 15, "elements", "that a group stores at least on a CPU", guess("some microseconds' work"))
    per_core: int = cost(32, "groups", "for each core of a CPU at least, so that cores that are late can be helped", guess(
        _BY_HAND))
    hoisted: float = cost(0.0, "ratio", "loads of an unrolled loop that compilers put before it, in registers", measured(
        "ptxas 12 schedules by registers: 64 sums and 16 steps of 16 operands take 119 of them on sm_90"))
    private: int = cost(1 << 10, "bytes", "that an item may keep of what statements hand on", guess(_BY_HAND))


LAUNCHES, GROUPS = Launches(), Groups()
"""Where nothing else is said."""
