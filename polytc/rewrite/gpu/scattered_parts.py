"""Histograms and other scattered updates: work-items make partial results each, and a second kernel puts them together.

    H[x[i]] += 1 -> (i64[64] H)                         with i64 x[10000] on gpu
    ->  H_parts[i_part, x[125*i_at + i_part]] += 1 where i_part in 0:125, i_at in 0:80
        H[k] += H_parts[i_part,k] where i_part in 0:125, k in 0:64

Instances that memory may let meet are one item's, whose copy of the target nobody else touches: no update is atomic, so that
results do not vary, of floats either, and every dependence is proved as ever. Neighbouring items read neighbouring elements.
Where the target is so large that the copies would be more than what is scattered, it stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.linear import expression, normalise
from polytc.program.names import Names, initialisation
from polytc.program.scalars import BOOL, I64, identity
from polytc.rewrite.gpu.tiled_indices import TiledIndex
from polytc.schedule.facts.fusion_groups import coincident_indices, reduced_indices
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP

AHEAD = 4
"""Loads of an item that are under way at once."""


def divisible(program: pr.Program, s: pr.Statement) -> dict[str, pr.Range]:
    """The ranges that items can divide, each with a copy of the target; none where a copy would not be what the target is."""
    own = any(r.tensor == s.target for r in pr.reads(s))
    if s.op is None or own or s.bounds or s.loops or not pr.scatters(s) or program.tensor(s.target).dtype.is_half:
        return {}
    return {i: s.by_index[i] for i in reduced_indices(s)}


def count(program: pr.Program, s: pr.Statement, machine: Machine) -> tuple[str, int] | None:
    """The index that items divide, and how many; None where that would take longer."""
    reduced, launches = divisible(program, s), machine.costs.launches
    if not reduced:
        return None
    longest = max(reduced.values(), key=lambda r: r.extent)
    items = prod(s.extents[i] for i in coincident_indices(s))
    wanted = launches.items * machine.cores // max(1, items)
    most = min(wanted, s.points // program.tensor(s.target).size, longest.extent // 2)
    saved = launches.step / AHEAD * s.points / max(1, items)
    if items >= machine.costs.groups.per_unit * machine.cores * MAX_WORK_GROUP or most < 2 or saved < 3 * launches.launch:
        return None
    equal = [n for n in range(most, -(-most * 3 // 4) - 1, -1) if longest.extent % n == 0]
    return longest.index, max(equal, default=most)


def made(program: pr.Program, s: pr.Statement, index: str, parts: int, names: Names
         ) -> tuple[pr.Tensor, tuple[pr.Statement, ...], pr.Statement]:
    """The tensor of the items' copies, the statements that make them, and what takes the place of `s`."""
    assert s.op is not None
    target, r = program.tensor(s.target), s.by_index[index]
    part = pr.Range(names.index(f"{index}_part"), 0, parts)
    at = pr.Range(names.index(f"{index}_at"), 0, -(-r.extent // parts))
    name, label = (names.label(f"{base}_parts") for base in (s.target, s.name))
    tensor = pr.Tensor(name, target.dtype, (parts, *target.shape), (0, *target.lower))
    whole = tuple(pr.Range(names.index("k"), low, low + n) for low, n in zip(target.lower, target.shape, strict=True))
    cell = tuple(pr.Index(x.index) for x in (part, *whole))
    place = expression(TiledIndex(r.lower, ((part, 1), (at, parts)), ()).whole)

    def moved(e: pr.Expr) -> pr.Expr:
        return normalise(pr.substitute(e, {index: place}))
    where = tuple(moved(c) for c in s.where)
    if at.extent * parts != r.extent:
        where += (pr.Binary("<", place, pr.Const(r.upper, I64), BOOL),)
    ranges = (part, *(at if x is r else x for x in s.ranges))
    neutral = pr.Const(identity(s.op, target.dtype), target.dtype)
    statements = (pr.Statement(names.label(initialisation(label)), name, cell, None, neutral, (part, *whole), span=s.span),
                  replace(s, name=label, target=name, subscripts=(pr.Index(part.index), *map(moved, s.subscripts)),
                          value=moved(s.value), ranges=ranges, where=where))
    return tensor, statements, replace(s, name=names.label(f"{s.name}_total"), subscripts=cell[1:],
                                       value=pr.Read(name, cell, target.dtype), ranges=(*whole, part), where=())
