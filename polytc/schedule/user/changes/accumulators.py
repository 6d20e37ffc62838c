"""Accumulators: a statement adds up into a tensor of its own, whose elements are stored once they are whole.

    S1_init: C[i,j] = 0;  S1: C[i,j] += A[i,k]*B[k,j]
    ->  S1_init: C_S1[i,j] = 0;  S1: C_S1[i,j] += A[i,k]*B[k,j];  S1_store: C[i,j] = C_S1[i,j]

Without an initialisation of its own, `S1_load: C_S1[i,j] = C[i,j]` comes first. What the loops around use of the new tensor is
kept in registers, or in the memory of a group, as of any temporary. A saved schedule lists it as `accumulate S1`. (cache_write
of TVM: Chen et al., TVM: An Automated End-to-End Optimizing Compiler for Deep Learning, OSDI 2018.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.names import fresh
from polytc.schedule.user.changes import elements


@dataclass(frozen=True)
class Accumulated:
    """program: the changed one; first: the statement that gives the accumulators their first values, None if S itself does;
    last: the one that stores them."""

    program: pr.Program
    first: pr.Statement | None
    last: pr.Statement


@dataclass(frozen=True)
class Accumulator:
    """statement: whose target gets accumulators."""

    statement: str

    def __str__(self) -> str:
        return f"accumulate {self.statement}"

    def apply(self, program: pr.Program) -> pr.Program:
        """The program with accumulators."""
        return accumulate(program, self.statement).program

    @staticmethod
    def read(text: str) -> Accumulator | None:
        """What prints so, behind `accumulate`."""
        return Accumulator(text) if text and not text.split()[1:] else None


def accumulate(program: pr.Program, statement: str) -> Accumulated:
    """The program with accumulators for a statement. Raises E707, E708."""
    s = elements.plain(program, statement, "accumulators")
    init, found = elements.initialisation(program, s), elements.touched(program, s, "accumulators")
    tensor = program.tensor(s.target)
    own = replace(tensor, name=fresh(f"{s.target}_{s.name}", {t.name for t in program.tensors}))
    labels = {x.name for x in program.statements}
    store = pr.Statement(fresh(f"{s.name}_store", labels), s.target, found.subscripts, None,
                         pr.Read(own.name, found.subscripts, own.dtype), found.ranges, found.where, span=s.span)
    first = replace(init, target=own.name) if init is not None else None
    if s.op is not None and first is None:
        first = replace(store, name=fresh(f"{s.name}_load", labels), target=own.name,
                        value=pr.Read(s.target, found.subscripts, own.dtype))
    made: list[pr.Statement] = []
    for x in program.statements:
        if x is s:
            made += [*([first] if first is not None and init is None else []), replace(s, target=own.name), store]
        else:
            made.append(first if x is init and first is not None else x)
    return Accumulated(replace(program, tensors=(*program.tensors, own), statements=tuple(made)), first, store)
