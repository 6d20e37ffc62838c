"""Contractions of halves for a matrix unit: which there are, the tiles of warps, and what they take.

    C[i,j] += A[i,k]*B[k,j]                             with f16 A[512,64], f16 B[64,512], f32 C[512,512] on sm80
    ->  A_tile[i_group,j_group,k_step,...] = A[...];  B_tile[i_group,j_group,k_step,...] = B[...]
        C_acc[i_group,j_group,j_warp,i_item,j_item,i_row,j_vector,j_lane] += f32(A_tile[..., i_item + 32*i_row, k_at])
            * f32(B_tile[..., k_at, 32*j_warp + 8*j_vector + 2*j_item + j_lane])
            where k_at in 0:32 matrix, i_row in 0:4 matrix, j_vector in 0:4 matrix, j_lane in 0:2 matrix

A warp adds products of 16 x 16 and 16 x 8 numbers to 16 x 8 sums, of which each item holds four. With item = 4*y + x of a warp
these lie at rows y and 8 + y, columns 2*x and 2*x + 1 (NVIDIA, PTX ISA, mma.m16n8k16). So an item has every eighth row of what a
warp has, or fewer, and pairs of neighbouring columns: each index is a sum of strides, and what comes before and behind the
contraction is as for other tiles. Only the step of the sum is taken by the warp together, as loops of the kind 'matrix' say
(codegen.matrix_products). Products of halves are exact in f32, in which the unit adds them up, as the language says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, prod

from polytc.machine import Machine
from polytc.machine.device_costs import Groups
from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.program.linear import linear
from polytc.program.scalars import F32
from polytc.schedule.facts.fusion_groups import reduced_indices

ACROSS, DOWN = 4, 8
"""Items of a warp along the columns and along the rows of a product, each of which has a pair of columns."""
PAIR = 2
BYTES = 16
"""Of a copy to local memory, and of a row of the blocks of numbers that a warp reads there at once."""
WARPS = (4, 8)
"""Of a group."""
STEPS = (32, 16)
"""Of the sum between two barriers."""
ADDRESSES, MOST_REGISTERS = 24, 224
"""Registers of an item beside tiles; of an item at most."""
PRODUCTS = 32
"""Products of a warp between two barriers at most: each is a line of code of its own, with what it reads."""


def steps_along(program: pr.Program, s: pr.Statement, conditions: Sequence[pr.Expr], x: str, y: str, machine: Machine) -> str:
    """The index of a contraction along which a matrix unit may add up; '' where it may not. conditions: of the statement on
    single results; x, y: the indices of the columns and of the rows."""
    unit, value = machine.matrix_unit, s.value
    if unit is None or machine.warp != ACROSS * DOWN or not machine.fast_local_memory or s.op != "+" or (
            program.tensor(s.target).dtype != F32 or tuple(conditions) != s.where):
        return ""
    factors = (value.a, value.b) if isinstance(value, pr.Binary) and value.op == "*" else ()
    reads = [f.a for f in factors if isinstance(f, pr.Cast) and f.dtype == F32 and isinstance(f.a, pr.Read)]
    types = {r.dtype.name for r in reads}
    if len(reads) != 2 or len(types) != 1 or not types <= {*unit.types} or reads[0] == reads[1]:
        return ""
    forms = [_forms(r) for r in reads]
    found = [k for k in reduced_indices(s) if all(f is not None and _is_plain(f, k) for f in forms)]
    sides = [next((i for i, other in ((x, y), (y, x)) if f is not None and _uses(f, i) and not _uses(f, other)), "") for f in forms]
    zero = all(r.default is None or r.default.value == 0 for r in reads)
    if {*sides} != {x, y} or not found or not zero:
        return ""
    walked = [f[-1].terms for f in forms if f]
    lying = [k for k in found if all(t in (((k, 1),), ((side, 1),)) for t, side in zip(walked, sides, strict=True))]
    return max(lying, key=lambda k: s.extents[k], default="")


def lanes(program: pr.Program, s: pr.Statement) -> int:
    """Numbers of both operands that are copied at once, by the lengths of their rows."""
    ends = [program.tensor(r.tensor).shape[-1] for r in pr.reads(s)]
    return next(n for n in (BYTES // 2, 4, 2, 1) if all(int(e) % n == 0 for e in ends))


def _forms(read: pr.Read) -> list[Linear] | None:
    """The linear forms of the subscripts; None where one is none."""
    forms = [linear(sub) for sub in read.subscripts]
    return [f for f in forms if f is not None] if None not in forms and forms else None


def _is_plain(forms: Sequence[Linear], index: str) -> bool:
    """Is the index one subscript, and in no other?"""
    return [f.terms for f in forms if f.coefficient(index)] == [((index, 1),)]


def _uses(forms: Sequence[Linear], index: str) -> bool:
    return any(f.coefficient(index) for f in forms)


def shapes(machine: Machine) -> Iterator[tuple[tuple[int, int, int], tuple[int, int]]]:
    """(items, elements of an item) of groups: items across, down, and warps side by side; columns and rows of an item."""
    for down, beside, rows, columns in product((1, 2, 4, 8), (1, 2, 4), (1, 2, 4), (2, 4, 8)):
        items = (ACROSS, DOWN * down, beside)
        elements = (PAIR * columns, 2 * rows)
        if down * beside in WARPS and prod(items) <= machine.max_work_group and _registers(elements) <= registers(machine, items):
            yield items, elements


def registers(machine: Machine, items: Sequence[int]) -> int:
    """Of an item at most, where two groups of so many items share a unit."""
    return min(MOST_REGISTERS, machine.item_registers * 256 // prod(items))


def _registers(elements: tuple[int, int]) -> int:
    """Of an item: sums, and two numbers in each of those of the operands."""
    columns, rows = elements
    return columns * rows + 2 * rows + columns + ADDRESSES


def problem(items: Sequence[int], elements: Sequence[int], steps: int) -> str:
    """Why a warp cannot have such items; '' if it can."""
    if len(items) != 3 or items[0] != ACROSS or items[1] % DOWN:
        return f"`items` are {ACROSS}, a multiple of {DOWN}, and warps side by side"
    if len(elements) != 2 or elements[0] % (2 * PAIR) or elements[1] % 2 or min(elements) < 1:
        return f"an item has a multiple of {2 * PAIR} columns and of 2 rows"
    return "" if steps > 0 and steps % 16 == 0 else "`steps` are a multiple of 16"


def steps(extent: int, tile: tuple[int, ...], machine: Machine) -> int:
    """Of the sum between two barriers: few that are beyond its end, and few barriers, with two copies of the operands' tiles in
    local memory."""
    room = [n for n in STEPS if 2 * 2 * sum(tile) * (n + BYTES // 2) <= machine.local_bytes] or [STEPS[-1]]
    return min(room, key=lambda n: ceil(extent / n) * (n + 8))


def time(items: Sequence[int], elements: Sequence[int], lanes: int, steps: int, machine: Machine) -> float:
    """Of a group for one step of the sum, in multiply-adds of its unit. lanes: numbers that are copied at once."""
    unit, costs = machine.matrix_unit, machine.costs.groups
    assert unit is not None, "matrix tiles: no matrix unit"
    columns, rows = elements[0] * ACROSS, elements[1] * DOWN
    warps = prod(items) // machine.warp
    products = columns * rows * warps / unit.faster
    reads = 2 * (columns + rows) * warps * costs.local_byte
    tile = columns * items[2] + rows * items[1] // DOWN
    copies = tile * (2 * costs.second_cache + costs.copy * 4 / lanes)
    parts = sorted((products, reads, copies))
    return parts[2] + costs.beside * (parts[0] + parts[1]) + costs.meeting / steps


def seconds(multiply_adds: float, machine: Machine) -> float:
    """What so many multiply-adds of a unit take."""
    costs: Groups = machine.costs.groups
    return multiply_adds / costs.rate / machine.clock
