"""A program for sizes that are multiples: what follows sees extents that tiles and vectors divide.

    C[i] = A[i] where i in 0:I, for multiples of 64   ->   C[i] = A[i] where i in 0:64*I_64, with I_64 = I/64

So every test for what lies beyond the end of a tile is decided when code is made, and addresses are multiples of what vectors
want, by the same proofs as where sizes are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.sizes import Size, at, mapped, replaced


@dataclass(frozen=True)
class Part:
    """name: of a size that kernels have in place of another one, which is `divisor` times as large."""

    name: str
    size: str
    divisor: int


def parts(program: pr.Program, divisors: Mapping[str, int]) -> tuple[Part, ...]:
    """The sizes that take the place of those that are multiples, under names that the program does not use."""
    taken = {*program.sizes, *(t.name for t in program.tensors), *(s.name for s in program.statements),
             *(r.index for s in program.statements for r in s.ranges)}
    found = []
    for size, divisor in divisors.items():
        name = f"{size}_{divisor}"
        while name in taken:
            name += "_"
        found.append(Part(name, size, divisor))
    return tuple(found)


def divided(program: pr.Program, by: Sequence[Part], typical: Mapping[str, int]) -> pr.Program:
    """The program for multiples, made for typical sizes that are some."""
    own = {p.size: p for p in by}
    places: dict[str, int] = {p.size: Size.named(p.name, 1) * p.divisor for p in by}
    values = {**typical, **{p.name: typical[p.size] // p.divisor for p in by}}

    def number(n: Size) -> int:
        made = replaced(n, places)
        return Size.of(at(made, values), made.form) if isinstance(made, Size) else made
    made: pr.Program = mapped(program, number)
    return replace(made, sizes=tuple(own[n].name if n in own else n for n in program.sizes), same=None)


def with_parts(sizes: Mapping[str, int], by: Sequence[Part]) -> dict[str, int] | None:
    """Sizes with the parts of them; None where they are no multiples."""
    if any(sizes[p.size] % p.divisor for p in by):
        return None
    return {**sizes, **{p.name: sizes[p.size] // p.divisor for p in by}}
