"""Which work-items of a group divide a reduction among themselves, from a machine's numbers.

A reduction whose reduced index walks memory is divided along the fastest axis, so that neighbouring items read neighbouring
words; one of which only the results are contiguous, and few, along the second one, the fastest walking the results. Rows that
are short share a group; where each has several loops, so many that each unit still has its groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.schedule.facts.fusion_groups import Group, coincident_indices, partition, reduced_indices
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP
from polytc.schedule.facts.strides import of_statement, vector_score

MIN_ITERATIONS = 16
"""Iterations of a reduction that are worth dividing."""
ELEMENTS_PER_ITEM = 4
"""Elements of an item before more items share a row: each then has several reads under way."""
FEWEST = 32
"""Items of a group at least that there are to choose from: those of a warp."""
COLUMNS = 32
"""Items along the results of a reduction that does not walk memory: whole lines of the caches."""


@dataclass(frozen=True)
class WorkGroupShape:
    """axis: of the items that divide a reduction. items: of a group along x and y. row: the row whose iterations are the items
    of the other axis; None where there is none. dealt: the index of each statement that these items divide, '' where a
    statement has only rows."""

    axis: int
    items: tuple[int, int]
    row: int | None
    dealt: tuple[str, ...]

    @property
    def size(self) -> int:
        """Items that share a row."""
        return self.items[self.axis]


def choose(program: pr.Program, group: Group, machine: Machine) -> WorkGroupShape | None:
    """The shape of the work-groups for a group of statements around reductions; None if one item a row does as well."""
    found = _reduction(program, group)
    if found is None:
        return None
    most = min(MAX_WORK_GROUP, machine.max_work_group)
    if found.axis == 0:
        if found.extent < MIN_ITERATIONS:
            return None
        size = _items_for(found.extent, most)
        beside = 1 if found.row is None else min(most // size, _power(group.extents[found.row]))
        if found.long:
            most_beside = max(1, prod(group.extents) // (machine.costs.groups.per_unit * machine.cores))
            beside = min(beside, 1 << most_beside.bit_length() - 1)
    else:
        if found.extent < 2 * MIN_ITERATIONS or prod(group.extents) >= machine.costs.groups.per_unit * machine.cores * most:
            return None
        beside = min(COLUMNS, found.beside(group))
        size = _items_for(found.extent, most // beside)
    shape = found.shape(program, group, size, beside)
    return None if hands_on(group, shape.dealt) else shape


def candidates(program: pr.Program, group: Group, machine: Machine) -> Iterator[WorkGroupShape]:
    """The shapes that there are to choose from, those of large groups first."""
    found, most = _reduction(program, group), min(MAX_WORK_GROUP, machine.max_work_group)
    if found is not None:
        sides = [1 << n for n in range(most.bit_length())]
        pairs = [(size, beside) for size in sides for beside in sides if 1 < size <= _power(found.extent)
                 and beside <= found.beside(group) and FEWEST <= size * beside <= most]
        yield from (found.shape(program, group, *p) for p in sorted(pairs, key=lambda p: (-prod(p), -p[0])))


def shaped(program: pr.Program, group: Group, rows: tuple[int, ...], items: tuple[int, ...]) -> WorkGroupShape | str:
    """The shape that somebody else wants, or why there is none such."""
    found = _reduction(program, group)
    if found is None or row_tensors(group) is None:
        return "it is no group of statements around reductions that items can divide"
    if len(items) != 2 or any(n & (n - 1) for n in items) or items[found.axis] < 2:
        return f"`items` is two powers of two, those that reduce together along axis {found.axis}"
    beside = items[1 - found.axis]
    wanted = (found.row,) if beside > 1 and found.row is not None else ()
    if beside > found.beside(group) or rows != wanted:
        row = "no row" if found.row is None else group.rows[found.row][0]
        return f"the other axis has up to {found.beside(group)} items, along {row}; without `rows` there is 1"
    shape = found.shape(program, group, items[found.axis], beside)
    other = hands_on(group, shape.dealt)
    return f"items would read what others make of {other}" if other else shape


def apart(program: pr.Program, group: Group) -> tuple[Group, ...]:
    """A group, or its statements in smaller ones, where items that reduce together would read what others make."""
    found = _reduction(program, group)
    if found is None or not hands_on(group, found.shape(program, group, 2, 1).dealt):
        return (group,)
    return tuple(partition(replace(program, statements=group.statements), "min"))


@dataclass(frozen=True)
class _Reduction:
    """The reduction of a group that its items divide. axis: see WorkGroupShape; extent: of what they divide; row: what the
    other axis walks, None where there is nothing; long: what they divide is one loop of several, as where the sizes of an image
    stay open."""

    axis: int
    extent: int
    row: int | None
    long: bool

    def beside(self, group: Group) -> int:
        """Items of the other axis at most."""
        return 1 if self.row is None else _power(group.extents[self.row])

    def shape(self, program: pr.Program, group: Group, size: int, beside: int) -> WorkGroupShape:
        """The shape with so many items along both axes."""
        dealt = tuple(_dealt(program, x, group, n, self.axis) for n, x in enumerate(group.statements))
        items = (size, beside) if self.axis == 0 else (beside, size)
        return WorkGroupShape(self.axis, items, self.row if beside > 1 else None, dealt)


def _reduction(program: pr.Program, group: Group) -> _Reduction | None:
    """The heaviest reduction of a group of which items can divide all."""
    reductions = [n for n, s in enumerate(group.statements) if reduced_indices(s)]
    if not reductions or not all(_fits(s, group, n) for n, s in enumerate(group.statements)):
        return None
    at = max(reductions, key=lambda n: group.statements[n].points)
    s = group.statements[at]
    reduced = {i: s.extents[i] for i in reduced_indices(s)}
    walked = fastest_index(program, s, reduced)
    if walked in reduced:
        row = max(range(len(group.rows)), key=lambda r: (group.extents[r], r), default=None)
        return _Reduction(0, reduced[walked], row, prod(reduced.values()) > reduced[walked])
    rows = {row[at]: r for r, row in enumerate(group.rows)}
    return _Reduction(1, max(reduced.values()), rows[walked], len(reduced) > 1)


def _fits(s: pr.Statement, group: Group, position: int) -> bool:
    """A statement whose loops that are not shared are either all reduced, or all independent."""
    inner = {r.index for r in group.inner(position)}
    reduced = set(reduced_indices(s))
    free = s.op is not None or set(coincident_indices(s)) == set(s.indices)
    return not (s.bounds or s.loops or pr.scatters(s)) and free and reduced in (set(), inner)


def fastest_index(program: pr.Program, s: pr.Statement, reduced: dict[str, int]) -> str:
    """The index along which the accesses of an update are contiguous, else the last one that it reduces."""
    accesses = of_statement(program, s)
    score = {i: vector_score(accesses, i) for i in s.indices}
    best = max(s.indices, key=lambda i: (score[i], i in reduced))
    return best if score[best] > 0 else list(reduced)[-1]


def _items_for(extent: int, most: int) -> int:
    """Items for so many iterations: a power of two, ELEMENTS_PER_ITEM iterations for each, but a whole warp of 32 if there are
    as many."""
    size = most
    while size > MIN_ITERATIONS and size * ELEMENTS_PER_ITEM > max(extent, ELEMENTS_PER_ITEM * 32) or size > max(2, extent):
        size //= 2
    return size


def _power(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()


def _dealt(program: pr.Program, s: pr.Statement, group: Group, position: int, axis: int) -> str:
    inner = group.inner(position)
    if not inner:
        return ""
    if axis == 1:
        return max(inner, key=lambda r: r.extent).index
    accesses = of_statement(program, s)
    return max(inner, key=lambda r: (vector_score(accesses, r.index), r.extent)).index


def row_tensors(group: Group) -> dict[str, tuple[pr.Expr, ...]] | None:
    """The tensors that the group makes of which each row has one element, and its place over the first statement's indices;
    None if a reduction has another target, or a row is not the same wherever it is used."""
    places: dict[str, set[tuple[pr.Expr, ...]]] = {}
    for n, s in enumerate(group.statements):
        names: dict[str, pr.Expr] = {row[n]: pr.Index(row[0]) for row in group.rows}
        for tensor, cell in ((s.target, s.subscripts), *((r.tensor, r.subscripts) for r in pr.reads(s))):
            own = [e.name for sub in cell for e in pr.walk(sub) if isinstance(e, pr.Index) and e.name in s.indices]
            alone = all(i in names for i in own)
            known = places.setdefault(tensor, set())
            known.add(tuple(pr.substitute(sub, names) for sub in cell) if alone else (pr.Index(""),))
    written = {s.target for s in group.statements}
    found = {t: next(iter(cells)) for t, cells in places.items() if t in written and len(cells) == 1}
    found = {t: cell for t, cell in found.items() if cell != (pr.Index(""),) and _tells(group, cell)}
    return found if all(s.target in found for s in group.statements if reduced_indices(s)) else None


def hands_on(group: Group, dealt: tuple[str, ...]) -> str:
    """A tensor of which an item reads what another one makes, nobody waiting in between; '' if there is none."""
    made: dict[str, set[tuple[pr.Expr, ...]]] = {}
    used: dict[str, set[tuple[pr.Expr, ...]]] = {}
    for n, s in enumerate(group.statements):
        inner = [r.index for r in group.inner(n)]
        order = sorted(inner, key=lambda i: i != dealt[n])
        names: dict[str, pr.Expr] = {i: pr.Index(f"{k} of an item") for k, i in enumerate(order)}
        names |= {row[n]: pr.Index(row[0]) for row in group.rows}
        for tensor, cell, found in ((s.target, s.subscripts, made), *((r.tensor, r.subscripts, used) for r in pr.reads(s))):
            if set(inner) & {e.name for sub in cell for e in pr.walk(sub) if isinstance(e, pr.Index)}:
                found.setdefault(tensor, set()).add(tuple(pr.substitute(sub, names) for sub in cell))
    return next((t for t, cells in made.items() if len(cells | used.get(t, cells)) > 1), "")


def _tells(group: Group, cell: tuple[pr.Expr, ...]) -> bool:
    """Does each row have an element of its own?"""
    forms = [linear(sub) for sub in cell]
    return {row[0] for row in group.rows} <= {f.index for f in forms if f is not None}
