"""Programs of one text for several sizes, as one program in which the sizes are formulas.

    A[5, 7], B[7, 9], ...;  A[6, 7], ...;  A[5, 8], B[8, 9], ...   ->   A[M, K], B[K, N]

The formulas are what fits the samples: `formula = floor((sum of factor * size + constant) / divisor)` for each number of the
program. So they say nothing about other sizes: whoever uses the result for some sizes makes sure that it `agrees` with the
program that the text is for these, which has been checked (bounds, coverage, and all) as any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

from polytc.errors import CompileError, Span
from polytc.program import program as pr
from polytc.program.affine import Affine, Quotient, indices
from polytc.program.domain import holds
from polytc.program.names import indices_beside_sizes
from polytc.program.sizes import Size, at, mapped, representative, specialised

NEAR = (1, 2, 3, 7)
"""What each size is moved by for the samples."""

FAR = 240
"""A further move, a multiple of many divisors; beyond it the program may differ, as the smaller of two extents does."""

DIVISORS = 64
"""The largest divisor that is looked for."""


class NotGeneral(Exception):
    """The programs are not alike, or have a number that is no such formula: numbers, of each sample."""

    def __init__(self, why: str, numbers: tuple[int, ...] = ()) -> None:
        super().__init__(why)
        self.numbers = numbers


@dataclass(frozen=True)
class _Samples:
    """points: the sizes of each sample, the first one the representative; names: of the sizes."""

    points: tuple[Mapping[str, int], ...]
    names: tuple[str, ...]

    def slopes(self, numbers: tuple[int, ...]) -> dict[str, Fraction]:
        """What a number gains for each unit of each size."""
        alone = {n: self._along(numbers, n) for n in self.names}
        if None not in alone.values():
            return {n: s for n, s in alone.items() if s is not None}
        return dict(zip(self.names, self._solved(numbers), strict=True))

    def _along(self, numbers: tuple[int, ...], name: str) -> Fraction | None:
        """The slope over the longest way along a size alone; None if there is none."""
        base = self.points[0]
        alone = [(p[name] - base[name], v - numbers[0]) for p, v in zip(self.points, numbers, strict=True)
                 if p[name] != base[name] and all(p[n] == base[n] for n in self.names if n != name)]
        return Fraction(*max(alone, key=lambda step: abs(step[0]))[::-1]) if alone else None

    def _solved(self, numbers: tuple[int, ...]) -> list[Fraction]:
        """The slopes of the linear function through some samples; 0 for sizes that they do not tell apart from others."""
        base, count = self.points[0], len(self.names)
        rows = [[Fraction(p[n] - base[n]) for n in self.names] + [Fraction(v - numbers[0])]
                for p, v in zip(self.points[1:], numbers[1:], strict=True)]
        pivots: list[tuple[int, list[Fraction]]] = []
        for row in rows:
            for column, pivot in pivots:
                row = [a - row[column] * b for a, b in zip(row, pivot, strict=True)]
            lead = next((c for c in range(count) if row[c]), None)
            if lead is None:
                continue
            row = [a / row[lead] for a in row]
            pivots = [(c, [a - p[lead] * b for a, b in zip(p, row, strict=True)]) for c, p in pivots] + [(lead, row)]
        found = {c: p[-1] for c, p in pivots}
        return [found.get(c, Fraction(0)) for c in range(count)]


def generalise(build: Callable[[Mapping[str, int]], pr.Program], base: Mapping[str, int]) -> pr.Program:
    """The program for all sizes. build: the one for given sizes; base: the representative ones, from which samples depart.

    Raises NotGeneral with the reason, and the CompileError of the base.
    """
    try:
        return _fitted(build, base, (*NEAR, FAR))
    except NotGeneral:
        return _fitted(build, base, NEAR)


def _fitted(build: Callable[[Mapping[str, int]], pr.Program], base: Mapping[str, int], steps: tuple[int, ...]) -> pr.Program:
    points, programs = [dict(base)], [build(base)]
    moves = [{n: step} for n in base for step in steps]
    moves += [{n: 3 + (k * 7 + turn * 5) % 13 for k, n in enumerate(base)} for turn in range(2)]

    def sample(moves: Iterable[Mapping[str, int]]) -> list[str]:
        """Build for these sizes too. The names that all points have one value for."""
        for move in moves:
            point = {n: v + move.get(n, 0) for n, v in base.items()}
            try:
                programs.append(build(point))
            except CompileError:  # these sizes are not allowed: `assume`, or something is out of bounds
                continue
            points.append(point)
        return [n for n in base if all(p[n] == base[n] for p in points)]

    still = sample(moves)
    pairs = [*combinations(still, 2), tuple(still)]
    still = sample(dict.fromkeys(together, step) for together in pairs for step in steps)  # some sizes have to be equal
    if still:
        raise NotGeneral(f"no other {still[0]} than {base[still[0]]} is allowed beside the other sizes")
    result: pr.Program = _merged(tuple(programs), _Samples(tuple(points), tuple(base)))
    rest = [{n: step} for n, divisor in _divisors(result) for step in range(divisor) if step % divisor not in
            {(p[n] - base[n]) % divisor for p in points}]
    if rest:  # formulas with divisions that fit so far may round in other places
        sample(rest)
        result = _merged(tuple(programs), _Samples(tuple(points), tuple(base)))
    return indices_beside_sizes(replace(result, sizes=tuple(base)))


def _divisors(program: pr.Program) -> dict[tuple[str, int], None]:
    """Sizes that are divided, each with the divisor."""
    found = dict[tuple[str, int], None]()

    def note(n: Size) -> int:
        found.update(dict.fromkeys((name, atom.divisor) for atom, _ in n.form.terms if isinstance(atom, Quotient)
                                   for name in indices(atom)))
        return n
    mapped(program, note)
    return found


def fitted(programs: Sequence[pr.Program], points: Sequence[Mapping[str, int]]) -> pr.Program:
    """The program that `programs` are for the sizes at `points`, the first one the representative. Raises NotGeneral."""
    result: pr.Program = _merged(tuple(programs), _Samples(tuple(points), tuple(points[0])))
    return indices_beside_sizes(replace(result, sizes=tuple(points[0])))


def formula(numbers: tuple[int, ...], points: Sequence[Mapping[str, int]]) -> int:
    """The formula of sizes that has these values at some points. Raises NotGeneral."""
    return _formula(numbers, _Samples(tuple(points), tuple(points[0])))


def _titled(things: tuple[Any, ...]) -> str:
    """What a part of a program has several of, for a message."""
    names = [str(getattr(x, "name", x)) for x in things]
    kind = type(things[0]).__name__.lower() + "s" if is_dataclass(things[0]) else "parts"
    return f"{kind} ({', '.join(names)})"


def _merged(things: tuple[Any, ...], samples: _Samples) -> Any:
    """Values of one kind from all samples as one."""
    first = things[0]
    if any(type(x) is not type(first) for x in things):
        raise NotGeneral(f"{first} is not of one kind for all sizes")
    if first is None or isinstance(first, (str, bool, Span)):
        if not isinstance(first, Span) and any(x != first for x in things):
            raise NotGeneral(f"{first} is not the same for all sizes")
        return first
    if isinstance(first, int):
        return _formula(things, samples)
    if isinstance(first, float):
        return _float_formula(things, samples)
    if isinstance(first, tuple):
        if any(len(x) != len(first) for x in things):
            raise NotGeneral(f"the program has more or fewer {_titled(max(things, key=len))} for other sizes")
        return tuple(_merged(x, samples) for x in zip(*things, strict=True))
    assert is_dataclass(first), f"generalise: {first!r}"
    assert not isinstance(first, type), f"generalise: {first!r}"
    names = [f.name for f in fields(first)]
    parts = {n: _merged(tuple(getattr(x, n) for x in things), samples) for n in names}
    if all(parts[n] is getattr(first, n) for n in names):
        return first
    return type(first)(**parts)


def _float_formula(numbers: tuple[float, ...], samples: _Samples) -> float:
    """A float that is a size in all samples is that size."""
    if all(x == numbers[0] or (math.isnan(x) and math.isnan(numbers[0])) for x in numbers):
        return numbers[0]
    if not all(math.isfinite(x) and x == int(x) for x in numbers):
        raise NotGeneral(f"{numbers[0]} is no linear formula of the sizes: write it as an expression of an array")
    return _formula(tuple(int(x) for x in numbers), samples)


def _formula(numbers: tuple[int, ...], samples: _Samples) -> int:
    if all(x == numbers[0] for x in numbers):
        return numbers[0]
    slopes = samples.slopes(numbers)
    divisor = math.lcm(*(s.denominator for s in slopes.values()))
    if divisor <= DIVISORS:
        terms = tuple((n, int(s * divisor)) for n, s in slopes.items() if s)
        first = divisor * numbers[0] - sum(c * samples.points[0][n] for n, c in terms)
        for constant in range(first, first + divisor):
            found = [(sum(c * p[n] for n, c in terms) + constant) // divisor for p in samples.points]
            if found == list(numbers):
                return _size(numbers[0], terms, constant, divisor)
    raise NotGeneral(f"a number, {numbers[0]} for {_listed(samples.points[0])}, is no formula of the sizes such as 2*M + 1 or "
                     "(M + 1)//2", numbers)


def _size(number: int, terms: tuple[tuple[str, int], ...], constant: int, divisor: int) -> int:
    form = Affine(constant, terms)
    if divisor == 1:
        return Size.of(number, form)
    whole, rest = constant // divisor, constant % divisor
    return Size.of(number, Affine(whole, ((Quotient(Affine(rest, terms), divisor), 1),)))


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{n}={v}" for n, v in sizes.items())


def numeric(program: pr.Program) -> pr.Program:
    """The program for its representative sizes, of which its ranges know that they are no more than that."""
    if not program.sizes:
        return program
    fixed: pr.Program = representative(program)
    statements = tuple(replace(s, ranges=tuple(map(_typical, s.ranges, old.ranges)))
                       for s, old in zip(fixed.statements, program.statements, strict=True))
    return replace(fixed, sizes=(), statements=statements)


def _typical(r: pr.Range, before: pr.Range) -> pr.Range:
    return replace(r, typical=isinstance(before.extent, Size))


def agrees(general: Any, other: Any, sizes: Mapping[str, int]) -> bool:
    """Is `general` for these sizes the same as `other`, but for places in the text? For programs and all they are made of."""
    if isinstance(general, int) and not isinstance(general, bool):
        return isinstance(other, (int, float)) and not isinstance(other, bool) and at(general, sizes) == other
    if type(general) is not type(other):
        return False
    if isinstance(general, tuple):
        return len(general) == len(other) and all(agrees(a, b, sizes) for a, b in zip(general, other))
    if isinstance(general, Span):
        return True
    if isinstance(general, pr.Program):
        other = indices_beside_sizes(replace(other, sizes=general.sizes))
    if isinstance(general, pr.Statement) and general.where:
        general = _narrowed(general, sizes)
    if is_dataclass(general):
        return all(agrees(getattr(general, f.name), getattr(other, f.name), sizes) for f in fields(general) if f.compare)
    return bool(general == other) or (isinstance(general, float) and math.isnan(general) and math.isnan(other))


def _narrowed(s: pr.Statement, sizes: Mapping[str, int]) -> pr.Statement:
    """The statement for given sizes, without the conditions that hold in its whole box, as programs have it."""
    found: pr.Statement = specialised(s, sizes)
    box = found.box
    return replace(found, where=tuple(c for c in found.where if not holds(c, box)))
