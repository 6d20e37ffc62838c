"""Scans in blocks, so that threads and work-items share them: what each block adds up, what comes before each, and the rest.

    for i in 1:4001 { x[i] += x[i-1] }                  with inout x[4001] on mali
    ->  x_sums[i_block] += x[i_at + 64*i_block + 1] where i_block in 0:62, i_at in 0:64
        x_before[0] = x[0];  x_before[i_block] = x_before[i_block - 1] + x_sums[i_block - 1] where i_block in 1:63
        x_scan[i_block,0] = x_before[i_block]
        x_scan[i_block, i_at + 1] = x_scan[i_block,i_at] + (i_at + 64*i_block < 4000 ? x[i_at + 64*i_block + 1] : 0.0)
        x[i_at + 64*i_block + 1] = x_scan[i_block, i_at + 1] where i_at + 64*i_block < 4000

of associative operators, for prefix reductions (rewrite.tidy.scan) and for recurrences `P[i] = P[i-1] + v[i]`, alone in a `for`
loop. What comes before the blocks is a scan again, and made in blocks while it is long. (Blelloch, Prefix Sums and Their
Applications, 1990; two passes as in Sengupta et al., Scan Primitives for GPU Computing, 2007.) Where GPUs have fast local
memory, the items of work-groups scan together (rewrite.gpu.work_group_scans).

Blocks follow from the extent and the machine, never from the number of threads: results are the same for all of them. Floats
are added up in another order than that of the text, as in reductions: not in precise programs. Of open sizes the typical ones
decide how long blocks are, and how often what comes before them is made in blocks; the last block is a part of one, or empty.
Where the extent may be below 0 there may be no block at all; an element of what comes before them is there all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64, identity
from polytc.program.sizes import Size, shortfall
from polytc.rewrite.gpu import scan_shapes
from polytc.rewrite.gpu.scan_shapes import LOOK_BACK
from polytc.rewrite.gpu.work_group_scans import GroupedScan, columns, tile_elements, tiles
from polytc.rewrite.scan_statements import Scan, scan_of, with_start
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP

BLOCK = 128
"""Elements of a block that an item scans at most."""
THREADED = 1 << 13
"""Elements of a block of a thread."""
FEW = 64
"""Elements of a scan that one item does as well; and fewer than two blocks of what comes before others."""
CORES = 4
"""Of a processor at least: everything is read twice."""


@dataclass(frozen=True)
class Blocks:
    """The scan of a statement is made in blocks of so many elements; items: of the work-group that scans a block together,
    along x and y, none where an item or a thread does. Of such groups a block of 0 elements is all of a row. by:
    'look_back' where groups find by themselves what comes before their blocks (rewrite.gpu.look_back)."""

    statement: str
    elements: int
    items: tuple[int, ...] = ()
    by: str = ""


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The scans that one item or thread would be busy with for longer than with all that blocks take more."""
    chosen, why = list[Blocks](), Reasons()
    for s in program.statements:
        found = scan_of(program, s)
        if found is None:
            continue
        told = f"a scan of {found.along.extent} elements along {found.along.index}"
        shape = scan_shapes.best(s, found, machine)
        if shape is not None:
            chosen.append(_blocks(s, shape))
            why.acts(s.name, f"{told}, {_told(s, found, shape, machine)}")
            continue
        elements = _block(s, found, machine)
        if elements >= _least(found):
            chosen.append(Blocks(s.name, elements))
            why.acts(s.name, f"{told}, {elements} in a block")
        else:
            why.declines(s.name, f"in blocks: {told} is short, or others run beside it")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def _told(s: pr.Statement, found: Scan, shape: scan_shapes.Shape, machine: Machine) -> str:
    """What was chosen, and what the other ways take."""
    others = scan_shapes.ways(s, found, machine)
    way, names = scan_shapes.way(shape), {"rows": "whole rows", "blocks": "in three launches", LOOK_BACK: "in one pass"}
    told = [f"{names[n]} {x.time}" for n, x in others.items() if n != way]
    if LOOK_BACK not in others and "blocks" in others:
        told.append(f"not {names[LOOK_BACK]}: {scan_shapes.cannot_look_back(shape.items, s, found, machine)}")
    own = "whole" if way == "rows" else f"blocks of {shape.elements} elements {names[way]}"
    return (f"{own} by groups of {' x '.join(map(str, shape.items))} items that scan together, estimated: {shape.time}; "
            f"{'; '.join(told)}{'; ' if told else ''}one item each {scan_shapes.alone(s, found, machine)}")


def split(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen scans in blocks."""
    by, names = {c.statement: c for c in decision.choices}, Names.of(program)
    tensors, statements = list(program.tensors), list[pr.Statement]()
    for s in program.statements:
        choice = by.get(s.name)
        if choice is None:
            statements.append(s)
        elif choice.items:
            start = statements[-1] if statements else None
            found = scan_of(program, s)
            assert found is not None, "parallel scans: no scan"
            whole = with_start(found, s, start)
            if whole is not None:
                statements.pop()
            made = GroupedScan(s, whole or found, choice.elements, (choice.items[0], choice.items[1]), names,
                               choice.by == LOOK_BACK).add()
            statements += made.statements
            tensors += made.tensors
        else:
            added, more = _in_blocks(replace(program, tensors=tuple(tensors)), s, choice.elements, names)
            statements += added
            tensors += more
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def _in_blocks(program: pr.Program, s: pr.Statement, elements: int, names: Names
               ) -> tuple[list[pr.Statement], list[pr.Tensor]]:
    """The statements and the new tensors of a scan in blocks of an item or a thread each."""
    left: pr.Statement | None = s
    tensors, ahead, behind = list[pr.Tensor](), list[pr.Statement](), list[pr.Statement]()
    while left is not None:
        blocked = _Blocked(replace(program, tensors=(*program.tensors, *tensors)), left, elements, names)
        tensors += blocked.tensors
        ahead += blocked.sums
        behind[:0] = blocked.rest
        left = blocked.before
        if int(left.ranges[-1].extent) < max(FEW, 2 * elements):
            ahead.append(left)
            left = None
    return [*ahead, *behind], tensors


def fits(program: pr.Program, machine: Machine, choice: Blocks) -> str:
    """Why a statement is not made in blocks; '' if it can be."""
    found = scan_of(program, program.statement(choice.statement))
    if found is None:
        return f"{choice.statement} is no scan with an associative operator"
    if choice.by and (choice.by != LOOK_BACK or not choice.items):
        return f"`by` is {LOOK_BACK}, with `items`, or is not there"
    if choice.items:
        return _groups_fit(program.statement(choice.statement), found, machine, choice)
    least, most = _least(found), int(found.along.extent) // 2
    return "" if least <= choice.elements <= most else f"a block has {least} to {most} elements"


def _groups_fit(s: pr.Statement, found: Scan, machine: Machine, choice: Blocks) -> str:
    if machine.kind != "gpu" or not scan_shapes.fits(choice.items, 1, s, found, machine, bool(choice.by)):
        return "`items` are two numbers from 2, those of a work-group that has local memory enough"
    whole = tile_elements((choice.items[0], choice.items[1]), columns(s, found) is not None)
    if whole < _least(found):
        return f"a group takes {_least(found)} elements at once at least"
    why = scan_shapes.cannot_look_back(choice.items, s, found, machine) if choice.by else ""
    if why or choice.by and choice.elements != whole:
        return why or f"a group that looks back has {whole} elements"
    good = choice.elements % whole == 0 and 0 <= 2 * choice.elements <= int(found.along.extent)
    return "" if good else f"a block has a multiple of {whole} elements, half of a row at most, or 0 for all of it"


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each scan, that it is made in blocks or not."""
    found = [(s, x) for s in program.statements if (x := scan_of(program, s)) is not None]
    return [[Option(), *(Option((choice,)) for choice in _choices(s, x, machine))] for s, x in found]


def _choices(s: pr.Statement, found: Scan, machine: Machine) -> list[Blocks]:
    """Groups by their time, then items or threads."""
    grouped = sorted(scan_shapes.shapes(s, found, machine), key=lambda x: x.time.seconds)
    sizes = (n for n in (32, BLOCK, 512, THREADED) if _least(found) <= n <= int(found.along.extent) // 2)
    return [*(_blocks(s, x) for x in grouped), *(Blocks(s.name, n) for n in sizes)]


def _blocks(s: pr.Statement, shape: scan_shapes.Shape) -> Blocks:
    return Blocks(s.name, shape.elements, shape.items, LOOK_BACK if shape.look_back else "")


def _least(found: Scan) -> int:
    """Elements of a block at least: of an extent that may be below 0, so many that it is so by one block at most."""
    return max(2, shortfall(found.along.extent) or 0)


def _block(s: pr.Statement, found: Scan, machine: Machine) -> int:
    """Elements of a block; 0 where the scan is short, or enough others run beside it."""
    extent, beside = int(found.along.extent), prod(int(r.extent) for r in s.ranges if r is not found.along)
    if machine.kind == "gpu":
        launches = machine.costs.launches
        busy = beside >= machine.costs.groups.per_unit * machine.cores * MAX_WORK_GROUP
        long = launches.step / scan_shapes.AHEAD * extent > 8 * launches.launch
        return min(BLOCK, 1 << (extent.bit_length() // 2)) if long and not busy else 0
    threaded = machine.cores >= CORES and not machine.max_work_group
    return THREADED if threaded and beside < machine.cores and extent >= 2 * CORES * THREADED else 0


# ---- the rewrite

class _Blocked:
    """What a scan becomes. sums: of each block; before: the scan of what comes before each; rest: the elements."""

    def __init__(self, program: pr.Program, s: pr.Statement, elements: int, names: Names) -> None:
        found = scan_of(program, s)
        assert found is not None, "parallel scans: no scan"
        self.s, self.found, self.elements, self.names = s, found, elements, names
        self.dtype = program.tensor(s.target).dtype
        self.kept = tuple(r for r in s.ranges if r is not found.along)
        self.tensors: list[pr.Tensor] = []
        along, count = found.along, tiles(found.along.extent, elements)
        spare = 1 if shortfall(along.extent) else 0  # there may be no block, and one fewer of whole ones
        self.block = pr.Range(names.index(f"{along.index}_block"), 0, count)
        self.at = pr.Range(names.index(f"{along.index}_at"), 0, elements)
        whole = replace(self.block, upper=count - 1)
        total, self.offset, self.inside = (self._tensor(n, e) for n, e in (
            ("sums", (count - 1 + spare,)), ("before", (count + spare,)), ("scan", (count, elements + 1))))
        neutral = pr.Const(identity(found.op, self.dtype), self.dtype)
        block = pr.Index(self.block.index)
        self.sums = [self._statement("sums_init", total, (block,), neutral, (whole,)),
                     replace(self._statement("sums", total, (block,), self._moved(found.term), (whole, self.at)), op=found.op)]
        self.before = self._offsets(total, neutral, block)
        self.rest = self._elements(neutral, block)

    def _tensor(self, kind: str, extents: tuple[int, ...]) -> str:
        """A new tensor with an element for each of what runs beside the scan, and more."""
        name = self.names.label(f"{self.s.target}_{kind}")
        shape = (*(r.extent for r in self.kept), *extents)
        self.tensors.append(pr.Tensor(name, self.dtype, shape, (*(r.lower for r in self.kept), *(0 for _ in extents))))
        return name

    def _cell(self, *inner: pr.Expr) -> tuple[pr.Expr, ...]:
        return (*(pr.Index(r.index) for r in self.kept), *inner)

    def _statement(self, label: str, target: str, cell: tuple[pr.Expr, ...], value: pr.Expr, ranges: tuple[pr.Range, ...]
                   ) -> pr.Statement:
        return pr.Statement(self.names.label(f"{self.s.name}_{label}"), target, self._cell(*cell), None, value,
                            (*self.kept, *ranges), span=self.s.span)

    @property
    def _place(self) -> pr.Expr:
        """The value of the scan's index, from its first one."""
        block = pr.Binary("*", pr.Const(self.elements, I64), pr.Index(self.block.index), I64)
        return normalise(pr.Binary("+", pr.Index(self.at.index), block, I64))

    def _moved(self, e: pr.Expr) -> pr.Expr:
        along = self.found.along
        return normalise(pr.substitute(e, {along.index: pr.Binary("+", self._place, pr.Const(along.lower, I64), I64)}))

    def _read(self, name: str, *cell: pr.Expr) -> pr.Read:
        return pr.Read(name, self._cell(*cell), self.dtype)

    def _offsets(self, total: str, neutral: pr.Const, block: pr.Index) -> pr.Statement:
        """What comes before each block, from that of the first one, which is a statement behind the sums."""
        zero, back = pr.Const(0, I64), normalise(pr.Binary("-", block, pr.Const(1, I64), I64))
        self.sums.append(self._statement("first", self.offset, (zero,), self.found.lead, ()))
        value = self.found.joined(self._read(self.offset, back), self._read(total, back))
        return self._statement("before", self.offset, (block,), value, (replace(self.block, lower=1),))

    def _elements(self, neutral: pr.Const, block: pr.Index) -> list[pr.Statement]:
        """The elements of each block, from what comes before it, and where they belong."""
        extent, at = self.found.along.extent, pr.Index(self.at.index)
        inside = pr.Binary("<", self._place, pr.Const(extent, I64), BOOL)
        ragged = isinstance(extent, Size) or extent % self.elements != 0
        term = self._moved(self.found.term)
        term = pr.Select(inside, term, neutral, self.dtype) if ragged else term
        following = normalise(pr.Binary("+", at, pr.Const(1, I64), I64))
        here, joined = self._read(self.inside, block, following), self.found.joined(self._read(self.inside, block, at), term)
        return [self._statement("begin", self.inside, (block, pr.Const(0, I64)), self._read(self.offset, block), (self.block,)),
                self._statement("scan", self.inside, (block, following), joined, (self.block, self.at)),
                replace(self.s, op=None, subscripts=tuple(self._moved(sub) for sub in self.s.subscripts), value=here,
                        ranges=(*self.kept, self.block, self.at), where=(inside,) if ragged else (), loops=())]
