"""How a band runs: sizes of tiles, wavefront or parallel loops, by the smallest estimated time.

    for t in 0:100 { for i in 1:999 { for j in 1:999 { A[i,j] = A[i-1,j] + A[i,j-1] + A[i+1,j] + A[i,j+1] } } }
                                                                with inout A[1000,1000] on avx512
    ->  for (i + t) // 64 + (j + t) // 8 { parallel (j + t) // 8 { for t, i, j { A[i,j] = ... } } }

Counted are the arithmetic of the structure inside a tile (points), what a tile fetches and what its steps fetch again, idle
threads at the ends of a wavefront, and meetings of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, prod

from polytc.machine import Estimate, estimates
from polytc.poly import nest
from polytc.schedule.cost import footprints
from polytc.schedule.facts import bands
from polytc.schedule.facts.conflicts import Rows, text
from polytc.schedule.tiling import point_loops
from polytc.schedule.tiling.point_loops import OwnLoops, PointLoops, Scene, SharedLoop

NOMINAL = 64
"""Iterations of a tile's member while its structure is looked for."""
SIDES = (8, 16, 32, 64, 128, 256)
SWEEPS = 3
"""Passes over the members in which their sizes are improved one by one."""


@dataclass(frozen=True)
class Plan:
    """sizes: iterations of each member in a tile, None: not tiled; inside: the structure of a tile; time: estimated; wave:
    the two members whose tiles make a wavefront, of which the second is parallel; parallel: 'tiles', 'inside' or ''."""

    sizes: tuple[int | None, ...]
    inside: PointLoops
    time: Estimate
    wave: tuple[int, int] | None
    parallel: str


def plan(scene: Scene, band: bands.PermutableBand, fixed: dict[str, Rows]) -> Plan:
    """The cheapest way found to run a band. fixed: rows outside that stand still."""
    return _best(_Model.of(scene, band, fixed))


def candidates(scene: Scene, band: bands.PermutableBand, fixed: dict[str, Rows]) -> list[Plan]:
    """All ways that `plan` weighs, the cheapest first."""
    model = _Model.of(scene, band, fixed)
    best = _best(model)
    return [best, *sorted((p for p in model.plans.values() if p is not best), key=lambda p: p.time.seconds)]


def _best(model: _Model) -> Plan:
    """The cheapest way that is found from some sizes by improving one after another."""
    band = model.band
    whole: tuple[int | None, ...] = (None,) * len(band.loops)
    best = model.plan(whole)
    if not tileable(band):
        return best
    for start in _starts(len(whole)):
        here = model.plan(model.clipped(start))
        for _ in range(SWEEPS):
            before = here
            for m in range(len(whole)):
                options = [model.plan((*here.sizes[:m], n, *here.sizes[m + 1:])) for n in (*model.sides(m), None)]
                here = min((here, *options), key=lambda p: p.time.seconds)
            if here is before:
                break
        best = min((best, here), key=lambda p: p.time.seconds)
    return best


def _starts(members: int) -> Iterator[tuple[int | None, ...]]:
    """Sizes from which better ones are looked for: cubes of three sides, with the last member tiled or not, and slabs."""
    for side in (8, 16, NOMINAL):
        yield (side,) * members
        yield (*((side,) * (members - 1)), None)
    yield (16, *((None,) * (members - 1)))


def tileable(band: bands.PermutableBand) -> bool:
    """Is there more than one loop, or a parallel one? (Tiles of one loop that carries something gain nothing.)"""
    return len(band.loops) > 1 or band.loops[0].coincident


def given(scene: Scene, band: bands.PermutableBand, fixed: dict[str, Rows], sizes: Sequence[int | None]) -> Plan:
    """The plan with these sizes, one a member of the band."""
    return _Model.of(scene, band, fixed).plan(tuple(sizes))


def describe(scene: Scene, band: bands.PermutableBand, chosen: Plan) -> str:
    """The plan in a line."""
    loops = [text(loop.rows[0][1]) for loop in band.loops]
    tiles = ", ".join(f"{loop}: {n}" for loop, n in zip(loops, chosen.sizes, strict=True) if n is not None)
    wave = f" in wavefronts of {' and '.join(loops[m] for m in chosen.wave)}" if chosen.wave is not None else ""
    vectors = [f"{scene.statements[o.statement].name} {o.kind} {text(o.loops[-1])}" for o in point_loops.owns(chosen.inside)
               if o.kind != "sequential"]
    parts = [f"band ({', '.join(loops)})", f"tiles of {tiles}{wave}" if tiles else "no tiles", *vectors,
             f"estimated {chosen.time}"]
    return ", ".join(parts)


def extent(scene: Scene, loop: bands.LinearLoop) -> int:
    """Iterations of a loop, from the first of any statement to the last."""
    ends = [footprints.row_ends(scene.statements[s], row) for s, row in loop.rows]
    return max(e[1] for e in ends) - min(e[0] for e in ends) + 1


@dataclass
class _Model:
    """The estimates for one band. extents: of its loops; reaches: the statements; outside: rows outside of the band."""

    scene: Scene
    band: bands.PermutableBand
    fixed: dict[str, Rows]
    extents: tuple[int, ...]
    reaches: dict[str, footprints.Reach]
    structures: dict[tuple[bool, ...], PointLoops] = field(default_factory=dict)
    plans: dict[tuple[int | None, ...], Plan] = field(default_factory=dict)

    @staticmethod
    def of(scene: Scene, band: bands.PermutableBand, fixed: dict[str, Rows]) -> _Model:
        extents = tuple(extent(scene, loop) for loop in band.loops)
        reaches = {s: footprints.reach(scene.program, scene.statements[s], (*fixed[s], *(x.row(s) for x in band.loops)))
                   for s in bands.statements(band.child)}
        return _Model(scene, band, fixed, extents, reaches)

    def sides(self, member: int) -> tuple[int, ...]:
        return tuple(n for n in SIDES if 2 * n <= self.extents[member])

    def clipped(self, sizes: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple(n if n is not None and 2 * n <= e else None for n, e in zip(sizes, self.extents, strict=True))

    def plan(self, sizes: tuple[int | None, ...]) -> Plan:
        """The plan with these sizes."""
        if sizes not in self.plans:
            key = tuple(n is None for n in sizes)
            if key not in self.structures:
                nominal = tuple(None if n is None else NOMINAL for n in sizes)
                self.structures[key] = point_loops.inside(self.scene, self.band, self.fixed, self.spans(nominal))
            self.plans[sizes] = self.estimate(sizes, self.structures[key])
        return self.plans[sizes]

    def spans(self, sizes: Sequence[int | None]) -> dict[str, dict[str, int]]:
        """What each index spans in a tile."""
        return {s: r.spans((*(1 for _ in self.fixed[s]), *sizes)) for s, r in self.reaches.items()}

    def touched(self, spans: dict[str, dict[str, int]]) -> int:
        return footprints.touched([(self.reaches[s], v) for s, v in spans.items()])

    def estimate(self, sizes: tuple[int | None, ...], inner: PointLoops) -> Plan:
        machine, spans = self.scene.machine, self.spans(sizes)
        compute = estimates.arithmetic(machine, point_loops.cost(self.scene, inner, spans))
        shared = set(_members(inner))
        one = self.spans([1 if m in shared else n for m, n in enumerate(sizes)])
        everything, tile, step = self.touched(self.spans([None] * len(sizes))), self.touched(spans), self.touched(one)
        heavy = max(spans, key=lambda s: self.scene.statements[s].points)
        volume = prod(spans[heavy].values())
        steps = max(1.0, volume / prod(one[heavy].values()))
        tiles = max(1.0, self.scene.statements[heavy].points / volume)
        memory = tiles * (estimates.moved(machine, tile, everything) + estimates.moved(machine, (steps - 1) * step, tile))
        speed, regions, wave, where = self.parallel(sizes, inner, (compute + memory).seconds, steps)
        return Plan(sizes, inner, (compute + memory) / speed + estimates.regions(machine, regions), wave, where)

    def parallel(self, sizes: tuple[int | None, ...], inner: PointLoops, work: float, steps: float
                 ) -> tuple[float, float, tuple[int, int] | None, str]:
        """(how many times as fast as one thread, parallel regions, wavefront, where)."""
        cores = self.scene.machine.cores
        counts = [ceil(e / n) if n is not None else 1 for e, n in zip(self.extents, sizes, strict=True)]
        tiled = [m for m, n in enumerate(sizes) if n is not None]
        free = [m for m in tiled if self.band.loops[m].coincident]
        if free:
            count = counts[free[0]]
            return count / ceil(count / cores), 1.0, None, "tiles"
        if len(tiled) >= 2:
            second = max(tiled[1:], key=lambda m: (counts[m], -m))
            a, b = sorted((counts[tiled[0]], counts[second]))
            busy = sum(ceil(min(w, a, a + b - w) / cores) for w in range(1, a + b))
            return a * b / busy, float(a + b), (tiled[0], second), "tiles"
        regions = steps * sum(1 for own in point_loops.owns(inner) if any(own.free))
        if not tiled and cores > 1 and regions and work / cores + estimates.regions(self.scene.machine, regions).seconds < work:
            return float(cores), regions, None, "inside"
        return 1.0, 0.0, None, ""


def _members(p: PointLoops) -> list[int]:
    """The members of the band that statements share inside of tiles."""
    match p:
        case OwnLoops():
            return []
        case SharedLoop():
            return ([p.member] if p.member is not None else []) + _members(p.child)
        case nest.Sequence():
            return [m for x in p.children for m in _members(x)]
