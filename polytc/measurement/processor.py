"""Rates of one core: its clock, what vectors and scalars take, and the bytes that come from each cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from polytc.machine import Machine
from polytc.machine.estimates import LEVELS
from polytc.measurement.findings import Finding
from polytc.measurement.native_loops import Loop, seconds
from polytc.native.aligned import aligned_bytes

STEPS = 4000
"""Iterations of loops whose array stays in the first cache."""
CHAINS = 10
"""Independent multiply-adds: more than any processor has under way, and fewer than there are registers."""
BEYOND, LARGEST = 4, 256 << 20
"""Memory is read in an array of so many times the last cache, and at most of so many bytes."""


@dataclass(frozen=True)
class Core:
    """lanes: floats of a vector; clock: cycles a second, as it was measured; small: an array that the first cache holds."""

    lanes: int
    clock: float
    small: np.ndarray

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x float>"

    @property
    def bytes(self) -> int:
        return 4 * self.lanes

    def cycles(self, loop: Loop, iterations: int = STEPS, array: np.ndarray | None = None) -> float:
        """Of one iteration."""
        return seconds(loop, iterations, self.small if array is None else array) * self.clock


def core(machine: Machine) -> Core:
    """The core that we run on. Its clock is that of additions that wait for each other, a cycle each."""
    small = aligned_bytes(min(c.bytes for c in machine.caches[:1]))
    lines, x, y, links = [], "x", "y", 16
    for n in range(links):
        sum_, other = (f"x{n}", f"y{n}") if n < links - 1 else ("x.next", "y.next")
        lines += [f"%{sum_} = add i64 %{x}, %{y}", f"%{other} = xor i64 %{sum_}, %{y}"]
        x, y = sum_, other
    loop = Loop((("i64", "x", "1"), ("i64", "y", "3")), tuple(lines))
    return Core(machine.lanes(4), 2 * links / seconds(loop, STEPS, small), small)


def findings(machine: Machine, here: Core) -> Iterator[Finding]:
    """All rates, by loops that LLVM makes code of."""
    yield Finding("clock", here.clock, "additions that wait for each other")
    latency = here.cycles(multiply_adds(here, 1))
    yield Finding("fma_latency", latency, "multiply-adds that wait for each other")
    yield Finding("fma_ports", CHAINS / here.cycles(multiply_adds(here, CHAINS)), "multiply-adds that do not wait")
    loads = read_cycles(here, here.small[:here.small.nbytes // 2])
    ports = max(1, round(1 / loads))
    yield Finding("load_ports", 1 / loads, "reading an array in the first cache")
    yield from instructions(here, ports)
    yield from levels(machine, here, loads / here.bytes)


def multiply_adds(here: Core, chains: int) -> Loop:
    """So many chains of multiply-adds."""
    names = [f"a{n}" for n in range(chains)]
    fma = f"llvm.fma.v{here.lanes}f32"
    body = [f"%c = load {here.vector}, ptr %p",
            *(f"%{n}.next = call {here.vector} @{fma}({here.vector} %{n}, {here.vector} %c, {here.vector} %c)" for n in names)]
    return Loop(tuple((here.vector, n, "zeroinitializer") for n in names), tuple(body),
                declared=(f"{here.vector} @{fma}({', '.join([here.vector] * 3)})",))


def read_cycles(here: Core, array: np.ndarray) -> float:
    """Cycles to read a vector of the array, all of which is read again and again, eight vectors an iteration."""
    side = 8
    words, step = f"<{here.lanes} x i32>", side * here.bytes
    size = array.nbytes // step * step
    body = ["%at = getelementptr i8, ptr %p, i64 %place", f"%on = add i64 %place, {step}", f"%over = icmp eq i64 %on, {size}",
            "%place.next = select i1 %over, i64 0, i64 %on"]
    for n in range(side):
        body += [f"%q{n} = getelementptr i8, ptr %at, i64 {n * here.bytes}", f"%v{n} = load {words}, ptr %q{n}",
                 f"%s{n}.next = or {words} %s{n}, %v{n}"]
    loop = Loop((("i64", "place", "0"), *((words, f"s{n}", "zeroinitializer") for n in range(side))), tuple(body))
    return here.cycles(loop, max(STEPS, size // step), array) / side


def levels(machine: Machine, here: Core, first: float) -> Iterator[Finding]:
    """Bytes of each cache behind the first, and of memory. first: cycles a byte of the first cache."""
    last = len(machine.caches)
    for level in range(1, last + 1):
        size = machine.caches[level].bytes // 2 if level < last else min(LARGEST, BEYOND * machine.caches[-1].bytes)
        size = size if level == last else max(size, 2 * machine.caches[level - 1].bytes)
        array = aligned_bytes(size, np.ones)
        spent = read_cycles(here, array) / here.bytes
        name = "memory" if level == last else LEVELS[level] if level < len(LEVELS) else ""
        how = f"reading {size >> 10} KiB again and again"
        if name:
            yield Finding(f"traffic.{name}", max(0.0, spent - first), f"{how}, beyond what the first cache takes")
            yield Finding(f"traffic.stream_{name}", 1 / spent, how)
        if level == 2:
            yield Finding("traffic.line", spent * machine.caches[1].line, how)
        if level == last:
            yield Finding("traffic.cold", 1 / spent, how)


def instructions(here: Core, ports: int) -> Iterator[Finding]:
    """Scalars, vectors, and elements of vectors one by one, in the first cache. ports: loads that start in a cycle."""
    yield Finding("arithmetic.scalar", here.cycles(moves("float", 4, here)) / 12, "a load, a product and a store")
    yield Finding("arithmetic.vector", here.cycles(moves(here.vector, here.bytes, here)) / 12, "the same with vectors")
    yield Finding("arithmetic.chain", here.cycles(Loop((("float", "a", "0.0"),), ("%a.next = fadd float %a, 1.0",))),
                  "additions that wait for each other")
    yield Finding("arithmetic.horizontal", here.cycles(horizontal(here)), "sums of the lanes that wait for each other")
    yield Finding("arithmetic.dot", here.cycles(products(here)) / 4, "multiply-adds of two loaded vectors")
    one = here.cycles(gathered(here)) / here.lanes
    yield Finding("accesses.scattered", one, "a vector of floats that lie apart, element by element")
    yield Finding("accesses.gather", one * ports, "the same, in loads")
    yield Finding("accesses.pair", here.cycles(paired(here)) * ports, "a vector of every other float, in loads")
    yield Finding("accesses.scatter", here.cycles(scattered(here)) / here.lanes, "a vector stored element by element")


def moves(kind: str, size: int, here: Core) -> Loop:
    """Four times a load, a product and a store, of a type of so many bytes."""
    one = "splat (float 1.0)" if kind != "float" else "1.0"
    body = ["%m = and i64 %k, 7", f"%f = mul i64 %m, {4 * size}", "%at = getelementptr i8, ptr %p, i64 %f"]
    for n in range(4):
        body += [f"%q{n} = getelementptr i8, ptr %at, i64 {n * size}", f"%v{n} = load {kind}, ptr %q{n}, align 4",
                 f"%w{n} = fmul {kind} %v{n}, {one}",
                 f"%r{n} = getelementptr i8, ptr %q{n}, i64 {8192}", f"store volatile {kind} %w{n}, ptr %r{n}, align 4"]
    return Loop((), tuple(body))


def horizontal(here: Core) -> Loop:
    """The sum of a vector, which is an element of the next one."""
    reduce = f"llvm.vector.reduce.fadd.v{here.lanes}f32"
    return Loop((("float", "a", "0.0"),), (
        f"%v = load {here.vector}, ptr %p", f"%b = insertelement {here.vector} %v, float %a, i32 0",
        f"%a.next = call reassoc float @{reduce}(float -0.0, {here.vector} %b)"),
        declared=(f"float @{reduce}(float, {here.vector})",))


def products(here: Core) -> Loop:
    """Four multiply-adds of vectors that are both loaded."""
    fma, kind = f"llvm.fma.v{here.lanes}f32", here.vector
    body = ["%m = and i64 %k, 7", f"%f = mul i64 %m, {8 * here.bytes}", "%at = getelementptr i8, ptr %p, i64 %f"]
    for n in range(4):
        body += [f"%q{n} = getelementptr i8, ptr %at, i64 {n * here.bytes}", f"%r{n} = getelementptr i8, ptr %q{n}, i64 8192",
                 f"%v{n} = load {kind}, ptr %q{n}", f"%w{n} = load {kind}, ptr %r{n}",
                 f"%s{n}.next = call {kind} @{fma}({kind} %v{n}, {kind} %w{n}, {kind} %s{n})"]
    return Loop(tuple((kind, f"s{n}", "zeroinitializer") for n in range(4)), tuple(body),
                declared=(f"{kind} @{fma}({', '.join([kind] * 3)})",))


def gathered(here: Core) -> Loop:
    """A vector whose elements are loaded from places that lie apart."""
    body, vector = ["%m = and i64 %k, 15", "%at = getelementptr float, ptr %p, i64 %m"], "poison"
    for n in range(here.lanes):
        body += [f"%q{n} = getelementptr i8, ptr %at, i64 {260 * n}", f"%e{n} = load float, ptr %q{n}",
                 f"%v{n} = insertelement {here.vector} {vector}, float %e{n}, i32 {n}"]
        vector = f"%v{n}"
    body.append(f"%s.next = fadd {here.vector} %s, {vector}")
    return Loop(((here.vector, "s", "zeroinitializer"),), tuple(body))


def paired(here: Core) -> Loop:
    """A vector of every other element."""
    kind, places = here.vector, ", ".join(f"i32 {2 * n}" for n in range(here.lanes))
    return Loop(((kind, "s", "zeroinitializer"),), (
        "%m = and i64 %k, 15", f"%f = mul i64 %m, {2 * here.bytes}", "%q0 = getelementptr i8, ptr %p, i64 %f",
        f"%q1 = getelementptr i8, ptr %q0, i64 {here.bytes}", f"%v0 = load {kind}, ptr %q0", f"%v1 = load {kind}, ptr %q1",
        f"%v = shufflevector {kind} %v0, {kind} %v1, <{here.lanes} x i32> <{places}>", f"%s.next = fadd {kind} %s, %v"))


def scattered(here: Core) -> Loop:
    """A vector that is stored to places that lie apart."""
    body = [f"%v = load {here.vector}, ptr %p", "%m = and i64 %k, 15", "%at = getelementptr float, ptr %p, i64 %m"]
    for n in range(here.lanes):
        body += [f"%e{n} = extractelement {here.vector} %v, i32 {n}",
                 f"%q{n} = getelementptr i8, ptr %at, i64 {260 * n + 4096}",
                 f"store volatile float %e{n}, ptr %q{n}"]
    return Loop((), tuple(body))
