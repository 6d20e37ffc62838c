"""Rows of a constant matrix times a vector of terms, of which an index says the row: one statement for a linear transform.

    rows[1 0 -1.5 | 0 1 2](u, a, b, c)       a - 1.5*c where u is 0, b + 2.0*c where it is 1

A term whose coefficient is 0 takes no part: an infinity in it changes nothing, but in the first where a row has no other
coefficient. Terms without a factor come first, so that each of the others is one multiply-add. No text can call it:
`rewrite.cpu.winograd` writes it, with an index that the schedule writes out (`schedule.cpu.strategy`), and
`codegen.passes.vectorize` leaves none: targets see the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from polytc.program import program as pr
from polytc.program.scalars import I64, DType

E = TypeVar("E")
_START = "rows["


def call(matrix: Sequence[Sequence[float | Fraction]], row: pr.Expr, terms: Sequence[pr.Expr]) -> pr.Call:
    """That row of the matrix times the terms."""
    text = " | ".join(" ".join(repr(float(c)).removesuffix(".0") for c in coefficients) for coefficients in matrix)
    return pr.Call(f"{_START}{text}]", (row, *terms), terms[0].dtype)


def is_rows_call(fn: str) -> bool:
    """Is it a call of this module?"""
    return fn.startswith(_START)


@lru_cache(maxsize=64)
def matrix(fn: str) -> tuple[tuple[float, ...], ...]:
    """The coefficients of a call, row by row."""
    return tuple(tuple(map(float, row.split())) for row in fn[len(_START):-1].split(" | "))


def fits(fn: str, args: Sequence[DType], result: DType) -> bool:
    """Are these the types of such a call?"""
    return list(args) == [I64, *[result] * len(matrix(fn)[0])] and result.is_float


def total(fn: str, row: int, terms: Sequence[E], plus: Callable[[str, E, E], E], times: Callable[[float, E], E]) -> E:
    """The sum for one row. plus(op, a, b): a sum or a difference; times: of a number and a term."""
    found: E | None = None
    for c, term in sorted(((c, t) for c, t in zip(matrix(fn)[row], terms, strict=True) if c),
                          key=lambda x: (abs(x[0]) != 1, x[0] == -1)):
        if found is None:
            found = term if c == 1 else times(c, term)
        else:
            found = plus("-" if c < 0 else "+", found, term if abs(c) == 1 else times(abs(c), term))
    return found if found is not None else times(0.0, terms[0])


@lru_cache(maxsize=64)
def operations(fn: str) -> float:
    """Sums, differences and products of a row, on average: what a call takes once its row is known."""
    rows = matrix(fn)
    terms = [0] * len(rows[0])
    return sum(total(fn, r, terms, lambda op, a, b: a + b + 1, lambda c, term: term + 1) for r in range(len(rows))) / len(rows)


def apply(fn: str, args: list[Any]) -> Any:
    """The reference: such a call on numpy arrays."""
    row, *terms = map(np.asarray, args)
    dtype = terms[0].dtype

    def plus(op: str, a: Any, b: Any) -> Any:
        return a - b if op == "-" else a + b
    sums = [np.asarray(total(fn, r, terms, plus, lambda c, t: dtype.type(c) * t)) for r in range(len(matrix(fn)))]
    return np.choose(row, np.broadcast_arrays(*sums)).astype(dtype, copy=False)


def row_indices(s: pr.Statement) -> tuple[str, ...]:
    """The indices that say rows in the value of a statement."""
    return tuple(e.args[0].name for e in pr.walk(s.value)
                 if isinstance(e, pr.Call) and is_rows_call(e.fn) and isinstance(e.args[0], pr.Index))
