"""How the work-items of a group divide a contraction: sizes of tiles, from a machine's numbers.

A group computes a tile of the result, each of its items `rows` x `columns` elements in registers, and walks the reduction in
steps. Between two barriers all items copy tiles of the operands that fit local memory; or each item reads the operands from the
caches into its registers, as many steps as these hold, and nobody waits. The estimate weighs multiply-adds against the operands
that each needs (Volkov, Better Performance at Lower Occupancy, GTC 2010) and rounds work up to whole rounds of all compute
units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil, prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.program.calls.words import DOTS
from polytc.program.linear import linear
from polytc.rewrite.gpu import matrix_tiles, tile_conditions, tile_copies
from polytc.rewrite.gpu.matrix_tiles import ADDRESSES, HALVES, Numbers
from polytc.schedule.facts.fusion_groups import Group, conditions_on, is_contraction, reduced_indices
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP
from polytc.schedule.facts.strides import AccessStrides, of_statement, vector_score

DEPTHS = (16, 32, 24, 20, 12, 8)
"""Steps of the reduction between two barriers, by preference; the first that divides its extent, else the first."""
SMALL = 6
"""Iterations of loops along one axis or two, or steps of the reduction, below which tiles gain nothing."""
WINDOW = 64
"""Steps of the other reduction loops that run between two barriers at most."""
MOST = 256
"""Elements of an item at most: each is code of its own."""


@dataclass(frozen=True)
class Blocking:
    """rows: the rows of a group whose loops are divided among the items, along the axes x, y and perhaps z: x is the fastest,
    and z uses the same operand as x does, as the rows of an image do where x walks along them. items: work-items along each;
    elements: of an item along each; lanes: neighbours along x that are one vector. depth: steps between two copies of the
    operands, of the reduced indices that go on inside; the others run outside. staged: the items of a group copy the operands
    to local memory together; else each to its registers. matrix: warps multiply tiles on a matrix unit, with a third number of
    items for the warps that are side by side along x (rewrite.gpu.matrix_tiles)."""

    rows: tuple[int, ...]
    items: tuple[int, ...]
    elements: tuple[int, ...]
    lanes: int
    depth: tuple[tuple[str, int], ...]
    staged: bool = True
    matrix: bool = False

    @property
    def tile(self) -> tuple[int, ...]:
        """Elements of the group's tile along each axis."""
        items = (self.items[0] * self.items[2], self.items[1]) if self.matrix else self.items
        return tuple(i * p for i, p in zip(items, self.elements, strict=True))


@dataclass(frozen=True)
class _Scene:
    """What tiles are chosen for. rows, lanes: see Blocking; reads: the subscripts of each operand, and bytes of an element;
    names, extents: of the indices along the axes; others: iterations of the loops over groups alone; reduced: the extents of
    the reduced indices, but for those whose steps are too far apart to be copied at once; longest: the one with most; summed:
    the one along which a matrix unit may add up, '' if none may; whole: in whole steps; vectors: numbers that it copies
    at once of the operands of the columns and of the rows; numbers: what it multiplies. weight: multiply-adds of f32 in the
    time of a step of the contraction."""

    machine: Machine
    rows: tuple[int, ...]
    lanes: int
    reads: tuple[tuple[tuple[Linear, ...], int], ...]
    names: tuple[str, ...]
    extents: tuple[int, ...]
    others: int
    reduced: dict[str, int]
    longest: str
    summed: str = ""
    whole: bool = False
    vectors: tuple[int, int] = (1, 1)
    numbers: Numbers = HALVES
    weight: float = 1.0

    def boxes(self, sizes: dict[str, int]) -> list[tuple[int, ...]]:
        """Coordinates in each dimension that the reads touch while indices walk so many iterations, others one."""
        return [tuple(1 + sum(abs(c) * (sizes.get(i, 1) - 1) for i, c in f.terms) for f in forms) for forms, _ in self.reads]

    def operands(self, sizes: dict[str, int]) -> list[tuple[tuple[int, ...], int]]:
        """These, and the bytes of an element of each."""
        return [(box, width) for box, (_, width) in zip(self.boxes(sizes), self.reads, strict=True)]

    def copied(self, found: Blocking, steps: int) -> list[tuple[int, ...]]:
        """The boxes that a group copies for so many steps of a matrix unit, of the operand of the columns and of that of the
        rows. Where an index has a stride, these are wider than the tile of the results."""
        boxes = self.boxes(dict(zip(self.names, found.tile, strict=False)) | {self.summed: steps})
        across = any(f.coefficient(self.names[0]) for f in self.reads[0][0])
        return boxes if across else boxes[::-1]

    def walks(self, index: str) -> bool:
        """Is an operand contiguous along the index?"""
        return any(forms[-1].coefficient(index) == 1 for forms, _ in self.reads if forms)

    def footprint(self, sizes: dict[str, int]) -> int:
        """Bytes of the elements that the reads touch meanwhile."""
        return sum(prod(box) * width for box, width in self.operands(sizes))


def heavy(group: Group) -> int | None:
    """The position of the one contraction of a group, if the group is one: what comes before it only initialises its target,
    what follows works on single elements of the shared loops."""
    found = [n for n, s in enumerate(group.statements) if is_contraction(s)]
    if len(found) != 1 or len(group.rows) < 2:
        return None
    at, s = found[0], group.statements[found[0]]
    written = [x.target for x in group.statements]
    plain = all(_element(x, group, n) for n, x in enumerate(group.statements))
    before = all(x.target == s.target and x.op is None for x in group.statements[:at])
    after = all(x.op is None for x in group.statements[at + 1:]) and len(set(written[at:])) == len(written[at:])
    alone = not any(r.tensor in written for r in pr.reads(s))
    return at if plain and before and after and at < 2 and alone else None


def _element(s: pr.Statement, group: Group, position: int) -> bool:
    """Does each iteration of the shared loops have an element of its own in the target, and no other loop but a reduction's,
    which moves to no other element?"""
    row = [r[position] for r in group.rows]
    forms = [linear(sub) for sub in s.subscripts]
    inner = {r.index for r in group.inner(position)}
    plain = {f.index for f in forms if f is not None}
    if any(f.coefficient(i) for f in forms if f is not None for i in inner):
        return False
    whole = (s.op is not None or conditions_on(s, row) == s.where) and tile_conditions.fits(s) and not s.bounds and not s.loops
    return whole and None not in forms and set(row) <= plain and inner == set(reduced_indices(s))


def choose(program: pr.Program, group: Group, machine: Machine) -> Blocking | None:
    """The tiles for a group around one contraction; None if it is no such group, or too small to gain."""
    scene = _scene(program, group, machine)
    options = _options(scene) if scene is not None else []
    if scene is None or not options:
        return None
    return _deep(min(options, key=lambda b: _time(b, scene)), scene)


def candidates(program: pr.Program, group: Group, machine: Machine) -> Iterator[tuple[Blocking, float]]:
    """The tiles that `choose` weighs, the quickest first, and the multiply-adds of an item."""
    scene = _scene(program, group, machine)
    if scene is not None:
        for b in sorted(_options(scene), key=lambda b: _time(b, scene)):
            yield _deep(b, scene), _time(b, scene)[0]


def seconds(program: pr.Program, group: Group, machine: Machine) -> tuple[float, float] | None:
    """What a contraction takes on a matrix unit, and with multiply-adds of items; None if no unit may do it."""
    scene = _scene(program, group, machine)
    options = _options(scene) if scene is not None and scene.summed else []
    if scene is None or not any(b.matrix for b in options):
        return None
    steps = prod(scene.reduced.values())
    unit, items = (min(_time(b, scene)[0] for b in options if b.matrix == matrix) for matrix in (True, False))
    return matrix_tiles.seconds(unit * steps, machine), matrix_tiles.seconds(items * steps, machine)


def parted(program: pr.Program, group: Group, machine: Machine) -> Callable[[int], float] | None:
    """The multiply-adds of the busiest unit where groups divide the longest reduced index into so many parts, each with the
    tiles that are best then; None if the group is not divided into tiles."""
    scene = _scene(program, group, machine)
    options = _options(scene) if scene is not None else []
    if scene is None or not options:
        return None

    def cost(parts: int) -> float:
        assert scene is not None
        split = replace(scene, others=scene.others * parts,
                        reduced=scene.reduced | {scene.longest: -(-scene.reduced[scene.longest] // parts)})
        return min(_time(b, split)[0] for b in options) * prod(split.reduced.values())
    return cost


def shaped(program: pr.Program, group: Group, machine: Machine, wanted: Blocking) -> Blocking | str:
    """The tiles that somebody else wants, of whatever lanes, or why there are none such."""
    scene = _scene(program, group, machine) if machine.fast_local_memory or not wanted.staged else None
    if scene is None:
        return "it is no contraction that is large enough for tiles, or the machine's local memory is slow"
    rows, items, elements, depth = wanted.rows, wanted.items, wanted.elements, wanted.depth
    if wanted.matrix:
        return _shaped_for_matrix(scene, group, wanted)
    if rows != scene.rows:
        return f"`rows` is {','.join(group.rows[r][0] for r in scene.rows)}"
    each = len(items) == len(elements) == len(rows) and min(elements) >= 1
    if not each or prod(elements) > MOST or max(elements[2:], default=1) > 1:
        return f"`items` and `elements` have a number for each of `rows`, the third 1; an item has {MOST} elements at most"
    if elements[0] % scene.lanes:
        return f"elements along {group.rows[rows[0]][0]} are a multiple of {scene.lanes}, as they are vectors"
    if not depth or len(dict(depth)) < len(depth) or any(not 1 <= n <= scene.reduced.get(i, 0) for i, n in depth):
        return f"`along` and `steps` are some of {', '.join(f'{i} of {n} steps' for i, n in scene.reduced.items())}"
    found = replace(wanted, lanes=scene.lanes)
    if not found.staged:
        kept = sum(map(prod, scene.boxes(_sizes_of(found, scene))))
        return found if kept <= MOST else f"an item would keep {kept} elements of the operands, and {MOST} at most"
    bytes_ = scene.footprint(_sizes_of(found, scene))
    most = machine.local_bytes // 2
    fits = bytes_ <= most or depth == _depth(scene, found.tile)
    return found if fits else f"operands of {bytes_} bytes; {most} fit local memory beside those of another group"


def _shaped_for_matrix(scene: _Scene, group: Group, wanted: Blocking) -> Blocking | str:
    """See `shaped`."""
    if not scene.summed or wanted.rows != scene.rows[:2]:
        return f"a matrix unit may not do it, or `rows` is {','.join(group.rows[r][0] for r in scene.rows[:2])}"
    if [i for i, _ in wanted.depth] != [scene.summed]:
        return f"`along` is {scene.summed}"
    steps = wanted.depth[0][1]
    why = matrix_tiles.problem(wanted.items, wanted.elements, steps, scene.numbers.steps[-1])
    if not why and scene.whole and scene.reduced[scene.summed] % steps:
        why = f"`steps` divide {scene.reduced[scene.summed]}"
    if why:
        return why
    bytes_ = scene.footprint(_sizes_of(wanted, scene)) * scene.numbers.bytes // 4
    fits = bytes_ <= scene.machine.local_bytes // 2 and prod(wanted.elements) <= MOST
    return replace(wanted, lanes=matrix_tiles.PAIR) if fits else f"operands of {bytes_} bytes, or too many results of an item"


def _for_matrix(scene: _Scene) -> list[Blocking]:
    """The tiles of warps, if a matrix unit may add up the products."""
    if not scene.summed or not scene.machine.fast_local_memory:
        return []
    made = [Blocking(scene.rows[:2], items, elements, matrix_tiles.PAIR, (), matrix=True)
            for items, elements in matrix_tiles.shapes(scene.machine)]
    deep = [(b, matrix_tiles.steps(scene.reduced[scene.summed], scene.whole, partial(scene.copied, b), scene.machine,
                                   scene.numbers))
            for b in made]
    return [replace(b, depth=((scene.summed, steps),)) for b, steps in deep if steps]


def _options(scene: _Scene) -> list[Blocking]:
    made = _for_matrix(scene)
    made += [Blocking(scene.rows, items, elements, scene.lanes, ()) for items, elements in _sizes(scene, staged=True)
            if scene.machine.fast_local_memory]
    return made + [b for items, elements in _sizes(scene, staged=False)
                   if (b := _in_registers(Blocking(scene.rows, items, elements, scene.lanes, (), staged=False), scene))]


def _deep(found: Blocking, scene: _Scene) -> Blocking:
    """The tiles with the steps between two copies."""
    return replace(found, depth=_depth(scene, found.tile)) if found.staged and not found.matrix else found


def _sizes_of(found: Blocking, scene: _Scene) -> dict[str, int]:
    """The iterations of each index whose operands are copied at once: by a group, or by an item."""
    along = found.tile if found.staged else found.elements
    return dict(zip(scene.names, along, strict=False)) | dict(found.depth)


def axes(program: pr.Program, group: Group) -> tuple[int, ...]:
    """The rows of a group around a contraction along which tiles share its operands, see Blocking; none where it is no such
    group, or too small to gain."""
    at = heavy(group)
    if at is None:
        return ()
    s = group.statements[at]
    accesses = of_statement(program, s)
    names = [row[at] for row in group.rows]
    alike = [tuple(r for r in range(len(names)) if _use(accesses, names[r]) == _use(accesses, i)) for i in names]
    large = [r for r, rows in enumerate(alike) if prod(group.extents[n] for n in rows) >= SMALL and group.extents[r] > 1]
    if len(large) < 2 or prod(_copied_together(s).values()) < SMALL:
        return ()
    x = max(large, key=lambda r: (vector_score(accesses, names[r]), r))
    reads = [a for a in accesses if not a.write]
    partners = [r for r in large if r != x and any(a.stride(names[r]) == 0 for a in reads) and group.extents[r] >= SMALL and
                any(a.stride(names[x]) == 0 and a.stride(names[r]) != 0 for a in reads)]
    if not partners:
        return ()
    y = max(partners, key=lambda r: (group.extents[r], r))
    return (x, y, *[r for r in alike[x] if r not in (x, y) and group.extents[r] > 1][-1:])


def _scene(program: pr.Program, group: Group, machine: Machine) -> _Scene | None:
    """What tiles are chosen for; None if there are none."""
    rows, at = axes(program, group), heavy(group)
    if not rows or at is None:
        return None
    s = group.statements[at]
    names, reduced = [row[at] for row in group.rows], _copied_together(s)
    lanes = machine.lanes(max(a.width for a in of_statement(program, s)))
    extents = tuple(group.extents[r] for r in rows)
    others = prod(group.extents) // prod(extents)
    subscripts = tuple((tuple(f for sub in r.subscripts if (f := linear(sub)) is not None), max(4, r.dtype.bytes))
                       for r in pr.reads(s))
    longest = max(reduced, key=lambda i: (reduced[i], i))
    summed = matrix_tiles.steps_along(program, s, conditions_on(s, names), names[rows[0]], names[rows[1]], machine)
    found = _Scene(machine, rows, lanes, subscripts, tuple(names[r] for r in rows), extents, others, reduced, longest,
                   weight=machine.costs.groups.dot if isinstance(s.value, pr.Call) and s.value.fn in DOTS else 1.0)
    return found if summed not in reduced else replace(
        found, summed=summed, whole=not matrix_tiles.ends_there(s, summed),
        vectors=matrix_tiles.lanes(program, s, summed, names[rows[0]]), numbers=matrix_tiles.numbers(s, machine))


def _copied_together(s: pr.Statement) -> dict[str, int]:
    """The extents of the reduced indices of which a copy of the operands may be for several steps."""
    return {i: s.extents[i] for i in reduced_indices(s) if not _is_far(s, i)}


def _is_far(s: pr.Statement, index: str) -> bool:
    """Are steps of an index of open extent so far apart in what is read that a copy of several is mostly of what lies between,
    as from one turn of a group to the next (rewrite.gpu.split_reduction)?"""
    forms = (linear(sub) for r in pr.reads(s) for sub in r.subscripts)
    return s.by_index[index].typical and any(abs(f.coefficient(index)) > SMALL for f in forms if f is not None)


def _use(accesses: tuple[AccessStrides, ...], index: str) -> tuple[bool, ...]:
    """Which of the reads move with an index."""
    return tuple(a.stride(index) != 0 for a in accesses if not a.write)


def _sizes(scene: _Scene, staged: bool) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(items, elements) along the axes that the machine's groups and registers allow."""
    machine, lanes = scene.machine, scene.lanes
    most = min(MAX_WORK_GROUP, machine.max_work_group)
    few = (1, 2, 4, 8, 16)
    axes = ((4, 8, 16, 32), few) if len(scene.extents) == 2 else ((*few, 32), few, few)
    least = min(machine.costs.groups.smallest if staged else machine.costs.groups.smallest // 2, most)
    items = [i for i in product(*axes) if least <= prod(i) <= most]
    ones = (1,) * (len(scene.extents) - 2)
    elements = [(x, y, *ones) for x, y in product((lanes, 2 * lanes, 4 * lanes), (1, 2, 4, 8))
                if x <= 8 and x * y + 2 * (x + y) + ADDRESSES <= machine.item_registers]
    return list(product(items, elements or [(lanes, 1, *ones)]))


def _in_registers(found: Blocking, scene: _Scene) -> Blocking | None:
    """The tiles with the steps whose operands an item reads at once: whole vectors of those that are contiguous along a reduced
    index; None where the registers do not hold even one step."""
    walked = [i for i in scene.reduced if scene.walks(i)]
    index = max(walked, key=lambda i: (scene.reduced[i], i)) if walked else scene.longest
    extent = scene.reduced[index]
    for steps in dict.fromkeys(min(extent, n) for n in (scene.lanes, 2, 1)):
        deep = replace(found, depth=((index, steps),))
        kept = sorted((prod(box) * width / 4 for box, width in scene.operands(_sizes_of(deep, scene))), reverse=True)
        alive = prod(found.elements) + kept[0] + sum(kept[1:]) / steps
        if alive + ADDRESSES <= scene.machine.item_registers:
            return deep
    return None


def _time(found: Blocking, scene: _Scene) -> tuple[float, int]:
    """Of the whole contraction, in multiply-adds of an item, that of the busiest unit above all; then the distance from a
    square."""
    elements, tile, items, costs = found.elements, found.tile, prod(found.items), scene.machine.costs.groups
    if found.matrix:
        return _time_of_matrix(found, scene), abs(tile[0] - tile[1])
    groups = scene.others * prod(ceil(n / t) for n, t in zip(scene.extents, tile, strict=True))
    if found.staged:
        steps = {i: n if n * n <= WINDOW else 1 for i, n in scene.reduced.items()}
        steps[scene.longest] = min(DEPTHS[0], scene.reduced[scene.longest])
        boxes = scene.boxes(_sizes_of(replace(found, depth=tuple(steps.items())), scene))
        operands = sum(elements[:2]) + sum(tile_copies.cost(box, costs) for box in boxes) / (items * prod(steps.values()))
    else:
        loads = sum(tile_copies.loads(box, scene.lanes) for box in scene.boxes(_sizes_of(found, scene)))
        operands = costs.cached * loads * scene.lanes / prod(n for _, n in found.depth)
    cores = scene.machine.cores
    together = ceil(groups / cores) * items
    busiest = (together**costs.hiding + MAX_WORK_GROUP**costs.hiding) ** (1 / costs.hiding)
    busiest += costs.idle * groups * items / cores
    return busiest * (prod(elements) * scene.weight + operands), abs(prod(tile) // tile[1] - tile[1])


def _time_of_matrix(found: Blocking, scene: _Scene) -> float:
    """Of the whole contraction, in multiply-adds of the busiest unit for each step of its sum. A group by itself waits for
    what it copies, as long as another one would take."""
    machine, (index, steps), = scene.machine, *found.depth
    costs = machine.costs.groups
    groups = scene.others * prod(scene.extents[2:]) * prod(
        ceil(n / t) for n, t in zip(scene.extents, found.tile, strict=False))
    busiest = max(costs.per_unit, ceil(groups / machine.cores)) + costs.idle * groups / machine.cores
    beyond = ceil(scene.reduced[index] / steps) * steps / scene.reduced[index]
    return busiest * beyond * matrix_tiles.time(found.items, found.elements, scene.copied(found, steps), scene.vectors,
                                                steps, machine, scene.numbers)


def _depth(scene: _Scene, tile: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """Steps of the reduced indices between two barriers: all of those with few, of the longest what fits local memory."""
    reduced, longest, tiles = scene.reduced, scene.longest, dict(zip(scene.names, tile, strict=True))
    inner: dict[str, int] = {}
    for index in sorted((i for i in reduced if i != longest), key=lambda i: reduced[i]):
        if prod(inner.values()) * reduced[index] <= WINDOW:
            inner[index] = reduced[index]
    extent = reduced[longest]
    steps = [extent] if extent <= DEPTHS[0] else [d for d in DEPTHS if extent % d == 0] or [DEPTHS[0]]
    kept = [dict(list(inner.items())[:count]) for count in range(len(inner), -1, -1)]
    whole = [(inside, step) for inside in kept[:None if extent <= DEPTHS[0] else 1] for step in steps]
    for inside, step in [*whole, *product(kept, [d for d in (8, 4, 2, 1) if d <= extent])]:
        if scene.footprint(tiles | inside | {longest: step}) <= scene.machine.local_bytes // 2:
            return (*inside.items(), (longest, step))
    return ((longest, 1),)
