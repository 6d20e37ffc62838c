"""The place of an extremum is looked for in one block: the others were seen when their extrema were found.

    (M[i], I[i]) argmax= (A[i,j], j)                    with A[8,1003] on avx2
    ->  M_blocks[i,j_block] max= A[i, j_at + 224*j_block] where j_block in 0:4, j_at in 0:224
        M_blocks[i,4] max= A[i, j_at + 779] where j_at in 0:224
        M[i] max= M_blocks[i,j_block]
        M_block[i] min= M_blocks[i,j_block] == M[i] || M_blocks[i,j_block] != M_blocks[i,j_block] ? i32(j_block) : 2147483647
        ...

A reduction of tuples is the extremum and the first place that has it (lang.tuples), which reads everything twice. With the
extrema of blocks at hand the first block that has the extremum is known, and only this is read again: `where` holds in no other
(codegen.passes.unswitching). NaN is the extremum of its block and of everything, and the first one is found likewise. Maxima
and minima are exact in any order: results stay the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.program.linear import collected, expression, linear, normalise
from polytc.program.names import Names, initialisation
from polytc.program.scalars import BOOL, I32, I64, DType, identity
from polytc.rewrite.cpu import lanes
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.schedule.facts.fusion_groups import coincident_indices
from polytc.schedule.facts.strides import lane_width

BLOCKS = 256
"""Of a row at most."""
SEARCH = 8
"""Operations for a vector in which a place is looked for: loads, two comparisons, a choice, the number, the smaller one."""


@dataclass(frozen=True)
class Blocks:
    """The extremum that a statement finds is found in blocks of so many values of its last reduced index."""

    statement: str
    elements: int


@dataclass(frozen=True)
class _Search:
    """lead: finds the extremum; at: the smallest number of an instance that has it; outer: the reduced ranges around the last
    one, `inner`, whose values lie side by side in memory."""

    lead: pr.Statement
    at: pr.Statement
    outer: tuple[pr.Range, ...]
    inner: pr.Range


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The searches that read enough for the extrema of blocks to cost less."""
    chosen, why = list[Blocks](), Reasons()
    for found in _searches(program, machine):
        name, best = found.lead.name, min(_options(program, found, machine), default=None)
        if best is not None and best[0] < 0:
            chosen.append(Blocks(name, best[1]))
            why.acts(name, f"blocks of {best[1]} along {found.inner.index}, one of which is read twice")
        else:
            why.declines(name, f"in blocks along {found.inner.index}: to look twice at all of it costs less")
    return Decision(machine, tuple(chosen), tuple(why.rows))


def fits(program: pr.Program, machine: Machine, choice: Blocks) -> str:
    """Why an extremum is not found in such blocks; '' if it can be."""
    found = next((x for x in _searches(program, machine) if x.lead.name == choice.statement), None)
    if found is None:
        return f"{choice.statement} finds no extremum along memory of which the place is asked"
    sizes = [elements for _, elements in _options(program, found, machine)]
    return "" if choice.elements in sizes else f"blocks along {found.inner.index} have one of {sorted(sizes)} elements"


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each search, its blocks."""
    return [[Option(), *(Option((Blocks(x.lead.name, n),)) for n in sorted({n for _, n in _options(program, x, machine)}))]
            for x in _searches(program, machine)]


def _options(program: pr.Program, found: _Search, machine: Machine) -> Iterator[tuple[float, int]]:
    """(cycles that blocks cost, less those that they save, for each extremum; values of a block). Blocks take whole rows where
    there are several, since the last block is no whole one."""
    costs, lane_count = machine.costs.arithmetic, lane_width(program, found.lead, machine)
    extent, rows = found.inner.extent, prod(r.extent for r in found.outer)
    if rows > 1:
        sizes = {extent}
    else:
        step = _width(program, found, machine)
        sizes = {extent // count // step * step for count in range(2, BLOCKS + 1)} - {0}
    for size in sizes:
        blocks = -(-extent // size)
        saved = rows*extent - size - (blocks*size - extent) / SEARCH
        yield rows * blocks * (costs.horizontal + costs.loop) - saved / lane_count * SEARCH * costs.vector, size


def _width(program: pr.Program, found: _Search, machine: Machine) -> int:
    """Partial results that hide the latency of an operation."""
    return lane_width(program, found.lead, machine) * machine.costs.arithmetic.in_flight


def split(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen extrema in blocks."""
    names, tensors, made = Names.of(program), list(program.tensors), dict[str, list[pr.Statement]]()
    by = {c.statement: c.elements for c in decision.choices}
    for found in _searches(program, decision.machine):
        if found.lead.name in by:
            split = _Split(program, found, by[found.lead.name], _width(program, found, decision.machine), names)
            made[found.lead.name], made[found.at.name] = split.extrema(), split.places()
            tensors += split.tensors
    statements = tuple(x for s in program.statements for x in made.get(s.name, [s]))
    return replace(program, tensors=tuple(tensors), statements=statements)


# ---- what is a search

def _searches(program: pr.Program, machine: Machine) -> Iterator[_Search]:
    """The extrema of which places are asked, over indices that run along memory; of each the first place."""
    written: dict[str, list[pr.Statement]] = {}
    for s in program.statements:
        written.setdefault(s.target, []).append(s)
    met = set[str]()
    for at in program.statements:
        best = _compared(at)
        if best is None or best.tensor not in written:
            continue
        lead = written[best.tensor][-1]
        alone = all([s.name for s in written[x.target]] == [initialisation(x.name), x.name] for x in (lead, at))
        if lead.name not in met and alone and _belongs(lead, at, best) and _unchanged(program, lead, at):
            kept = coincident_indices(lead)
            reduced = [r for r in lead.ranges if r.index not in kept]
            along = lanes.along(program, lead, lane_width(program, lead, machine))
            if along is not None and along == reduced[-1]:
                met.add(lead.name)
                yield _Search(lead, at, tuple(reduced[:-1]), along)


def _unchanged(program: pr.Program, lead: pr.Statement, at: pr.Statement) -> bool:
    """Are the values still there when their place is looked for?"""
    names = [s.name for s in program.statements]
    first, last = names.index(lead.name), names.index(at.name)
    read = {r.tensor for r in pr.reads(lead)}
    return first < last and not any(s.target in read for s in program.statements[first:last])


def _belongs(lead: pr.Statement, at: pr.Statement, best: pr.Read) -> bool:
    """Is the extremum that of the same instances, each in a place of its own?"""
    plain = all(isinstance(e, pr.Index) for e in lead.subscripts)
    fixed = not any((s.where, s.bounds, s.loops)[k] for s in (lead, at) for k in range(3))
    same = lead.ranges == at.ranges and lead.subscripts == at.subscripts == best.subscripts
    return plain and fixed and same and lead.op in ("min", "max") and _value(at) == lead.value and _numbered(lead, at)


def _compared(at: pr.Statement) -> pr.Read | None:
    """What the values are compared with in `min= value == best || value != value ? number : none`."""
    match at.value:
        case pr.Select(cond=pr.Binary(op="==", b=pr.Read() as best), b=pr.Const()) if at.op == "min":
            return best
        case pr.Select(cond=pr.Binary(op="||", a=pr.Binary(op="==", a=value, b=pr.Read() as best),
                                      b=pr.Binary(op="!=", a=x, b=y)), b=pr.Const()) if at.op == "min":
            return best if value == x == y else None
        case _:
            return None


def _value(at: pr.Statement) -> pr.Expr:
    assert isinstance(at.value, pr.Select)
    assert isinstance(at.value.cond, pr.Binary)
    cond = at.value.cond.a if at.value.cond.op == "||" else at.value.cond
    assert isinstance(cond, pr.Binary)
    return cond.a


def _numbered(lead: pr.Statement, at: pr.Statement) -> bool:
    """Do the numbers of instances grow with the reduced indices, the last one fastest?"""
    assert isinstance(at.value, pr.Select)
    number = at.value.a.a if isinstance(at.value.a, pr.Cast) else at.value.a
    kept, none = coincident_indices(lead), at.value.b
    reduced = [r for r in lead.ranges if r.index not in kept]
    unset = isinstance(none, pr.Const) and none.value == identity("min", none.dtype)
    return unset and linear(number) == _numbers(reduced)


# ---- what takes its place

class _Split:
    """The statements that take the place of a search, and the tensors that they need. Where blocks of one size do not cover the
    row, the last one overlaps that before it: the first block that has the extremum still has the first place of it."""

    def __init__(self, program: pr.Program, found: _Search, size: int, width: int, names: Names) -> None:
        self.found, self.lead, self.at, self.names = found, found.lead, found.at, names
        self.dtype = program.tensor(self.lead.target).dtype
        self.kept = tuple(r for r in self.lead.ranges if r is not found.inner and r not in found.outer)
        self.whole, self.last = found.inner.extent // size, found.inner.extent % size > 0
        count = self.whole + self.last
        self.block = pr.Range(names.index(f"{found.inner.index}_block"), 0, count)
        self.width, self.lane = width, pr.Range(names.index(f"{found.inner.index}_lane"), 0, width)
        self.inside = pr.Range(names.index(f"{found.inner.index}_at"), 0, size)
        self.blocks = (*found.outer, *([self.block] if count > 1 else []))
        self.start, self.size = found.inner.upper - size, size
        self.extrema_of = self._tensor(f"{self.lead.target}_blocks", self.dtype, (*self.kept, *self.blocks))
        self.first = self._tensor(f"{self.lead.target}_block", I32, self.kept)
        self.tensors = [self.extrema_of, self.first]

    def _tensor(self, name: str, dtype: DType, over: tuple[pr.Range, ...]) -> pr.Tensor:
        return pr.Tensor(self.names.label(name), dtype, tuple(r.extent for r in over), tuple(r.lower for r in over))

    def _start(self, s: str, target: pr.Tensor, over: tuple[pr.Range, ...], op: str) -> pr.Statement:
        """The statement that fills a new tensor with the identity."""
        none = pr.Const(identity(op, target.dtype), target.dtype)
        return pr.Statement(initialisation(s), target.name, _cell(over), None, none, over, span=self.lead.span)

    def _in_blocks(self, s: pr.Statement, width: int = 1) -> list[pr.Statement]:
        """A statement about the instances of the search, block by block: that of whole blocks, and that of the last one. width:
        instances side by side that have results of their own."""
        i, block = self.found.inner.index, self.block.index
        inside = ((self.lane.index, 1), (self.inside.index, width)) if width > 1 else ((self.inside.index, 1),)
        at = expression(collected(((block, self.size), *inside), self.found.inner.lower))
        end = expression(collected(inside, self.start))
        around = (*self.kept, *([replace(self.lane, upper=width)] if width > 1 else []), *self.found.outer)
        within = replace(self.inside, upper=self.size // width)
        several = self.block in self.blocks
        made = [_substituted(s, {i: at if several else end},
                             (*around, *([replace(self.block, upper=self.whole)] if several else []), within), s.name)]
        if self.last:
            values: dict[str, pr.Expr] = {i: end, block: pr.Const(self.whole, I64)}
            made.append(_substituted(s, values, (*around, within), self.names.label(f"{s.name}_end")))
        return made

    def extrema(self) -> list[pr.Statement]:
        """Those of the blocks, and of all."""
        over = (*self.kept, *self.blocks)
        assert self.lead.op is not None
        name = self.names.label(f"{self.lead.name}_blocks")
        found = replace(self.lead, name=name, target=self.extrema_of.name, subscripts=_cell(over))
        total = replace(self.lead, value=pr.Read(self.extrema_of.name, _cell(over), self.dtype), ranges=over)
        return [self._start(name, self.extrema_of, over, self.lead.op), *self._in_blocks(found), total]

    def places(self) -> list[pr.Statement]:
        """The first block that has the extremum, and the first place in it."""
        best = pr.Read(self.lead.target, self.lead.subscripts, self.dtype)
        over = (*self.kept, *self.blocks)
        mine = pr.Read(self.extrema_of.name, _cell(over), self.dtype)
        wins: pr.Expr = pr.Binary("==", mine, best, BOOL)
        if self.dtype.is_float:
            wins = pr.Binary("||", wins, pr.Binary("!=", mine, mine, BOOL), BOOL)
        number, none = pr.Cast(expression(_numbers(self.blocks)), I32), pr.Const(identity("min", I32), I32)
        name = self.names.label(f"{self.lead.name}_block")
        first = pr.Statement(name, self.first.name, _cell(self.kept), "min", pr.Select(wins, number, none, I32), over,
                             span=self.at.span)
        chosen = pr.Binary("==", pr.Read(self.first.name, _cell(self.kept), I32), number, BOOL)
        return [self._start(name, self.first, self.kept, "min"), first, *self._search(chosen)]

    def _search(self, chosen: pr.Expr) -> list[pr.Statement]:
        """The first place, by as many partial results as hide the latency of one, where blocks are whole rows of them."""
        assert isinstance(self.at.value, pr.Select)
        dtype = self.at.value.dtype
        looked = replace(self.at, value=pr.Select(chosen, self.at.value, self.at.value.b, dtype, skips=True))
        if self.size % self.width:
            return self._in_blocks(looked)
        over = (*self.kept, self.lane)
        places = self._tensor(f"{self.at.target}_places", dtype, over)
        self.tensors.append(places)
        name = self.names.label(f"{self.at.name}_places")
        partial = replace(looked, name=name, target=places.name, subscripts=_cell(over))
        total = replace(self.at, value=pr.Read(places.name, _cell(over), dtype), ranges=over)
        return [self._start(name, places, over, "min"), *self._in_blocks(partial, self.width), total]


def _cell(over: tuple[pr.Range, ...]) -> tuple[pr.Expr, ...]:
    return tuple(pr.Index(r.index) for r in over)


def _numbers(ranges: Sequence[pr.Range]) -> Linear:
    """The number of an instance: the last index grows fastest."""
    terms, size, first = list[tuple[str, int]](), 1, 0
    for r in reversed(ranges):
        terms.append((r.index, size))
        first += size * r.lower
        size *= r.extent
    return collected(terms, -first)


def _substituted(s: pr.Statement, values: dict[str, pr.Expr], ranges: tuple[pr.Range, ...], name: str) -> pr.Statement:
    """The statement with other values for indices."""
    return replace(s, name=name, subscripts=tuple(normalise(pr.substitute(e, values)) for e in s.subscripts),
                   value=normalise(pr.substitute(s.value, values)), ranges=ranges)
