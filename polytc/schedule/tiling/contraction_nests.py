"""A contraction by itself inside of `for` loops: the register tile that it would have outside of them.

    for t in 0:32 { G[b,j] += H[b,k]*R[k,j];  H[b,j] = G[b,j]*0.5 }                             with inout H[6,64], R[64,64]
    ->  for t { for b // 6, j // 64 { for k { unroll b % 6, vector j % 64 { G[b,j] += H[b,k]*R[k,j] } } }
                for b { vector j { H[b,j] = G[b,j]*0.5 } } }

The accumulators of a tile stay in registers while the reduction runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc.machine import Machine
from polytc.poly import isl
from polytc.poly.nest import Band, Leaf, Member, Nest
from polytc.program import program as pr
from polytc.schedule.cost import vector_loops
from polytc.schedule.facts.conflicts import Conflicts, Rows
from polytc.schedule.facts.fusion_groups import coincident_indices, is_contraction
from polytc.schedule.facts.strides import AccessStrides, lane_width


@dataclass(frozen=True)
class ContractionTile:
    """sizes: iterations in a tile of each free loop, by isl's names of the indices, the vector loop last; reduced: the loops
    that run over whole tiles, outermost first."""

    sizes: tuple[tuple[str, int], ...]
    reduced: tuple[str, ...]


def tile_of(program: pr.Program, s: pr.Statement, accesses: tuple[AccessStrides, ...], machine: Machine
            ) -> ContractionTile | None:
    """The tile of a statement whose loops are those of its ranges; None if it is no contraction over a box, or no tile pays."""
    if not is_contraction(s) or s.bounds or s.where or program.precise:
        return None
    free = [i for i in coincident_indices(s) if i in s.indices]
    reduced = [i for i in s.indices if i not in free]
    lanes = lane_width(program, s, machine)
    if not free or not reduced or lanes < 2:
        return None
    chosen = vector_loops.of_contraction(s, accesses, tuple(free), lanes, machine)
    if chosen is None or chosen.straight:
        return None
    extent = {r.index: int(r.extent) for r in s.ranges}  # of open sizes the representative ones
    sizes = dict.fromkeys(free, 1) | {chosen.vector: min(chosen.width * lanes, extent[chosen.vector])}
    if chosen.jam is not None:
        sizes[chosen.jam] = chosen.rows
    order = sorted(free, key=lambda i: (i == chosen.vector, i == chosen.jam))
    return ContractionTile(tuple((isl.name(i), sizes[i]) for i in order), tuple(map(isl.name, reduced)))


def tile_of_inner_loops(program: pr.Program, s: pr.Statement, accesses: tuple[AccessStrides, ...], machine: Machine,
                        conflicts: Conflicts, rows: tuple[Rows, Rows]) -> ContractionTile | None:
    """As `tile_of`, for a statement of which the loops `rows[1]` are left inside of rows[0], if those are indices of it and may
    run in any order."""
    fixed, loops = rows
    names = [row.terms[0][0] for row in loops if len(row.terms) == 1 and row.terms[0][1] == 1 and not row.constant]
    inner = replace(s, ranges=tuple(r for r in s.ranges if isl.name(r.index) in names))
    if len(names) != len(loops) or len(inner.ranges) != len(names) or not is_contraction(inner):
        return None
    name = isl.name(s.name)
    if not all(conflicts.legal(name, fixed, order) for order in (loops, tuple(reversed(loops)))):
        return None
    return tile_of(program, inner, accesses, machine)


def nest(s: pr.Statement, t: ContractionTile, name: str, *, parallel: bool) -> Nest:
    """The loops of a tile. parallel: the tiles of the loop that has the most."""
    extent = {isl.name(r.index): int(r.extent) for r in s.ranges}
    counts = [extent[i] // size for i, size in t.sizes]
    order = sorted(range(len(t.sizes)), key=lambda n: -counts[n])
    kinds = ["parallel" if parallel and n == order[0] else "sequential" for n in order]

    def member(text: str, kind: str = "sequential", *, free: bool = True) -> Member:
        return Member(((s.name, text),), kind, coincident=free)
    outer = [member(i if size == 1 else f"floor({i}/{size})", kind)
             for (i, size), kind in ((t.sizes[n], kind) for n, kind in zip(order, kinds, strict=True))]
    inner = [member(f"{i} mod {size}", "vector" if n + 1 == len(t.sizes) else "unroll")
             for n, (i, size) in enumerate(t.sizes) if size > 1]
    point = Band(f"{name}.point", tuple(inner), Leaf(s.name), permutable=True)
    steps = Band(f"{name}.steps", tuple(member(i, free=False) for i in t.reduced), point)
    return Band(f"{name}.tiles", tuple(outer), steps, permutable=True)
