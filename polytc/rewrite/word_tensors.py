"""Word tensors: the numbers of a tensor, or the parts of them, side by side in words along one of its dimensions.

    A_words[x0,x1] = word(A[x0, 4*x1], ..., A[x0, 4*x1 + 3])

What dot products of words (program.calls) read, and how a sum of products becomes a sum of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.calls.words import WORD, Dot
from polytc.program.linear import linear, normalise
from polytc.program.names import fresh
from polytc.program.scalars import I32, I64, U8, U32, DType
from polytc.schedule.cost.register_tiles import MATRIX
from polytc.schedule.facts.fusion_groups import reduced_indices
from polytc.schedule.facts.strides import of_statement

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
    those beyond are 0. flipped: the top bit of each number is, so that it is 128 more (u8 from i8) or less (i8 from u8).
    part: the call that makes words of parts of f32 (calls.words.PARTS), '' for numbers as they are. rows: whether the words'
    dimension is the last one, wherever that of the numbers is."""

    factor: Factor
    kind: DType
    dimension: int
    steps: int
    count: int
    part: str = ""
    rows: bool = False

    @property
    def flipped(self) -> bool:
        return self.factor.read.dtype.bits == self.kind.bits and self.factor.read.dtype.is_int and \
            self.factor.read.dtype != self.kind

    @property
    def group(self) -> int:
        return U32.bits // self.kind.bits

    @property
    def zero(self) -> pr.Expr | None:
        """What the numbers in the words are too large by."""
        moved = 0 if not self.flipped else 128 if self.kind == U8 else -128
        return total(self.factor.zero, number(moved) if moved else None)


class WordTensors:
    """The tensors and statements that come before an update."""

    def __init__(self, program: pr.Program) -> None:
        self.old = program
        self.tensors = list(program.tensors)
        self.statements: list[pr.Statement] = []

    def words(self, w: Words) -> pr.Read:
        """The read of the words in place of that of the factor."""
        source, d = self.old.tensor(w.factor.read.tensor), w.dimension
        shape = tuple(w.count if n == d else extent for n, extent in enumerate(source.shape))
        order = sorted(range(len(shape)), key=lambda n: w.rows and n == d)
        target = self._tensor(f"{source.name}_{w.part or 'words'}", U32, tuple(shape[n] for n in order),
                              tuple(source.lower[n] for n in order))
        ranges = [pr.Range(f"x{n}", lo, lo + extent) for n, (lo, extent) in enumerate(zip(source.lower, shape, strict=True))]
        whole, rest = divmod(w.steps, w.group)
        ranges[d] = replace(ranges[d], upper=whole)
        cell: list[pr.Expr] = [pr.Index(r.index) for r in ranges]
        first = pr.Binary("*", pr.Const(w.group, I64), cell[d], I64)
        def assign(value: pr.Expr, ranges: Sequence[pr.Range]) -> None:
            self._assign(target, [cell[n] for n in order], value, tuple(ranges))
        assign(self._word(w, first, w.group), ranges)
        if rest:
            cell[d] = pr.Const(whole, I64)
            assign(self._word(w, pr.Const(whole * w.group, I64), rest), ranges[:d] + ranges[d + 1:])
        filled = whole + (rest > 0)
        if filled < w.count:
            cell[d], ranges[d] = pr.Index(f"x{d}"), pr.Range(f"x{d}", filled, w.count)
            assign(pr.Const(0, U32), ranges)
        read = w.factor.read
        return pr.Read(target.name, tuple(read.subscripts[n] for n in order), U32, self._beyond(w))

    def _beyond(self, w: Words) -> pr.Const | None:
        """The word of what a read is where there is no number."""
        default, kind = w.factor.read.default, w.factor.read.dtype
        if default is None:
            return None
        assert kind.bits == w.kind.bits, "words: other numbers beyond the ends"
        bits = int(default.value) & (1 << kind.bits) - 1
        whole = sum(bits << n * kind.bits for n in range(w.group))
        return pr.Const(whole ^ (TOP_BITS if w.flipped else 0), U32)

    def _word(self, w: Words, first: pr.Expr, count: int) -> pr.Expr:
        """The word of `count` numbers from the coordinate `first` on, filled up with what becomes 0."""
        source, parts = self.old.tensor(w.factor.read.tensor), list[pr.Expr]()
        kind = source.dtype if w.flipped or w.part else w.kind
        nothing: int | float = 0.0 if kind.is_float else 0 if not w.flipped else 128 if kind == U8 else -128
        for n in range(w.group):
            at = normalise(pr.Binary("+", first, pr.Const(n, I64), I64))
            subs = tuple(at if d == w.dimension else pr.Index(f"x{d}") for d in range(len(source.shape)))
            part: pr.Expr = pr.Read(source.name, subs, source.dtype)
            parts.append(pr.Const(nothing, kind) if n >= count else part if source.dtype == kind else pr.Cast(part, kind))
        word = pr.Call(w.part or WORD, tuple(parts), U32)
        return pr.Binary("^", word, pr.Const(TOP_BITS, U32), U32) if w.flipped else word

    def sum_of(self, update: pr.Statement, words: pr.Read) -> pr.Read:
        """The read of the sum of all numbers of a factor, for each index that the update keeps."""
        reduced, used = reduced_indices(update), named(words)
        kept = tuple(r for r in update.ranges if r.index in used and r.index not in reduced)
        ranges = (*kept, *(r for r in update.ranges if r.index in reduced))
        target = self._tensor(f"{words.tensor}_sum", I32, tuple(r.extent for r in kept), tuple(r.lower for r in kept))
        cell = [pr.Index(r.index) for r in kept]
        self._assign(target, cell, number(0), kept)
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
            between = {x.target for x in statements[start + 1:at]} if start is not None else set[str]()
            if init is not None and _is_start(init, s) and not any(r.tensor in between for r in pr.reads(init)):
                names = {pr.Index(r.index).name: sub for r, sub in zip(_box(s), moving(init.subscripts), strict=True)}
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


# ---- the index that words run along

def along(program: pr.Program, s: pr.Statement, factors: tuple[Factor, Factor], size: int) -> pr.Range | None:
    """The reduced index along which both factors can be put into words."""
    possible = [r for r in s.ranges if r.index in reduced_indices(s) and r.lower == 0 and r.extent >= size
                and all(dimension(f.read, r.index) >= 0 and
                        program.tensor(f.read.tensor).lower[dimension(f.read, r.index)] == 0 for f in factors)]
    return max(possible, key=lambda r: (r.extent % size == 0, r.extent), default=None)


def dimension(read: pr.Read, index: str) -> int:
    """The only dimension that the index moves, if it stands alone there; else -1."""
    moved = [d for d, sub in enumerate(read.subscripts) if any(e == pr.Index(index) for e in pr.walk(sub))]
    return moved[0] if len(moved) == 1 and read.subscripts[moved[0]] == pr.Index(index) else -1


def whole_words(dot: Dot, steps: int, machine: Machine) -> int:
    """How many words: whole tiles of them for a matrix unit, which has no use for less."""
    count = -(-steps // dot.group)
    whole = -(-count // MATRIX) * MATRIX
    return whole if machine.multiplies_tiles(dot.name) and 2 * count >= whole else count


@dataclass(frozen=True)
class Sides:
    """The operands of a contraction in tiles: that of the rows, the longest index that moves it alone, that of the columns, and
    the index along which they, and the results in memory, lie."""

    row: pr.Read
    rows: str
    column: pr.Read
    columns: str


def sides(program: pr.Program, s: pr.Statement, a: pr.Read, b: pr.Read, free: Sequence[str],
          fits: Callable[[pr.Read, str], bool] = lambda read, index: True) -> Sides | None:
    """Which of two operands has the rows; None if none can. free: indices to choose from; fits: may columns lie along it?"""
    target = of_statement(program, s)[0]
    for row, column in ((a, b), (b, a)):
        columns = next((i for i in free if target.stride(i) == 1 and i in named(column) and i not in named(row)
                        and fits(column, i)), None)
        rows = max((i for i in free if i in named(row) and i not in named(column)), key=lambda i: s.extents[i], default=None)
        if columns is not None and rows is not None:
            return Sides(row, rows, column, columns)
    return None


# ---- targets and starts

def named(read: pr.Read) -> tuple[str, ...]:
    return tuple(dict.fromkeys(e.name for sub in read.subscripts for e in pr.walk(sub) if isinstance(e, pr.Index)))


def moving(subscripts: Sequence[pr.Expr]) -> list[pr.Expr]:
    """Without the numbers that axes of extent 1 have."""
    return [sub for sub in subscripts if not isinstance(sub, pr.Const)]


def plain_target(s: pr.Statement) -> bool:
    forms = [linear(sub) for sub in moving(s.subscripts)]
    names = [f.index for f in forms if f is not None]
    return len(names) == len(forms) and None not in names and len(set(names)) == len(names)


def _box(s: pr.Statement) -> tuple[pr.Range, ...]:
    """The ranges of the target's subscripts, which are plain indices, in their order."""
    return tuple(s.by_index[str(form.index)] for sub in moving(s.subscripts) if (form := linear(sub)) is not None)


def _is_start(init: pr.Statement, s: pr.Statement) -> bool:
    """Does `init` assign just the elements that s adds to?"""
    same = init.target == s.target and init.op is None and not init.where and plain_target(init)
    return same and [(r.lower, r.upper) for r in _box(init)] == [(r.lower, r.upper) for r in _box(s)] \
        and len(init.ranges) == len(moving(init.subscripts)) and _fixed(init) == _fixed(s)


def _fixed(s: pr.Statement) -> list[tuple[int, pr.Expr]]:
    """The numbers among the subscripts of the target, with their places."""
    return [(d, sub) for d, sub in enumerate(s.subscripts) if isinstance(sub, pr.Const)]


def number(value: int) -> pr.Const:
    """An i32; what is beyond wraps."""
    return pr.Const((value + (1 << 31)) % (1 << 32) - (1 << 31), I32)


def total(a: pr.Expr | None, b: pr.Expr | None) -> pr.Expr | None:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, pr.Const) and isinstance(b, pr.Const):
        value = number(int(a.value) + int(b.value))
        return value if value.value else None
    return pr.Binary("+", a, b, I32)
