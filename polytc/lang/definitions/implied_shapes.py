"""Shapes of inputs that nobody stated: sizes that stay open, named after the indices that walk them.

    C[i,j] += A[i,k]*B[k,j]        ->  A: (I, K), B: (K, J)
    O[h] += X[h+r]*W[r]            ->  X: (X_0,), W: (R,)

Dimensions that one index walks in a statement, or that a tensor has in several statements, are one size; where a shape states
one of them, it states all. What a `def` declares holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from polytc.lang.definitions import calls
from polytc.lang.definitions.expand import nodes
from polytc.lang.definitions.signatures import bare_inputs, choose, expressions, written
from polytc.lang.parsing import syntax as sx
from polytc.program.names import fresh

Shape: TypeAlias = tuple[int | str, ...]
_Key: TypeAlias = tuple[str, int | str]
"""(tensor, dimension), or (number of a statement, index)."""


def implied_shapes(text: str, entry: str | None, given: Mapping[str, Sequence[int | str]]) -> dict[str, Shape]:
    """The shapes that are given, and those of the other inputs, as far as subscripts tell their ranks: of bare statements, and
    of a `def` without calls whose dimensions are names and numbers. Raises CompileError where the text does not parse."""
    f = choose(text, entry)
    known = {n: tuple(shape) for n, shape in given.items()}
    if f.kind == "def":
        return _declared(f) | known
    if f.kind != "bare":
        return known
    ranks = {n: rank for n, rank in bare_inputs(f).items() if rank}
    classes = _Classes()
    accesses = list(_accesses(f, classes))
    stated = {classes.of((n, d)): size for n, shape in known.items() for d, size in enumerate(shape)}
    titles = _titles(classes, accesses, {*ranks, *written(f), *known, *(x for x in stated.values() if isinstance(x, str))})
    return known | {n: tuple(_size(classes.of((n, d)), n, d, stated, titles) for d in range(rank))
                    for n, rank in ranks.items() if n not in known and n not in written(f)}


def _declared(f: sx.Function) -> dict[str, Shape]:
    """The dimensions that a `def` declares of its inputs, of those that have nothing but names and numbers."""
    shapes = {p.name: tuple(d.id if isinstance(d, sx.Name) else int(d.value.real) if isinstance(d, sx.Number) else ""
                            for d in p.dims) for p in f.params if p.dims is not None and not calls.is_number(f, p)}
    return {n: shape for n, shape in shapes.items() if "" not in shape}


class _Classes:
    """Which dimensions and indices are of one size (union-find)."""

    def __init__(self) -> None:
        self.parent: dict[_Key, _Key] = {}

    def of(self, key: _Key) -> _Key:
        """The one that stands for its class."""
        while (above := self.parent.setdefault(key, key)) != key:
            key = above
        return key

    def join(self, a: _Key, b: _Key) -> None:
        self.parent[self.of(b)] = self.of(a)


def _accesses(f: sx.Function, classes: _Classes) -> Iterator[tuple[_Key, str]]:
    """Each dimension that a plain index walks, with the index; the classes are joined as they come."""
    for n, s in enumerate(f.body):
        if not isinstance(s, sx.Statement):
            continue
        reads = [x for e in expressions(s) for x in nodes(e) if isinstance(x, sx.Access)]
        for tensor, subscripts in [(s.target, s.subscripts), *((x.tensor, x.subscripts) for x in reads)]:
            for d, sub in enumerate(subscripts):
                if isinstance(sub, sx.Name):
                    classes.join((tensor, d), (f"{n}", sub.id))
                    yield (tensor, d), sub.id


def _titles(classes: _Classes, accesses: list[tuple[_Key, str]], taken: set[str]) -> dict[_Key, str]:
    """The name of each class: its first index, in capitals."""
    found: dict[_Key, str] = {}
    for key, index in accesses:
        found.setdefault(classes.of(key), index)
    named: dict[_Key, str] = {}
    for own, index in found.items():
        title = index.upper() if index.upper() != index and index.upper() not in taken else f"n_{index}"
        named[own] = fresh(title, taken)
        taken.add(named[own])
    return named


def _size(own: _Key, tensor: str, d: int, stated: Mapping[_Key, int | str], titles: dict[_Key, str]) -> int | str:
    """The size of a dimension."""
    return stated[own] if own in stated else titles.get(own, f"{tensor}_{d}")
