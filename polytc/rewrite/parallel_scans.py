"""Scans in blocks, so that threads and work-items share them: what each block adds up, what comes before each, and the rest.

    for i in 1:4001 { x[i] += x[i-1] }                  with inout x[4001] on gpu
    ->  x_sums[i_block] += x[i_at + 64*i_block + 1] where i_block in 0:62, i_at in 0:64
        x_before[0] = x[0];  x_before[i_block] = x_before[i_block - 1] + x_sums[i_block - 1] where i_block in 1:63
        x_scan[i_block,0] = x_before[i_block]
        x_scan[i_block, i_at + 1] = x_scan[i_block,i_at] + (i_at + 64*i_block < 4000 ? x[i_at + 64*i_block + 1] : 0.0)
        x[i_at + 64*i_block + 1] = x_scan[i_block, i_at + 1] where i_at + 64*i_block < 4000

of associative operators, for prefix reductions (rewrite.tidy.scan) and for recurrences `P[i] = P[i-1] + v[i]`, alone in a `for`
loop. What comes before the blocks is a scan again, and made in blocks while it is long. (Blelloch, Prefix Sums and Their
Applications, 1990; two passes as in Sengupta et al., Scan Primitives for GPU Computing, 2007.)

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
from polytc.program.linear import linear, normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64, REDUCTIONS, identity
from polytc.program.sizes import Size, shortfall
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP

BLOCK = 128
"""Elements of a block that an item scans at most."""
THREADED = 1 << 13
"""Elements of a block of a thread."""
FEW = 64
"""Elements of a scan that one item does as well; and fewer than two blocks of what comes before others."""
AHEAD = 4
"""Loads of an item that are under way at once."""
CORES = 4
"""Of a processor at least: everything is read twice."""


@dataclass(frozen=True)
class Blocks:
    """The scan of a statement is made in blocks of so many elements."""

    statement: str
    elements: int


@dataclass(frozen=True)
class _Scan:
    """along: the index; op: what combines; before: the read of the element before; term: what comes new at each place."""

    along: pr.Range
    op: str
    before: pr.Read
    term: pr.Expr


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The scans that one item or thread would be busy with for longer than with all that blocks take more."""
    chosen, why = list[Blocks](), Reasons()
    for s in program.statements:
        found = _scan(program, s)
        if found is None:
            continue
        elements = _block(s, found, machine)
        if elements >= _least(found):
            chosen.append(Blocks(s.name, elements))
            why.acts(s.name, f"a scan of {found.along.extent} elements along {found.along.index}, {elements} in a block")
        else:
            told = f"a scan of {found.along.extent} elements along {found.along.index}"
            why.declines(s.name, f"in blocks: {told} is short, or others run beside it")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def split(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen scans in blocks."""
    by, names = {c.statement: c.elements for c in decision.choices}, Names.of(program)
    tensors, statements = list(program.tensors), list[pr.Statement]()
    for s in program.statements:
        if s.name not in by:
            statements.append(s)
            continue
        left: pr.Statement | None = s
        behind = list[pr.Statement]()
        while left is not None:
            whole = replace(program, tensors=tuple(tensors))
            blocked = _Blocked(whole, left, by[s.name], names)
            tensors += blocked.tensors
            statements += blocked.sums
            behind[:0] = blocked.rest
            left = blocked.before
            if int(left.ranges[-1].extent) < max(FEW, 2 * by[s.name]):
                statements.append(left)
                left = None
        statements += behind
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def fits(program: pr.Program, machine: Machine, choice: Blocks) -> str:
    """Why a statement is not made in blocks; '' if it can be."""
    found = _scan(program, program.statement(choice.statement))
    if found is None:
        return f"{choice.statement} is no scan with an associative operator"
    least, most = _least(found), int(found.along.extent) // 2
    return "" if least <= choice.elements <= most else f"a block has {least} to {most} elements"


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each scan, that it is made in blocks or not."""
    found = [(s, x) for s in program.statements if (x := _scan(program, s)) is not None]
    sizes = (32, BLOCK, 512, THREADED)
    return [[Option(), *(Option((Blocks(s.name, n),)) for n in sizes if _least(x) <= n <= int(x.along.extent) // 2)]
            for s, x in found]


def _least(found: _Scan) -> int:
    """Elements of a block at least: of an extent that may be below 0, so many that it is so by one block at most."""
    return max(2, shortfall(found.along.extent) or 0)


def _block(s: pr.Statement, found: _Scan, machine: Machine) -> int:
    """Elements of a block; 0 where the scan is short, or enough others run beside it."""
    extent, beside = int(found.along.extent), prod(int(r.extent) for r in s.ranges if r is not found.along)
    if machine.kind == "gpu":
        launches = machine.costs.launches
        busy = beside >= machine.costs.groups.per_unit * machine.cores * MAX_WORK_GROUP
        long = launches.step / AHEAD * extent > 8 * launches.launch
        return min(BLOCK, 1 << (extent.bit_length() // 2)) if long and not busy else 0
    threaded = machine.cores >= CORES and not machine.max_work_group
    return THREADED if threaded and beside < machine.cores and extent >= 2 * CORES * THREADED else 0


# ---- what is a scan

def _scan(program: pr.Program, s: pr.Statement) -> _Scan | None:
    """The statement as a scan along its last index, alone in a `for` loop over it if in one."""
    plain = not (s.where or s.bounds or pr.scatters(s)) and s.ranges
    alone = not s.loops or len(s.loops) == 1 and sum(x.loops[:1] == s.loops for x in program.statements) == 1
    if not plain or not alone:
        return None
    along = s.ranges[0] if s.loops else s.ranges[-1]
    if shortfall(along.extent) is None:
        return None
    combined = _combined(s)
    dtype = program.tensor(s.target).dtype
    if combined is None or program.precise and dtype.is_float and combined[0] in ("+", "*") or dtype.is_half:
        return None
    op, parts = combined
    before = next((n for n, e in enumerate(parts) if isinstance(e, pr.Read) and _is_neighbour(s, e, along.index)), None)
    if before is None or parts[before].dtype != dtype or parts[1 - before].dtype != dtype:
        return None
    read, term = parts[before], parts[1 - before]
    assert isinstance(read, pr.Read)
    own = [r for r in pr.walk(term) if isinstance(r, pr.Read) and r.tensor == s.target]
    return None if any(r.subscripts != s.subscripts for r in own) else _Scan(along, op, read, term)


def _combined(s: pr.Statement) -> tuple[str, tuple[pr.Expr, pr.Expr]] | None:
    """The operator and the two operands of `P[i] = a + b`, or of `P[i] += b` in a loop."""
    if s.op is not None:
        return (s.op, (s.value, pr.Read(s.target, s.subscripts, s.value.dtype))) if s.loops else None
    if isinstance(s.value, pr.Call) and s.value.fn in ("min", "max") and len(s.value.args) == 2:
        return s.value.fn, (s.value.args[0], s.value.args[1])
    if isinstance(s.value, pr.Binary) and s.value.op in REDUCTIONS:
        return s.value.op, (s.value.a, s.value.b)
    if isinstance(s.value, pr.Binary) and s.value.op == "-":
        return "+", (s.value.a, pr.Unary("-", s.value.b, s.value.b.dtype))
    return None


def _is_neighbour(s: pr.Statement, read: pr.Read, along: str) -> bool:
    """Is it the own target one step back along an index that stands alone in one subscript, with all others plain?"""
    if read.tensor != s.target:
        return False
    back: dict[str, pr.Expr] = {along: pr.Binary("-", pr.Index(along), pr.Const(1, I64), I64)}
    forms = [linear(sub) for sub in s.subscripts]
    names = [f.terms[0][0] for f in forms if f is not None and len(f.terms) == 1 and abs(f.terms[0][1]) == 1]
    plain = None not in forms and sorted(map(str, names)) == sorted(s.indices)
    return plain and [linear(pr.substitute(sub, back)) for sub in s.subscripts] == [linear(sub) for sub in read.subscripts]


# ---- the rewrite

def _count(extent: int, elements: int) -> int:
    """The blocks of a scan: all but the last one are whole, and there is one at least if the extent is not below 0, none if it
    is less than a block below."""
    return extent // elements + 1 if isinstance(extent, Size) else -(-extent // elements)


class _Blocked:
    """What a scan becomes. sums: of each block; before: the scan of what comes before each; rest: the elements."""

    def __init__(self, program: pr.Program, s: pr.Statement, elements: int, names: Names) -> None:
        found = _scan(program, s)
        assert found is not None, "parallel scans: no scan"
        self.s, self.found, self.elements, self.names = s, found, elements, names
        self.dtype = program.tensor(s.target).dtype
        self.kept = tuple(r for r in s.ranges if r is not found.along)
        self.tensors: list[pr.Tensor] = []
        along, count = found.along, _count(found.along.extent, elements)
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

    def _joined(self, a: pr.Expr, b: pr.Expr) -> pr.Expr:
        op = self.found.op
        return pr.Call(op, (a, b), self.dtype) if op in ("min", "max") else pr.Binary(op, a, b, self.dtype)

    def _read(self, name: str, *cell: pr.Expr) -> pr.Read:
        return pr.Read(name, self._cell(*cell), self.dtype)

    def _offsets(self, total: str, neutral: pr.Const, block: pr.Index) -> pr.Statement:
        """What comes before each block, from that of the first one, which is a statement behind the sums."""
        along = self.found.along
        first = normalise(pr.substitute(self.found.before, {along.index: pr.Const(along.lower, I64)}))
        assert isinstance(first, pr.Read)
        if shortfall(along.extent) and first.default is None:  # where there is nothing to scan it may not be there
            first = replace(first, default=neutral)
        zero, back = pr.Const(0, I64), normalise(pr.Binary("-", block, pr.Const(1, I64), I64))
        self.sums.append(self._statement("first", self.offset, (zero,), first, ()))
        value = self._joined(self._read(self.offset, back), self._read(total, back))
        return self._statement("before", self.offset, (block,), value, (replace(self.block, lower=1),))

    def _elements(self, neutral: pr.Const, block: pr.Index) -> list[pr.Statement]:
        """The elements of each block, from what comes before it, and where they belong."""
        extent, at = self.found.along.extent, pr.Index(self.at.index)
        inside = pr.Binary("<", self._place, pr.Const(extent, I64), BOOL)
        ragged = isinstance(extent, Size) or extent % self.elements != 0
        term = self._moved(self.found.term)
        term = pr.Select(inside, term, neutral, self.dtype) if ragged else term
        following = normalise(pr.Binary("+", at, pr.Const(1, I64), I64))
        here = self._read(self.inside, block, following)
        return [self._statement("begin", self.inside, (block, pr.Const(0, I64)), self._read(self.offset, block), (self.block,)),
                self._statement("scan", self.inside, (block, following), self._joined(self._read(self.inside, block, at), term),
                                (self.block, self.at)),
                replace(self.s, op=None, subscripts=tuple(self._moved(sub) for sub in self.s.subscripts), value=here,
                        ranges=(*self.kept, self.block, self.at), where=(inside,) if ragged else (), loops=())]
