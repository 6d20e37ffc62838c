"""Remainders by sizes that stay open become choices: sets of integers have remainders by numbers alone.

    Y[i] = X[(i+1)%n] where i in 0:n                    with X[n]
    ->  Y[i] = X[i + 1 < n ? i + 1 : i + (-n + 1)]

for what wraps around a few times at most, whatever the sizes. A size may be 1, so that `(i+2)%n` has three pieces. What follows
knows choices: borders splits them off, piecewise_copies makes copies with plain subscripts.
"""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, add, affine
from polytc.program.linear import expression, linear
from polytc.program.scalars import BOOL, I64
from polytc.program.sizes import Size, Undecided
from polytc.rewrite.bounds import at_least

PIECES = 6
"""Of a remainder, at most."""


def choose(program: pr.Program) -> pr.Program:
    """The program without remainders by sizes that stay open in subscripts and conditions. Raises Undecided for one that may
    wrap around often."""
    if not program.sizes:
        return program
    return replace(program, statements=tuple(map(_statement, program.statements)))


def _statement(s: pr.Statement) -> pr.Statement:
    def plain(e: pr.Expr) -> pr.Expr:
        return pr.map_expr(e, lambda x: _chosen(s, x))

    found = replace(s, subscripts=tuple(map(plain, s.subscripts)), value=plain(s.value), where=tuple(map(plain, s.where)))
    for place in (*found.subscripts, *(sub for r in pr.reads(found) for sub in r.subscripts), *found.where):
        left = next((e for e in pr.walk(place) if _is_open(e) and not _of_memory(e)), None)
        if left is not None:
            raise Undecided(f"{pr.format_expr(left)} has more than {PIECES} pieces")
    if found == s:
        return s
    for subscripts in (found.subscripts, *(r.subscripts for r in pr.reads(found))):
        if any(not _of_memory(sub) and affine(sub) is None for sub in subscripts):
            raise Undecided("a subscript has too many pieces")
    return found


def _chosen(s: pr.Statement, e: pr.Expr) -> pr.Expr:
    """The value of a remainder by an open size, by how often it wraps around; other expressions, and what wraps around often,
    as they are."""
    if not _is_open(e):
        return e
    assert isinstance(e, pr.Binary)
    assert isinstance(e.b, pr.Const)
    form, size = linear(e.a), e.b.value
    turns = _turns(s, form, size) if form is not None else None
    if form is None or turns is None:
        return e
    first, last = turns
    result = expression(add(form, Affine(last * size), -1))
    for turn in reversed(range(first, last)):
        inside = pr.Binary("<", expression(form), pr.Const((turn + 1) * size, I64), BOOL)
        result = pr.Select(inside, expression(add(form, Affine(turn * size), -1)), result, I64)
    return result


def _is_open(e: pr.Expr) -> bool:
    """Is it a remainder by a size that stays open?"""
    return (isinstance(e, pr.Binary) and e.op == "%" and e.dtype == I64
            and isinstance(e.b, pr.Const) and isinstance(e.b.value, Size))


def _of_memory(e: pr.Expr) -> bool:
    """Does memory decide it? Then it is no matter of sets."""
    return any(isinstance(x, pr.Read) for x in pr.walk(e))


def _turns(s: pr.Statement, form: Linear, size: int) -> tuple[int, int] | None:
    """How often a form wraps around at least and at most, at all sizes; None where these are far apart."""
    near = range(-PIECES, PIECES)
    first = next((t for t in reversed(near) if at_least(add(form, Affine(t * size), -1), 0, s)), None)
    last = next((t for t in near if at_least(add(Affine((t + 1) * size - 1), form, -1), 0, s)), None)
    return None if first is None or last is None or last - first >= PIECES else (first, last)
