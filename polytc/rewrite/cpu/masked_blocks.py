"""Columns that a mask hides from a whole block of rows are neither computed nor read.

    S[i,j] += Q[i,d]*K[j,d]                             with Q[2048,64], K[2048,64], V[2048,64] on avx512
    L[i,j] = j <= i ? S[i,j] : -inf;  M[i] max= L[i,j];  E[i,j] = exp(L[i,j] - M[i])
    N[i] += E[i,j];  Y[i,d] += E[i,j]*V[j,d]
    ->  S_rows[i_block,i,j] += Q[i + 32*i_block, d]*K[j,d] where j < 32*i_block + 32
        L_rows[i_block,i,j] = j <= i + 32*i_block ? S_rows[i_block,i,j] : -inf where j < 32*i_block + 32
        M_rows[i_block,i] max= L_rows[i_block,i,j] where j < 32*i_block + 32
        E_rows[i_block,i,j] = exp(L_rows[i_block,i,j] - M_rows[i_block,i]) where j < 32*i_block + 32
        N_rows[i_block,i] += E_rows[i_block,i,j] where j < 32*i_block + 32
        Y_rows[i_block,i,d] += E_rows[i_block,i,j]*V[j,d] where j < 32*i_block + 32
        N[x0 + 32*x0_block] = N_rows[x0_block,x0];  Y[x0 + 32*x0_block, x1] = Y_rows[x0_block,x0,x1]

A masked score is the neutral element of the maximum, its exponential that of the sums behind it. The bounds are those of a
block of rows (rewrite.cpu.row_blocks), rounded so that vectors and panels stay whole; what is masked inside of them is computed
as before. Masks under which some row sees nothing are left as they are. Differences: numbers behind the mask may be NaN or
infinite, which 0 * NaN would carry on; and scores under a mask that is a large finite number are taken to be far from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, lcm

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, interval
from polytc.program.linear import collected, expression, linear
from polytc.program.scalars import BOOL, OPPOSITES
from polytc.rewrite.bounds import conjuncts, linear_bound
from polytc.rewrite.cpu.block_bounds import GRANULE, Bounds, hull, without
from polytc.schedule.facts.fusion_groups import is_contraction
from polytc.schedule.facts.strides import panel_width

LOW = -1e30
"""A number that no score comes near: what masks add."""


@dataclass(frozen=True)
class Mask:
    """statement: where columns are masked. column: its index of them. bounds: what a block of rows sees of them."""

    statement: str
    column: str
    bounds: Bounds


@dataclass(frozen=True)
class _Zone:
    """What a tensor holds in columns that are not seen: 'low' or 'zero'; its dimensions of blocks and columns."""

    holds: str
    block: int
    column: int


def narrowed(program: pr.Program, blocks: Mapping[str, str]) -> pr.Program:
    """The program without the columns that no row of a block sees. blocks: of the statements that run block by block, the index
    of the blocks."""
    for s in program.statements:
        found = mask(program, s, blocks[s.name]) if s.name in blocks else None
        cut = _Cut(program, blocks, found) if found is not None else None
        if cut is not None and cut.reach():
            program = replace(program, statements=tuple(map(cut.narrow, program.statements)))
    return program


# ---- what is masked

def mask(program: pr.Program, s: pr.Statement, block: str) -> Mask | None:
    """What an assignment masks, if that follows from `block`, one of its indices, and a column."""
    needed = _needed(s.value) if s.op is None and not s.where else None
    if not needed or any(fill > -inf for _, fill in needed) and not _plain_scores(program, s):
        return None
    forms = [form for form, _ in needed]
    for column in (i for i in s.indices if i != block and pr.Index(i) in s.subscripts):
        ends = [f for f in forms if f.coefficient(column) == -1]
        begins = [f for f in forms if f.coefficient(column) == 1]
        upper = next((f for f in ends if f.coefficient(block)), None)
        lower = next((f for f in begins if f.coefficient(block)), None)
        if (upper or lower) and _everyone_sees(s, column, ends, begins):
            return Mask(s.name, column, Bounds(None if lower is None else hull(s.box, lower, column, block, -1),
                                               None if upper is None else hull(s.box, upper, column, block, 1)))
    return None


def _needed(e: pr.Expr) -> list[tuple[Linear, float]]:
    """Forms with the numbers that the expression is where they are negative: at most LOW."""
    match e:
        case pr.Select():
            if _low(e.b):
                return [*((f, _number(e.b)) for f in _forms(e.cond)), *_needed(e.a)]
            if _low(e.a):
                return [*((f, _number(e.a)) for f in _forms(_negated(e.cond))), *_needed(e.b)]
            return []
        case pr.Binary(op="+"):
            return _needed(e.a) or _needed(e.b)
        case pr.Cast() if e.dtype.is_float:
            return _needed(e.a)
        case _:
            return []


def _low(e: pr.Expr) -> bool:
    return _number(e) <= LOW


def _number(e: pr.Expr) -> float:
    """The number that an expression is; 0 if it is none."""
    match e:
        case pr.Const():
            return float(e.value)
        case pr.Unary(op="-", a=pr.Const()):
            return -_number(e.a)
        case pr.Cast():
            return _number(e.a)
        case _:
            return 0.0


def _forms(condition: pr.Expr | None) -> list[Linear]:
    """Forms that are not negative where the condition holds."""
    return [form for c in conjuncts(() if condition is None else (condition,)) if (form := linear_bound(c)) is not None]


def _negated(condition: pr.Expr) -> pr.Expr | None:
    match condition:
        case pr.Unary(op="!"):
            return condition.a
        case pr.Binary(op="<" | "<=" | ">" | ">="):
            return replace(condition, op=OPPOSITES[condition.op])
        case pr.Binary(op="||"):
            a, b = _negated(condition.a), _negated(condition.b)
            return a if b is None else b if a is None else pr.Binary("&&", a, b, BOOL)
        case _:
            return None


def _plain_scores(program: pr.Program, s: pr.Statement) -> bool:
    """Is all that is masked products of the program, so that nothing has masked it before?"""
    return all(_of_products(program, r.tensor) for r in pr.reads(s))


def _of_products(program: pr.Program, tensor: str) -> bool:
    writers = [s for s in program.statements if s.target == tensor]
    return bool(writers) and tensor not in program.inputs and all(
        isinstance(s.value, pr.Const) or is_contraction(s) or
        s.op == "+" and all(r.tensor != tensor and _of_products(program, r.tensor) for r in pr.reads(s)) for s in writers)


def _everyone_sees(s: pr.Statement, column: str, ends: list[Linear], begins: list[Linear]) -> bool:
    """Does each row see some column? Else there may be rows of equal scores, all masked, whose sums are of all columns."""
    box = s.box
    first, last = box[column]
    return (all(interval(without(f, column), box)[0] >= first for f in ends)
            and all(interval(without(f, column), box)[0] >= -last for f in begins)
            and all(interval(_sum(a, b), box)[0] >= 0 for a in ends for b in begins))


def _sum(a: Linear, b: Linear) -> Linear:
    return collected((*a.terms, *b.terms), a.constant + b.constant)


# ---- what follows

class _Cut:
    """The statements that a mask narrows. columns: of each the form of its columns; panels: of each how many columns it makes
    at once."""

    def __init__(self, program: pr.Program, blocks: Mapping[str, str], mask: Mask) -> None:
        self.program, self.blocks, self.mask = program, blocks, mask
        self.columns: dict[str, Linear] = {}
        self.panels: dict[str, int] = {}
        self.granule = GRANULE

    def reach(self) -> bool:
        """Find the statements; False if somebody needs what is masked."""
        zones: dict[str, _Zone] = {}
        for s in self.program.statements:
            if s.name == self.mask.statement:
                self.columns[s.name] = Affine(0, ((self.mask.column, 1),))
                zones[s.target] = self._zone(s, self.mask.column, "low")
            elif any(r.tensor in zones for r in pr.reads(s)):
                holds = _held(s.value, zones)
                column = self._read_column(s, zones)
                if column is None or holds is None or not self._fits(column, s):
                    return False
                self.columns[s.name] = column
                if s.op is None and column.index is not None and self._made(s, column.index):
                    zones[s.target] = self._zone(s, column.index, holds)
                elif (s.op, holds) not in (("max", "low"), ("+", "zero")):
                    return False
            elif s.target in zones:
                return False
        if any(n not in self.program.temporaries for n in zones):
            return False
        self._narrow_operands(self.mask.statement)
        return True

    def _zone(self, s: pr.Statement, column: str, holds: str) -> _Zone:
        return _Zone(holds, s.subscripts.index(pr.Index(self.blocks[s.name])), s.subscripts.index(pr.Index(column)))

    def _made(self, s: pr.Statement, column: str) -> bool:
        """Has the target of a statement dimensions of its own for blocks and columns?"""
        writers = [x for x in self.program.statements if x.target == s.target]
        return len(writers) == 1 and pr.Index(self.blocks[s.name]) in s.subscripts and pr.Index(column) in s.subscripts

    def _read_column(self, s: pr.Statement, zones: Mapping[str, _Zone]) -> Linear | None:
        """The columns of the masked tensors that a statement reads; None if it does not go block by block, or reads several."""
        if s.name not in self.blocks or s.where:
            return None
        found = set()
        for r in pr.reads(s):
            zone = zones.get(r.tensor)
            if zone is not None:
                block = r.subscripts[zone.block] == pr.Index(self.blocks[s.name])
                found.add(linear(r.subscripts[zone.column]) if block else None)
        return found.pop() if len(found) == 1 else None

    def _fits(self, column: Linear, s: pr.Statement) -> bool:
        """Are the columns an index, or lanes of an index in steps, which the bounds are to be multiples of?"""
        if column.index is not None:
            return True
        lanes, steps = next((i for i, c in column.terms if c == 1), None), [c for _, c in column.terms if c > 1]
        if lanes is None or len(column.terms) != 2 or len(steps) != 1 or column.constant or s.box[lanes] != (0, steps[0] - 1):
            return False
        self.granule = lcm(self.granule, steps[0])
        return True

    def _narrow_operands(self, name: str) -> None:
        """What makes the operands that only this narrowed statement reads need not make the other columns, either."""
        s = self.program.statement(name)
        block, column = pr.Index(self.blocks[name]), pr.Index(self.columns[name].index or "")
        for r in pr.reads(s):
            readers = [x for x in self.program.statements if any(y.tensor == r.tensor for y in pr.reads(x))]
            if block not in r.subscripts or column not in r.subscripts or readers != [s] \
                    or r.tensor not in self.program.temporaries:
                continue
            places = r.subscripts.index(block), r.subscripts.index(column)
            writers = [w for w in self.program.statements if w.target == r.tensor]
            forms = {w.name: form for w in writers if (form := self._written_column(w, *places)) is not None}
            if len(forms) < len(writers):
                continue
            self.columns |= forms
            for w in writers:
                self._narrow_operands(w.name)
            width = max((self.panels.get(w.name) or self._panel(w) for w in writers), default=0)
            self.panels |= dict.fromkeys((name, *forms), width)

    def _written_column(self, w: pr.Statement, block: int, column: int) -> Linear | None:
        """The index of columns of a statement that writes block by block; None if there is none. block, column: dimensions."""
        form = linear(w.subscripts[column])
        blocks = w.name in self.blocks and w.subscripts[block] == pr.Index(self.blocks[w.name])
        return form if form is not None and form.index and blocks and not w.where else None

    def _panel(self, s: pr.Statement) -> int:
        """Columns of a panel of some operand."""
        column = self.columns[s.name].index
        return (panel_width(s, column) if column is not None else None) or 0

    # ---- the result

    def narrow(self, s: pr.Statement) -> pr.Statement:
        """The statement for the columns that a block sees, and those of the same vectors and panels."""
        column = self.columns.get(s.name)
        if column is None:
            return s
        block, panel = self.blocks[s.name], self.panels.get(s.name, 0)
        place = expression(Affine(0, tuple((i, c) for i, c in column.terms if len(column.terms) == 1 or c > 1)))
        bounds = self.mask.bounds.conditions(place, block, panel, self.granule)
        return replace(s, where=(*s.where, *bounds))


def _held(e: pr.Expr, zones: Mapping[str, _Zone]) -> str | None:
    """What an expression is in columns that are not seen: 'low', 'zero', or nobody knows."""
    def held(x: pr.Expr) -> str | None:
        return _held(x, zones)
    match e:
        case pr.Const():
            return "zero" if e.value == 0 else "low" if _low(e) else None
        case pr.Read():
            return zones[e.tensor].holds if e.tensor in zones else None
        case pr.Cast() if e.dtype.is_float:
            return held(e.a)
        case pr.Select():
            return held(e.a) if held(e.a) == held(e.b) else None
        case pr.Call(fn="exp"):
            return "zero" if held(e.args[0]) == "low" else None
        case pr.Binary(op="-"):
            return "low" if held(e.a) == "low" and held(e.b) is None else None
        case pr.Binary(op="*"):
            return "zero" if "zero" in (held(e.a), held(e.b)) else None
        case pr.Binary(op="/"):
            return "zero" if held(e.a) == "zero" else None
        case _:
            return None
