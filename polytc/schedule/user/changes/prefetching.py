"""Prefetching: what a statement reads is fetched iterations of a loop before it is used.

    for k.0: { S1_A copies tile k.0 of A;  S1 computes with it }
    ->  registers = tile 0;  for k.0: { S1_A stores them;  registers = tile k.0 + 1;  S1 computes }       into registers

Into registers: what a copy to local memory loads, one iteration ahead (codegen.passes.local_memory). Into the cache: lines, any
number of iterations ahead, as the processor's instruction for that never faults. The program computes the same; what it is
asked for stands in the statement. A saved schedule lists it as `prefetch S1_A A k.0 1 registers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polytc import errors
from polytc.poly import legality
from polytc.poly.dependences import Dependences
from polytc.poly.legality import Violation
from polytc.poly.scop import Scop
from polytc.program import program as pr
from polytc.program.fetching import PLACES, REGISTERS, Ahead
from polytc.schedule import tree


@dataclass(frozen=True)
class Prefetch:
    """statement: that reads; ahead: what, and how early."""

    statement: str
    ahead: Ahead

    def __str__(self) -> str:
        return f"prefetch {self.statement} {self.ahead}"

    def apply(self, program: pr.Program) -> pr.Program:
        """The program whose statement says so. Raises E707 for an unknown statement, or a tensor that it does not read, E708
        for what is no copy to a temporary where it should be in registers."""
        s = next((x for x in program.statements if x.name == self.statement), None)
        if s is None:
            raise errors.fail("E707", f"there is no statement {self.statement!r}",
                              notes=["the schedule asks to prefetch for it"])
        read = list(dict.fromkeys(r.tensor for r in pr.reads(s)))
        if self.ahead.tensor not in read:
            raise errors.fail("E707", f"{s.name} does not read {self.ahead.tensor!r}",
                              notes=[f"it reads {', '.join(read) or 'nothing'}"])
        if self.ahead.into == REGISTERS and (s.op is not None or s.target not in program.temporaries):
            raise errors.fail("E708", f"{s.name} is no copy that could be in registers before it is stored",
                              notes=[f'copy {self.ahead.tensor} first, with cache("{s.name}", "{self.ahead.tensor}", at=...), '
                                     "and prefetch for the statement that copies"])
        others = tuple(a for a in s.ahead if (a.tensor, a.into) != (self.ahead.tensor, self.ahead.into))
        made = replace(s, ahead=(*others, self.ahead))
        return replace(program, statements=tuple(made if x is s else x for x in program.statements))

    @staticmethod
    def read(text: str) -> Prefetch | None:
        """What prints so, behind `prefetch`."""
        parts = text.split()
        fits = len(parts) == 5 and parts[3].isdecimal() and int(parts[3]) > 0 and parts[4] in PLACES
        return Prefetch(parts[0], Ahead(parts[1], parts[2], int(parts[3]), parts[4])) if fits else None


def too_early(scop: Scop, deps: Dependences, s: pr.Statement, tensor: str, earlier: tree.Schedule) -> Violation | None:
    """A write of what a statement loads that would come too late, if it loaded as early as in another schedule."""
    loads = scop.reading(s, tensor).to_union_map()
    written = scop.writes.apply_range(loads.reverse()).intersect(deps.flow)
    return legality.violation(earlier.tree, written, (loads, scop.writes))


def moves(s: pr.Statement, tensor: str, indices: Sequence[str]) -> bool:
    """Do iterations of a loop over these indices read other elements of a tensor?"""
    return any(i in indices for r in pr.reads(s) if r.tensor == tensor for x in r.subscripts for i in pr.index_names(x))
