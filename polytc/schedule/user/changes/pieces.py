"""Pieces of indices: what a loop that was cut walks, and what is left of an index inside of such loops."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.program.scalars import I64


@dataclass(frozen=True)
class Piece:
    """The value index // divisor % modulus of a loop, without the remainder if modulus is 0."""

    index: str
    divisor: int = 1
    modulus: int = 0

    def __str__(self) -> str:
        return f"{self.index}/{self.divisor}" + (f"%{self.modulus}" if self.modulus else "")

    @property
    def value(self) -> pr.Expr:
        value: pr.Expr = pr.Index(self.index)
        if self.divisor != 1:
            value = pr.Binary("//", value, pr.Const(self.divisor, I64), I64)
        return pr.Binary("%", value, pr.Const(self.modulus, I64), I64) if self.modulus else value

    @staticmethod
    def of(value: pr.Expr) -> Piece | None:
        """The piece that has this value."""
        match value:
            case pr.Index(name=index):
                return Piece(index)
            case pr.Binary("//", pr.Index(name=index), pr.Const(value=divisor)):
                return Piece(index, int(divisor))
            case pr.Binary("%", inside, pr.Const(value=modulus)) if (whole := Piece.of(inside)) and not whole.modulus:
                return replace(whole, modulus=int(modulus))
            case _:
                return None

    @staticmethod
    def read(text: str) -> Piece | None:
        """The piece that prints so."""
        found = re.fullmatch(r"([^/%]+)/([1-9]\d*)(?:%([1-9]\d*))?", text)
        return Piece(found[1], int(found[2]), int(found[3] or 0)) if found else None

    def range(self, lower: int, upper: int) -> tuple[int, int]:
        """The half-open range of its values, of an index in lower..upper-1."""
        return (0, self.modulus) if self.modulus else (lower // self.divisor, (upper - 1) // self.divisor + 1)


def fixed(index: str, values: Iterable[pr.Expr]) -> int:
    """How closely loops tell an index: they tell index // n for the n that comes back; 0 for not at all, 1 for the index
    itself.

    values: the iterations of the loops. Of i // 32 and i // 8 % 4 it is 8: each digit is told from the highest one on.
    """
    found, told = [], 0
    for value in values:
        piece, form = Piece.of(value), linear(value)
        if piece is not None and piece.index == index:
            found.append(piece)
        elif form is not None and [(i, abs(c)) for i, c in form.terms] == [(index, 1)]:
            return 1
    for p in sorted(found, key=lambda p: (-p.divisor, p.modulus)):
        whole = p.divisor * p.modulus
        if not whole or (told and whole % told == 0 and p.divisor < told):
            told = p.divisor if not told else min(told, p.divisor)
    return told


def rest(index: str, values: Iterable[pr.Expr]) -> pr.Expr | None:
    """What is left of an index inside of loops: `i % 8` inside of `i // 8`, nothing inside of `i`, else the index."""
    told = fixed(index, values)
    if told == 1:
        return None
    return Piece(index, 1, told).value
