"""What things take on a machine: the numbers by which decisions are made.

A field is a number with its unit and its origin (quantities.py). Cycles are of one core, and become seconds by the machine's
clock (estimates.py). What is `guess` was set by hand, so that programs that were looked at ran fast; `polytc devices --measure`
measures some of them where it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from polytc.machine.device_costs import GROUPS, LAUNCHES, Groups, Launches
from polytc.machine.quantities import cost, documented, guess

_BY_HAND = "set by hand, for programs of the benchmarks"


@dataclass(frozen=True)
class Arithmetic:
    """Operations of one core."""

    scalar: float = cost(0.6, "cycles", "a scalar load, store or operation", guess("two or three of them start in a cycle"))
    vector: float = cost(0.6, "cycles", "an operation, load or store of a vector, in a statement of a group", guess(
        "as of scalars"))
    chain: float = cost(4.0, "cycles", "an operation that waits for the one of the iteration before", documented(
        "latency of float additions and multiply-adds: Fog, Instruction Tables (4 on Skylake and Zen)"))
    horizontal: float = cost(14.0, "cycles", "combining the lanes of a vector", guess(
        "four shuffles and four operations in turn"))
    mispredicted: float = cost(16.0, "cycles", "a branch that is foretold wrongly", documented(
        "Fog, Microarchitecture: 15 to 20 on Skylake, 13 to 18 on Zen"))
    loop: float = cost(25.0, "cycles", "a loop over vectors, beside its vectors", guess(_BY_HAND))
    dot: float = cost(0.8, "cycles", "a multiply-add of vectors that are both loaded for it", guess("two loads, and a loop"))
    pairs: float = cost(1.0, "multiply-adds", "a dot product of a vector of pairs of bf16", documented(
        "vdpbf16ps on Zen 4 and Zen 5, as vfmadd231ps: uops.info"))
    untiled: float = cost(3.0, "ratio", "a step of a contraction without its register tile, to one with it", guess(_BY_HAND))
    open_rows: float = cost(1.5, "ratio", "a tile with rows along a loop of open size, or none, to one with others", guess(
        "the size may be less than the rows of a tile"))
    elementary: int = cost(8, "elements moved", "one exp, sin or the like", guess(_BY_HAND))
    reuse: int = cost(16, "multiply-adds", "of a register tile, in the time of moving an element", guess(_BY_HAND))
    reduction: int = cost(4, "steps", "of a reduction without such a tile, in the time of moving an element", guess(_BY_HAND))
    in_flight: int = cost(4, "vectors", "partial results of a plain reduction that hide the latency of one operation", guess(
        "latency times ports is 8, and loads take their part"))


@dataclass(frozen=True)
class Accesses:
    """Loads and stores in the innermost loops."""

    scattered: float = cost(1.5, "cycles", "an element that is loaded or stored by itself into a vector", guess(_BY_HAND))
    strided: float = cost(1.5, "cycles", "an instance that moves one element and not a vector, beyond its arithmetic", guess(
        _BY_HAND))
    load: float = cost(0.25, "cycles", "a load of a vector beside arithmetic that hides it", guess(_BY_HAND))
    miss: float = cost(1.0, "cycles", "such a load where the reduction walks in long strides, besides", guess(_BY_HAND))
    ahead: float = cost(0.5, "cycles", "such a load where a tile is as wide as the strides are long, so that memory is read "
                        "in order", guess("32 bytes a cycle from the second cache of a Zen 3, which fetches ahead"))
    pair: float = cost(3.0, "loads", "a vector of every other element", guess("two loads and a shuffle"))
    gather: float = cost(2.0, "loads", "an element of a vector that is not contiguous", guess("a load and its insertion"))
    scatter: int = cost(4, "cycles", "an element of a vector of results that are not contiguous", guess("extraction and store"))
    spill: int = cost(8, "loads", "a vector that a tile needs and registers have no room for", guess(_BY_HAND))


@dataclass(frozen=True)
class Traffic:
    """Bytes between the levels of the memory."""

    first: float = cost(0.0, "cycles/byte", "from the first cache", guess("counted with the loads themselves"))
    second: float = cost(1 / 24, "cycles/byte", "from the second cache", guess(_BY_HAND))
    third: float = cost(1 / 4, "cycles/byte", "from the third cache", guess(_BY_HAND))
    memory: float = cost(1 / 3, "cycles/byte", "from memory", guess(_BY_HAND))
    tiles: float = cost(1 / 6, "cycles/byte", "tiles of a matrix unit from behind the second cache", guess(
        "17 GB/s of a Sapphire-Rapids-class processor at 2.8 GHz, prefetched"))
    stream_second: float = cost(64.0, "bytes/cycle", "an operand read once, from the second cache", guess("a line a cycle"))
    stream_third: float = cost(24.0, "bytes/cycle", "an operand read once, from the third cache", guess(_BY_HAND))
    stream_memory: float = cost(8.0, "bytes/cycle", "an operand read once, from memory", guess(_BY_HAND))
    cold: float = cost(6.0, "bytes/cycle", "weights that no cache holds from one run of a model to the next", guess(_BY_HAND))
    line: float = cost(12.0, "cycles", "a line from behind the second cache, when many are under way", guess(_BY_HAND))
    tile_line: float = cost(1.0, "cycles", "a line from the second cache, beside the arithmetic of a register tile", guess(
        "256x512x384 with the second operand as it lies and in panels, on a Zen 3"))
    strip: float = cost(36.0, "cycles", "a row of a narrow strip of a tensor behind the second cache", guess(
        "7 to 9 ns on a Zen 5: 3x3 box blur of 1002x1002 and 3002x4002 in strips of 32 columns, beside whole rows"))
    page: int = cost(4096, "bytes", "the smallest pages of memory", documented("Intel SDM vol. 3, 4.2; Arm ARM, D8.2"))
    dirty: int = cost(2, "ratio", "a byte that another thread has written, to one that nobody writes", guess(_BY_HAND))


@dataclass(frozen=True)
class Threads:
    """Parallel loops of CPUs."""

    region: float = cost(9000.0, "cycles", "starting threads and waiting for the last", guess(
        "three microseconds at 3 GHz"))
    elements: int = cost(25_000, "elements moved", "from which several threads are faster", guess(
        "some three microseconds of one thread"))
    instances: int = cost(50_000, "instances", "below which a group of statements counts as work of one thread", guess(
        _BY_HAND))


@dataclass(frozen=True)
class Copies:
    """Copies that make what follows faster, and how often each element must be used for them to pay."""

    pack: float = cost(2.0, "cycles", "packing an element into panels", guess(_BY_HAND))
    pack_block: float = cost(0.5, "cycles", "packing an element into a block of panels that are used next", guess(
        "0.46 on a Zen 3: products of 4 rows and 1000 x 1000 numbers, with the copy and without"))
    pack_uses: int = cost(64, "uses", "of an element of a variable operand that is packed, where sizes are open", guess(
        _BY_HAND))
    word_uses: int = cost(8, "uses", "of a number that is put into words", guess(_BY_HAND))
    convert_uses: int = cost(16, "uses", "of a half or a byte that is converted beforehand", guess(
        "below, memory moves the narrow numbers in half the time, and arithmetic does not wait for their conversion"))
    split: float = cost(2.0, "cycles", "splitting a number into three bf16, and putting them into words", guess(
        "0.4 in the second cache of a Sapphire-Rapids-class processor; the parts take one and a half times the memory"))
    split_start: float = cost(6000.0, "cycles", "numbers in parts, whatever their count", guess(
        "2 microseconds: another region, and the shapes of tiles"))
    heated: float = cost(1.2, "ratio", "products of a matrix unit of any numbers, to those of zeros", guess(
        "2600 and 3200 GFLOP/s of bf16, same processor: it slows down under the load"))
    winograd: float = cost(6.0, "cycles", "a vector of Winograd's transformed data or products", guess(_BY_HAND))
    layout: float = cost(10.0, "cycles", "a vector of data or results that a copy puts in another order", guess(_BY_HAND))
    winograd_weight: float = cost(1.0, "cycles", "a weight, transformed in every call", guess(_BY_HAND))


@dataclass(frozen=True)
class Costs:
    """All of them, by theme; launches and groups are of OpenCL devices."""

    arithmetic: Arithmetic = Arithmetic()
    accesses: Accesses = Accesses()
    traffic: Traffic = Traffic()
    threads: Threads = Threads()
    copies: Copies = Copies()
    launches: Launches = LAUNCHES
    groups: Groups = GROUPS

    def of_byte(self, level: int, levels: int) -> float:
        """Cycles a byte takes from that cache, 0 the first, of so many; from memory if there is no such cache."""
        t = self.traffic
        rates = (t.first, t.second, t.third, t.memory)
        return rates[min(level, 3)] if level < levels else t.memory

    def stream(self, level: int) -> float:
        """Bytes a cycle of an operand that is read once from that cache: 1 the second, 2 the third; from 3 on memory."""
        t = self.traffic
        return (t.stream_second, t.stream_second, t.stream_third, t.stream_memory)[min(level, 3)]


COSTS = Costs()
"""Where nothing else is said."""
