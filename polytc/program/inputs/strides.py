"""Programs whose inputs lie in strides: in memory that has other dimensions than they (see runtime/strided.py).

    C[i,j] += A[i,k]*B[k,j]    with A as a.T of an array a    ->    C[i,j] += A[k,i]*B[k,j]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polytc.program import program as pr
from polytc.program.places import Place
from polytc.program.scalars import I64


def read_in_place(program: pr.Program, places: Mapping[str, Place]) -> pr.Program | None:
    """The program that reads these inputs where they lie. None where that says something else: guards and clamped indices are
    about the ends of an input, which are not those of memory around it; and where what is written in place is among them."""
    if program.dynamic or not places.keys().isdisjoint(program.inouts):
        return None
    for s in program.statements:
        for read in pr.reads(s):
            place = places.get(read.tensor)
            if place is not None and not place.exact and (read.default is not None or read.gathers):
                return None

    def moved(e: pr.Expr) -> pr.Expr:
        place = places.get(e.tensor) if isinstance(e, pr.Read) else None
        return replace(e, subscripts=_subscripts(e, place)) if isinstance(e, pr.Read) and place is not None else e
    statements = tuple(replace(s, subscripts=tuple(pr.map_expr(x, moved) for x in s.subscripts),
                               value=pr.map_expr(s.value, moved), where=tuple(pr.map_expr(x, moved) for x in s.where))
                       for s in program.statements)
    tensors = tuple(replace(t, shape=places[t.name].shape, lower=(0,) * len(places[t.name].shape)) if t.name in places else t
                    for t in program.tensors)
    return replace(program, tensors=tensors, statements=statements)


def _subscripts(read: pr.Read, place: Place) -> tuple[pr.Expr, ...]:
    found = list[pr.Expr]()
    for axis, start, end in zip(place.axes, place.starts, place.ends, strict=True):
        if axis is None:
            found.append(pr.Const(start, I64))
        elif end is not None:
            found.append(pr.Binary("-", pr.Const(start + end, I64), read.subscripts[axis], I64))
        elif start:
            found.append(pr.Binary("+", read.subscripts[axis], pr.Const(start, I64), I64))
        else:
            found.append(read.subscripts[axis])
    return tuple(found)
