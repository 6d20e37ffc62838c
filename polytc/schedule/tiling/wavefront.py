"""A permutable band -> tiles that run in parallel, and what is in them.

    for i in 0:2000 { for j in 0:2000 { S[i,j] = max((S[i-1,j] else 0), (S[i,j-1] else 0)) + X[i]*Z[j] } }
                                                                with X[2000], Z[2000] on avx512
    ->  for i // 32 + j // 256 { parallel j // 256 { for i, j { S[i,j] = ... } } }

Coincident members are parallel as they are. Where there are none, the tiles on a diagonal do not depend on each other, as every
dependence goes forward in both loops or stays (Lamport, The Parallel Execution of DO Loops, CACM 1974; Irigoin & Triolet,
Supernode Partitioning, POPL 1988; Bondhugula et al., A Practical Automatic Polyhedral Parallelizer and Locality Optimizer,
PLDI 2008).
"""

from __future__ import annotations

from math import ceil

from polytc.poly import isl
from polytc.poly.nest import Band, Leaf, Member, Nest, Sequence
from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.schedule.facts import bands
from polytc.schedule.facts.conflicts import text
from polytc.schedule.tiling import contraction_nests
from polytc.schedule.tiling.point_loops import OwnLoops, PointLoops, Scene, SharedLoop
from polytc.schedule.tiling.tile_sizes import Plan

BLOCK = 64
"""Iterations of a block of a vector loop that was moved inside others."""


def nest(scene: Scene, band: bands.PermutableBand, chosen: Plan, name: str) -> Nest:
    """The loops of a band as planned. name: the names of its bands begin with it."""
    tiled = [m for m, n in enumerate(chosen.sizes) if n is not None]
    free = [m for m in tiled if band.loops[m].coincident]
    body = _points(scene, chosen.inside, name, parallel=chosen.parallel == "inside")
    if not tiled:
        return body

    def tile(m: int) -> dict[str, str]:
        return {s: f"floor(({text(r)})/{chosen.sizes[m]})" for s, r in band.loops[m].rows}

    if chosen.wave is None:
        order = [*free, *(m for m in tiled if m not in free)]
        members = [_member(scene, tile(m), "parallel" if free and m == free[0] else "sequential", coincident=m in free)
                   for m in order]
    else:
        first, second = chosen.wave
        both = {s: f"{a} + {b}" for (s, a), b in zip(tile(first).items(), tile(second).values(), strict=True)}
        members = [_member(scene, both, "sequential"), _member(scene, tile(second), "parallel", coincident=True)]
        members += [_member(scene, tile(m), "sequential") for m in tiled if m not in chosen.wave]
    return Band(f"{name}.tile", tuple(members), body)


def _member(scene: Scene, rows: dict[str, str], kind: str, coincident: bool = False) -> Member:
    return Member(tuple((scene.statements[s].name, e) for s, e in rows.items()), kind, coincident)


def _points(scene: Scene, p: PointLoops, name: str, *, parallel: bool) -> Nest:
    """parallel: the outermost loops that may be parallel are."""
    match p:
        case OwnLoops():
            return _own(scene, p, f"{name}.{p.statement}", parallel=parallel)
        case Sequence():
            return Sequence(tuple(_points(scene, x, f"{name}.{n}", parallel=parallel) for n, x in enumerate(p.children)))
        case SharedLoop():
            rows = {s: text(r) for s, r in p.loop.rows}
            busy = parallel and p.loop.coincident
            child = _points(scene, p.child, f"{name}.in", parallel=parallel and not busy)
            return Band(f"{name}.all", (_member(scene, rows, "parallel" if busy else "sequential", p.loop.coincident),), child)


def _own(scene: Scene, own: OwnLoops, name: str, *, parallel: bool) -> Nest:
    """The loops of one statement; the first free one is parallel, if that is asked for; blocks of the vector loop, if no other
    is."""
    s = scene.statements[own.statement]
    if own.tile is not None:
        return contraction_nests.nest(s, own.tile, name, parallel=parallel)
    members: list[Member] = []
    last = len(own.loops) - 1
    chosen = next((n for n, free in enumerate(own.free) if free and (n != last or own.kind == "sequential")), None)
    vector = own.kind == "vector"
    length = _length(s, own.loops[-1]) if own.loops else 1
    if vector and chosen is None and length > BLOCK and (parallel or len(own.loops) > 1):
        size = BLOCK if len(own.loops) > 1 else BLOCK * max(1, ceil(length / (4 * scene.machine.cores * BLOCK)))
        members.append(Member(((s.name, f"floor(({text(own.loops[-1])})/{size})"),), "parallel" if parallel else "sequential",
                              coincident=True))
    for n, loop in enumerate(own.loops):
        kind = own.kind if n == last and own.kind != "sequential" else "parallel" if parallel and n == chosen else "sequential"
        members.append(Member(((s.name, text(loop)),), kind, coincident=own.free[n]))
    return Band(name, tuple(members), Leaf(s.name)) if members else Leaf(s.name)


def _length(s: pr.Statement, loop: Linear) -> int:
    return max((r.extent for r in s.ranges if loop.coefficient(isl.name(r.index))), default=1)


