"""Iterations moved against each other."""

from __future__ import annotations

from dataclasses import replace

from polytc import errors
from polytc.program import program as pr
from polytc.program.scalars import I64
from polytc.schedule.user import loopnest
from polytc.schedule.user.loopnest import Body, NamedLoop


def shift(body: Body, statement: str, name: str, by: int) -> Body:
    """Run the instances of one statement so many iterations later than they would.

        for i: { S1[i]; S2[i] }   ->   for i: { S1[i]; S2[i - by] }

    by: iterations, negative for earlier. Raises E707 for an unknown loop, E708 for no number. Illegal if an instance would run
    after one that depends on it (loop shifting; Darte & Huard, NamedLoop Shifting for NamedLoop Compaction, IJPP 2000).
    """
    _number(by)

    def moved(x: NamedLoop) -> Body:
        rows = tuple(loopnest.row(r, pr.Binary("+", r.value, pr.Const(by, I64), I64)) if r.statement == statement else r
                     for r in x.rows)
        return (replace(x, rows=rows),)
    return loopnest.edit(body, statement, loopnest.depth(body, statement, name), moved)


def skew(body: Body, statement: str, name: str, by: str, factor: int) -> Body:
    """Run each iteration of a loop later by a multiple of another loop's iteration.

        for t: for i: S[t, i]   ->   for t: for i': S[t, i' - factor*t]

    by: a loop around all statements of the skewed one. Raises E707 for an unknown loop, E708 for loops that do not fit.
    Legal if `by` is outside; makes dependences lead forwards, so that the nest can be tiled (Wolfe, Loop Skewing: the
    Wavefront Method Revisited, IJPP 1986).
    """
    _number(factor)
    at, other = loopnest.depth(body, statement, name), loopnest.depth(body, statement, by)
    around = loopnest.loops(body, statement)[other]
    values = {r.statement: r.value for r in around.rows}
    if at == other:
        raise errors.fail("E708", f"{name} cannot be skewed by itself", notes=["name another loop of the nest"])

    def moved(x: NamedLoop) -> Body:
        missing = [r.statement for r in x.rows if r.statement not in values]
        if missing:
            raise errors.fail("E708", f"{', '.join(missing)} runs in {name}, but not in {by}",
                              notes=["distribute the loop first"])
        return (replace(x, rows=tuple(loopnest.row(r, _sum(r.value, values[r.statement], factor)) for r in x.rows)),)
    return loopnest.edit(body, statement, at, moved)


def _sum(a: pr.Expr, b: pr.Expr, factor: int) -> pr.Expr:
    return pr.Binary("+", a, pr.Binary("*", pr.Const(factor, I64), b, I64), I64)


def _number(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 31:
        raise errors.fail("E708", f"{value!r} is no number of iterations", notes=["give an integer"])
