"""Conditions on rows become conditions on blocks of rows, where more of a temporary may be computed than is read.

    S[i,j] += Q[i,d]*K[j,d] where j <= i                with Q[2048,64], K[2048,64], V[2048,64] on avx512
    E[i,j] = exp(S[i,j]) where j <= i
    Y[i,d] += E[i,j]*V[j,d] where j <= i
    ->  S_rows[i_block,i,j] += Q[i + 64*i_block, d]*K[j,d] where j < 64*i_block + 64
        E_rows[i_block,i,j] = exp(S_rows[i_block,i,j]) where j < 64*i_block + 64
        Y_rows[i_block,i,d] += E_rows[i_block,i,j]*V[j,d] where j <= i + 64*i_block
        Y[x0 + 64*x0_block, x1] = Y_rows[x0_block,x0,x1]

so that register tiles and vectors are whole. Each statement that reads such a temporary keeps its condition, and sees only what
it saw before; what no tensor of the program holds (a read beyond its end, a division by 0) is not computed. The bounds are
those of a block of rows (rewrite.cpu.row_blocks), rounded as those of masks are (rewrite.cpu.masked_blocks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, QuasiAffine, add
from polytc.program.linear import linear
from polytc.program.terms import children
from polytc.rewrite.bounds import at_least, conjuncts, linear_bound, speculable
from polytc.rewrite.cpu.block_bounds import GRANULE, Bounds, hull
from polytc.schedule.facts.strides import panel_width


@dataclass(frozen=True)
class Blocked:
    """Of a statement that runs block by block: the index of the blocks, and that of the rows of a block."""

    block: str
    row: str


def widened(program: pr.Program, blocks: Mapping[str, Blocked]) -> pr.Program:
    """The program whose temporaries are computed for all columns that some row of a block has a use for."""
    for tensor in dict.fromkeys(s.target for s in program.statements):  # what is read is widened before what it makes
        if tensor in program.temporaries:
            program = _widened(program, tensor, blocks)
    return program


def bounds_columns(s: pr.Statement, row: str) -> bool:
    """Does a condition bound another index by that of the rows?"""
    forms = [linear_bound(c) for c in conjuncts(s.where)]
    return any(f is not None and f.coefficient(row) and any(abs(c) == 1 and i != row for i, c in f.terms) for f in forms)


def _widened(program: pr.Program, tensor: str, blocks: Mapping[str, Blocked]) -> pr.Program:
    """The program with the conditions that all uses of a tensor have for whole blocks where it is written."""
    writers = [s for s in program.statements if s.target == tensor]
    if not writers or any(s.name not in blocks or not _plain(s.subscripts) or not speculable(program, s) for s in writers):
        return program
    uses = [u for s in program.statements for u in _uses(s, tensor)]
    panel = max(_panel(s, blocks[s.name]) for s in writers)
    new = {s.name: _for_blocks(s, blocks[s.name], uses, panel) for s in writers}
    return replace(program, statements=tuple(new.get(s.name, s) for s in program.statements))


@dataclass(frozen=True)
class _Use:
    """A statement with all conditions under which it reads or writes an element, and the subscripts of that."""

    statement: pr.Statement
    cell: tuple[pr.Expr, ...]

    def has(self, form: Linear) -> bool:
        """Is a form of the dimensions, called by their numbers, at least 0 whenever the element is used?"""
        subs = [linear(sub) for sub in self.cell]
        total: QuasiAffine = Affine(form.constant)
        for dimension, c in form.terms:
            sub = subs[int(dimension)]
            if sub is None:
                return False
            total = add(total, sub, c)
        return at_least(total, 0, self.statement)


def _uses(s: pr.Statement, tensor: str) -> Iterator[_Use]:
    if s.target == tensor:
        yield _Use(s, s.subscripts)
    for read, conditions in _reads(s.value, ()):
        if read.tensor == tensor:
            yield _Use(replace(s, where=(*s.where, *conditions)), read.subscripts)


def _reads(e: pr.Expr, conditions: tuple[pr.Expr, ...]) -> Iterator[tuple[pr.Read, tuple[pr.Expr, ...]]]:
    """The reads of an expression, each with the conditions under which its value counts."""
    match e:
        case pr.Select():
            yield from _reads(e.cond, conditions)
            yield from _reads(e.a, (*conditions, *conjuncts((e.cond,))))
            yield from _reads(e.b, conditions)
        case _:
            if isinstance(e, pr.Read):
                yield e, conditions
            for x in children(e):
                yield from _reads(x, conditions)


def _plain(cell: tuple[pr.Expr, ...]) -> bool:
    names = [e.name for e in cell if isinstance(e, pr.Index)]
    return len(names) == len(cell) == len(set(names))


def _panel(s: pr.Statement, blocked: Blocked) -> int:
    """Columns that a statement makes at once."""
    return max((panel_width(s, e.name) or 0 for e in s.subscripts
                if isinstance(e, pr.Index) and e.name not in (blocked.block, blocked.row)), default=0)


def _for_blocks(s: pr.Statement, blocked: Blocked, uses: Sequence[_Use], panel: int) -> pr.Statement:
    """A statement with those conditions for whole blocks that all uses have."""
    place = {e.name: str(d) for d, e in enumerate(s.subscripts) if isinstance(e, pr.Index)}
    conditions = list[pr.Expr]()
    for c in conjuncts(s.where):
        form = linear_bound(c)
        column = _column(form, blocked) if form is not None else None
        if form is None or column not in place or blocked.row not in place or not all(
                u.has(Affine(form.constant, tuple((place[i], k) for i, k in form.terms))) for u in uses):
            conditions.append(c)
            continue
        end = form.coefficient(column) < 0
        bound = hull(s.box, form, column, blocked.block, 1 if end else -1)
        bounds = Bounds(None, bound) if end else Bounds(bound, None)
        conditions += bounds.conditions(pr.Index(column), blocked.block, panel, GRANULE)
    return replace(s, where=tuple(conditions))


def _column(form: Linear, blocked: Blocked) -> str | None:
    """The index that a form bounds by rows and blocks; None if it is not of that kind."""
    others = [i for i, _ in form.terms if i not in (blocked.block, blocked.row)]
    fine = len(others) == 1 and abs(form.coefficient(others[0])) == 1 and form.coefficient(blocked.row)
    return others[0] if fine else None
