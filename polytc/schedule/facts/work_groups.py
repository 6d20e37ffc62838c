"""Statements that rewrite.gpu.local_tiles has cut into work-groups: their ranges say how their loops run."""

from __future__ import annotations

from collections import abc
from itertools import groupby

from polytc.program import kinds
from polytc.program import program as pr


def is_cut(s: pr.Statement) -> bool:
    """Do the statement's ranges say how its loops run?"""
    return any(kinds.is_group(r.kind) for r in s.ranges)


def host_depth(s: pr.Statement) -> int:
    """How many of the `for` loops around a statement the host runs: those around a kernel. Loops with a kind run inside of one,
    the groups around them."""
    return next((d for d, r in enumerate(s.ranges[:s.depth]) if r.kind == "sequential"), s.depth) if is_cut(s) else s.depth


def loops_inside(s: pr.Statement) -> bool:
    """Do the `for` loops around a statement run inside of a kernel, the groups around them?"""
    return bool(s.loops) and host_depth(s) == 0


def is_straight(statements: abc.Iterable[pr.Statement]) -> bool:
    """Does nothing run in `for` loops, or ranges that memory decides, but inside of kernels?"""
    return not any((s.loops and not loops_inside(s)) or (s.bounds and not is_cut(s)) for s in statements)


def stretches(statements: tuple[pr.Statement, ...]) -> abc.Iterator[tuple[pr.Statement, ...] | pr.Loop]:
    """The outermost `for` loops of the host, and the neighbouring statements between them, together."""
    for label, run in groupby(statements, lambda s: s.loops[0] if host_depth(s) else None):
        inside = tuple(run)
        yield inside if label is None else pr.Loop(label, pr.nested(inside, 1))


def nest_ranges(s: pr.Statement) -> tuple[pr.Range, ...]:
    """The ranges of a statement that is cut in the order of the loops of its kernel."""
    inside = s.ranges[host_depth(s):]
    groups = tuple(r for r in inside if kinds.is_group(r.kind))
    return (*groups, *(r for r in inside if r not in groups))


def kernels(statements: abc.Iterable[pr.Statement]) -> abc.Iterator[tuple[pr.Statement, ...]]:
    """Neighbours that are cut into the same work-groups, and runs of those that are not cut."""
    for _, run in groupby(statements, key=lambda s: [r for r in s.ranges if kinds.is_group(r.kind)]):
        yield tuple(run)
