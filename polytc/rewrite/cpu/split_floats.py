"""Sums of products of f32 become dot products of bf16, of which a matrix unit does many at once: each f32 is the sum of three.

    C[i,j] += A[i,k]*B[k,j]                             with A[256,256], constant B[256,256] on amx
    ->  A_part0[x0,x1] = part0(A[x0, 2*x1], A[x0, 2*x1 + 1])
        ...
        C[i,j] += dot_f32(A_part0[i, k], A_part1[i, k], A_part2[i, k],
            B_part0[k, j], B_part1[k, j], B_part2[k, j]) where k in 0:128

The parts are exact (program.calls). Of the nine products of two numbers the six largest are added; the others together are
below 2**-24 of the product, half a unit in its last place. What is rounded besides is the sum, as that of f32. An i8, u8 or
bf16 is one bf16, and then all three products are added, exactly. What has no parts (infinities, NaN, the largest numbers) makes
the sum a NaN, which is then made again of the f32 (targets.llvm.amx.checks). (Henry, Tang & Heinecke, Leveraging the bfloat16
Artificial Intelligence Datatype for Higher-Precision Computations, ARITH 2019.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.calls.words import DOTS, PARTS, Dot
from polytc.program.scalars import BF16, F32, I8, U8
from polytc.rewrite.step import Decision, Option, Reasons, counted
from polytc.rewrite.tidy import hoist
from polytc.rewrite.word_tensors import Factor, Words, WordTensors, along, dimension, plain_target, sides, whole_words
from polytc.schedule.cost import matrix_blocks, register_tiles
from polytc.schedule.facts.fusion_groups import coincident_indices, is_contraction, reduced_indices

SHORTEST = 32
"""Terms of a sum below which the products that are left out would show beside its own rounding errors."""


@dataclass(frozen=True)
class Parts:
    """The f32 factors of a contraction are sums of three bf16."""

    statement: str


@dataclass(frozen=True)
class _Factors:
    """The factors of a sum of products: wide, an f32, and other, an f32 or what is an exact bf16."""

    wide: pr.Read
    other: pr.Read

    @property
    def dot(self) -> Dot:
        return DOTS["dot_f32" if self.other.dtype == F32 else "dot_f32_bf16"]


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The contractions of f32 that take fewer cycles on the matrix unit."""
    if not machine.multiplies_tiles("dot_f32"):
        return Decision(machine)
    chosen, why, fixed = list[Parts](), Reasons(), hoist.constants(program)
    for s in program.statements:
        factors = _factors(s)
        if factors is None:
            continue
        told = f"{factors.wide.tensor} and {factors.other.tensor} as sums of bf16"
        costs = _costs(program, s, factors, fixed, machine)
        if costs is None:
            why.declines(s.name, f"{told}: the matrix unit's tiles are larger than the contraction")
        elif costs[1] >= costs[0]:
            why.declines(s.name, f"{told}: {costs[1] / costs[0]:.2f} of the cycles of products of f32")
        else:
            why.acts(s.name, f"{told}, for the matrix unit: {costs[1] / costs[0]:.2f} of the cycles")
            chosen.append(Parts(s.name))
    return Decision(machine, tuple(chosen), tuple(why.rows))


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each contraction that the matrix unit can do in parts, that it does or not."""
    if not machine.multiplies_tiles("dot_f32"):
        return []
    fixed, places = hoist.constants(program), list[list[Option]]()
    for s in program.statements:
        factors = _factors(s)
        costs = _costs(program, s, factors, fixed, machine) if factors is not None else None
        if costs is not None:
            places.append([counted((), costs[0], machine), counted((Parts(s.name),), costs[1], machine)])
    return places


def split(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen contractions over parts."""
    for parts in decision.choices:
        s = program.statement(parts.statement)
        factors = _factors(s)
        assert factors is not None
        program = _applied(program, s, factors, decision.machine)
    return program


def fits(program: pr.Program, machine: Machine, parts: Parts) -> str:
    """Why the factors cannot be split; '' if they can."""
    if not machine.multiplies_tiles("dot_f32"):
        return "the machine has no unit that multiplies tiles of bf16"
    s = program.statement(parts.statement)
    factors = _factors(s)
    if factors is None:
        return f"{parts.statement} does not sum products of an f32 and an f32, or an i8, u8 or bf16 converted to f32"
    index = _along(program, s, factors)
    return "" if index is not None else f"{parts.statement} has no index along which both factors can be put into words"


def _factors(s: pr.Statement) -> _Factors | None:
    """The reads of f32 and of f32 or what is an exact bf16, converted to f32, whose products the statement sums."""
    if s.op != "+" or s.where or s.bounds or not is_contraction(s) or not plain_target(s) \
            or not isinstance(s.value, pr.Binary) or s.value.op != "*":
        return None
    for a, b in ((s.value.a, s.value.b), (s.value.b, s.value.a)):
        other = b.a if isinstance(b, pr.Cast) and b.dtype == F32 else b
        if isinstance(a, pr.Read) and isinstance(other, pr.Read) and a.dtype == F32 and other.dtype in (F32, I8, U8, BF16) \
                and not any(r.default is not None or r.gathers for r in (a, other)):
            return _Factors(a, other)
    return None


def _along(program: pr.Program, s: pr.Statement, factors: _Factors) -> pr.Range | None:
    return along(program, s, (Factor(factors.wide), Factor(factors.other)), factors.dot.group)


def _costs(program: pr.Program, s: pr.Statement, factors: _Factors, fixed: frozenset[str], machine: Machine
           ) -> tuple[float, float] | None:
    """Cycles of products of f32, and of the products of all parts with the splitting; None if the unit's tiles are larger than
    the contraction."""
    extent, reduced, index = s.extents, reduced_indices(s), _along(program, s, factors)
    of = sides(program, s, factors.wide, factors.other, coincident_indices(s), lambda read, i: dimension(read, i) >= 0)
    if index is None or of is None:
        return None
    rows, columns, steps = extent[of.rows], extent[of.columns], prod(extent[i] for i in reduced)
    if columns < register_tiles.MATRIX or index.extent < SHORTEST:
        return None
    dot, times = factors.dot, s.points // (rows * columns * steps)
    words = -(-index.extent // dot.group) * (steps // index.extent)
    products = register_tiles.matrix_cycles(rows, columns, words, len(dot.products)) * times
    variable = (r.tensor for r in (factors.wide, factors.other) if r.tensor not in fixed)
    copies = machine.costs.copies
    split_ = copies.split_start + copies.split * sum(program.tensor(t).size for t in variable)
    direct = s.points / (machine.lanes(F32.bytes) * machine.fma_ports)
    return max(direct, _streamed(program, s, factors, (1, 1), machine)), \
        copies.heated * products + split_ + _streamed(program, s, factors, (dot.a_parts, dot.b_parts), machine)


def _streamed(program: pr.Program, s: pr.Statement, factors: _Factors, parts: tuple[int, int], machine: Machine) -> float:
    """Cycles in which factors come from behind the second cache. parts: bf16 of a number of each, 1 for numbers as they are."""
    small, large = sorted(program.tensor(r.tensor).size * (n * BF16.bytes if n > 1 else r.dtype.bytes)
                          for r, n in zip((factors.wide, factors.other), parts, strict=True))
    results = program.tensor(s.target).size * F32.bytes
    again = matrix_blocks.least(small, large, results, (2 ** n for n in range(6)), machine).bytes
    return machine.costs.traffic.tiles * (again + (large if large > matrix_blocks.room(machine) else 0.0))


def _applied(program: pr.Program, s: pr.Statement, factors: _Factors, machine: Machine) -> pr.Program:
    """The program with the sum of dot products in place of s."""
    index, dot, new = _along(program, s, factors), factors.dot, WordTensors(program)
    assert index is not None
    count = whole_words(dot, index.extent, machine)
    words = list[pr.Read]()
    for read, parts in ((factors.wide, dot.a_parts), (factors.other, dot.b_parts)):
        whole = Words(Factor(read), BF16, dimension(read, index.index), index.extent, count)
        words += [new.words(replace(whole, part=part)) for part in PARTS] if parts > 1 else [new.words(whole)]
    ranges = tuple(pr.Range(r.index, 0, count) if r.index == index.index else r for r in s.ranges)
    return new.program(s, None, replace(s, value=pr.Call(dot.name, tuple(words), F32), ranges=ranges))
