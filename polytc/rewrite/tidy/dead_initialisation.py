"""A temporary starts from a constant only where something uses it.

    S[i,j] += A[i,k]*B[j,k] where j <= i;  Y[i] max= S[i,j] where j <= i       with A[8,5], B[8,5]
    ->  S[i,j] = 0.0 where j <= i;  ...

The other elements are dead. What is left has the domain of the update, so that both share loops, and sums of a triangle begin
in the registers where they are kept. (Dead code elimination of instances: Feautrier, Dataflow Analysis of Array and Scalar
References, IJPP 1991.)

A rewrite from Program to Program.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """The initialisation with those conditions on its own indices that each other access to the tensor has."""
    return replace(s, where=common_conditions(program, s, [s]) or ())


def common_conditions(program: pr.Program, s: pr.Statement, but: Sequence[pr.Statement]) -> tuple[pr.Expr, ...] | None:
    """The conditions on elements of a statement's target that all accesses have, but those of some statements, in the
    statement's indices; None where an access is by more than distinct indices."""
    names = _plain(s.subscripts)
    common: list[pr.Expr] | None = None
    for use in program.statements:
        for subscripts in _accesses(use, s.target) if use not in but else ():
            own = _plain(subscripts)
            if own is None or names is None:
                return None
            renamed: dict[str, pr.Expr] = {i: pr.Index(n) for i, n in zip(own, names, strict=True)}
            said = [pr.substitute(c, renamed) for c in use.where if condition_indices(c) <= set(own)]
            common = said if common is None else [c for c in common if c in said]
    return tuple(common or ())


def _accesses(s: pr.Statement, tensor: str) -> list[tuple[pr.Expr, ...]]:
    return [s.subscripts] * (s.target == tensor) + [r.subscripts for r in pr.reads(s) if r.tensor == tensor]


def _plain(subscripts: tuple[pr.Expr, ...]) -> tuple[str, ...] | None:
    """The indices of subscripts that are distinct indices alone."""
    names = tuple(e.name for e in subscripts if isinstance(e, pr.Index))
    return names if len(names) == len(subscripts) == len(set(names)) else None
