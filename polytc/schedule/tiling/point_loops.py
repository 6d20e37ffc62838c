"""The loops inside a tile: which ones statements share, and what each statement does in loops of its own.

    for t in 0:50 { B[i,j] = A[i-1,j] + A[i+1,j];  A[i,j] = B[i,j] where i in 1:39 }            with inout A[40,40]
    ->  for t { for i { vector j { B[i,j] = A[i-1,j] + A[i+1,j] } };  for i { vector j { A[i,j] = B[i,j] } } }

Statements are distributed at the outermost loop at which no dependence goes round in a circle (Allen & Kennedy, Automatic
Translation of Fortran Programs to Vector Form, TOPLAS 1987); then each takes for its innermost loop the one in which its
accesses are contiguous and nothing is carried, or in which it reduces along memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from polytc.machine import Machine
from polytc.poly import isl
from polytc.poly.nest import Leaf, Sequence
from polytc.program import program as pr
from polytc.program.affine import Affine, Linear
from polytc.schedule.cost import vector_loops
from polytc.schedule.facts import bands
from polytc.schedule.facts.conflicts import Conflicts, Rows, reduced
from polytc.schedule.facts.strides import AccessStrides, lane_width, of_statement
from polytc.schedule.tiling import contraction_nests


@dataclass(frozen=True)
class OwnLoops:
    """The loops of one statement by itself, outermost first; kind: of the innermost, 'sequential', 'vector' or 'reduce'; free:
    which loops carry nothing of the statement's own; cycles: of an instance, estimated, where vectors are full; start: of each
    run of the innermost loop, beside; lanes: iterations of the innermost loop at once; tile: of a contraction, instead of the
    order of its loops."""

    statement: str
    loops: Rows
    kind: str
    free: tuple[bool, ...]
    cycles: float
    start: float = 0.0
    lanes: int = 1
    tile: contraction_nests.ContractionTile | None = None

    def time(self, span: dict[str, int]) -> float:
        """Cycles of an instance. span: iterations of each index."""
        if not self.start:
            return self.cycles
        length = span[self.loops[-1].terms[0][0]]
        return self.cycles * -(-length // self.lanes) * self.lanes / length + self.start / length


@dataclass(frozen=True)
class SharedLoop:
    """One loop over several statements; member: its place in the band."""

    loop: bands.LinearLoop
    member: int | None
    child: PointLoops


PointLoops: TypeAlias = "OwnLoops | SharedLoop | Sequence[PointLoops]"


@dataclass
class Scene:
    """What decisions about one loop nest look at. statements: by isl's names."""

    program: pr.Program
    statements: dict[str, pr.Statement]
    conflicts: Conflicts
    machine: Machine
    _options: dict[tuple[object, ...], list[OwnLoops]] = field(default_factory=dict)
    _accesses: dict[str, tuple[AccessStrides, ...]] = field(default_factory=dict)

    def accesses(self, statement: str) -> tuple[AccessStrides, ...]:
        """The target first, then every read."""
        if statement not in self._accesses:
            self._accesses[statement] = of_statement(self.program, self.statements[statement])
        return self._accesses[statement]

    def options(self, statement: str, rows: Rows, fixed: Rows) -> list[OwnLoops]:
        """The loops that a statement may have for what is left of its rows."""
        key = (statement, rows, frozenset(fixed))
        if key not in self._options:
            self._options[key] = list(_options(self, statement, rows, fixed))
        return self._options[key]


def owns(p: PointLoops) -> Iterator[OwnLoops]:
    """The statements' own loops below."""
    match p:
        case OwnLoops():
            yield p
        case SharedLoop():
            yield from owns(p.child)
        case Sequence():
            for x in p.children:
                yield from owns(x)


def depth(p: PointLoops) -> int:
    """Shared loops around the statements, at most."""
    match p:
        case OwnLoops():
            return 0
        case SharedLoop():
            return 1 + depth(p.child)
        case Sequence():
            return max(map(depth, p.children))


def inside(scene: Scene, band: bands.PermutableBand, fixed: dict[str, Rows], spans: dict[str, dict[str, int]]) -> PointLoops:
    """The cheapest structure inside a tile of the band. fixed: the rows of each statement outside of the band that stand still;
    spans: of each statement's indices in a tile."""
    return _Search(scene, band, spans).best(band.child, (), fixed)


def straight(scene: Scene, p: PointLoops) -> PointLoops:
    """The same, with no loops outside, but that statements by themselves whose loops run along several indices at once, one
    instance after another, get the loops of the text, if these are legal: their bounds are simpler."""
    match p:
        case Sequence():
            return Sequence(tuple(straight(scene, x) for x in p.children))
        case OwnLoops(kind="sequential", tile=None) if any(len(row.terms) > 1 for row in p.loops):
            written = tuple(Affine(0, ((isl.name(i), 1),)) for i in scene.statements[p.statement].indices)
            if scene.conflicts.legal(p.statement, (), written):
                return _scalar(scene, p.statement, written, ())
    return p


def cost(scene: Scene, p: PointLoops, spans: dict[str, dict[str, int]]) -> float:
    """Cycles of all instances. spans: of each statement's indices in a tile."""
    return sum(own.time(spans[own.statement]) * scene.statements[own.statement].points for own in owns(p))


@dataclass
class _Search:
    """The search for the structure of one band."""

    scene: Scene
    band: bands.PermutableBand
    spans: dict[str, dict[str, int]]
    known: dict[tuple[tuple[str, ...], frozenset[int]], PointLoops] = field(default_factory=dict)

    def best(self, tree: bands.Tree, taken: tuple[int, ...], fixed: dict[str, Rows]) -> PointLoops:
        """tree: what of the band's child is left; taken: the members of the band that are shared already."""
        key = bands.statements(tree), frozenset(taken)
        if key not in self.known:
            parts = tree.children if isinstance(tree, Sequence) else (tree,)
            groups = self.scene.conflicts.components([bands.statements(x) for x in parts], fixed)
            found = [p for group in groups for p in self.group([parts[n] for n in sorted(group)], taken, fixed)]
            self.known[key] = found[0] if len(found) == 1 else Sequence(tuple(found))
        return self.known[key]

    def group(self, parts: list[bands.Tree], taken: tuple[int, ...], fixed: dict[str, Rows]) -> list[PointLoops]:
        """Sequence that depend on each other in a circle, or one part."""
        rest = [m for m in range(len(self.band.loops)) if m not in taken]
        if len(parts) == 1 or not rest:
            return [self.alone(x, rest, fixed) for x in parts]
        sequence = Sequence(tuple(parts))
        found: list[PointLoops] = []
        for m in rest:
            loop = self.band.loops[m].only(bands.statements(sequence))
            below = fixed | {s: (*fixed[s], r) for s, r in loop.rows}
            found.append(SharedLoop(loop, m, self.best(sequence, (*taken, m), below)))
        return [min(found, key=lambda p: (round(cost(self.scene, p, self.spans), 2), depth(p)))]

    def alone(self, tree: bands.Tree, rest: list[int], fixed: dict[str, Rows]) -> PointLoops:
        """A part of the band's child under the members that are left."""
        loops: list[tuple[bands.LinearLoop, int | None]] = [(self.band.loops[m].only(bands.statements(tree)), m) for m in rest]
        while isinstance(tree, bands.PermutableBand) and len(bands.statements(tree)) == 1:
            loops += [(loop, None) for loop in tree.loops]
            tree = tree.child
        if isinstance(tree, Leaf):
            options = self.scene.options(tree.statement, tuple(loop.row(tree.statement) for loop, _ in loops),
                                         fixed[tree.statement])
            span = self.spans[tree.statement]
            return min(options, key=lambda o: o.time(span))
        below = fixed | {s: (*fixed[s], *(loop.row(s) for loop, _ in loops)) for s in bands.statements(tree)}
        inner = tree if isinstance(tree, bands.PermutableBand) else bands.PermutableBand((), tree)
        child = inside(self.scene, inner, below, self.spans)
        for loop, member in reversed(loops):
            child = SharedLoop(loop, member, child)
        return child


def _options(scene: Scene, statement: str, rows: Rows, fixed: Rows) -> Iterator[OwnLoops]:
    """Ways to run a statement by itself: in the order of the rows, or with one of them innermost, as vectors."""
    loops: list[Linear] = []
    for row in rows:
        left = reduced(row, (*fixed, *loops))
        if left.terms:
            loops.append(left)
    yield _scalar(scene, statement, tuple(loops), fixed)
    for n, loop in enumerate(loops):
        if len(loop.terms) == 1 and abs(loop.terms[0][1]) == 1:
            order = (*loops[:n], *loops[n + 1:], loop)
            if scene.conflicts.legal(statement, fixed, order):
                found = _vector(scene, statement, order, fixed)
                if found is not None:
                    yield found


def _operations(s: pr.Statement) -> int:
    return sum(isinstance(e, pr.Binary | pr.Call | pr.Unary) and e.dtype is s.value.dtype for e in pr.walk(s.value)) \
        + (s.op is not None)


def _scalar(scene: Scene, statement: str, loops: Rows, fixed: Rows) -> OwnLoops:
    s = scene.statements[statement]
    carried = bool(loops) and scene.conflicts.carries(statement, (*fixed, *loops[:-1]), loops[-1])
    operations = _operations(s)
    costs = scene.machine.costs.arithmetic
    waits = costs.chain * min(operations, 3) if carried else 0.0
    cycles = costs.scalar * (len(scene.accesses(statement)) + operations) + waits
    start = costs.loop if loops and len(loops[-1].terms) == 1 else 0.0
    return OwnLoops(statement, loops, "sequential", _free(scene.conflicts, statement, loops, fixed), cycles, start)


def _vector(scene: Scene, statement: str, loops: Rows, fixed: Rows) -> OwnLoops | None:
    """The loops with the innermost one as vectors, or as a horizontal reduction; None if neither is right."""
    s = scene.statements[statement]
    accesses, outside = scene.accesses(statement), (*fixed, *loops[:-1])
    (index, sign), = loops[-1].terms
    lanes = lane_width(scene.program, s, scene.machine)
    span = next(r.extent for r in s.ranges if isl.name(r.index) == index)
    strides = [a.stride(next(r.index for r in s.ranges if isl.name(r.index) == index)) for a in accesses]
    if span < 4 or lanes < 2:
        return None
    kind = "vector"
    if scene.conflicts.carries(statement, outside, loops[-1]):
        kind = "reduce"
        commutes = s.op is not None and not scene.program.precise and strides[0] == 0
        if not commutes or not scene.conflicts.reduces(statement, outside, loops[-1]):
            return None
    elif strides[0] == 0:
        return None
    costs = scene.machine.costs
    moved = sum(vector_loops.access_cycles(stride, lanes, costs) for stride in strides)
    cycles = _operations(s) * costs.arithmetic.scalar / lanes + moved
    tile = None
    if kind == "vector":
        tile = contraction_nests.tile_of_inner_loops(scene.program, s, accesses, scene.machine, scene.conflicts, (fixed, loops))
    if sign < 0:
        loops = (*loops[:-1], Affine(0, ((index, 1),)))
    return OwnLoops(statement, loops, kind, _free(scene.conflicts, statement, loops, fixed), cycles,
                    costs.arithmetic.loop + (costs.arithmetic.horizontal if kind == "reduce" else 0.0), lanes, tile)


def _free(conflicts: Conflicts, statement: str, loops: Rows, fixed: Rows) -> tuple[bool, ...]:
    return tuple(not conflicts.carries(statement, (*fixed, *loops[:n]), loop) for n, loop in enumerate(loops))


def names(chosen: tuple[pr.Statement, ...]) -> dict[str, pr.Statement]:
    """Statements by isl's names."""
    return {isl.name(s.name): s for s in chosen}
