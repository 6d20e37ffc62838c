"""Scattered updates: work-items make partial results each, and a second kernel puts them together. (Whole numbers have a way of
their own, rewrite.gpu.local_histograms, where it is estimated to take less.)

    H[x[i]] += w[i] -> (f32[64] H)                      with i64 x[10000], w[10000] on gpu
    ->  H_parts[i_part, x[125*i_at + i_part]] += w[125*i_at + i_part] where i_part in 0:125, i_at in 0:80
        H[k] += H_parts[i_part,k] where i_part in 0:125, k in 0:64

Instances that memory may let meet are one item's, whose copy of the target nobody else touches: no update is atomic, so that
results do not vary, of floats either, and every dependence is proved as ever. Neighbouring items read neighbouring elements.
No more copies are made than there is to scatter; of open sizes the typical ones tell, and calls for which the copies would be
far too large get code of their own (polytc.symbolic). Where few or none are left, as of the gradient of an embedding, items
also divide the target: each goes through all that is scattered, and keeps what falls into its range, in the order of the text;
so they do for assignments, of which the last one counts.

    D[x[i],j] += G[i,j] -> (f32[3000,64] D)             with i64 x[4000], G[4000,64] on gpu
    ->  D_parts[D_range, x[i] - 2*D_range, j] += G[i,j]
            where D_range in 0:1500, i in x[i] >= 2*D_range && x[i] < 2*D_range + 2 ? 0 : 4000:4000
        D[k,k2] += D_parts[k // 2, k % 2, k2]
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
from polytc.schedule.facts.fusion_groups import coincident_indices
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP

AHEAD = 4
"""Loads of an item that are under way at once."""


def divisible(program: pr.Program, s: pr.Statement) -> dict[str, pr.Range]:
    """The ranges that items can divide, each with a copy of the target; none where a copy would not be what the target is."""
    own = any(r.tensor == s.target for r in pr.reads(s))
    if own or s.bounds or s.loops or not pr.scatters(s) or program.tensor(s.target).dtype.is_half:
        return {}
    kept = coincident_indices(s)
    return {i: r for i, r in s.by_index.items() if i not in kept}


def _walking(s: pr.Statement, parts: int, ranges: int, machine: Machine) -> float:
    """Seconds that an item goes through its part in. Tests slow each other down where there are more items than units run at
    once."""
    launches, items = machine.costs.launches, prod(s.extents[i] for i in coincident_indices(s))
    tests = launches.test * max(1.0, items * parts * ranges / _few(machine)) if ranges > 1 else 0.0
    return s.points / max(1, items) / parts * (tests + launches.step / AHEAD / ranges)


def _few(machine: Machine) -> int:
    return machine.costs.groups.per_unit * machine.cores * MAX_WORK_GROUP


def seconds(program: pr.Program, s: pr.Statement, parts: int, ranges: int, machine: Machine) -> float:
    """What a scattered update takes with so many parts and ranges of its target, and what puts copies together."""
    groups, apart = machine.costs.groups, parts * ranges > 1
    size = parts * program.tensor(s.target).size
    copies = size * groups.partial / groups.second * 1e-6 / machine.cores
    held = size * program.tensor(s.target).dtype.bytes <= machine.second_cache.bytes
    copies += s.points * (groups.own_cached if held else groups.own_update) / machine.cores
    return _walking(s, parts, ranges, machine) + machine.costs.launches.launch * (1 + 2 * apart) + apart * copies


def choose(program: pr.Program, s: pr.Statement, machine: Machine) -> tuple[str, int, int] | None:
    """The index that items divide, into how many, and the ranges of the target; None where that would take longer."""
    reduced, launches = divisible(program, s), machine.costs.launches
    if not reduced:
        return None
    longest = max(reduced.values(), key=lambda r: r.extent)
    items = prod(s.extents[i] for i in coincident_indices(s))
    wanted = launches.items * machine.cores // max(1, items)
    size, extent = program.tensor(s.target).size, program.tensor(s.target).shape[gathered(program, s)]
    most = max(1, min(wanted, s.points // size, longest.extent // 2)) if s.op is not None else 1
    equal = [n for n in range(most, -(-most * 3 // 4) - 1, -1) if longest.extent % n == 0]
    parts = max(equal, default=most)
    if items >= _few(machine):
        return None
    ranges = min((1 << n for n in range(max(1, min(extent, wanted // parts)).bit_length())),
                 key=lambda m: (_walking(s, parts, m, machine), m))
    if _walking(s, parts, 1, machine) - _walking(s, parts, ranges, machine) < 2 * launches.launch:
        ranges = 1
    saved = seconds(program, s, 1, 1, machine) - seconds(program, s, parts, ranges, machine)
    return (longest.index, parts, ranges) if parts * ranges > 1 and saved > 0 else None


def gathered(program: pr.Program, s: pr.Statement) -> int:
    """The dimension of the target whose place memory decides, the longest one of the typical sizes."""
    shape = program.tensor(s.target).shape
    places = [d for d, sub in enumerate(s.subscripts) if any(isinstance(e, pr.Read) for e in pr.walk(sub))]
    return max(places, key=lambda d: (int(shape[d]), -d))


def made(program: pr.Program, s: pr.Statement, index: str, parts: int, ranges: int, names: Names
         ) -> tuple[pr.Tensor, tuple[pr.Statement, ...], pr.Statement]:
    """The tensor of the items' copies, the statements that make them, and what takes the place of `s`. parts, ranges: how many
    of the index and of the target there are, 1 for all of it; an assignment, the last of which counts, has one part."""
    assert s.op is not None or parts == 1, "scattered parts: an assignment in parts"
    target, r, d = program.tensor(s.target), s.by_index[index], gathered(program, s)
    size = 1 << (-(-int(target.shape[d]) // ranges)).bit_length() - 1 if ranges > 1 else target.shape[d]
    part = pr.Range(names.index(f"{index}_part"), 0, parts)
    mine = pr.Range(names.index(f"{s.target}_range"), 0, -(-target.shape[d] // size) if ranges > 1 else 1)
    at = pr.Range(names.index(f"{index}_at"), 0, -(-r.extent // parts))
    outer = (*((part,) if parts > 1 else ()), *((mine,) if ranges > 1 else ()))
    name, label = (names.label(f"{base}_parts") for base in (s.target, s.name))
    shape, lower = list(target.shape), list(target.lower)
    if ranges > 1:
        shape[d], lower[d] = size, 0
    tensor = pr.Tensor(name, target.dtype, (*(x.extent for x in outer), *shape), (*(0 for _ in outer), *lower))
    whole = tuple(pr.Range(names.index("k"), low, low + n) for low, n in zip(lower, shape, strict=True))
    cell = tuple(pr.Index(x.index) for x in (*outer, *whole))
    cut = TiledIndex(r.lower, ((part, 1), (at, parts)), ())
    first = expression(TiledIndex(target.lower[d], ((mine, size),), ()).whole)

    def moved(e: pr.Expr) -> pr.Expr:
        return normalise(pr.substitute(e, {index: expression(cut.whole)})) if parts > 1 else e
    where = tuple(moved(c) for c in s.where)
    if parts > 1 and at.extent * parts != r.extent:
        where += (pr.Binary("<", expression(cut.whole), pr.Const(r.upper, I64), BOOL),)
    inside, tests = [moved(e) for e in s.subscripts], tuple[pr.Bound, ...]()
    walked = at if parts > 1 else r
    if ranges > 1:
        asked = inside[d] if inside[d].dtype == I64 else pr.Cast(inside[d], I64)
        inside[d] = pr.Binary("-", asked, first, I64)
        last = pr.Binary("+", first, pr.Const(size, I64), I64)
        met = (pr.Binary(">=", asked, first, BOOL), pr.Binary("<", asked, last, BOOL))
        ends = pr.Const(walked.lower, I64), pr.Const(walked.upper, I64)
        tests = (pr.Bound(walked.index, pr.Select(pr.conjunction(met), *ends, I64), ends[1]),)
    start: pr.Expr
    if s.op is not None:
        start = pr.Const(identity(s.op, target.dtype), target.dtype)
    else:
        old: list[pr.Expr] = [pr.Index(x.index) for x in whole]
        old[d] = pr.Binary("+", first, old[d], I64) if ranges > 1 else old[d]
        beyond = pr.Const(identity("+", target.dtype), target.dtype)
        start = pr.Read(s.target, tuple(map(normalise, old)), target.dtype, default=beyond)
    statements = (pr.Statement(names.label(initialisation(label)), name, cell, None, start, (*outer, *whole), span=s.span),
                  replace(s, name=label, target=name, subscripts=(*(pr.Index(x.index) for x in outer), *inside),
                          value=moved(s.value), where=where, bounds=tests,
                          ranges=(*outer, *(walked if x is r else x for x in s.ranges))))
    everything = tuple(pr.Range(x.index, low, low + n) for x, low, n in zip(whole, target.lower, target.shape, strict=True))
    read: list[pr.Expr] = list(cell)
    if ranges > 1:
        number = normalise(pr.Binary("-", pr.Index(whole[d].index), pr.Const(target.lower[d], I64), I64))
        read[len(outer) - 1], read[len(outer) + d] = (pr.Binary(op, number, pr.Const(size, I64), I64) for op in ("//", "%"))
    return tensor, statements, replace(s, name=names.label(f"{s.name}_total"), value=pr.Read(name, tuple(read), target.dtype),
                                       subscripts=tuple(pr.Index(x.index) for x in everything), where=(),
                                       ranges=(*everything, *outer[:parts > 1]))
