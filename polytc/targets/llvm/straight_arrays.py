"""Private arrays that straight code fills and reads, a row at a time, are no memory: each row is the value that was stored.

    alloc private f32 T[2,8];  T[0, ramp(0, 1, 8)] = a;  T[1, ramp(0, 1, 8)] = b;  Y[ramp(0, 1, 8)] = T[1, ramp(0, 1, 8)]
      is Y[ramp(0, 1, 8)] = b, as LLVM would find (SROA) in text three times as long.

Straight is what runs once each time the array is made: copies of loops (passes.unrolling), but no other loops and no branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.addresses import Address
from polytc.targets.llvm import ir

Copies: TypeAlias = Mapping[str, loops.For]
"""The loops of copies around a statement, by variable."""


class Rows:
    """What such an array holds, by the place of the first element. The function counts the instructions of one in memory that
    it spares (an address, a store and a load of each row), so that loops are as long as they were for who looks at that."""

    def __init__(self) -> None:
        self._values: dict[int, ir.Value] = {}
        self._loaded: set[int] = set()
        self._block = ""

    def store(self, fn: ir.Function, form: Address | None, value: ir.Value) -> None:
        at = _place(form)
        fn.spared += 1 + (at > 0 and at not in self._values)
        self._values[at] = value
        self._loaded.clear()

    def load(self, fn: ir.Function, form: Address | None, type_: str) -> ir.Value:
        """What was stored last; anything where nothing was."""
        at = _place(form)
        if self._block != fn.block:
            self._block = fn.block
            self._loaded.clear()
        fn.spared += at not in self._loaded
        self._loaded.add(at)
        return self._values.get(at) or ir.Value(type_, "undef")


def _place(form: Address | None) -> int:
    """Of a row, which each copy knows as a number."""
    assert form is not None, "no gather in rows"
    assert not form.terms, f"a row that a loop chooses: {form}"
    return form.constant


def found(kernel: loops.Kernel) -> frozenset[str]:
    """The names of these arrays."""
    search = _Search()
    search.visit(kernel.body, kernel, {})
    return frozenset(search.straight - search.others)


@dataclass
class _Array:
    """place: where it was made: a kernel, a loop or a branch. lanes: of a row; 1 of scalars, 0 before the first use."""

    place: object
    lanes: int = 0


class _Search:
    """known: the arrays around a statement, by name. straight, others: names of arrays that are so, or memory."""

    def __init__(self) -> None:
        self.known: dict[str, _Array] = {}
        self.straight: set[str] = set()
        self.others: set[str] = set()

    def visit(self, s: loops.Stmt, place: object, copies: Copies) -> None:
        for top in traverse.expressions(s):
            for e, _ in traverse.loads(top):
                self._access(e.buffer, e.indices, e.lanes, place, copies)
        match s:
            case loops.Store():
                self._access(s.buffer, s.indices, max((i.lanes for i in s.indices), default=1), place, copies)
            case loops.For(kind="unroll"):
                self.visit(s.body, place, {**copies, s.var: s})
            case loops.For():
                self.visit(s.body, s, copies)
            case loops.If():
                for branch in traverse.children(s):
                    self.visit(branch, branch, copies)
            case loops.Block():
                for x in s.stmts:
                    self.visit(x, place, copies)
            case loops.Alloc():
                around = self.known
                self.known = {**around, s.buffer.name: _Array(place)}
                (self.straight if s.buffer.space == "private" and not copies else self.others).add(s.buffer.name)
                self.visit(s.body, place, copies)
                self.known = around
            case _:
                pass

    def _access(self, buffer: loops.Buffer, indices: Sequence[loops.Expr], lanes: int, place: object, copies: Copies) -> None:
        array = self.known.get(buffer.name)
        if array is None or buffer.name in self.others:
            return
        array.lanes = array.lanes or lanes
        if array.place is not place or array.lanes != lanes or not _is_row(buffer, indices, lanes, copies):
            self.others.add(buffer.name)


def _is_row(buffer: loops.Buffer, indices: Sequence[loops.Expr], lanes: int, copies: Copies) -> bool:
    """Is an access so many neighbouring elements, which begin at a multiple of as many in each copy?"""
    if not indices:
        return lanes == 1
    *others, last = indices
    if isinstance(last, loops.Ramp):
        if (last.stride, last.lanes, last.active) != (1, lanes, None) or buffer.shape[-1] % lanes:
            return False
        last = last.base
    elif lanes > 1:
        return False
    return _known(last, lanes, copies) and all(_known(i, 1, copies) for i in others)


def _known(index: loops.Expr, unit: int, copies: Copies) -> bool:
    """Is a scalar a known multiple of a number in each copy?"""
    if index.lanes > 1:
        return False
    for atom, c in linear_forms.linear(index).items():
        loop = copies.get(atom.name) if isinstance(atom, loops.Var) else None
        if loop is None and atom != linear_forms.ONE:
            return False
        parts = (c,) if loop is None or not isinstance(loop.lower, loops.Const) else (c * int(loop.lower.value), c * loop.step)
        if any(n % unit for n in parts):
            return False
    return True
