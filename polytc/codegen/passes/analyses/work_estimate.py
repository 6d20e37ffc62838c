"""How much statements do, for loops that threads share: their operations, those of loops as often as they run."""

from __future__ import annotations

from collections.abc import Sequence

from polytc.codegen import intervals, loops, traverse
from polytc.codegen.passes import simplify

UNKNOWN = 64
"""Iterations that a loop counts for whose bounds do not tell."""


def heaviest_first(members: Sequence[loops.For]) -> list[tuple[loops.For, int]]:
    """The loops, each with what an iteration of it weighs in those of the lightest one: what is light comes last, to be divided
    among threads that have finished."""
    found = [max(1, operations(s.body, {s.var: intervals.of_loop(s, {})})) for s in members]
    weighed = [(s, round(n / min(found))) for s, n in zip(members, found, strict=True)]
    return sorted(weighed, key=lambda x: -x[1])


def operations(s: loops.Stmt, env: intervals.Env) -> int:
    """Loads, stores and arithmetic of values, of any number of lanes; at most, where loops have several lengths."""
    match s:
        case loops.For():
            count = iterations(s, env)
            return (UNKNOWN if count is None else count) * operations(s.body, {**env, s.var: intervals.of_loop(s, env)})
        case loops.Store():
            return 1 + of_value(s.value)
        case loops.If():
            orelse = operations(s.orelse, env) if s.orelse is not None else 0
            return of_value(s.cond) + max(operations(s.then, env), orelse)
        case _:
            return sum(operations(x, env) for x in traverse.children(s))


def of_value(e: loops.Expr) -> int:
    """Loads and arithmetic of a value. Where an element lies is not counted: addresses cost little."""
    if isinstance(e, loops.Load):
        return 1
    inside = traverse.operands(e)
    return sum(map(of_value, inside)) + bool(inside)


def iterations(s: loops.For, env: intervals.Env) -> int | None:
    """The iterations of a loop, at most; None if its bounds do not tell."""
    ends = _arguments(s.upper, "min"), _arguments(s.lower, "max")
    spans = (simplify.expr(loops.binary("-", upper, lower), {}) for upper in ends[0] for lower in ends[1])
    most = min(intervals.interval(e, env).high for e in spans)
    return None if most == float("inf") else max(0, -(-int(most) // s.step))


def _arguments(e: loops.Expr, fn: str) -> tuple[loops.Expr, ...]:
    """What a bound is the smallest or the largest of."""
    return tuple(x for a in e.args for x in _arguments(a, fn)) if isinstance(e, loops.Call) and e.fn == fn else (e,)
