"""Peeling: the first iterations of a loop run a statement of their own.

    S1: Y[i] = X[i]   ->   S1_head: Y[i] = X[i] where i // 16 < 1;  S1: Y[i] = X[i] where i // 16 >= 1

A saved schedule lists it as `peel S1 i/16 1`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.program import program as pr
from polytc.program.names import fresh
from polytc.program.scalars import BOOL, I64
from polytc.schedule.user.changes.pieces import Piece


@dataclass(frozen=True)
class Peel:
    """statement: whose instances with piece < bound become a statement of their own."""

    statement: str
    piece: Piece
    bound: int

    def __str__(self) -> str:
        return f"peel {self.statement} {self.piece} {self.bound}"

    def apply(self, program: pr.Program) -> pr.Program:
        """The program with two statements for one."""
        return peel(program, self)[0]

    @staticmethod
    def read(text: str) -> Peel | None:
        """What prints so, behind `peel`."""
        parts = text.split()
        piece = Piece.read(parts[1]) if len(parts) == 3 else None
        number = parts[2].removeprefix("-") if piece is not None else ""
        return Peel(parts[0], piece, int(parts[2])) if piece is not None and number.isdecimal() else None


def peel(program: pr.Program, wanted: Peel) -> tuple[pr.Program, str]:
    """The program with two statements for one, and the name of the new one.

    Raises E707 for an unknown statement or index, E708 for a statement whose instances run in the order of its indices.
    """
    s = next((x for x in program.statements if x.name == wanted.statement), None)
    if s is None or wanted.piece.index not in s.by_index:
        what = f"statement {wanted.statement!r}" if s is None else f"index {wanted.piece.index!r} of {s.name}"
        raise errors.fail("E707", f"there is no {what}", notes=["the schedule asks to peel a loop over it"])
    ordered = s.op is None and (pr.overlaps(s) or s.target in {r.tensor for r in pr.reads(s)})
    if ordered and s.indices.index(wanted.piece.index) >= s.depth:
        raise errors.fail("E708", f"{s.name} runs in the order of its indices: it cannot be peeled",
                          notes=["peel a loop of another statement, or a `for` loop"])
    value, bound = wanted.piece.value, pr.Const(wanted.bound, I64)
    name = fresh(f"{s.name}_head", {x.name for x in program.statements})
    head = replace(s, name=name, where=(*s.where, pr.Binary("<", value, bound, BOOL)))
    rest = replace(s, where=(*s.where, pr.Binary(">=", value, bound, BOOL)))
    statements = tuple(y for x in program.statements for y in ((head, rest) if x is s else (x,)))
    return replace(program, statements=statements), name
