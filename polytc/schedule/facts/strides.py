"""How far an access moves in memory when an index advances by one: the one fact behind vector and tile choices."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.affine import Affine, Quotient, Remainder, affine
from polytc.program.calls.words import PARTS, WORD
from polytc.program.linear import linear
from polytc.program.scalars import I64

ROW = 2
"""Elements of a row that vectors take apart and put together: as many as a shuffle has operands."""
LONG = 16
"""Values of a digit of an index from which its loop has whole vectors: the digit walks, the one above it stands still."""


@dataclass(frozen=True)
class AccessStrides:
    """One access of a statement. strides: index -> elements per step; an index that occurs under `//` or `%` by a small
    number, or in a gather, has stride None (unknown); in the target under any: sums for which it stands still have one element.
    write: it is the target. bytes: of the whole tensor. width: bytes of an element."""

    tensor: str
    write: bool
    bytes: int
    width: int
    strides: tuple[tuple[str, int | None], ...]

    @functools.cached_property
    def _by_index(self) -> dict[str, int | None]:
        return dict(self.strides)

    def stride(self, index: str) -> int | None:
        """0 if the access does not depend on the index."""
        return self._by_index.get(index, 0)


def of_statement(program: pr.Program, s: pr.Statement) -> tuple[AccessStrides, ...]:
    """The target first, then every read."""
    target = _strides(program.tensor(s.target), s.subscripts, True)
    numbers = _in_word(s)
    if numbers:
        first, size = of_access(program, numbers[0]), len(numbers)
        near = tuple((i, 1 if stride == size and _along(numbers, i) else stride) for i, stride in first.strides)
        return target, replace(first, strides=near)
    return (target, *(of_access(program, r) for r in pr.reads(s)))


def along_rows(program: pr.Program, statements: Sequence[pr.Statement], accesses: tuple[AccessStrides, ...]
               ) -> tuple[AccessStrides, ...]:
    """The accesses of a statement, where those count as contiguous that vectors read and store whole, and shuffle: those that
    walk backwards, and those that take one element of each row, if the statements, which share loops, touch all elements of
    these rows, by numbers or by an index of few values that no read has (codegen.passes.interleaved_rows)."""
    rows = {pr.Const(n, I64) for n in range(ROW)}
    parts = dict[tuple[str, bool], set[pr.Expr]]()
    for s in statements:
        read = pr.reads(s)
        used = {i for r in read for e in r.subscripts for i in pr.index_names(e)}
        both = {pr.Index(r.index) for r in s.ranges if r.ends == (0, ROW - 1) and r.index not in used}
        for place, subscripts in (((s.target, True), s.subscripts), *(((r.tensor, False), r.subscripts) for r in read)):
            parts.setdefault(place, set()).update(rows if subscripts[-1:] and subscripts[-1] in both else subscripts[-1:])
    whole = {place for place, found in parts.items() if found == rows and program.tensor(place[0]).shape[-1] == ROW}
    return tuple(_as_contiguous(a, (-1, ROW) if (a.tensor, a.write) in whole else (-1,)) for a in accesses)


def _as_contiguous(a: AccessStrides, steps: tuple[int, ...]) -> AccessStrides:
    """The access with a stride of 1 for indices that walk it in one of these steps."""
    if not any(stride in steps for _, stride in a.strides):
        return a
    return replace(a, strides=tuple((i, 1 if stride in steps else stride) for i, stride in a.strides))


def _in_word(s: pr.Statement) -> tuple[pr.Read, ...]:
    """The reads of a statement that puts them side by side into words (rewrite.dot_words), if it is one."""
    words = [e for e in pr.walk(s.value) if isinstance(e, pr.Call) and e.fn in (WORD, *PARTS)]
    numbers = pr.reads(s)
    return numbers if len(words) == 1 and len(numbers) == len(words[0].args) else ()


def _along(numbers: tuple[pr.Read, ...], index: str) -> bool:
    """Does the index move the last dimension, in which the reads are neighbours?"""
    return all(any(e == pr.Index(index) for e in pr.walk(r.subscripts[-1])) for r in numbers)


def of_access(program: pr.Program, read: pr.Read) -> AccessStrides:
    """One read alone."""
    return _strides(program.tensor(read.tensor), read.subscripts, False)


@functools.lru_cache(maxsize=1 << 14)  # strategies ask the same of every statement again and again
def _strides(t: pr.Tensor, subscripts: tuple[pr.Expr, ...], write: bool) -> AccessStrides:
    step, total = 1, dict[str, int | None]()
    halves = [block for sub in subscripts if linear(sub) is None and (block := panel(sub)) is not None]
    for sub, extent in zip(reversed(subscripts), reversed(t.shape), strict=True):
        form = linear(sub)
        block = panel(sub) if form is None else None
        if block is not None and (block[0], "%", block[2]) in halves:
            if block[1] == "%":
                total[block[0]] = step
            else:
                total.setdefault(block[0], 0)
        else:
            steps = form.terms if form is not None else _steps(sub) if not write else ((i, None) for i in pr.index_names(sub))
            for index, c in steps:
                known = total.get(index, 0)
                total[index] = None if known is None or c is None else known + c * step
        step *= extent
    return AccessStrides(t.name, write, t.size * t.dtype.bytes, t.dtype.bytes, tuple(sorted(total.items())))


def _steps(e: pr.Expr) -> Iterator[tuple[str, int | None]]:
    """How far a subscript with quotients or remainders moves where an index advances by one, but for the few times that these
    begin anew; None for an index where that happens in each vector."""
    form = affine(e)
    if form is None:
        yield from ((i, None) for i in pr.index_names(e))
        return
    for atom, c in form.terms:
        match atom:
            case str():
                yield atom, c
            case Quotient(a=Affine() as inner, divisor=n) | Remainder(a=Affine() as inner, divisor=n):
                for index, times in inner.terms:
                    if isinstance(index, str):
                        yield index, None if n < LONG * abs(times) else c * times if isinstance(atom, Remainder) else 0
                    else:
                        yield from ((i, None) for i in pr.index_names(e))
            case _:
                yield from ((i, None) for i in pr.index_names(e))


def panel(e: pr.Expr) -> tuple[str, str, int] | None:
    """(index, operator, size) of `i % size` or `i // size`: the two halves of a position in a packed panel. Within a panel the
    first walks by one and the second stands still, which is what strides say of them."""
    match e:
        case pr.Binary(op="//" | "%", a=pr.Index(name=index), b=pr.Const(value=size)):
            return index, e.op, int(size)
        case _:
            return None


def panel_width(s: pr.Statement, index: str) -> int | None:
    """The width of the panels in which an access of the statement keeps this index, if there is one."""
    subscripts = [*s.subscripts, *(sub for r in pr.reads(s) for sub in r.subscripts)]
    found = [p[2] for sub in subscripts if (p := panel(sub)) is not None and p[:2] == (index, "%")]
    return found[0] if found else None


def vector_score(accesses: tuple[AccessStrides, ...], index: str) -> int:
    """How well an index vectorises: contiguous accesses count for it, strided ones (gathers) against it."""
    score, contiguous = 0, False
    for a in accesses:
        stride = a.stride(index)
        weight = 2 if a.write else 1
        if stride == 1:
            score, contiguous = score + 2 * weight, True
        elif stride == 0:
            score += 0 if a.write else 1
        else:
            score -= 3 * weight if stride is not None and abs(stride) <= 2 else 6 * weight
    return score if contiguous else min(score, 0)


def lane_width(program: pr.Program, s: pr.Statement, machine: Machine) -> int:
    """Elements of a vector that holds the statement's widest operand."""
    return machine.lanes(max(program.tensor(n).dtype.bytes for n in (s.target, *(r.tensor for r in pr.reads(s)))))
