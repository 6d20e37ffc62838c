"""Sliding windows: which iteration of a loop is the first to read an element of a window that all its iterations share.

    for i.0: { S2_T makes T_S2[w], w in 0:66;  for v in 0:64: S2 reads T_S2[v], T_S2[v+1], T_S2[v+2] }
    ->  element w is first read in iteration w - 2; iteration 0 reads elements 0, 1 and 2

Each iteration then makes `step` elements, and what the first one reads is made before the loop. (Sliding windows of Halide:
Ragan-Kelley et al., PLDI 2013.)
"""

from __future__ import annotations

from dataclasses import dataclass

from polytc import errors
from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.program.linear import linear
from polytc.program.scalars import I64
from polytc.schedule.user.changes.pieces import Piece


@dataclass(frozen=True)
class Sliding:
    """dimension: of the tensor that the loop moves through; step: elements from one iteration to the next; last: the greatest
    element that iteration 0 reads, counted from the window's first one; base: the coordinate of that, where windows are none of
    their own but the tensor; first: the loop's first iteration."""

    dimension: int
    step: int
    last: int
    base: int
    first: int

    @property
    def begun(self) -> int:
        """How many elements the first iteration reads, and those before them."""
        return self.step * self.first + self.last + 1

    def iteration(self, element: pr.Expr) -> pr.Expr:
        """The iteration that is the first to read an element, of those behind the first iteration."""
        behind = pr.Binary("-", element, pr.Const(self.last - (self.step - 1), I64), I64)
        return behind if self.step == 1 else pr.Binary("//", behind, pr.Const(self.step, I64), I64)


def of(s: pr.Statement, reads: list[pr.Read], loop: Piece, each: tuple[Piece, ...]) -> Sliding:
    """How a loop around a reader moves through a tensor. each: pieces of the reader's indices that tell its windows.

    Raises E708 where it does not move forwards through one dimension, in steps that are the same for all reads.
    """
    tensor = reads[0].tensor
    found: list[Sliding] = []
    for d in range(len(reads[0].subscripts)):
        forms = [linear(r.subscripts[d]) for r in reads]
        if not any(loop.index in pr.index_names(r.subscripts[d]) for r in reads):
            continue
        known = [f for f in forms if f is not None]
        if len(known) < len(forms) or len({f.terms for f in known}) != 1:
            raise _refused(s, tensor, loop, "its reads do not move together")
        found.append(_along(s, tensor, d, known, loop, each))
    if len(found) != 1:
        raise _refused(s, tensor, loop, "no subscript has it" if not found else "several subscripts have it")
    return found[0]


def _along(s: pr.Statement, tensor: str, d: int, forms: list[Linear], loop: Piece, each: tuple[Piece, ...]) -> Sliding:
    constants = [f.constant for f in forms]
    base, last, step, first = min(constants), max(constants) - min(constants), 0, 0
    for index, c in forms[0].terms:
        r = s.by_index[index]
        told = min((p.divisor for p in each if p.index == index), default=0)
        left = told or int(r.extent)
        base += c * (int(r.lower) if c > 0 else int(r.upper) - 1)
        if index != loop.index:
            last += abs(c) * (left - 1)
            continue
        if c < 0:
            raise _refused(s, tensor, loop, "it moves backwards")
        if loop.divisor * loop.modulus != told:
            raise _refused(s, tensor, loop, "another loop moves through the same elements")
        step, first = c * loop.divisor, 0 if told else int(r.lower) // loop.divisor
        last += c * (loop.divisor - 1) - (0 if told else c * int(r.lower))
    return Sliding(d, step, last, base, first)


def _refused(s: pr.Statement, tensor: str, loop: Piece, why: str) -> errors.CompileError:
    return errors.fail("E708", f"the loop over {pr.format_expr(loop.value)} of {s.name} slides through no window of {tensor}: "
                       f"{why}", notes=["compute_at computes what each iteration reads, once more where they overlap"])
