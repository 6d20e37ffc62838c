"""The strategy for GPUs: shared loops to work-groups and work-items.

    Y[i,j] = X[i,j] + B[j]                                      with X[512,512], B[512] on gpu
    ->  block1 i // 8, block0 j // 32, thread1 i % 8, thread0 j % 32 { Y[i,j] = X[i,j] + B[j] }

The fastest work-item axis gets the loop in which accesses are contiguous, so that neighbouring items touch neighbouring words
(Verdoolaege et al., Polyhedral Parallel Code Generation for CUDA, TACO 2013).
"""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass, replace
from itertools import groupby, product
from math import prod

from polytc.machine import Machine
from polytc.poly import isl
from polytc.poly.nest import Band, Leaf, Member, Nest, Sequence
from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.schedule.cost import vector_loops
from polytc.schedule.decisions import Decisions, Items, Misfit, Priced
from polytc.schedule.facts.fusion_groups import Group, of_sizes, partition, single
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP
from polytc.schedule.facts.strides import of_statement
from polytc.schedule.facts.work_groups import is_cut, kernels, nest_ranges
from polytc.schedule.fusion import policies
from polytc.schedule.gpu import loads_in_flight, vector_accesses

BLOCKS = {1: (256,), 2: (32, 8), 3: (32, 4, 2)}
"""Work-group extents for 1, 2 and 3 mapped loops, fastest axis first."""
DEEPEST = 64
"""Work-items along the third axis at most (CUDA C++ Programming Guide, compute capabilities: z-dimension of a block)."""
UNDER_WAY = 4
"""Loads of an item at once."""
SIDES, FEWEST = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), 32
"""Work-items along a loop that there are to choose from, and of a group at least: those of a warp."""


def plan(program: pr.Program, machine: Machine, policy: str | None = None, *, vectors: bool = True, prefix: str = "",
         made: Decisions | None = None) -> tuple[Nest, list[str]]:
    """The loop nest of a whole program, and what was decided about fusion. Statements that rewrite.gpu.local_tiles has cut have
    their loops already; of the others each group becomes one kernel. vectors: items may take whole vectors
    (schedule.gpu.vector_accesses) where the sizes are fixed; prefix: the names of bands begin with it; made: where decisions
    are noted, and given ones found."""
    made = made or Decisions()
    typical, vectors = numeric(program), vectors and not program.sizes
    parts: list[Nest] = []
    notes: list[str] = []
    for statements in kernels(typical.statements):
        if is_cut(statements[0]):
            parts.append(nest_of_ranges(statements, f"{prefix}K{len(parts)}"))
            continue
        groups, note = together(program, typical, statements, machine, policy, made)
        notes += [note] if len(statements) > 1 else []
        parts += [_group(typical, g, machine, f"{prefix}G{len(parts) + n}", vectors, made) for n, g in enumerate(groups)]
    return (parts[0] if len(parts) == 1 else Sequence(tuple(parts))), notes


def together(program: pr.Program, typical: pr.Program, statements: tuple[pr.Statement, ...], machine: Machine,
             policy: str | None, made: Decisions) -> tuple[list[Group], str]:
    """The groups of statements, each of which becomes a kernel, and what was decided. typical: the program of typical sizes,
    whose statements they are."""
    shared = policies.decide(replace(typical, statements=statements), machine, policy, made)
    groups = [g for x in shared.groups for g in (_fed(typical, x, machine) if shared.times and policy is None else (x,))]
    return [part for g in groups for part in _alike(program, typical, g)], str(shared)


def nest(program: pr.Program, machine: Machine) -> Nest:
    """The loop nest of `plan`."""
    return plan(program, machine)[0]


def _alike(program: pr.Program, typical: pr.Program, group: Group) -> tuple[Group, ...]:
    """A group, or its statements apart where their loops agree in typical sizes only."""
    alike = of_sizes(program, group) is not None
    return (group,) if alike else partition(replace(typical, statements=group.statements), "min")


def _fed(program: pr.Program, group: Group, machine: Machine) -> tuple[Group, ...]:
    """A group, or its statements apart where the loops that they share are fewer iterations than the machine has items, and
    what an item then does by itself takes longer than another launch."""
    launches, shared = machine.costs.launches, prod(group.extents)
    if len(group.statements) < 2 or shared >= machine.costs.groups.per_unit * machine.cores * MAX_WORK_GROUP:
        return (group,)
    apart = tuple(x for g in partition(replace(program, statements=group.statements), "min")
                  for x in (map(single, [(s,) for s in g.statements]) if any(map(pr.scatters, g.statements)) else (g,)))
    own = max(prod(g.extents) for g in apart)
    waits = launches.step / UNDER_WAY * max(s.points for s in group.statements) * (1 / shared - 1 / own)
    return apart if waits > launches.launch * (len(apart) - 1) else (group,)


def nest_of_ranges(statements: tuple[pr.Statement, ...], name: str) -> Nest:
    """The nest of statements whose ranges say how their loops run, in the order of the loops: neighbours share the outermost
    loops that they have in common. Their `for` loops are around it, or inside of the groups."""
    return _shared([(s, nest_ranges(s)) for s in statements], name)


def _shared(left: list[tuple[pr.Statement, tuple[pr.Range, ...]]], name: str) -> Nest:
    """left: the loops of each statement that are not around yet. Loops over items are shared all or none: where statements
    differ in one, all items finish the first before they begin with the next."""
    count = 0
    while all(len(rest) > count and rest[count] == left[0][1][count] for _, rest in left):
        count += 1
    if any(_is_item(r) for _, rest in left for r in rest[count:]):
        count = min([count, *(n for n, r in enumerate(left[0][1]) if _is_item(r))])
    inside = [(s, rest[count:]) for s, rest in left]
    if len(left) == 1:
        body: Nest = Leaf(left[0][0].name)
    else:
        runs = [list(run) for _, run in groupby(inside, key=lambda x: _first(x[1]) or x[0].name)]
        body = Sequence(tuple(_shared(run, f"{name}.{n}") for n, run in enumerate(runs)))
    if count == 0:
        return body
    members = tuple(Member(tuple((s.name, isl.name(r.index)) for s, _ in left), r.kind, coincident=r.kind not in kinds.IN_ORDER)
                    for r in left[0][1][:count])
    return Band(name, members, body)


def _is_item(r: pr.Range) -> bool:
    return kinds.is_item(r.kind)


def _first(ranges: tuple[pr.Range, ...]) -> tuple[pr.Range, ...]:
    """The outermost loop, with all those over items if it is one."""
    return tuple(filter(_is_item, ranges)) if ranges and _is_item(ranges[0]) else ranges[:1]


def _group(program: pr.Program, group: Group, machine: Machine, name: str, vectors: bool, made: Decisions) -> Nest:
    """vectors: items may take whole vectors (schedule.gpu.vector_accesses), the sizes being those of all runs."""
    leaves = tuple(_leaf(group, n, name) for n in range(len(group.statements)))
    body: Nest = leaves[0] if len(leaves) == 1 else Sequence(leaves)
    if not group.rows:
        return body
    items = made.take("items", group.statements[0].name, lambda: mapping(program, group, machine, vectors),
                      lambda found: _written(group, found), lambda given: _read(group, given, machine),
                      options=lambda: _options(program, group, machine, vectors))
    axis_of = {r: axis for axis, (r, _) in enumerate(items.axes)}
    order = [r for r in range(len(group.rows)) if r not in axis_of] + [r for r, _ in reversed(items.axes)]
    blocks = tuple(Member(_rows(group, r, f"floor({{}}/{items.of_group(r)})"), kinds.group(axis_of.get(r, 2)), coincident=True)
                   for r in order)
    threads = tuple(Member(_rows(group, r, form), kind, coincident=True) for r, form, kind in items.members())
    return Band(name, blocks, Band(f"{name}.thread", threads, body, permutable=True), permutable=True)


@dataclass(frozen=True)
class Mapping:
    """Who runs the iterations of a group's loops. axes: (row, work-items) for at most three rows, the fastest axis first;
    vector: iterations of the first row that are one item's; each: iterations of the second row that are one item's, or of the
    only one, then as many apart as a group has items, so that neighbours take neighbouring ones."""

    axes: tuple[tuple[int, int], ...]
    vector: int = 1
    each: int = 1

    @property
    def _repeated(self) -> int:
        return self.axes[:2][-1][0]

    def of_group(self, row: int) -> int:
        """Iterations of a row that are one group's."""
        return dict(self.axes).get(row, 1) * self._vector(row) * (self.each if row == self._repeated else 1)

    def _vector(self, row: int) -> int:
        return self.vector if row == self.axes[0][0] else 1

    def members(self) -> abc.Iterator[tuple[int, str, str]]:
        """(row, form of the number along it, kind) of the loops over items and over what is one item's, outermost first."""
        only = len(self.axes) == 1
        for axis, (row, size) in reversed(tuple(enumerate(self.axes))):
            more = self._vector(row) * (self.each if row == self._repeated and not only else 1)
            yield row, f"{_over(more)} mod {size}", kinds.item(axis)
        if self.each > 1:
            apart = self.axes[0][1] * self.vector if only else 1
            yield self._repeated, f"{_over(apart)} mod {self.each}", "unroll"
        if self.vector > 1:
            yield self.axes[0][0], f"{{}} mod {self.vector}", "vector"


def _over(divisor: int) -> str:
    """The form of the number of so many iterations."""
    return "{}" if divisor == 1 else f"floor({{}}/{divisor})"


def mapping(program: pr.Program, group: Group, machine: Machine, vectors: bool) -> Mapping:
    """The mapping of a group that has loops. vectors: items may have several elements."""
    heavy = max(range(len(group.statements)), key=lambda n: (group.statements[n].points, n))
    accesses = of_statement(program, group.statements[heavy])
    rows = range(len(group.rows))
    contiguous, _ = vector_loops.best(accesses, [group.rows[r][heavy] for r in rows], later=True)
    assert contiguous is not None, "a group that is mapped has loops"
    mapped = [contiguous, *[r for r in reversed(rows) if r != contiguous]][:3]
    repeated = mapped[:2][-1]
    lanes = vector_accesses.lanes(program, group, contiguous, machine) if vectors else 1
    each = loads_in_flight.of_group(program, group, repeated, machine) if vectors and lanes == 1 else 1
    counts = [-(-group.extents[r] // ((lanes if r == contiguous else 1) * (each if r == repeated else 1))) for r in mapped]
    return Mapping(tuple(zip(mapped, items(counts, machine), strict=True)), lanes, each)


def _options(program: pr.Program, group: Group, machine: Machine, vectors: bool) -> abc.Iterator[Priced[Mapping]]:
    """The loops of polytc's own mapping, and these the other way round, in work-groups of other shapes."""
    own = mapping(program, group, machine, vectors)
    rows, most = [r for r, _ in own.axes], machine.max_work_group or 256
    for order in dict.fromkeys((tuple(rows), tuple(reversed(rows)))):
        whole = [_power_of_two(group.extents[r]) for r in order]
        sizes = [[n for n in SIDES if n <= w] for w in whole]
        shapes = (s for s in product(*sizes) if min(FEWEST, prod(whole)) <= prod(s) <= most)
        own_order = order[0] == rows[0]
        yield from ((Mapping(tuple(zip(order, s, strict=True)), *((own.vector, own.each) if own_order else (1, 1))), None)
                    for s in sorted(shapes, key=prod, reverse=True))


def _written(group: Group, found: Mapping) -> Items:
    """A mapping as a line of a record of decisions."""
    return Items(group.statements[0].name, tuple(group.rows[r][0] for r, _ in found.axes), tuple(n for _, n in found.axes),
                 found.vector, found.each)


def _read(group: Group, given: Items, machine: Machine) -> Mapping:
    """The mapping that a line says. Raises Misfit."""
    at, most = {row[0]: r for r, row in enumerate(group.rows)}, machine.max_work_group or 256
    if not 1 <= len(set(given.rows)) == len(given.rows) == len(given.sizes) <= 3 or any(name not in at for name in given.rows):
        raise Misfit(f"one to three of the loops {', '.join(at)}, and a size for each")
    if min(given.sizes) < 1 or prod(given.sizes) > most:
        raise Misfit(f"a group has 1 to {most} items")
    for share, name in ((given.vector, given.rows[0]), (given.each, given.rows[:2][-1])):
        if not 1 <= share <= min(16, group.extents[at[name]]):
            raise Misfit(f"an item has 1 to {min(16, group.extents[at[name]])} iterations of {name}")
    return Mapping(tuple((at[name], n) for name, n in zip(given.rows, given.sizes, strict=True)), given.vector, given.each)


def items(extents: abc.Sequence[int], machine: Machine) -> list[int]:
    """Work-items of a group along each of up to three mapped loops, fastest axis first. Where one has few iterations others
    have more items, the next ones first: a warp that is not full is as long under way as one that is."""
    most = max(1, machine.max_work_group or 256)
    found = [min(size, _power_of_two(n)) for n, size in zip(extents, BLOCKS[len(extents)], strict=True)]
    while prod(found) > most:
        widest = found.index(max(found))
        found[widest] //= 2
    for axis, n in enumerate(extents):
        widest = min(_power_of_two(n), most if axis < 2 else DEEPEST)
        while 2 * found[axis] <= widest and 2 * prod(found) <= min(most, prod(BLOCKS[1])):
            found[axis] *= 2
    return found


def _power_of_two(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()


def _rows(group: Group, row: int, form: str) -> tuple[tuple[str, str], ...]:
    return tuple((s.name, form.format(isl.name(group.rows[row][n]))) for n, s in enumerate(group.statements))


def _leaf(group: Group, position: int, name: str) -> Nest:
    s = group.statements[position]
    inner = group.inner(position)
    if not inner:
        return Leaf(s.name)
    return Band(f"{name}.{s.name}", tuple(Member(((s.name, isl.name(r.index)),)) for r in inner), Leaf(s.name))
