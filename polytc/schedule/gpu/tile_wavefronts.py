"""Wavefronts of tiles for GPUs: bands that may be permuted but carry dependences in all their loops.

    for i in 0:2000 { for j in 0:2000 { S[i,j] = max((S[i-1,j] else 0), (S[i,j-1] else 0)) + X[i]*Z[j] } }
                                                                with X[2000], Z[2000] on gpu
    ->  for i // 128 + j // 128 { block0 j // 128 { for i + j { thread0 j % 128 { S[i,j] = ... } } } }

Every dependence goes forward in some loop and in none back, so that tiles whose coordinates have the same sum do not depend on
each other, nor do the instances of a tile whose rows have the same sum (Irigoin & Triolet, Supernode Partitioning, POPL 1988).
"""

from __future__ import annotations

from itertools import product
from math import ceil, prod

from polytc.machine import Estimate
from polytc.poly.nest import Band, Member, Nest
from polytc.program import kinds
from polytc.program.affine import Linear
from polytc.program.linear import collected
from polytc.schedule.facts import bands
from polytc.schedule.facts.conflicts import text
from polytc.schedule.gpu import kernel_loops
from polytc.schedule.gpu.kernel_loops import Plan
from polytc.schedule.tiling import tile_sizes
from polytc.schedule.tiling.point_loops import Scene

SIDES = (8, 16, 32, 64, 128)
"""Iterations of a tile's loops."""


def plan(scene: Scene, band: bands.PermutableBand, name: str) -> Plan | None:
    """The band as launches of tiles, of the sizes with the smallest estimate; None for bands of other kinds."""
    if len(band.loops) not in (2, 3) or any(loop.coincident for loop in band.loops):
        return None
    extents = [tile_sizes.extent(scene, loop) for loop in band.loops]
    sides = [[n for n in SIDES if n <= max(SIDES[0], e)] for e in extents]
    limit = min(256, scene.machine.max_work_group or 256)
    work = sum(scene.statements[s].points for s in bands.statements(band)) / prod(extents)
    found = [(_time(scene, extents, chosen, max(1.0, work)), chosen) for chosen in product(*sides) if prod(chosen[1:]) <= limit]
    if not found:
        return None
    time, chosen = min(found, key=lambda x: (x[0].seconds, x[1]))
    return Plan(_nest(scene, band, chosen, name), time)


def _time(scene: Scene, extents: list[int], sides: tuple[int, ...], work: float) -> Estimate:
    """work: instances that an item has in a step."""
    costs = scene.machine.costs.launches
    counts = [ceil(e / n) for e, n in zip(extents, sides, strict=True)]
    waves = sum(counts) - len(counts) + 1
    steps = sum(sides) - len(sides) + 1
    rounds = ceil(prod(counts) / waves / (costs.wave_groups * scene.machine.cores))
    step = Estimate(arithmetic=costs.group_step * work, barriers=costs.barrier)
    return waves * (Estimate(launches=costs.launch) + rounds * steps * step)


def _nest(scene: Scene, band: bands.PermutableBand, sides: tuple[int, ...], name: str) -> Nest:
    within = list(enumerate(zip(reversed(band.loops[1:]), reversed(sides[1:]), strict=True)))[::-1]
    blocks = tuple(kernel_loops.member(scene, loop, kinds.group(axis), n) for axis, (loop, n) in within)
    threads = tuple(kernel_loops.member(scene, loop, kinds.item(axis), modulus=n) for axis, (loop, n) in within)
    tiles = [kernel_loops.member(scene, loop, divisor=n) for loop, n in zip(band.loops, sides, strict=True)]
    wave = tuple((s, " + ".join(dict(m.rows)[s] for m in tiles)) for s, _ in tiles[0].rows)
    step = tuple((scene.statements[s].name, text(_sum(band, s))) for s, _ in band.loops[0].rows)
    inside = kernel_loops.sequential_nest(scene, band.child, f"{name}.in")
    items = Band(f"{name}.step", (Member(step),), Band(f"{name}.thread", threads, inside, whole=True), whole=True)
    return Band(f"{name}.wave", (Member(wave),), Band(name, blocks, items, whole=True), whole=True)


def _sum(band: bands.PermutableBand, statement: str) -> Linear:
    """The sum of a statement's rows."""
    rows = [loop.row(statement) for loop in band.loops]
    return collected((term for row in rows for term in row.terms), sum(row.constant for row in rows))
