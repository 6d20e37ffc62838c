"""Lists of numbers in expressions: each becomes a tensor that a statement of its own writes.

    B[i] += [1, 2, 1][k] * A[i+k]   ->   list1[at0] = at0 < 1 ? 1 : (at0 < 2 ? 2 : 1)  where at0 in 0:3
                                         B[i] += list1[k] * A[i+k]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from polytc import errors
from polytc.errors import CompileError, Span
from polytc.lang.parsing import syntax

errors.register(E117="list of the wrong form")

Rows: TypeAlias = "syntax.Expr | tuple[Rows, ...]"
"""A number, or a list of rows."""

_FORM = "a list of numbers has a subscript for each dimension: `[1, 2, 1][k]`, `[[1, 0], [0, 1]][i, j]`"


class Lists:
    """The lists of a text. written: the statements that write those that have been read since it was asked last."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.count = 0
        self._statements: list[syntax.Statement] = []

    def read(self, rows: tuple[Rows, ...], subscripts: tuple[syntax.Expr, ...], list_span: Span, span: Span) -> syntax.Access:
        """The access to a list; it has a tensor of its own. Raises CompileError (E117)."""
        shape = self.shape(rows, list_span)
        if len(shape) != len(subscripts):
            raise self.fail(f"this list has {len(shape)} dimensions and {len(subscripts)} subscripts", span, _FORM)
        name, axes = self.fresh(f"list{self.count + 1}"), tuple(self.fresh(f"at{d}") for d in range(len(shape)))
        self.count += 1
        at = tuple(syntax.Name(a, list_span) for a in axes)
        ranges = tuple(syntax.RangeClause(a, syntax.Number(0, list_span), syntax.Number(n, list_span), None, False, list_span)
                       for a, n in zip(axes, shape, strict=True))
        self._statements.append(syntax.Statement(name, at, None, False, self.chosen(rows, at, list_span), ranges, False,
                                                 list_span, list_span))
        return syntax.Access(name, subscripts, span, literal=True)

    def written(self) -> tuple[syntax.Statement, ...]:
        found, self._statements = tuple(self._statements), []
        return found

    def shape(self, rows: Rows, span: Span) -> tuple[int, ...]:
        """Of rows that have all the same one."""
        if not isinstance(rows, tuple):
            read = next((e for e in _walk(rows) if isinstance(e, syntax.Access | syntax.Guarded | syntax.Extent)), None)
            if read is not None and not isinstance(read, syntax.Extent):
                raise self.fail("a list holds numbers", read.span, "elements of tensors are written one by one: "
                                "`T[0] = A[0]; T[1] = B[0]`")
            return ()
        inner = {self.shape(r, span) for r in rows}
        if len(inner) > 1:
            raise self.fail("the rows of this list have different lengths", span, _FORM)
        return (len(rows), *inner.pop())

    def chosen(self, rows: Rows, at: Sequence[syntax.Name], span: Span) -> syntax.Expr:
        """The element at a place: by halves, so that long lists are not deep."""
        return self.between(rows, 0, len(rows), at, span) if isinstance(rows, tuple) else rows

    def between(self, rows: tuple[Rows, ...], low: int, high: int, at: Sequence[syntax.Name], span: Span) -> syntax.Expr:
        if high - low == 1:
            return self.chosen(rows[low], at[1:], span)
        middle = (low + high) // 2
        left = syntax.Binary("<", at[0], syntax.Number(middle, span), span)
        return syntax.Ternary(left, self.between(rows, low, middle, at, span), self.between(rows, middle, high, at, span), span)

    def fresh(self, name: str) -> str:
        """A name that the text does not have."""
        while re.search(rf"\b{name}\b", self.text):
            name += "_"
        return name

    def fail(self, message: str, span: Span, cure: str) -> CompileError:
        return errors.fail("E117", message, span, [cure], source=self.text)


def _walk(e: syntax.Expr) -> list[syntax.Expr]:
    return [e, *(x for o in syntax.operands(e) for x in _walk(o))]
