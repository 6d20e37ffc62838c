"""How the items of work-groups divide groups of statements: what there is to choose from, polytc's choice, lines of a record.

    local_tiles S1: by=blocks                                                       # a long sum, for its accuracy
    local_tiles S1: by=parts along=k steps=2                                        # groups divide the sum, too
    local_tiles S1: by=parts along=i,H steps=61,16                                  # of a histogram H, and ranges of H, too
    local_tiles S1: by=atomics items=256 elements=16 along=i steps=1024              # with 16 copies of it in local memory
    local_tiles S1_init: by=tiles rows=j,i items=16,16 elements=4,4 along=k steps=16
    local_tiles S1_init: by=matrix rows=j,i items=4,16,4 elements=8,8 along=k steps=32
    local_tiles S1_init: by=registers rows=j,i items=16,16 elements=4,4 along=k steps=4
    local_tiles S2_init: by=reduction rows=i items=64,4
    local_tiles S3: by=transposition rows=j,i

A line is called after the first statement of its group, as it is when sums have their blocks and parts. What no line is about
stays as it is: each instance is an item's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeVar

from polytc.machine import Estimate, Machine
from polytc.program import program as pr
from polytc.program.calls.words import DOTS
from polytc.rewrite.gpu import (
    contraction_tiles,
    histogram_shapes,
    local_transpose,
    scattered_parts,
    split_reduction,
    work_group_shape,
)
from polytc.rewrite.gpu.contraction_tiles import Blocking
from polytc.rewrite.gpu.histogram_shapes import Histogram
from polytc.rewrite.gpu.local_transpose import TransposedRows
from polytc.rewrite.gpu.split_reduction import Decide, Parts
from polytc.rewrite.gpu.work_group_shape import WorkGroupShape
from polytc.rewrite.step import Reasons
from polytc.schedule.decisions import Misfit
from polytc.schedule.facts.fusion_groups import Group

BLOCKS, PARTS, ATOMICS, TILES, MATRIX, REGISTERS, REDUCTION, TRANSPOSITION = WAYS = (
    "blocks", "parts", "atomics", "tiles", "matrix", "registers", "reduction", "transposition")
"""What a line may say that is done."""

Cut = Blocking | TransposedRows | WorkGroupShape
D = TypeVar("D")


@dataclass(frozen=True)
class Divided:
    """by: see WAYS. rows: the shared loops that are divided, by the indices of the first statement, the fastest axis first;
    items: of a group along each axis, of a matrix unit 4, a multiple of 8, and warps side by side; elements: of an item along
    each, of atomics copies of the target in a group. along, steps: of tiles, the reduced indices, by those of the contraction,
    that run between two copies of the operands, and how far; of parts, the index that is divided, and into how many; of a
    scattered update the target, too, with its ranges."""

    statement: str
    by: str
    rows: tuple[str, ...] = ()
    items: tuple[int, ...] = ()
    elements: tuple[int, ...] = ()
    along: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()


@dataclass
class Division:
    """Who decides. parts: how groups divide a reduction, of (program, statement, the indices whose extents stay open); cut: how
    items divide a group, of (program, group), both for typical sizes; weighs: whether `for` loops stay as they are where
    launches take longer. choices, why: collected meanwhile."""

    parts: Decide
    cut: Callable[[pr.Program, Group], Cut | None]
    weighs: bool = False
    choices: list[Divided] = field(default_factory=list)
    why: Reasons = field(default_factory=Reasons)


def own(machine: Machine) -> Division:
    """polytc decides."""
    division = Division(lambda program, s, open_: _noted(split_reduction.choose(program, s, machine, open_, division.why), s),
                        lambda program, group: _cut(program, group), weighs=True)

    def _noted(parts: Parts | Histogram | None, s: pr.Statement) -> Parts | Histogram | None:
        if parts is not None:
            division.choices.append(of_parts(s, parts))
        return parts

    def _cut(program: pr.Program, group: Group) -> Cut | None:
        cut = choose(program, group, machine, division.why)
        if cut is not None:
            division.choices.append(written(group, cut))
        return cut
    return division


@dataclass
class Given:
    """What lines say. met: those about what is there; misfits: those that do not fit, and why."""

    machine: Machine
    lines: tuple[Divided, ...]
    met: set[Divided] = field(default_factory=set)
    misfits: dict[Divided, str] = field(default_factory=dict)

    @property
    def division(self) -> Division:
        return Division(self.parts, self.cut)

    def parts(self, program: pr.Program, s: pr.Statement, open_: set[str]) -> Parts | Histogram | None:
        return self._taken(s, (PARTS, ATOMICS), lambda line: _read_parts(program, s, line, open_) if line.by == PARTS else
                           _read_atomics(program, s, line, open_, self.machine))

    def cut(self, program: pr.Program, group: Group) -> Cut | None:
        return self._taken(group.statements[0], (TILES, MATRIX, REGISTERS, REDUCTION, TRANSPOSITION),
                           lambda line: read(program, group, self.machine, line))

    def _taken(self, s: pr.Statement, ways: tuple[str, ...], made: Callable[[Divided], D]) -> D | None:
        """What is made of the line of a statement, if it has one that fits."""
        line = next((x for x in self.lines if x.statement == s.name and x.by in ways), None)
        if line is None:
            return None
        self.met.add(line)
        try:
            return made(line)
        except Misfit as why:
            self.misfits[line] = str(why)
            return None


def choose(program: pr.Program, group: Group, machine: Machine, why: Reasons) -> Cut | None:
    """How the items of work-groups divide a group of statements; None if each instance is to be an item's."""
    told = ", ".join(s.name for s in group.statements)
    tiles = contraction_tiles.choose(program, group, machine)
    if tiles is not None:
        why.acts(told, _reason(program, group, machine, tiles))
        return tiles
    turn = local_transpose.choose(program, group, machine)
    if turn is not None:
        why.acts(told, "transposed through local memory: no index walks along all that it touches")
        return turn
    shape = work_group_shape.choose(program, group, machine)
    if shape is None or work_group_shape.row_tensors(group) is None:
        why.declines(told, "divided: each instance is an item's, which does as well")
        return None
    why.acts(told, "the items of a group reduce together")
    return shape


def _reason(program: pr.Program, group: Group, machine: Machine, tiles: Blocking) -> str:
    """Why a contraction is divided so."""
    extents = [" x ".join(map(str, numbers)) for numbers in (tiles.tile, tiles.items, tiles.elements[:2])]
    known = contraction_tiles.seconds(program, group, machine)
    unit, otherwise = map(_told, known) if known is not None else ("", "")
    dots = any(isinstance(s.value, pr.Call) and s.value.fn in DOTS for s in group.statements)
    if tiles.matrix:
        return f"tiles of {extents[0]} results by {extents[1]} items, multiplied by the matrix unit in steps of " \
            f"{tiles.depth[0][1]}: {unit}; {otherwise} by {'dot products' if dots else 'multiply-adds'}"
    slow = "" if machine.fast_local_memory else ", as local memory is no faster than the caches"
    where = "in local memory" if tiles.staged else f"read into registers for {extents[2]} results of each item{slow}"
    return f"tiles of {extents[0]} results by {extents[1]} items, operands {where}" + (
        f": {otherwise}; {unit} by the matrix unit" if unit else "")


def _told(seconds: float) -> str:
    """`1.2 ms`."""
    return Estimate(arithmetic=seconds).told


def candidates(program: pr.Program, group: Group, machine: Machine) -> Iterator[tuple[Cut, float | None]]:
    """The ways in which items may divide a group, with the multiply-adds of an item where these are counted."""
    yield from contraction_tiles.candidates(program, group, machine)
    turn = local_transpose.choose(program, group, machine)
    yield from ((x, None) for x in (turn,) if x is not None)
    if work_group_shape.row_tensors(group) is not None:
        yield from ((shape, None) for shape in work_group_shape.candidates(program, group, machine))


# ---- lines

def of_parts(s: pr.Statement, parts: Parts | Histogram) -> Divided:
    """The line of a reduction that groups divide."""
    more = [(s.target, parts.ranges)] if parts.ranges > 1 else []
    if isinstance(parts, Histogram):
        along, steps = zip((parts.index, parts.parts), *more, strict=True)
        return Divided(s.name, ATOMICS, items=(parts.items,), elements=(parts.copies,), along=along, steps=steps)
    along, steps = zip((parts.index, parts.count), *more, strict=True)
    return Divided(s.name, PARTS, along=along, steps=steps)


def written(group: Group, cut: Cut) -> Divided:
    """The line of a group."""
    name = group.statements[0].name
    match cut:
        case Blocking():
            rows, (along, steps) = tuple(group.rows[r][0] for r in cut.rows), zip(*cut.depth, strict=True)
            by = MATRIX if cut.matrix else TILES if cut.staged else REGISTERS
            return Divided(name, by, rows, cut.items, cut.elements, along, steps)
        case TransposedRows():
            return Divided(name, TRANSPOSITION, (group.rows[cut.x][0], group.rows[cut.y][0]))
        case WorkGroupShape():
            return Divided(name, REDUCTION, (group.rows[cut.row][0],) if cut.row is not None else (), cut.items)


def _read_parts(program: pr.Program, s: pr.Statement, line: Divided, open_: set[str]) -> Parts:
    """The parts that a line says. Raises Misfit."""
    possible = split_reduction.indices(program, s, open_)
    ranges = line.steps[1] if len(line.steps) == 2 and line.along[1:] == (s.target,) and pr.scatters(s) else 0
    if len(line.along) != len(line.steps) or len(line.along) != 1 + (ranges > 0) or line.along[0] not in possible:
        raise Misfit(f"groups may divide {s.name} along {' or '.join(possible) or 'no index'}")
    most = program.tensor(s.target).shape[scattered_parts.gathered(program, s)] if ranges else 0
    if ranges and not 2 <= ranges <= most:
        raise Misfit(f"{s.target} may be divided into 2 to {most} ranges")
    if not 2 - (ranges > 0) <= line.steps[0] <= possible[line.along[0]]:
        raise Misfit(f"there may be 2 to {possible[line.along[0]]} parts along {line.along[0]}")
    return replace(split_reduction.parts(program, s, line.along[0], line.steps[0]), ranges=max(1, ranges))


def _read_atomics(program: pr.Program, s: pr.Statement, line: Divided, open_: set[str], machine: Machine) -> Histogram:
    """The copies in local memory that a line says. Raises Misfit."""
    update = histogram_shapes.update(program, s, open_)
    if isinstance(update, str):
        raise Misfit(f"{s.name} is not updated in local memory: {update}")
    numbers = (*line.items, *line.elements, *line.steps)
    if len(line.items) != 1 or len(line.elements) != 1 or not 1 <= len(line.along) == len(line.steps) <= 2 or min(numbers) < 1:
        raise Misfit("one number of `items` and `elements`, and `steps` for an index and perhaps the target")
    if line.along[1:] not in ((), (s.target,)) or line.items[0] > machine.max_work_group or line.items[0] & line.items[0] - 1:
        raise Misfit(f"`along` is an index, and {s.target}; `items` a power of two up to {machine.max_work_group}")
    if line.elements[0] & line.elements[0] - 1 or line.elements[0] > histogram_shapes.MOST_COPIES:
        raise Misfit(f"`elements` is a power of two up to {histogram_shapes.MOST_COPIES}")
    by = Histogram(line.along[0], line.steps[0], line.steps[1] if len(line.steps) > 1 else 1, line.elements[0], line.items[0])
    why = histogram_shapes.misfit(program, s, update, by, open_, machine)
    if why:
        raise Misfit(why)
    return by


def read(program: pr.Program, group: Group, machine: Machine, line: Divided) -> Cut:
    """The division that a line says. Raises Misfit."""
    at = {row[0]: r for r, row in enumerate(group.rows)}
    if any(name not in at for name in line.rows):
        raise Misfit(f"the shared loops are {', '.join(at) or 'none'}")
    rows = tuple(at[name] for name in line.rows)
    if line.by == TRANSPOSITION:
        turn = local_transpose.choose(program, group, machine)
        if turn is None or (turn.x, turn.y) != rows:
            raise Misfit("there is nothing to transpose" if turn is None else
                         f"`rows` is {group.rows[turn.x][0]},{group.rows[turn.y][0]}")
        return turn
    if min(line.items, default=0) < 1 or prod(line.items) > machine.max_work_group:
        raise Misfit(f"`items` are 1 to {machine.max_work_group} in all")
    if line.by == REDUCTION:
        shape = work_group_shape.shaped(program, group, rows, line.items)
        if isinstance(shape, str):
            raise Misfit(shape)
        return shape
    depth = tuple(zip(line.along, line.steps, strict=False))
    found = contraction_tiles.shaped(program, group, machine,
                                     Blocking(rows, line.items, line.elements, 1, depth, staged=line.by != REGISTERS,
                                              matrix=line.by == MATRIX))
    if isinstance(found, str):
        raise Misfit(found)
    return found
