"""Delinearization: dimensions written as the digits of a number become dimensions of their own.

    Y[n,64*g+m,h] += X[n,64*g+c,h]*W[64*g+m,c] where g in 0:4, m in 0:64, c in 0:64       with X[2,256,9], W[256,64]
    ->  Y[n,g,m,h] += X[n, c + 64*g, h]*W[64*g+m,c] where g in 0:4, m in 0:64

so that each index of the result stands alone: independent, a candidate for vectors and register tiles. Grouped and transposed
convolutions are written this way. Tensors change shape, not memory: the caller's arrays are viewed in the new shape. An index
that runs over all of such a dimension, as in an initialisation or an epilogue, is written in digits too. (Maslov,
Delinearization, An Efficient Way to Break Multiloop Dependence Equations, PLDI 1992, takes subscripts apart like this.)
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from polytc.program import program as pr
from polytc.program.linear import linear, normalise
from polytc.program.names import fresh
from polytc.program.scalars import I64
from polytc.program.sizes import Size

Radix = tuple[int, ...]
"""Extents of the digits, most significant first: (4, 64) for 64*g + m."""


def delinearize(program: pr.Program) -> pr.Program:
    """The program with the dimensions of its updates' targets split into digits, wherever all their uses allow it."""
    while True:
        found = next((split for s in program.statements if (split := _of_target(program, s)) is not None), None)
        if found is None:
            return program
        program = found


def _of_target(program: pr.Program, s: pr.Statement) -> pr.Program | None:
    """The program with one dimension of an update's target split; None if there is none that can be."""
    if s.op is None:
        return None
    t = program.tensor(s.target)
    for d, sub in enumerate(s.subscripts):
        radix = _radix(s, sub)
        if radix is not None and len(radix) > 1 and _values(radix) == t.shape[d] and t.lower[d] == 0:
            done = _split(program, {(t.name, d): radix})
            if done is not None:
                return done
    return None


def _radix(s: pr.Statement, sub: pr.Expr) -> Radix | None:
    """The extents of the indices of a subscript, most significant first, if they are digits of its value."""
    form = linear(sub)
    if form is None or form.constant or not form.terms:
        return None
    ranges = s.by_index
    radix: Radix = ()
    for index, c in sorted(form.terms, key=_coefficient):
        if c != _values(radix) or ranges[index].lower != 0:
            return None
        radix = (ranges[index].extent, *radix)
    return radix


def _coefficient(term: tuple[str, int]) -> int:
    return int(term[1])


def _values(radix: Radix) -> int | None:
    """How many numbers have such digits; None where two of the extents are open, as there is no linear formula for it."""
    return prod(radix) if sum(isinstance(n, Size) for n in radix) < 2 else None


def _digits(s: pr.Statement, sub: pr.Expr) -> tuple[pr.Expr, ...]:
    """The indices of such a subscript, most significant first."""
    form = linear(sub)
    assert form is not None
    return tuple(pr.Index(index) for index, _ in sorted(form.terms, key=_coefficient, reverse=True))


def _split(program: pr.Program, dimensions: dict[tuple[str, int], Radix]) -> pr.Program | None:
    """Split dimensions, and with them whatever an index runs over that must be written in digits; None if a use forbids it."""
    indices: dict[tuple[str, str], Radix] = {}
    done = False
    while not done:
        done = True
        for s in program.statements:
            for tensor, subscripts, target in _accesses(s):
                for d, sub in enumerate(subscripts):
                    radix = dimensions.get((tensor, d))
                    form = linear(sub)
                    plain = form.index if form is not None else None
                    if radix is not None and _radix(s, sub) != radix:
                        if plain is None or _whole(s, plain) != _values(radix):
                            return None
                        if indices.setdefault((s.name, plain), radix) != radix:
                            return None
                    elif radix is None and target and plain is not None and (s.name, plain) in indices:
                        t = program.tensor(tensor)
                        if t.lower[d] or t.shape[d] != _whole(s, plain):
                            return None
                        dimensions[tensor, d] = indices[s.name, plain]
                        done = False
            done = done and all((s.target, d) in dimensions for d, sub in enumerate(s.subscripts) if _indexed(s, sub, indices))
    return _applied(program, dimensions, indices)


def _indexed(s: pr.Statement, sub: pr.Expr, indices: dict[tuple[str, str], Radix]) -> bool:
    form = linear(sub)
    return form is not None and form.index is not None and (s.name, form.index) in indices


def _accesses(s: pr.Statement) -> list[tuple[str, tuple[pr.Expr, ...], bool]]:
    return [(s.target, s.subscripts, True), *((r.tensor, r.subscripts, False) for r in pr.reads(s))]


def _whole(s: pr.Statement, index: str) -> int:
    """Extent of an index that starts at 0; 0 for others."""
    return s.extents[index] if s.box[index][0] == 0 else 0


def _applied(program: pr.Program, dimensions: dict[tuple[str, int], Radix], indices: dict[tuple[str, str], Radix]
             ) -> pr.Program:
    tensors = tuple(_reshaped(t, dimensions) for t in program.tensors)
    return replace(program, tensors=tensors, statements=tuple(_statement(s, dimensions, indices) for s in program.statements))


def _reshaped(t: pr.Tensor, dimensions: dict[tuple[str, int], Radix]) -> pr.Tensor:
    sides: list[tuple[int, int]] = []
    for d, (first, extent) in enumerate(zip(t.lower, t.shape, strict=True)):
        sides += [(0, n) for n in dimensions[t.name, d]] if (t.name, d) in dimensions else [(first, extent)]
    return replace(t, shape=tuple(n for _, n in sides), lower=tuple(first for first, _ in sides))


def _statement(s: pr.Statement, dimensions: dict[tuple[str, int], Radix], indices: dict[tuple[str, str], Radix]
               ) -> pr.Statement:
    """The statement with its indices in digits, then its accesses by them."""
    values: dict[str, pr.Expr] = {}
    ranges: list[pr.Range] = []
    taken = set(s.indices)
    for r in s.ranges:
        radix = indices.get((s.name, r.index))
        if radix is None:
            ranges.append(r)
            continue
        names = [fresh(f"{r.index}_{k}", taken) for k in range(len(radix))]
        taken |= set(names)
        ranges += [pr.Range(name, 0, extent) for name, extent in zip(names, radix, strict=True)]
        values[r.index] = _number(names, radix)

    def on_expr(e: pr.Expr) -> pr.Expr:
        if isinstance(e, pr.Read):
            return replace(e, subscripts=subscripts(e.tensor, e.subscripts))
        return e

    def subscripts(tensor: str, old: tuple[pr.Expr, ...]) -> tuple[pr.Expr, ...]:
        return tuple(e for d, sub in enumerate(old) for e in (_digits(s, sub) if (tensor, d) in dimensions else (sub,)))

    def go(e: pr.Expr) -> pr.Expr:
        return normalise(pr.substitute(e, values))

    changed = replace(s, ranges=tuple(ranges), subscripts=tuple(map(go, s.subscripts)), value=go(s.value),
                      where=tuple(map(go, s.where)))
    return replace(changed, subscripts=subscripts(s.target, changed.subscripts), value=pr.map_expr(changed.value, on_expr))


def _number(names: list[str], radix: Radix) -> pr.Expr:
    """The number with these digits."""
    result: pr.Expr = pr.Index(names[0])
    for name, extent in zip(names[1:], radix[1:], strict=True):
        result = pr.Binary("+", pr.Binary("*", pr.Const(extent, I64), result, I64), pr.Index(name), I64)
    return result
