"""Statements that rewrite.gpu.local_tiles has cut into work-groups: their ranges say how their loops run."""

from __future__ import annotations

from collections import abc
from itertools import groupby

from polytc.program import kinds
from polytc.program import program as pr


def is_cut(s: pr.Statement) -> bool:
    """Do the statement's ranges say how its loops run?"""
    return any(kinds.is_group(r.kind) for r in s.ranges)


def kernels(statements: abc.Iterable[pr.Statement]) -> abc.Iterator[tuple[pr.Statement, ...]]:
    """Neighbours that are cut into the same work-groups, and runs of those that are not cut."""
    for _, run in groupby(statements, key=lambda s: [r for r in s.ranges if kinds.is_group(r.kind)]):
        yield tuple(run)
