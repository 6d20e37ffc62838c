"""Contractions of halves for a matrix unit: which there are, the tiles of warps, and what they take.

    C[i,j] += A[i,k]*B[k,j]                             with f16 A[512,64], f16 B[64,512] on gpu
    ->  A_tile[i_group,j_group,k_step,...] = A[...];  B_tile[i_group,j_group,k_step,...] = B[...]
        C_single_acc[i_group,j_group,j_warp,i_item,j_item,i_row,j_vector,j_lane] +=
            f32(A_tile[i_group,j_group,k_step, i_item + 16*i_row, k_at])
            * f32(B_tile[i_group,j_group,k_step, k_at, 2*j_item + j_lane + 8*j_vector + 16*j_warp])
        C_acc[...] = f16(C_single_acc[...]);  C[32*i_group + i_item + 16*i_row, ...] = C_acc[...]

A warp adds products of 16 x 16 and 16 x 8 numbers to 16 x 8 sums, of which each item holds four. With item = 4*y + x of a warp
these lie at rows y and 8 + y, columns 2*x and 2*x + 1 (NVIDIA, PTX ISA, mma.m16n8k16). So an item has every eighth row of what
a warp has, or fewer, and pairs of neighbouring columns: each index is a sum of strides, and what comes before and behind the
contraction is as for other tiles. Only the step of the sum is taken by the warp together, as loops of the kind 'matrix' say
(codegen.matrix_products). Products of halves are exact in f32, in which the unit adds them up, as the language says.

Dot products of words of bytes (rewrite.dot_words) are divided likewise: a row of 8 words has the bytes of one of 16 halves, and
items hold of both the same places (mma.m16n8k32). Their blocks cannot be transposed, so that both tiles lie along the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import TypeAlias

from polytc.machine import Machine, MatrixUnit
from polytc.machine.device_costs import Groups
from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.program.calls.words import DOTS
from polytc.program.linear import linear
from polytc.program.scalars import F32, I8, I32, U8
from polytc.schedule.facts.fusion_groups import reduced_indices

ACROSS, DOWN = 4, 8
"""Items of a warp along the columns and along the rows of a product, each of which has a pair of columns."""
PAIR = 2
PRODUCT = (2 * DOWN, PAIR * ACROSS, 16)
"""Rows, columns and steps of the products of halves that items divide so."""
BYTES = 16
"""Of a copy to local memory, and of a row of the blocks of numbers that a warp reads there at once."""
WARPS = (4, 8)
"""Of a group."""
ROWS = (64, 32)
"""Bytes of an operand's row between two barriers, of which products take 32 at once."""
Box: TypeAlias = tuple[int, ...]
"""Coordinates in each dimension of an operand that a group copies at once."""
ADDRESSES, MOST_REGISTERS = 24, 224
"""Registers of an item beside elements of tensors; and at most."""


@dataclass(frozen=True)
class Numbers:
    """What is multiplied. bytes: of a half, or of a word of bytes; faster: of their products in the time of a multiply-add."""

    bytes: int
    faster: float

    @property
    def steps(self) -> tuple[int, ...]:
        """Of the sum between two barriers; the last is that of one product."""
        return tuple(n // self.bytes for n in ROWS)


HALVES = Numbers(2, 1.0)
"""Where nothing else is said."""


def numbers(s: pr.Statement, machine: Machine) -> Numbers:
    """What a contraction multiplies on a matrix unit."""
    unit = machine.matrix_unit
    assert unit is not None, "matrix tiles: no matrix unit"
    return Numbers(4, unit.bytes_faster / 4) if isinstance(s.value, pr.Call) else Numbers(2, unit.faster)


def steps_along(program: pr.Program, s: pr.Statement, conditions: Sequence[pr.Expr], x: str, y: str, machine: Machine) -> str:
    """The index of a contraction along which a matrix unit may add up; '' where it may not. conditions: of the statement on
    single results; x, y: the indices of the columns and of the rows."""
    if machine.matrix_unit is None or not divides_so(machine) or s.op != "+" or tuple(conditions) != s.where:
        return ""
    reads = _factors(program, s, machine.matrix_unit)
    if len(reads) != 2 or reads[0] == reads[1]:
        return ""
    forms = [forms_of(r) for r in reads]
    zero = all(r.default is None or r.default.value == 0 for r in reads)
    sides = [next((i for i, other in ((x, y), (y, x)) if _uses(f, i) and not _uses(f, other)), "") for f in forms]
    if {*sides} != {x, y} or not zero:
        return ""
    words = isinstance(s.value, pr.Call)
    found = [k for k in reduced_indices(s) if all(lies(f, k, side, words) for f, side in zip(forms, sides, strict=True))]
    return max(found, key=lambda k: s.extents[k], default="")


def _factors(program: pr.Program, s: pr.Statement, unit: MatrixUnit) -> list[pr.Read]:
    """The halves or words that a sum multiplies, if the unit may."""
    value, dtype = s.value, program.tensor(s.target).dtype
    match value:
        case pr.Binary(op="*", a=pr.Cast(a=pr.Read() as a), b=pr.Cast(a=pr.Read() as b)):
            fits = dtype == value.dtype == F32 and a.dtype == b.dtype and a.dtype.name in unit.types
            return [a, b] if fits else []
        case pr.Call(args=(pr.Read() as a, pr.Read() as b)) if (dot := DOTS.get(value.fn)) is not None:
            return [a, b] if unit.bytes_faster and dot.result == I32 == dtype and {dot.a, dot.b} <= {I8, U8} else []
    return []


def divides_so(machine: Machine) -> bool:
    """Is there a unit whose products items divide so?"""
    unit = machine.matrix_unit
    return unit is not None and (unit.rows, unit.columns, unit.steps) == PRODUCT and machine.warp == ACROSS * DOWN


def ends_there(s: pr.Statement, index: str) -> bool:
    """Do both operands end where an index does, so that steps beyond its end find zeros?"""
    return all(any(f.terms == ((index, 1),) for f in forms_of(r)) for r in pr.reads(s))


def lanes(program: pr.Program, s: pr.Statement, along: str, x: str) -> tuple[int, int]:
    """Numbers that are copied at once of the operand of the columns, and of that of the rows: those that always begin at
    multiples of so many. along: the index of the sum; x: that of the columns."""
    found = [1, 1]
    for r in pr.reads(s):
        t, forms = program.tensor(r.tensor), forms_of(r)
        others = dict(forms[-1].terms)
        plain = [i for i in (along, *s.indices) if others.get(i) == 1]
        others.pop(plain[0] if plain else "", None)
        starts = (t.shape[-1], t.lower[-1], forms[-1].constant, *others.values()) if plain else (1,)
        widths = (BYTES // 2, 4, 2, 1) if t.dtype.is_half else (BYTES // t.dtype.bytes, 1)
        found[not _uses(forms, x)] = next(n for n in widths if all(int(c) % n == 0 for c in starts))
    return found[0], found[1]


def forms_of(read: pr.Read) -> list[Linear]:
    """The linear forms of the subscripts; none where one is not linear."""
    forms = [linear(sub) for sub in read.subscripts]
    return [f for f in forms if f is not None] if None not in forms else []


def lies(forms: Sequence[Linear], along: str, side: str, words: bool = False) -> bool:
    """Do rows of 16 bytes of an operand's tile lie along the index of the sum, or along that of the operand's side, the other
    one in other dimensions? What loops around the tiles add to a subscript moves the tile. words: blocks of words cannot be
    transposed, and lie along the sum."""
    inside = [[(i, c) for i, c in f.terms if i in (along, side)] for f in forms]
    moved = [terms for terms in inside if terms]
    return moved.count([(along, 1)]) == 1 and sum((along, 1) in t for t in moved) == 1 and (
        moved[-1] == [(along, 1)] or moved[-1] == [(side, 1)] and not words)


def _uses(forms: Sequence[Linear], index: str) -> bool:
    return any(f.coefficient(index) for f in forms)


def shapes(machine: Machine) -> Iterator[tuple[tuple[int, int, int], tuple[int, int]]]:
    """(items, elements of an item) of groups: items across, down, and warps side by side; columns and rows of an item."""
    for down, beside, rows, columns in product((1, 2, 4, 8), (1, 2, 4), (1, 2, 4), (2, 4, 8)):
        items = (ACROSS, DOWN * down, beside)
        elements = (PAIR * columns, 2 * rows)
        fits = prod(items) <= machine.max_work_group and _registers(elements) <= registers(machine, items)
        if down * beside in WARPS and fits:
            yield items, elements


def registers(machine: Machine, items: Sequence[int]) -> int:
    """Of an item at most, where two groups of so many items share a unit."""
    return min(MOST_REGISTERS, machine.item_registers * 256 // prod(items))


def _registers(elements: tuple[int, int]) -> int:
    """Of an item: sums, and two numbers in each of those of the operands."""
    columns, rows = elements
    return columns * rows + 2 * rows + columns + ADDRESSES


def problem(items: Sequence[int], elements: Sequence[int], steps: int, each: int = PRODUCT[2]) -> str:
    """Why a warp cannot have such items; '' if it can. each: steps of one product."""
    if len(items) != 3 or items[0] != ACROSS or items[1] % DOWN:
        return f"`items` are {ACROSS}, a multiple of {DOWN}, and warps side by side"
    if len(elements) != 2 or elements[0] % (2 * PAIR) or elements[1] % 2 or min(elements) < 1:
        return f"an item has a multiple of {2 * PAIR} columns and of 2 rows"
    return "" if steps > 0 and steps % each == 0 else f"`steps` are a multiple of {each}"


def steps(extent: int, whole: bool, boxes: Callable[[int], Sequence[Box]], machine: Machine, of: Numbers) -> int:
    """Of the sum between two barriers: few that are beyond its end, and few barriers, with two copies of the operands' tiles in
    local memory. whole: none may be beyond the end; boxes: the coordinates in each dimension of each tile with so many steps.
    0: that cannot be."""
    room = [n for n in of.steps if 2 * sum(_bytes(box, of) for box in boxes(n)) <= machine.local_bytes]
    return min((n for n in room if not whole or extent % n == 0), key=lambda n: ceil(extent / n) * (n + of.steps[-1] // 2),
               default=0)


def _bytes(box: Box, of: Numbers) -> int:
    """Of a tile in local memory, whose rows get a block more against bank conflicts."""
    rows = [n for n in box if n > 1] or [1]
    return prod(rows[:-1]) * (of.bytes * rows[-1] + BYTES)


def time(items: Sequence[int], elements: Sequence[int], boxes: Sequence[Box], lanes: tuple[int, int], steps: int,
         machine: Machine, of: Numbers) -> float:
    """Of a group for one step of the sum, in multiply-adds of its unit. boxes: see `steps`, of the operand of the columns and
    of that of the rows, each with all the steps; lanes: numbers that are copied at once, see `lanes`."""
    costs = machine.costs.groups
    columns, rows = elements[0] * ACROSS, elements[1] * DOWN
    warps = prod(items) // machine.warp
    products = columns * rows * warps / of.faster
    reads = of.bytes * (columns + rows) * warps * costs.local_byte
    copied = (prod(box) / steps for box in boxes)
    copies = sum(n * (of.bytes * costs.second_cache + costs.copy * 4 / each) for n, each in zip(copied, lanes, strict=True))
    parts = sorted((products, reads, copies))
    return parts[2] + costs.beside * (parts[0] + parts[1]) + costs.meeting / steps


def seconds(multiply_adds: float, machine: Machine) -> float:
    """What so many multiply-adds of a unit take."""
    costs: Groups = machine.costs.groups
    return multiply_adds / costs.lanes / machine.clock
