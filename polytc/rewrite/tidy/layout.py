"""Temporaries of programs with `for` loops are stored along the indices that no loop carries.

    T[i,0] = X[i];  for j in 1:30 { T[i,j] = T[i,j-1]*X[i] where i in 0:40 }
    Y[i] = T[i,29]                                      with X[40]
    ->  T[0,i] = X[i];  for j in 1:30 { T[j,i] = T[j - 1, i]*X[i] }
        Y[i] = T[29,i]

so that the independent iterations walk through memory and make vectors. How a temporary is stored is nobody's business: each
one gets for its last dimension the one that most of its accesses walk with an index of their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TypeVar

from polytc.program import program as pr
from polytc.program.linear import linear

T = TypeVar("T")


def transpose_temporaries(program: pr.Program) -> pr.Program:
    """The program with the dimensions of its temporaries so exchanged."""
    moved = {name: d for name in program.temporaries if (d := _walked(program, name)) is not None}
    if not moved:
        return program

    def order(name: str, items: tuple[pr.Expr, ...]) -> tuple[pr.Expr, ...]:
        return _exchanged(items, moved[name]) if name in moved else items

    def on_expr(e: pr.Expr) -> pr.Expr:
        return replace(e, subscripts=order(e.tensor, e.subscripts)) if isinstance(e, pr.Read) else e

    statements = tuple(replace(
        s, subscripts=order(s.target, tuple(pr.map_expr(x, on_expr) for x in s.subscripts)),
        value=pr.map_expr(s.value, on_expr),
        where=tuple(pr.map_expr(x, on_expr) for x in s.where),
        bounds=tuple(replace(b, lower=pr.map_expr(b.lower, on_expr), upper=pr.map_expr(b.upper, on_expr)) for b in s.bounds))
        for s in program.statements)
    tensors = tuple(replace(t, shape=_exchanged(t.shape, moved[t.name]), lower=_exchanged(t.lower, moved[t.name]))
                    if t.name in moved else t for t in program.tensors)
    return replace(program, tensors=tensors, statements=statements)


def _exchanged(items: tuple[T, ...], d: int) -> tuple[T, ...]:
    """Dimension d last, and the last one in its place."""
    result = list(items)
    result[d], result[-1] = result[-1], result[d]
    return tuple(result)


def _walked(program: pr.Program, tensor: str) -> int | None:
    """The dimension that had better be the last one; None if the last one is."""
    votes: Counter[int] = Counter()
    for s in program.statements:
        for subscripts in [*([s.subscripts] if s.target == tensor else []),
                           *(r.subscripts for r in pr.reads(s) if r.tensor == tensor)]:
            found = _own_dimension(s, subscripts)
            if found is not None:
                votes[found] += 1
    if not votes:
        return None
    last = len(program.tensor(tensor).shape) - 1
    best = max(votes, key=lambda d: (votes[d], d))
    return best if best != last and votes[best] > votes[last] else None


def _own_dimension(s: pr.Statement, subscripts: tuple[pr.Expr, ...]) -> int | None:
    """The dimension that an access walks with an index that is no loop's, where the last one follows the loops: the last one
    itself, if it is walked so."""
    carried, own = set(s.indices[:s.depth]), set(s.indices[s.depth:])
    used = []
    for sub in subscripts:
        form = linear(sub)
        if form is None:
            return None
        used.append({i for i, _ in form.terms})
    if not used or not used[-1]:
        return None
    if used[-1] & own:
        return len(used) - 1
    return next((d for d in reversed(range(len(used))) if used[d] & own and not used[d] & carried), None)
