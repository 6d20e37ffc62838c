"""Partial sums: an update in two stages, the first of which has a partial result for each piece of an index.

    S1_init: C[i] = 0;  S1: C[i] += A[i,k]
    ->  S1_init: C[i] = 0;
        S1_part_init: C_part[k_part,i] = 0;  S1_part: C_part[k // 16, i] += A[i,k];  S1: C[i] += C_part[k_part,i]

A saved schedule lists it as `rfactor S1 k/16`; `k/1%16` has one for each k % 16. (Suriana, Adams & Kamil, Parallel Associative
Reductions in Halide, CGO 2017.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.program import names, scalars
from polytc.program import program as pr
from polytc.program.names import fresh
from polytc.schedule.user.changes import elements
from polytc.schedule.user.changes.pieces import Piece


@dataclass(frozen=True)
class Staged:
    """program: the changed one; begin: writes the identity to the partial results; part: adds up into them; whole: the update
    that combines them, by the name that it had; index: over the pieces, in `begin` and `whole`."""

    program: pr.Program
    begin: pr.Statement
    part: pr.Statement
    whole: pr.Statement
    index: str


@dataclass(frozen=True)
class PartialSums:
    """statement: the update; piece: for each of whose values there is a partial result."""

    statement: str
    piece: Piece

    def __str__(self) -> str:
        return f"rfactor {self.statement} {self.piece}"

    def apply(self, program: pr.Program) -> pr.Program:
        """The program with partial results."""
        return stage(program, self.statement, self.piece).program

    @staticmethod
    def read(text: str) -> PartialSums | None:
        """What prints so, behind `rfactor`."""
        statement, _, rest = text.partition(" ")
        piece = Piece.read(rest)
        return PartialSums(statement, piece) if piece is not None else None


def stage(program: pr.Program, statement: str, piece: Piece) -> Staged:
    """The program with partial results of an update. Raises E707, E708."""
    s = elements.plain(program, statement, "partial sums")
    tensor = program.tensor(s.target)
    why, cure = _unfit(program, s, tensor.dtype, piece)
    if why:
        raise errors.fail("E708", why, notes=[cure])
    found = elements.touched(program, s, "partial sums")
    r = s.by_index[piece.index]
    low, high = piece.range(r.lower, r.upper)
    index = fresh(f"{piece.index}_part", {x.index for x in found.ranges} | set(s.indices))
    over = pr.Range(index, low, high)
    own = pr.Tensor(fresh(f"{s.target}_part", {t.name for t in program.tensors}), tensor.dtype,
                    (over.extent, *tensor.shape), (low, *tensor.lower))
    labels = {x.name for x in program.statements}
    label = fresh(f"{s.name}_part", labels | {n for x in labels if (n := names.update_of(x)) is not None})
    cell = (pr.Index(index), *found.subscripts)
    begin = pr.Statement(names.initialisation(label), own.name, cell, None,
                         pr.Const(scalars.identity(s.op or "+", own.dtype), own.dtype), (over, *found.ranges), found.where,
                         span=s.span)
    part = replace(s, name=label, target=own.name, subscripts=(piece.value, *s.subscripts))
    whole = replace(s, subscripts=found.subscripts, value=pr.Read(own.name, cell, own.dtype), ranges=(*found.ranges, over),
                    where=found.where)
    statements = tuple(y for x in program.statements for y in ((begin, part, whole) if x is s else (x,)))
    changed = replace(program, tensors=(*program.tensors, own), statements=statements)
    return Staged(changed, begin, part, whole, index)


def _unfit(program: pr.Program, s: pr.Statement, dtype: scalars.DType, piece: Piece) -> tuple[str, str]:
    """Why there are no partial sums of a statement over a piece, and what to do; empty if there may be."""
    kept = elements.told(s, s.subscripts)
    if s.op is None:
        return f"{s.name} is an assignment: it adds up nothing", "name an update, such as `+=`"
    if piece.index not in s.by_index or kept.of(piece.value) is not None:
        over = ", ".join(i for i in s.indices if i not in kept.indices) or "nothing"
        return f"{s.name} does not add up over {pr.format_expr(piece.value)}", f"it adds up over {over}"
    if program.precise and dtype.is_float:
        return f"{s.name} is precise: its sum keeps its order", "leave `precise` away, or keep the sum in one piece"
    return "", ""
