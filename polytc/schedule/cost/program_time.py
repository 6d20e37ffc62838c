"""The estimate of a whole program: as it was rewritten, in the groups and tiles that a record of decisions says.

    C[i,j] += A[i,k]*B[k,j]         tile S1_init: rows=i,j sizes=6,32 order=j,i vector=j
    ->  3.1 ms: arithmetic 2.8, second 0.2, memory 0.05

Arithmetic: of a contraction its register tile counts (register_tiles.py), of other statements their operations and accesses
along the vector. Bytes: a tile of an operand that the next iteration of a loop over tiles uses again comes from the cache that
holds what is touched between; what is used first comes from the memory that holds all of the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

from polytc.decisions import Record
from polytc.machine import Estimate, Machine, estimates
from polytc.program import program as pr
from polytc.program.calls import matrix_rows
from polytc.schedule.cost import register_tiles, tile_order
from polytc.schedule.cost.register_tiles import RegisterTile
from polytc.schedule.decisions import Decisions, Tiled
from polytc.schedule.facts.fusion_groups import Group, is_contraction, partition, reduced_indices, together
from polytc.schedule.facts.strides import lane_width, of_statement

CALL_FREE = frozenset({"min", "max", "abs", "fma", "muladd", "word"})
"""Calls that are one operation."""


@dataclass(frozen=True)
class _Placed:
    """A statement in its group. tile: what is decided of the group, None: nothing is; sizes: iterations of a tile of each index
    that has loops over tiles, outermost first; vector: the index that becomes vectors."""

    statement: pr.Statement
    tile: Tiled | None
    sizes: dict[str, int]
    vector: str | None


def estimate(program: pr.Program, record: Record, machine: Machine, threads: int = 1) -> Estimate:
    """The time of a program behind all rewrites, without `for`, on so many threads. record: of the decisions about it; what is
    left out of it takes no tiles."""
    everything = sum(t.size * t.dtype.bytes for t in program.tensors)
    given = Decisions(record)
    tiles = {t.statement: t for t in given.all("tile")}
    shared = {t.statement for t in given.all("threads") if t.parallel == "yes"}
    total = Estimate()
    for group in _groups(program, given):
        first = group.statements[0].name
        placed = [_placed(group, n, tiles.get(first)) for n in range(len(group.statements))]
        work = estimates.arithmetic(machine, sum(_cycles(program, p, machine) for p in placed))
        for p in placed:
            work += _moved(program, p, group, everything, machine)
        if first in shared and threads > 1 and group.rows:
            iterations = prod(group.extents)
            work = work * (ceil(iterations / threads) / iterations) + estimates.regions(machine, 1)
        total += work
    return total


def _groups(program: pr.Program, given: Decisions) -> tuple[Group, ...]:
    lines = given.all("group")
    if lines:
        found = together(program, tuple(line.statements for line in lines))
        assert not isinstance(found, str), "the record was taken"
        return found
    policies = [line.policy for line in given.all("fusion")]
    return partition(program, policies[0] if policies else "smart")


def _placed(group: Group, position: int, tile: Tiled | None) -> _Placed:
    """The first statement's indices are the names of rows in a tile."""
    s, own = group.statements[position], {row[0]: row[position] for row in group.rows}
    if tile is None or set(tile.rows) != set(own):            # another group has the loops, under common outer ones
        return _Placed(s, None, dict.fromkeys(own.values(), 1), None)
    sizes = dict(zip(tile.rows, tile.sizes, strict=True))
    return _Placed(s, tile, {own[r]: sizes[r] for r in tile.order}, own.get(tile.vector))


def _cycles(program: pr.Program, p: _Placed, machine: Machine) -> float:
    """Of one core, with all operands in the first cache."""
    s, costs = p.statement, machine.costs
    accesses, lanes = of_statement(program, s), lane_width(program, s, machine)
    if is_contraction(s) and p.vector is not None and p.tile is not None:
        jams = [i for i, n in p.sizes.items() if n > 1 and i != p.vector]
        jam = max(jams, key=lambda i: p.sizes[i], default=None)
        straight = len(p.tile.unrolled) - 1 if p.tile.unrolled[:1] == (s.name,) else 0
        tile = RegisterTile(p.vector, jam, p.sizes.get(jam, 1) if jam is not None else 1, -(-p.sizes[p.vector] // lanes), 0.0,
                            straight)
        return register_tiles.given(s, accesses, tuple(p.sizes), tile, lanes, machine)
    nodes = [e for e in pr.walk(s.value) if isinstance(e, pr.Binary | pr.Unary | pr.Call)]
    rows = [e.fn for e in nodes if isinstance(e, pr.Call) and matrix_rows.is_rows_call(e.fn)]
    calls = sum(isinstance(e, pr.Call) and e.fn not in CALL_FREE for e in nodes) - len(rows)
    operations = sum(e.dtype is s.value.dtype for e in nodes) - len(rows) + sum(map(matrix_rows.operations, rows))
    operations += costs.arithmetic.elementary * calls + (s.op is not None)
    own = reduced_indices(s)
    vector = p.vector if p.vector is not None else next(
        (i for i in reversed(own) if all(a.stride(i) in (0, 1) for a in accesses)), None)
    if vector is None or lanes < 2 or program.precise and vector in own:
        return s.points * costs.arithmetic.scalar * (operations + len(accesses))
    each = costs.arithmetic.vector * operations / lanes
    for a in accesses:
        stride = a.stride(vector)
        each += costs.arithmetic.vector / lanes if stride == 1 else costs.accesses.scattered if stride != 0 else 0.0
    return s.points * each


def _moved(program: pr.Program, p: _Placed, group: Group, everything: int, machine: Machine) -> Estimate:
    """The bytes of a statement: of what it writes once, of what it reads as often as tiles come back to it."""
    s = p.statement
    total = Estimate()
    written = {x.target for x in group.statements[:group.statements.index(s)]}
    for r in dict.fromkeys((*pr.reads(s), pr.Read(s.target, s.subscripts, program.tensor(s.target).dtype))):
        if group.rows and r.tensor in written:
            continue                                           # made in the same iteration
        total += _of_read(program, s, r, p.sizes, everything, machine)
    return total


def _of_read(program: pr.Program, s: pr.Statement, r: pr.Read, sizes: Mapping[str, int], everything: int, machine: Machine
             ) -> Estimate:
    """What an operand's tiles take to come: from the innermost loop over tiles outwards."""
    extent, inside = s.extents, dict(sizes)
    count = float(prod(ceil(extent[i] / n) for i, n in sizes.items()))
    bytes_ = tile_order.footprint(program, s, r, inside)
    total, operands = Estimate(), dict.fromkeys(pr.reads(s))
    for index in reversed(list(sizes)):
        trips = ceil(extent[index] / sizes[index])
        if trips > 1 and not any(e == pr.Index(index) for sub in r.subscripts for e in pr.walk(sub)):
            between = sum(tile_order.footprint(program, s, x, inside) for x in operands)
            total += estimates.moved(machine, bytes_ * count * (1 - 1 / trips), between)
            count /= trips
        inside[index] = extent[index]
    return total + estimates.moved(machine, bytes_ * count, everything)
