"""A temporary starts from a constant only where something uses it.

    S[i,j] += A[i,k]*B[j,k] where j <= i;  Y[i] max= S[i,j] where j <= i       with A[8,5], B[8,5]
    ->  S[i,j] = 0.0 where j <= i;  ...

The other elements are dead. What is left has the domain of the update, so that both share loops, and sums of a triangle begin
in the registers where they are kept. (Dead code elimination of instances: Feautrier, Dataflow Analysis of Array and Scalar
References, IJPP 1991.)

A rewrite from Program to Program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polytc.program import program as pr
from polytc.program.domain import condition_indices


def narrow(program: pr.Program) -> pr.Program:
    """The program whose initialisations of temporaries have the conditions that all their uses have."""
    given = set(program.arrays)
    return replace(program, statements=tuple(
        _narrowed(program, s) if s.target not in given and _starts(s) else s for s in program.statements))


def _starts(s: pr.Statement) -> bool:
    """Does it write a constant to each element of its ranges?"""
    return s.op is None and isinstance(s.value, pr.Const) and not s.where and not s.bounds and _plain(s.subscripts) is not None


def _narrowed(program: pr.Program, s: pr.Statement) -> pr.Statement:
    """uses: of each access beside the initialisation, its conditions in terms of the indices of `s`."""
    names = _plain(s.subscripts)
    assert names is not None
    common: set[pr.Expr] | None = None
    for use in program.statements:
        for subscripts in _accesses(use, s.target) if use is not s else ():
            own = _plain(subscripts)
            if own is None:
                return s
            renamed: dict[str, pr.Expr] = {i: pr.Index(n) for i, n in zip(own, names, strict=True)}
            said = {pr.substitute(c, renamed) for c in use.where if condition_indices(c) <= set(own)}
            common = said if common is None else common & said
    if not common:
        return s
    ordered = [c for use in program.statements for c in use.where]
    return replace(s, where=tuple(sorted(common, key=lambda c: (ordered.index(c) if c in ordered else len(ordered), str(c)))))


def _accesses(s: pr.Statement, tensor: str) -> Iterator[tuple[pr.Expr, ...]]:
    if s.target == tensor:
        yield s.subscripts
    for e in (s.value, *s.subscripts, *s.where):
        yield from (r.subscripts for r in pr.walk(e) if isinstance(r, pr.Read) and r.tensor == tensor)


def _plain(subscripts: tuple[pr.Expr, ...]) -> tuple[str, ...] | None:
    """The indices of subscripts that are distinct indices alone."""
    names = tuple(e.name for e in subscripts if isinstance(e, pr.Index))
    return names if len(names) == len(subscripts) == len(set(names)) else None
