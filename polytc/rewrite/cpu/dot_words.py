"""Sums of products of narrow numbers become dot products of words, where the machine has them.

    C[i,j] += i32(A[i,k])*i32(B[k,j])                   with u8 A[64,64], i8 B[64,64] on vnni
    ->  A_words[x0,x1] = word(A[i64(x0), i64(4)*i64(x1)], ..., A[i64(x0), i64(4)*i64(x1) + i64(3)])
        B_words[x0,x1] = word(B[i64(4)*i64(x0), i64(x1)], ..., B[i64(4)*i64(x0) + i64(3), i64(x1)])
        C[i,j] += dot_u8i8(A_words[i64(i), i64(k)], B_words[i64(k), i64(j)]) where k in 0:16

A word holds what one lane of the instruction multiplies and adds (program.words), so that the words are a contraction of 32-bit
numbers like any other: packing, register tiles and blocks follow as for f32. A factor may be less a number that the sum does
not depend on, as the zero points of quantised tensors are; and where the instruction wants the other signedness, 128 is added
to a factor (its top bit flipped) and is such a number, too:

    sum (a - x) * (b - y)  =  sum a * b  -  x * sum b  -  y * sum a  +  n * x * y

All of it is exact, since integers wrap. (The offset is that of Jacob et al., Quantization and Training of Neural Networks for
Efficient Integer-Arithmetic-Only Inference, CVPR 2018, section 2.3.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.linear import linear, normalise
from polytc.program.names import fresh
from polytc.program.scalars import I8, I32, I64, U8, U32, DType
from polytc.program.words import DOTS, WORD, Dot
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.rewrite.tidy import hoist
from polytc.schedule.cost.register_tiles import MATRIX
from polytc.schedule.facts.fusion_groups import is_contraction, reduced_indices

TOP_BITS = 0x80808080
"""The top bit of each of four bytes."""


@dataclass(frozen=True)
class Factor:
    """`T(read) - zero` in a sum of products; zero: None for nothing."""

    read: pr.Read
    zero: pr.Expr | None = None


@dataclass(frozen=True)
class Words:
    """A factor in `count` words of numbers of type `kind` along dimension `dimension` of its tensor, `steps` numbers in all;
    those beyond are 0. flipped: the top bit of each number is, so that it is 128 more (u8 from i8) or less (i8 from u8)."""

    factor: Factor
    kind: DType
    dimension: int
    steps: int
    count: int

    @property
    def flipped(self) -> bool:
        return self.factor.read.dtype.bits == self.kind.bits and self.factor.read.dtype != self.kind

    @property
    def group(self) -> int:
        return U32.bits // self.kind.bits

    @property
    def zero(self) -> pr.Expr | None:
        """What the numbers in the words are too large by."""
        moved = 0 if not self.flipped else 128 if self.kind == U8 else -128
        return _sum(self.factor.zero, _number(moved) if moved else None)


@dataclass(frozen=True)
class DotWords:
    """A sum of products is one of such dot products, of words along the index. swapped: 1 if the instruction's first operand is
    the second factor."""

    statement: str
    dot: str
    along: str
    swapped: int = 0


@dataclass(frozen=True)
class _Plan:
    """dot: of the words of a and b, in this order, along the reduced index `index`."""

    dot: Dot
    index: str
    a: Words
    b: Words


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The sums of products of narrow numbers that are used often enough."""
    chosen, why, fixed = list[DotWords](), Reasons(), hoist.constants(program)
    for s in program.statements if machine.dots else ():
        plan = _plan(program, s, fixed, machine, why)
        if plan is not None:
            why.acts(s.name, f"{plan.a.factor.read.tensor} and {plan.b.factor.read.tensor} in words along {plan.index}, "
                             f"for {plan.dot.name}")
            chosen.append(_choice(s, plan))
    return Decision(machine, tuple(chosen), tuple(why.rows))


def group(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with dot products of words in the chosen statements."""
    for choice in decision.choices:
        s = program.statement(choice.statement)
        plan = next(p for p in _plans(program, s, decision.machine) if _choice(s, p) == choice)
        program = _applied(program, s, plan)
    return program


def fits(program: pr.Program, machine: Machine, choice: DotWords) -> str:
    """Why a sum cannot be made so; '' if it can."""
    s = program.statement(choice.statement)
    possible = [_choice(s, p) for p in _plans(program, s, machine)]
    if choice in possible:
        return ""
    told = "; ".join(f"dot={c.dot} along={c.along} swapped={c.swapped}" for c in possible)
    return f"possible are {told}" if told else f"the machine has no dot product of what {s.name} multiplies"


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each sum of products, the dot products that it may be made of."""
    found = ((s, _plans(program, s, machine)) for s in program.statements if machine.dots)
    return [[Option(), *(Option((_choice(s, p),)) for p in plans)] for s, plans in found if plans]


# ---- what is possible, and what is best

def _plan(program: pr.Program, s: pr.Statement, fixed: frozenset[str], machine: Machine, why: Reasons) -> _Plan | None:
    factors = _grouped(s)
    if factors is None:
        return None
    seldom = next((f.read.tensor for f in factors if f.read.tensor not in fixed
                   and s.points < machine.costs.copies.word_uses * program.tensor(f.read.tensor).size), None)
    if seldom is not None:
        why.declines(s.name, f"{seldom} in words: each of its numbers is used {s.points // program.tensor(seldom).size} times, "
                             f"and words take {machine.costs.copies.word_uses}")
        return None
    return min(_plans(program, s, machine), key=lambda p: (-p.dot.group, _corrections(s, p, fixed)), default=None)


def _choice(s: pr.Statement, plan: _Plan) -> DotWords:
    factors = _factors(s)
    return DotWords(s.name, plan.dot.name, plan.index, int(factors is not None and plan.a.factor != factors[0]))


def _grouped(s: pr.Statement) -> tuple[Factor, Factor] | None:
    """The factors of a sum of products, if words can take their place."""
    factors = _factors(s)
    return None if s.op != "+" or s.where or not is_contraction(s) or not _plain_target(s) else factors


def _plans(program: pr.Program, s: pr.Statement, machine: Machine) -> list[_Plan]:
    """What is possible for a statement."""
    plans, factors = list[_Plan](), _grouped(s)
    if factors is None:
        return plans
    for dot in (DOTS[name] for name in machine.dots if DOTS[name].result == program.tensor(s.target).dtype):
        for a, b in (factors, factors[::-1]):
            index = _index(program, s, factors, dot.group)
            if index is not None and _fits(a, dot.a) and _fits(b, dot.b):
                count = _count(dot, index.extent, machine)
                words = (Words(f, kind, _dimension(f.read, index.index), index.extent, count)
                         for f, kind in ((a, dot.a), (b, dot.b)))
                plans.append(_Plan(dot, index.index, *words))
    return plans


def _count(dot: Dot, steps: int, machine: Machine) -> int:
    """How many words: whole tiles of them for a matrix unit, which has no use for less."""
    count = -(-steps // dot.group)
    whole = -(-count // MATRIX) * MATRIX
    return whole if machine.multiplies_tiles(dot.name) and 2 * count >= whole else count


def _factors(s: pr.Statement) -> tuple[Factor, Factor] | None:
    """The two factors of the value, if it is the product of two narrow reads, widened."""
    if not isinstance(s.value, pr.Binary) or s.value.op != "*":
        return None
    a, b = _factor(s, s.value.a), _factor(s, s.value.b)
    return (a, b) if a is not None and b is not None else None


def _factor(s: pr.Statement, e: pr.Expr) -> Factor | None:
    if isinstance(e, pr.Binary) and e.op == "-" and e.dtype == I32:
        inside = _factor(s, e.a)
        fixed = not any(isinstance(x, pr.Index) and x.name in reduced_indices(s) for x in pr.walk(e.b))
        return replace(inside, zero=e.b) if inside is not None and inside.zero is None and fixed else None
    if not isinstance(e, pr.Cast) or not isinstance(e.a, pr.Read) or e.a.default is not None or e.a.dtype == e.dtype:
        return None
    return None if e.a.gathers else Factor(e.a)


def _fits(f: Factor, kind: DType) -> bool:
    """Can the numbers be put into words of this kind? Those of i16 take bytes, too; those of bytes either sign."""
    of = f.read.dtype
    return of == kind or (of in (I8, U8) and kind.is_int)


def _moving(subscripts: Sequence[pr.Expr]) -> list[pr.Expr]:
    """Without the numbers that axes of extent 1 have."""
    return [sub for sub in subscripts if not isinstance(sub, pr.Const)]


def _plain_target(s: pr.Statement) -> bool:
    forms = [linear(sub) for sub in _moving(s.subscripts)]
    names = [f.index for f in forms if f is not None]
    return len(names) == len(forms) and None not in names and len(set(names)) == len(names)


def _index(program: pr.Program, s: pr.Statement, factors: tuple[Factor, Factor], size: int) -> pr.Range | None:
    """The reduced index along which both factors can be put into words."""
    possible = [r for r in s.ranges if r.index in reduced_indices(s) and r.lower == 0 and r.extent >= size
                and all(_dimension(f.read, r.index) >= 0 and
                        program.tensor(f.read.tensor).lower[_dimension(f.read, r.index)] == 0 for f in factors)]
    return max(possible, key=lambda r: (r.extent % size == 0, r.extent), default=None)


def _dimension(read: pr.Read, index: str) -> int:
    """The only dimension that the index moves, if it stands alone there; else -1."""
    moved = [d for d, sub in enumerate(read.subscripts) if any(e == pr.Index(index) for e in pr.walk(sub))]
    return moved[0] if len(moved) == 1 and read.subscripts[moved[0]] == pr.Index(index) else -1


def _corrections(s: pr.Statement, plan: _Plan, fixed: frozenset[str]) -> int:
    """Steps of the sums that the zeros ask for in each call."""
    extent = s.extents
    asked = [x.factor.read for x, other in ((plan.a, plan.b), (plan.b, plan.a)) if other.zero is not None]
    return sum(prod(extent[i] for i in _indices(r)) for r in asked if r.tensor not in fixed)


def _indices(read: pr.Read) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e.name for sub in read.subscripts for e in pr.walk(sub) if isinstance(e, pr.Index)))


# ---- the rewrite

def _applied(program: pr.Program, s: pr.Statement, plan: _Plan) -> pr.Program:
    new = _New(program)
    a, b = (new.words(x) for x in (plan.a, plan.b))
    steps = tuple(pr.Range(r.index, 0, plan.a.count) if r.index == plan.index else r for r in s.ranges)
    update = replace(s, value=pr.Call(plan.dot.name, (a, b), plan.dot.result), ranges=steps)
    terms: pr.Expr | None = None
    if plan.a.zero is not None or plan.b.zero is not None:
        ones = pr.Const(sum(1 << n * plan.a.kind.bits for n in range(plan.dot.group)), U32)
        for other, words, args in ((plan.b, a, (a, ones)), (plan.a, b, (ones, b))):
            if other.zero is not None:
                total = new.total(replace(update, value=pr.Call(plan.dot.name, args, plan.dot.result)), words)
                terms = _sum(terms, _product(_product(_number(-1), total), other.zero))
        if plan.a.zero is not None and plan.b.zero is not None:
            points = prod(s.extents[i] for i in reduced_indices(s))
            terms = _sum(terms, _product(_number(points), _product(plan.a.zero, plan.b.zero)))
    return new.program(s, terms, update)


class _New:
    """The tensors and statements that come before an update."""

    def __init__(self, program: pr.Program) -> None:
        self.old = program
        self.tensors = list(program.tensors)
        self.statements: list[pr.Statement] = []

    def words(self, w: Words) -> pr.Read:
        """The read of the words in place of that of the factor."""
        source, d = self.old.tensor(w.factor.read.tensor), w.dimension
        shape = tuple(w.count if n == d else extent for n, extent in enumerate(source.shape))
        target = self._tensor(f"{source.name}_words", U32, shape, source.lower)
        ranges = [pr.Range(f"x{n}", lo, lo + extent) for n, (lo, extent) in enumerate(zip(source.lower, shape, strict=True))]
        whole, rest = divmod(w.steps, w.group)
        ranges[d] = replace(ranges[d], upper=whole)
        cell: list[pr.Expr] = [pr.Index(r.index) for r in ranges]
        first = pr.Binary("*", pr.Const(w.group, I64), cell[d], I64)
        self._assign(target, cell, self._word(w, first, w.group), tuple(ranges))
        if rest:
            cell[d] = pr.Const(whole, I64)
            self._assign(target, cell, self._word(w, pr.Const(whole * w.group, I64), rest), tuple(ranges[:d] + ranges[d + 1:]))
        filled = whole + (rest > 0)
        if filled < w.count:
            cell[d], ranges[d] = pr.Index(f"x{d}"), pr.Range(f"x{d}", filled, w.count)
            self._assign(target, cell, pr.Const(0, U32), tuple(ranges))
        return pr.Read(target.name, w.factor.read.subscripts, U32)

    def _word(self, w: Words, first: pr.Expr, count: int) -> pr.Expr:
        """The word of `count` numbers from the coordinate `first` on, filled up with what becomes 0."""
        source, parts = self.old.tensor(w.factor.read.tensor), list[pr.Expr]()
        kind = source.dtype if w.flipped else w.kind
        nothing: int | float = 0.0 if kind.is_float else 0 if not w.flipped else 128 if kind == U8 else -128
        for n in range(w.group):
            at = normalise(pr.Binary("+", first, pr.Const(n, I64), I64))
            subs = tuple(at if d == w.dimension else pr.Index(f"x{d}") for d in range(len(source.shape)))
            part: pr.Expr = pr.Read(source.name, subs, source.dtype)
            parts.append(pr.Const(nothing, kind) if n >= count else part if source.dtype == kind else pr.Cast(part, kind))
        word = pr.Call(WORD, tuple(parts), U32)
        return pr.Binary("^", word, pr.Const(TOP_BITS, U32), U32) if w.flipped else word

    def total(self, update: pr.Statement, words: pr.Read) -> pr.Read:
        """The read of the sum of all numbers of a factor, for each index that the update keeps."""
        reduced, used = reduced_indices(update), _indices(words)
        kept = tuple(r for r in update.ranges if r.index in used and r.index not in reduced)
        ranges = (*kept, *(r for r in update.ranges if r.index in reduced))
        target = self._tensor(f"{words.tensor}_sum", I32, tuple(r.extent for r in kept), tuple(r.lower for r in kept))
        cell = [pr.Index(r.index) for r in kept]
        self._assign(target, cell, _number(0), kept)
        self._assign(target, cell, update.value, ranges, "+")
        return pr.Read(target.name, tuple(cell), I32)

    def program(self, s: pr.Statement, terms: pr.Expr | None, update: pr.Statement) -> pr.Program:
        """The program with `update` in place of s, which starts from what was there and `terms`."""
        statements = list(self.old.statements)
        at = statements.index(s)
        if terms is not None:
            start = next((n for n in reversed(range(at)) if statements[n].target == s.target
                          or any(r.tensor == s.target for r in pr.reads(statements[n]))), None)
            init = statements[start] if start is not None else None
            if init is not None and _is_start(init, s):
                names = {pr.Index(r.index).name: sub for r, sub in zip(_box(s), _moving(init.subscripts), strict=True)}
                value = pr.substitute(terms, names)
                zero = isinstance(init.value, pr.Const) and init.value.value == 0
                self.statements.append(replace(init, value=value if zero else pr.Binary("+", init.value, value, I32)))
                statements.remove(init)
                at -= 1
            else:
                self._assign(self.old.tensor(s.target), list(s.subscripts), terms, _box(s), "+")
        statements[at:at + 1] = [*self.statements, update]
        return replace(self.old, tensors=tuple(self.tensors), statements=tuple(statements))

    def _tensor(self, name: str, dtype: DType, shape: tuple[int, ...], lower: tuple[int, ...]) -> pr.Tensor:
        made = pr.Tensor(fresh(name, {t.name for t in self.tensors}), dtype, shape, lower)
        self.tensors.append(made)
        return made

    def _assign(self, target: pr.Tensor, cell: Sequence[pr.Expr], value: pr.Expr, ranges: tuple[pr.Range, ...],
                op: str | None = None) -> None:
        name = fresh(f"S_{target.name}", {x.name for x in (*self.old.statements, *self.statements)})
        self.statements.append(pr.Statement(name, target.name, tuple(cell), op, value, ranges))


def _box(s: pr.Statement) -> tuple[pr.Range, ...]:
    """The ranges of the target's subscripts, which are plain indices, in their order."""
    return tuple(s.by_index[str(form.index)] for sub in _moving(s.subscripts) if (form := linear(sub)) is not None)


def _is_start(init: pr.Statement, s: pr.Statement) -> bool:
    """Does `init` assign just the elements that s adds to?"""
    same = init.target == s.target and init.op is None and not init.where and _plain_target(init)
    return same and [(r.lower, r.upper) for r in _box(init)] == [(r.lower, r.upper) for r in _box(s)] \
        and len(init.ranges) == len(_moving(init.subscripts)) and _fixed(init) == _fixed(s)


def _fixed(s: pr.Statement) -> list[tuple[int, pr.Expr]]:
    """The numbers among the subscripts of the target, with their places."""
    return [(d, sub) for d, sub in enumerate(s.subscripts) if isinstance(sub, pr.Const)]


def _number(value: int) -> pr.Const:
    """An i32; what is beyond wraps."""
    return pr.Const((value + (1 << 31)) % (1 << 32) - (1 << 31), I32)


def _sum(a: pr.Expr | None, b: pr.Expr | None) -> pr.Expr | None:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, pr.Const) and isinstance(b, pr.Const):
        value = _number(int(a.value) + int(b.value))
        return value if value.value else None
    return pr.Binary("+", a, b, I32)


def _product(a: pr.Expr, b: pr.Expr) -> pr.Expr:
    if isinstance(a, pr.Const) and isinstance(b, pr.Const):
        return _number(int(a.value) * int(b.value))
    if isinstance(b, pr.Const) and isinstance(a, pr.Binary) and a.op == "*" and isinstance(a.a, pr.Const):
        return pr.Binary("*", _number(int(a.a.value) * int(b.value)), a.b, I32)
    return pr.Binary("*", a, b, I32)
