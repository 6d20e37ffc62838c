"""f32 factors beside narrow ones are split into sums of three bf16, so that a matrix unit multiplies them exactly.

    C[i,j] += A[i,k]*f32(B[k,j])                        with A[64,64], constant i8 B[64,64] on amx
    ->  B_half[x0,x1] = bf16(B[i64(x0), i64(x1)])
        A_parts[2,x0,x1] = bf16(clamp(A[x0,x1], ...))
        A_parts[1,x0,x1] = bf16(clamp(A[x0,x1] - f32(A_parts[2,x0,x1]), ...))
        A_parts[0,x0,x1] = bf16(A[x0,x1] - f32(A_parts[2,x0,x1]) - f32(A_parts[1,x0,x1]))
        C[i,j] += f32(A_parts[part,i,k])*f32(B_half[k,j]) where part in 0:3

for B of i8, u8 or bf16. A bf16 has 8 of the 24 bits of an f32: both differences are exact, and so are B_half and the products,
of 16 bits. What is rounded is the sum, as that of f32. Parts are cut off at the largest bf16, so that infinities do not become
NaN; those below the least normal number, 2**-126, are lost. (Henry, Tang & Heinecke, Leveraging the bfloat16 Artificial
Intelligence Datatype for Higher-Precision Computations, ARITH 2019.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.names import fresh
from polytc.program.scalars import BF16, F32, I8, I64, U8, U32
from polytc.rewrite.step import Decision, Option, Reasons, counted
from polytc.rewrite.tidy import hoist
from polytc.schedule.cost import register_tiles
from polytc.schedule.facts.fusion_groups import is_contraction, reduced_indices

PARTS = 3
"""bf16 that an f32 is the sum of."""
LARGEST = 3.3895313892515355e38
"""Of the bf16."""
BF16_PAIR = U32.bits // BF16.bits
"""bf16 in a word."""


@dataclass(frozen=True)
class Parts:
    """The f32 factor of a contraction is the sum of three bf16."""

    statement: str


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The contractions of f32 and narrow constants that take fewer cycles on the matrix unit."""
    if not machine.multiplies_tiles("dot_bf16"):
        return Decision(machine)
    chosen, why, fixed = list[Parts](), Reasons(), hoist.constants(program)
    for s in program.statements:
        factors = _factors(s)
        if factors is None:
            continue
        if factors[1].tensor not in fixed:
            why.declines(s.name, f"{factors[0].tensor}: {factors[1].tensor} is no constant")
        elif not _pays(_costs(program, s, factors[0], machine)):
            why.declines(s.name, f"{factors[0].tensor}: three products on the matrix unit take no fewer cycles than one of f32")
        else:
            why.acts(s.name, f"{factors[0].tensor} as the sum of three bf16, for the matrix unit")
            chosen.append(Parts(s.name))
    return Decision(machine, tuple(chosen), tuple(why.rows))


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each contraction that the matrix unit can do in parts, that it does or not."""
    if not machine.multiplies_tiles("dot_bf16"):
        return []
    fixed, places = hoist.constants(program), list[list[Option]]()
    for s in program.statements:
        factors = _factors(s)
        costs = _costs(program, s, factors[0], machine) if factors is not None and factors[1].tensor in fixed else None
        if costs is not None:
            places.append([counted((), costs[0], machine), counted((Parts(s.name),), costs[1], machine)])
    return places


def split(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen contractions over parts."""
    for parts in decision.choices:
        s = program.statement(parts.statement)
        factors = _factors(s)
        assert factors is not None
        program = _applied(program, s, *factors)
    return program


def fits(program: pr.Program, machine: Machine, parts: Parts) -> str:
    """Why the factor cannot be split; '' if it can."""
    if not machine.multiplies_tiles("dot_bf16"):
        return "the machine has no unit that multiplies tiles of bf16"
    told = f"{parts.statement} does not sum products of an f32 and an i8, u8 or bf16 converted to f32"
    return "" if _factors(program.statement(parts.statement)) is not None else told


def _factors(s: pr.Statement) -> tuple[pr.Read, pr.Read] | None:
    """The reads of f32 and of what is an exact bf16, converted to f32, whose products the statement sums."""
    if s.op != "+" or s.where or s.bounds or not is_contraction(s) or not isinstance(s.value, pr.Binary) or s.value.op != "*":
        return None
    for wide, narrow in ((s.value.a, s.value.b), (s.value.b, s.value.a)):
        if isinstance(wide, pr.Read) and wide.dtype == F32 and wide.default is None and isinstance(narrow, pr.Cast) \
                and narrow.dtype == F32 and isinstance(narrow.a, pr.Read) and narrow.a.dtype in (I8, U8, BF16) \
                and narrow.a.default is None:
            return wide, narrow.a
    return None


def _pays(costs: tuple[float, float] | None) -> bool:
    """Do the products of all parts, and the splitting, take fewer cycles than products of f32?"""
    return costs is not None and costs[1] < costs[0]


def _costs(program: pr.Program, s: pr.Statement, wide: pr.Read, machine: Machine) -> tuple[float, float] | None:
    """Cycles of products of f32, and of the products of all parts with the splitting; None if the unit's tiles are larger than
    the contraction."""
    extent, reduced = s.extents, reduced_indices(s)
    own = {e.name for sub in wide.subscripts for e in pr.walk(sub) if isinstance(e, pr.Index)}
    rows = max((extent[i] for i in s.indices if i in own and i not in reduced), default=1)
    columns = max((extent[i] for i in s.indices if i not in own), default=1)
    steps = prod(extent[i] for i in reduced)
    if columns < register_tiles.MATRIX or extent[reduced[-1]] < BF16_PAIR * register_tiles.MATRIX:
        return None
    times = s.points // (rows * columns * steps)
    multiplied = register_tiles.matrix_cycles(rows, columns, PARTS * steps // BF16_PAIR) * times
    parts = multiplied + machine.costs.copies.split * program.tensor(wide.tensor).size
    return s.points / (machine.lanes(F32.bytes) * machine.fma_ports), parts


def _applied(program: pr.Program, s: pr.Statement, wide: pr.Read, narrow: pr.Read) -> pr.Program:
    """The program with the sum over the parts in place of s."""
    source, other = program.tensor(wide.tensor), program.tensor(narrow.tensor)
    taken = {t.name for t in program.tensors}
    parts = replace(source, name=fresh(f"{source.name}_parts", taken), dtype=BF16, shape=(PARTS, *source.shape),
                    lower=(0, *source.lower))
    half = replace(other, name=fresh(f"{other.name}_half", taken), dtype=BF16)
    used = {x.name for x in program.statements}
    before = [_assigned(half, (), pr.Cast(_whole(other), BF16), used)]
    rest: pr.Expr = _whole(source)
    for part in reversed(range(PARTS)):
        place = pr.Const(part, I64)
        before.append(_assigned(parts, (place,), pr.Cast(_bounded(rest) if part else rest, BF16), used))
        rest = pr.Binary("-", rest, pr.Cast(_whole(parts, (place,)), F32), F32)
    index = fresh("part", set(s.indices))
    part_of = pr.Cast(pr.Read(parts.name, (pr.Index(index), *wide.subscripts), BF16), F32)
    half_of = pr.Cast(pr.Read(half.name, narrow.subscripts, BF16), F32)
    summed = replace(s, value=pr.Binary("*", part_of, half_of, F32))
    first = next(n for n, r in enumerate(s.ranges) if r.index in reduced_indices(s))
    ranges = (*s.ranges[:first], pr.Range(index, 0, PARTS), *s.ranges[first:])
    at = program.statements.index(s)
    statements = (*program.statements[:at], *before, replace(summed, ranges=ranges), *program.statements[at + 1:])
    return replace(program, tensors=(*program.tensors, parts, half), statements=statements)


def _bounded(e: pr.Expr) -> pr.Expr:
    """The nearest number that is finite as a bf16."""
    return pr.Call("clamp", (e, pr.Const(-LARGEST, F32), pr.Const(LARGEST, F32)), F32)


def _whole(t: pr.Tensor, first: tuple[pr.Expr, ...] = ()) -> pr.Read:
    """The read of one element, in a statement over all; first: the subscripts before the indices."""
    return pr.Read(t.name, (*first, *(pr.Index(f"x{d}") for d in range(len(t.shape) - len(first)))), t.dtype)


def _assigned(t: pr.Tensor, first: tuple[pr.Expr, ...], value: pr.Expr, used: set[str]) -> pr.Statement:
    """`t[first, x0, x1, ..] = value` for all elements of those axes."""
    name = fresh(f"S_{t.name}", used)
    used.add(name)
    box = list(zip(t.lower, t.shape, strict=True))[len(first):]
    ranges = tuple(pr.Range(f"x{d}", low, low + extent) for d, (low, extent) in enumerate(box))
    return pr.Statement(name, t.name, _whole(t, first).subscripts, None, value, ranges)
