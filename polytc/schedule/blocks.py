"""How the work-items of a group divide a contraction: sizes of tiles, from a machine's numbers.

A group computes a tile of the result, each of its items `rows` x `columns` elements in registers, and walks the reduction in
steps for which tiles of the operands fit local memory. The estimate weighs multiply-adds against the operands that each needs
(Volkov, Better Performance at Lower Occupancy, GTC 2010) and rounds work up to whole rounds of all compute units.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil, prod

from polytc.lang import program as pr
from polytc.lang.linear import linear
from polytc.machine import Machine
from polytc.schedule import regions
from polytc.schedule.groups import Group, about, is_contraction, reduced_indices
from polytc.schedule.strides import of_statement, vector_score

GROUP = 256
"""Work-items of a group at most: more share too few registers."""
LEAST = 64
"""Work-items of a group at least: fewer would copy too much each, and fill no wave of AMD's."""
DEPTHS = (16, 32, 24, 20, 12, 8)
"""Steps of the reduction between two barriers, by preference; the first that divides its extent, else the first."""
SMALL = 6
"""Iterations of a loop, or steps of the reduction, below which tiles gain nothing; those of 7, as in the last images of
networks, gain though half of a tile is beyond their ends."""
WINDOW = 64
"""Steps of the other reduction loops that run between two barriers at most."""


@dataclass(frozen=True)
class Blocking:
    """x, y: the rows of a group whose loops are divided among the items, x along the fastest axis. items: work-items along x
    and y; points: elements of an item along x and y; lanes: neighbours along x that are one vector. depth: steps between two
    barriers of the reduced indices that go on inside; the others run outside."""

    x: int
    y: int
    items: tuple[int, int]
    points: tuple[int, int]
    lanes: int
    depth: tuple[tuple[str, int], ...]

    @property
    def tile(self) -> tuple[int, int]:
        """Elements of the group's tile along x and y."""
        return self.items[0] * self.points[0], self.items[1] * self.points[1]


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
    """Does each iteration of the shared loops have an element of its own in the target, and no other loop but a reduction's?"""
    row = [r[position] for r in group.rows]
    forms = [linear(sub) for sub in s.subscripts]
    inner = {r.index for r in group.inner(position)}
    plain = {f.plain for f in forms if f is not None}
    whole = (s.op is not None or about(s, row) == s.where) and regions.fits(s) and not s.bounds and not s.loops
    return whole and None not in forms and set(row) <= plain and inner == set(reduced_indices(s))


def choose(program: pr.Program, group: Group, machine: Machine) -> Blocking | None:
    """The tiles for a group around one contraction; None if it is no such group, or too small to gain."""
    at = heavy(group)
    if at is None:
        return None
    s = group.statements[at]
    accesses = of_statement(program, s)
    names = [row[at] for row in group.rows]
    large = [r for r in range(len(names)) if group.extents[r] >= SMALL]
    steps = prod(r.extent for r in s.ranges if r.index in reduced_indices(s))
    if len(large) < 2 or steps < SMALL:
        return None
    x = max(large, key=lambda r: (vector_score(accesses, names[r]), r))
    reads = [a for a in accesses if not a.write]
    partners = [r for r in large if r != x and any(a.stride(names[r]) == 0 for a in reads) and
                any(a.stride(names[x]) == 0 and a.stride(names[r]) != 0 for a in reads)]
    if not partners:
        return None
    y = max(partners, key=lambda r: (group.extents[r], r))
    lanes = machine.lanes(max(a.width for a in accesses))
    extents = group.extents[x], group.extents[y]
    others = prod(group.extents) // prod(extents)
    sizes = min(_sizes(machine, lanes), key=lambda size: _time(size, extents, others, machine))
    items, points = sizes
    found = Blocking(x, y, items, points, lanes, ())
    depth = _depth(program, s, {names[x]: found.tile[0], names[y]: found.tile[1]}, machine)
    return Blocking(x, y, items, points, lanes, depth)


def _sizes(machine: Machine, lanes: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """(items, points) along x and y that the machine's groups and registers allow."""
    most = min(GROUP, machine.max_work_group)
    items = [(x, y) for x, y in product((4, 8, 16, 32), (1, 2, 4, 8, 16)) if LEAST <= x * y <= most]
    points = [(x, y) for x, y in product((lanes, 2 * lanes, 4 * lanes), (1, 2, 4, 8))
              if x <= 8 and x * y + 2 * (x + y) + 24 <= machine.item_registers]
    return list(product(items, points or [(lanes, 1)]))


def _time(size: tuple[tuple[int, int], tuple[int, int]], extents: tuple[int, int], others: int, machine: Machine
          ) -> tuple[float, int, int]:
    """Of the whole contraction, in multiply-adds of an item; then the larger group, and the one that is nearer to a square."""
    (ix, iy), (px, py) = size
    groups = others * ceil(extents[0] / (ix * px)) * ceil(extents[1] / (iy * py))
    rounds = ceil(groups * ix * iy / (machine.cores * GROUP))
    operands = (px + py) / (px * py) + 0.5 * (1 / (ix * px) + 1 / (iy * py)) * 4
    return rounds * GROUP * px * py * (1 + operands), -ix * iy, abs(ix * px - iy * py)


def _depth(program: pr.Program, s: pr.Statement, tiles: dict[str, int], machine: Machine) -> tuple[tuple[str, int], ...]:
    """Steps of the reduced indices between two barriers: all of those with few, of the longest what fits local memory."""
    reduced = {r.index: r.extent for r in s.ranges if r.index in reduced_indices(s)}
    longest = max(reduced, key=lambda i: (reduced[i], i))
    inner: dict[str, int] = {}
    for index in sorted((i for i in reduced if i != longest), key=lambda i: reduced[i]):
        if prod(inner.values()) * reduced[index] <= WINDOW:
            inner[index] = reduced[index]
    extent = reduced[longest]
    steps = [extent] if extent <= DEPTHS[0] else [d for d in DEPTHS if extent % d == 0] or [DEPTHS[0]]
    kept = [dict(list(inner.items())[:count]) for count in range(len(inner), -1, -1)]
    whole = [(inside, step) for inside in kept[:None if extent <= DEPTHS[0] else 1] for step in steps]
    for inside, step in [*whole, *product(kept, [d for d in (8, 4, 2, 1) if d <= extent])]:
        if footprint(program, s, tiles | inside | {longest: step}) <= machine.local_bytes // 2:
            return (*inside.items(), (longest, step))
    return ((longest, 1),)


def footprint(program: pr.Program, s: pr.Statement, sizes: dict[str, int]) -> int:
    """Bytes of the elements that the reads of a statement touch while its indices walk so many iterations, others one."""
    total = 0
    for r in pr.reads(s):
        forms = [linear(sub) for sub in r.subscripts]
        box = prod(1 + sum(abs(c) * (sizes.get(i, 1) - 1) for i, c in f.terms) for f in forms if f is not None)
        total += box * max(4, r.dtype.bytes)
    return total
