"""Accumulators: a statement adds up into a tensor of its own, whose elements are stored once they are whole.

    S1_init: C[i,j] = 0;  S1: C[i,j] += A[i,k]*B[k,j]
    ->  S1_init: C_S1[i,j] = 0;  S1: C_S1[i,j] += A[i,k]*B[k,j];  S1_store: C[i,j] = C_S1[i,j]

Without an initialisation of its own, `S1_load: C_S1[i,j] = C[i,j]` comes first. What the loops around use of the new tensor is
kept in registers, or in the memory of a group, as of any temporary. A saved schedule lists it as `accumulate S1`. Where loops
walk an index in pieces the new tensor has a dimension for each, `C_S1[i // 8, j, i % 8]`, listed as `accumulate S1 i/8 j/1
i/1%8`, so that what a work-item adds up stands in dimensions of its own. (cache_write of TVM: Chen et al., TVM: An Automated
End-to-End Optimizing Compiler for Deep Learning, OSDI 2018.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.program import program as pr
from polytc.program.affine import affine, interval
from polytc.program.names import fresh
from polytc.schedule.user import quasi_affine
from polytc.schedule.user.changes import elements
from polytc.schedule.user.changes.elements import Told
from polytc.schedule.user.changes.pieces import Piece, rest


@dataclass(frozen=True)
class Accumulated:
    """program: the changed one; first: the statement that gives the accumulators their first values, None if S itself does;
    last: the one that stores them; told: what these two know of the statement's instances."""

    program: pr.Program
    first: pr.Statement | None
    last: pr.Statement
    told: Told


@dataclass(frozen=True)
class Accumulator:
    """statement: whose target gets accumulators; layout: pieces of its indices, for each of which these have a dimension;
    empty: they have those of the target."""

    statement: str
    layout: tuple[Piece, ...] = ()

    def __str__(self) -> str:
        return " ".join(["accumulate", self.statement, *map(str, self.layout)])

    def apply(self, program: pr.Program) -> pr.Program:
        """The program with accumulators."""
        return accumulate(program, self).program

    @staticmethod
    def read(text: str) -> Accumulator | None:
        """What prints so, behind `accumulate`."""
        parts = text.split()
        pieces = tuple(map(Piece.read, parts[1:]))
        return Accumulator(parts[0], tuple(p for p in pieces if p is not None)) if parts and None not in pieces else None


def accumulate(program: pr.Program, wanted: Accumulator) -> Accumulated:
    """The program with accumulators for a statement. Raises E707, E708."""
    s = elements.plain(program, wanted.statement, "accumulators")
    init, found = elements.initialisation(program, s), elements.touched(program, s, "accumulators")
    tensor = program.tensor(s.target)
    own = replace(tensor, name=fresh(f"{s.target}_{s.name}", {t.name for t in program.tensors}))
    mine, cell = s.subscripts, found.subscripts
    if wanted.layout:
        mine, cell = _pieces(s, wanted.layout, found)
        ends = [interval(form, pr.box(found.ranges)) for x in cell if (form := affine(x)) is not None]
        own = replace(own, shape=tuple(high - low + 1 for low, high in ends), lower=tuple(low for low, _ in ends))
    labels = {x.name for x in program.statements}
    store = pr.Statement(fresh(f"{s.name}_store", labels), s.target, found.subscripts, None,
                         pr.Read(own.name, cell, own.dtype), found.ranges, found.where, span=s.span)
    first = replace(init, target=own.name, subscripts=cell) if init is not None else None
    if s.op is not None and first is None:
        first = replace(store, name=fresh(f"{s.name}_load", labels), target=own.name, subscripts=cell,
                        value=pr.Read(s.target, found.subscripts, own.dtype))
    made: list[pr.Statement] = []
    for x in program.statements:
        if x is s:
            made += [*([first] if first is not None and init is None else []),
                     replace(s, target=own.name, subscripts=mine), store]
        else:
            made.append(first if x is init and first is not None else x)
    told = elements.told(s, found.subscripts)
    return Accumulated(replace(program, tensors=(*program.tensors, own), statements=tuple(made)), first, store, told)


def _pieces(s: pr.Statement, layout: tuple[Piece, ...], found: elements.Elements
            ) -> tuple[tuple[pr.Expr, ...], tuple[pr.Expr, ...]]:
    """Where elements lie in accumulators that have a dimension for each piece: by the statement's indices, and by those of all
    elements. Raises E708 where pieces do not tell the elements apart, or elements do not tell the pieces."""
    told = elements.told(s, found.subscripts)
    values = [p.value for p in layout]
    cell = [told.of(v) for v in values]
    if told.values or None in cell or any(rest(i, values) is not None for i in told.indices):
        raise errors.fail("E708", f"{' '.join(map(str, layout))} are no accumulators for {s.name}",
                          notes=["name pieces of the indices of its left side, so that these tell each element"])
    return tuple(values), tuple(quasi_affine.normal(x) for x in cell if x is not None)
