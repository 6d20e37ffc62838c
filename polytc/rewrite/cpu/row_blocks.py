"""Row blocks: what one product hands to the next is made and used for some rows at a time, and stays in the second cache.

    S[i,j] += Q[i,d]*K[j,d];  P[i,j] = exp(S[i,j]);  Y[i,d] += P[i,j]*V[j,d]
        with Q[2048,64], K[2048,64], V[2048,64] on avx512
    ->  S_rows[i_block,i,j] += Q[i + 64*i_block, d]*K[j,d] where i_block in 0:32, i in 0:64
        P_rows[i_block,i,j] = exp(S_rows[i_block,i,j])
        Y_rows[i_block,i,d] += P_rows[i_block,i,j]*V[j,d]
        Y[x0 + 64*x0_block, x1] = Y_rows[x0_block,x0,x1]

A rewrite from Program to Program: the rows of the temporaries are cut in blocks, so that the loop over these is one that all
statements share (schedule.fusion.outer_fusion), and memory holds a block of each temporary in place of the whole. Rows that are
left over are done by statements of their own. It is done where two products are linked by temporaries that are too large
otherwise, as attention over a long sequence does. (Rabe & Staats, Self-attention Does Not Need O(n^2) Memory, 2021.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.names import claim, fresh
from polytc.program.scalars import I64
from polytc.rewrite.cpu import condition_blocks, masked_blocks
from polytc.rewrite.cpu.condition_blocks import Blocked, bounds_columns
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.schedule.facts.fusion_groups import Group, is_contraction, partition
from polytc.schedule.fusion.cluster import Cluster
from polytc.schedule.fusion.outer_fusion import handed_on, may_swap, shared_rows

LARGEST, SMALLEST = 64, 8
"""Rows of a block: more give no operand more reuse, less give it too little."""
MASKED = 4
"""Blocks at least where a mask hides columns from some of them."""
PART = 2
"""Blocks of all temporaries that the second cache has room for."""


@dataclass(frozen=True)
class RowBlocks:
    """The rows over which a chain of products runs, from its first statement on, are cut into blocks of so many. rows: the
    index of that statement."""

    statement: str
    rows: str
    block: int


@dataclass(frozen=True)
class _Rows:
    """Groups of statements, the index of each statement that runs over the rows (by the statement's name), how many rows there
    are, and how many make a block."""

    groups: tuple[Group, ...]
    index: dict[str, str]
    count: int
    block: int


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The rows to cut, where temporaries between products do not stay in the second cache. Each choice is made with those
    before it done."""
    chosen, why = list[RowBlocks](), Reasons()
    if sum(map(is_contraction, program.statements)) < 2:
        return Decision(machine)
    if any(s.bounds for s in program.statements):
        why.declines("", "in blocks of rows: a statement has ranges that memory decides")
        return Decision(machine, (), tuple(why.rows))
    for chain in _chains(partition(program)):
        rows = _rows(program, chain, machine, why)
        if rows is not None:
            first = chain.whole.statements[0].name
            chosen.append(RowBlocks(first, rows.index[first], rows.block))
            program, _ = _applied(program, rows)
    return Decision(machine, tuple(chosen), tuple(why.rows))


def split(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen rows in blocks."""
    blocks: dict[str, Blocked] = {}
    for choice in decision.choices:
        rows = _given(program, choice)
        assert not isinstance(rows, str)
        program, made = _applied(program, rows)
        blocks |= made
    return condition_blocks.widened(masked_blocks.narrowed(program, {n: b.block for n, b in blocks.items()}), blocks)


def fits(program: pr.Program, machine: Machine, choice: RowBlocks) -> str:
    """Why rows cannot be cut so; '' if they can."""
    if any(s.bounds for s in program.statements):
        return "a statement has ranges that memory decides"
    found = _given(program, choice)
    if isinstance(found, str):
        return found
    return "" if 1 <= choice.block < found.count else f"a block has 1 to {found.count - 1} of the {found.count} rows"


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each chain of products, the rows that may be cut, into whole blocks or into those that polytc takes."""
    if any(s.bounds for s in program.statements):
        return []
    places = list[list[Option]]()
    for chain in _chains(partition(program)):
        whole, own = chain.whole, _rows(program, chain, machine, Reasons())
        first, blocks = whole.statements[0].name, list[RowBlocks]()
        for r, row in enumerate(whole.rows):
            if _cuts(program, whole, r) and whole.ranges[r][0] == 0:
                sizes = {b for b in range(SMALLEST, LARGEST + 1) if whole.extents[r] % b == 0 and b < whole.extents[r]}
                sizes |= {own.block} if own is not None and own.index[first] == row[0] else set()
                blocks += [RowBlocks(first, row[0], b) for b in sorted(sizes, reverse=True)]
        places.append([Option(), *(Option((b,)) for b in blocks)])
    return places


def _given(program: pr.Program, choice: RowBlocks) -> _Rows | str:
    """The rows that a choice means, or why there are none."""
    chains = [c.whole for c in _chains(partition(program))]
    whole = next((w for w in chains if w.statements[0].name == choice.statement), None)
    if whole is None:
        return f"chains of products begin with {' and '.join(w.statements[0].name for w in chains) or 'no statement'}"
    possible = {w[0]: r for r, w in enumerate(whole.rows) if _cuts(program, whole, r) and whole.ranges[r][0] == 0}
    if choice.rows not in possible:
        return f"the rows that can be cut are those of {' or '.join(possible) or 'no index'}"
    row = possible[choice.rows]
    chain = next(c for c in _chains(partition(program)) if c.whole.statements[0].name == choice.statement)
    index = {s.name: i for s, i in zip(whole.statements, whole.rows[row], strict=True)}
    return _Rows(chain.groups, index, whole.extents[row], choice.block)


# ---- what to cut

def _chains(groups: Sequence[Group]) -> list[Cluster]:
    """Runs of groups with common rows, in order, from a product on; groups that have nothing to do with a run may stand in
    between."""
    found: list[Cluster] = []
    for group in groups:
        last = found[-1] if found else None
        rows = shared_rows(last, group) if last is not None else ()
        if last is not None and rows:
            found[-1] = Cluster((*last.groups, group), rows)
        elif last is not None and may_swap(last.whole, group) and not _products(group):
            continue
        elif _products(group):
            found.append(Cluster((group,), tuple((r,) for r in range(len(group.rows)))))
    return [c for c in found if sum(map(_products, c.groups)) > 1]


def _products(group: Group) -> int:
    return sum(map(is_contraction, group.statements))


def _rows(program: pr.Program, chain: Cluster, machine: Machine, why: Reasons) -> _Rows | None:
    """How the rows of a chain are to be cut; None if that gains nothing or is not possible."""
    whole = chain.whole
    told = ", ".join(s.name for s in whole.statements)
    flow = sum(program.tensor(n).size * program.tensor(n).dtype.bytes for n in handed_on(program, chain.groups))
    second = machine.second_cache.bytes
    order = sorted(range(len(whole.rows)), key=lambda r: whole.extents[r])
    row = next((r for r in reversed(order) if _cuts(program, whole, r)), None)
    if row is None or whole.ranges[row][0] != 0:
        why.declines(told, "in blocks of rows: no index of rows stands alone wherever they are used")
        return None
    count, others = whole.extents[row], prod(e for r, e in enumerate(whole.extents) if r != row)
    index = {s.name: i for s, i in zip(whole.statements, whole.rows[row], strict=True)}
    hidden = any(masked_blocks.mask(program, s, index[s.name]) or bounds_columns(s, index[s.name]) for s in whole.statements)
    crowded = PART * flow > second * others
    kept = f"{flow // others // 1024} kB pass between the products, and the second cache has {second // 1024} kB"
    if not (crowded or hidden) or count < 2 * SMALLEST * (1 if crowded else MASKED):
        why.declines(told, f"in blocks of {count} rows: {kept}")
        return None
    most = min(LARGEST, second * others * count // max(1, PART * flow))
    if hidden:
        most = min(most, max(SMALLEST, count // MASKED))
    if most < SMALLEST:
        why.declines(told, f"in blocks of rows: fewer than {SMALLEST} rows would fit; {kept}")
        return None
    rows = _Rows(chain.groups, index, count, _block(count, most))
    why.acts(told, f"{count} rows in blocks of {rows.block}: {'a mask or a condition hides columns' if not crowded else kept}")
    return rows


def _block(count: int, most: int) -> int:
    """As many rows as possible, of which a whole number of blocks is all, unless that leaves less than half."""
    divisor = next(b for b in range(most, 0, -1) if count % b == 0)
    return divisor if 2 * divisor >= most else most


def _cuts(program: pr.Program, whole: Group, row: int) -> bool:
    """May this row be cut? Its index stands alone in one dimension, the same wherever it is used, of each tensor that the
    statements make, which nothing else touches; and each product uses some operand for all rows."""
    index = {s.name: i for s, i in zip(whole.statements, whole.rows[row], strict=True)}
    places: dict[str, int] = {}
    for s in whole.statements:
        name = index[s.name]
        cells = [s.subscripts, *(r.subscripts for r in pr.reads(s) if r.tensor == s.target)]
        if any(pr.Index(name) not in cell for cell in cells) or s.target in program.inputs:
            return False
        places.setdefault(s.target, s.subscripts.index(pr.Index(name)))
    for x in program.statements:
        for tensor, cell in ((x.target, x.subscripts), *((r.tensor, r.subscripts) for r in pr.reads(x))):
            if tensor in places and (x.name not in index or not _alone(index[x.name], cell, places[tensor])):
                return False
    return all(any(pr.Index(index[s.name]) not in pr.walk(r) for r in pr.reads(s))
               for s in whole.statements if is_contraction(s))


def _alone(index: str, cell: tuple[pr.Expr, ...], place: int) -> bool:
    """Is the subscript at `place` the index, which the others do not use?"""
    rest = (*cell[:place], *cell[place + 1:])
    return cell[place] == pr.Index(index) and not any(e == pr.Index(index) for sub in rest for e in pr.walk(sub))


# ---- the rewrite

@dataclass(frozen=True)
class _Cut:
    """Blocks of rows: how many, of how many rows, from which row on."""

    count: int
    size: int
    start: int

    @property
    def extents(self) -> tuple[int, ...]:
        return (self.size,) if self.count == 1 else (self.count, self.size)

    def indices(self, index: str, taken: set[str]) -> tuple[str, ...]:
        """The indices that take the place of that of the rows."""
        return (index,) if self.count == 1 else (fresh(f"{index}_block", taken), index)

    def row(self, indices: tuple[str, ...]) -> pr.Expr:
        """Where these are among the rows."""
        place: pr.Expr = pr.Index(indices[-1])
        if self.count > 1:
            place = pr.Binary("+", pr.Binary("*", pr.Const(self.size, I64), pr.Index(indices[0]), I64), place, I64)
        return pr.Binary("+", place, pr.Const(self.start, I64), I64)


def _applied(program: pr.Program, rows: _Rows) -> tuple[pr.Program, dict[str, Blocked]]:
    """The program with its rows in blocks; those beyond the last whole block come after them. And the index of the blocks of
    each statement that has one."""
    made = {s.target for g in rows.groups for s in g.statements}
    whole = rows.count // rows.block
    new = _Blocks(program, rows)
    new.add(_Cut(whole, rows.block, 0))
    if rows.count % rows.block:
        new.add(_Cut(1, rows.count % rows.block, whole * rows.block))
    names = {s.name for g in rows.groups for s in g.statements}
    old = [t for t in program.tensors if t.name not in made or t.name not in program.temporaries]
    first = next(n for n, s in enumerate(program.statements) if s.name in names)
    last = max(n for n, s in enumerate(program.statements) if s.name in names)
    between = [s for s in program.statements[first:last] if s.name not in names]
    statements = (*program.statements[:first], *between, *new.statements, *program.statements[last + 1:])
    return replace(program, tensors=(*old, *new.tensors), statements=statements), new.blocks


class _Blocks:
    """Copies of the statements for blocks of rows, with temporaries of their own. at: the dimension of each tensor that the
    statements make in which the rows are."""

    def __init__(self, program: pr.Program, rows: _Rows) -> None:
        self.program, self.rows = program, rows
        self.chain = [s for g in rows.groups for s in g.statements]
        self.at = {s.target: s.subscripts.index(pr.Index(rows.index[s.name])) for s in self.chain}
        self.taken = {t.name for t in program.tensors} | {s.name for s in program.statements}
        self.tensors: list[pr.Tensor] = []
        self.statements: list[pr.Statement] = []
        self.blocks: dict[str, Blocked] = {}

    def add(self, cut: _Cut) -> None:
        """All statements for some blocks."""
        names = {n: self.fresh(n) for n in self.at}
        for name, d in self.at.items():
            t = self.program.tensor(name)
            self.tensors.append(pr.Tensor(names[name], t.dtype, (*t.shape[:d], *cut.extents, *t.shape[d + 1:]),
                                          (*t.lower[:d], *(0 for _ in cut.extents), *t.lower[d + 1:])))
        self.statements += [self.moved(s, names, cut) for s in self.chain]
        for name in self.at:
            if name not in self.program.temporaries:
                self.statements.append(self.copied(name, names[name], cut))

    def fresh(self, name: str) -> str:
        return claim(f"{name}_rows", self.taken)

    def moved(self, s: pr.Statement, names: dict[str, str], cut: _Cut) -> pr.Statement:
        """A statement for the rows of the blocks."""
        index = self.rows.index[s.name]
        parts = cut.indices(index, set(s.indices))

        def cell(tensor: str, subscripts: tuple[pr.Expr, ...]) -> tuple[pr.Expr, ...]:
            d = self.at[tensor]
            return (*subscripts[:d], *map(pr.Index, parts), *subscripts[d + 1:])

        def read(e: pr.Expr) -> pr.Expr:
            if isinstance(e, pr.Read) and e.tensor in names:
                return replace(e, tensor=names[e.tensor], subscripts=cell(e.tensor, e.subscripts))
            return e

        value = pr.map_expr(normalise(pr.substitute(s.value, {index: cut.row(parts)})), read)
        ranges = tuple(x for r in s.ranges for x in (map(pr.Range, parts, (0, 0), cut.extents) if r.index == index else (r,)))
        name = self.fresh(s.name)
        self.blocks |= {name: Blocked(*parts)} if cut.count > 1 else {}
        where = tuple(normalise(pr.substitute(c, {index: cut.row(parts)})) for c in s.where)
        return replace(s, name=name, target=names[s.target], subscripts=cell(s.target, s.subscripts), value=value,
                       ranges=ranges, where=where)

    def copied(self, name: str, blocks: str, cut: _Cut) -> pr.Statement:
        """The statement that puts blocks of rows into the tensor that leaves the program."""
        t, d = self.program.tensor(name), self.at[name]
        ranges = [pr.Range(f"x{n}", lo, lo + e) for n, (lo, e) in enumerate(zip(t.lower, t.shape, strict=True))]
        parts = cut.indices(f"x{d}", set())
        cell: list[pr.Expr] = [pr.Index(r.index) for r in ranges]
        source = (*cell[:d], *map(pr.Index, parts), *cell[d + 1:])
        cell[d] = normalise(cut.row(parts))
        ranges[d:d + 1] = map(pr.Range, parts, (0, 0), cut.extents)
        return pr.Statement(self.fresh(f"S_{name}"), name, tuple(cell), None, pr.Read(blocks, source, t.dtype), tuple(ranges))
