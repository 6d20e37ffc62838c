"""Count: how often something happens, a sum of products of formulas of open sizes.

    for k in 0:(K + 15)//16 { 4096 multiply-adds }, and 64 behind it, at K=100   ->   28736.0, which is 4096*((K + 15)//16) + 64

As a Size is an int, a Count is a float, namely its value at the sizes at hand, and what is computed from it by `+ - *` and by
dividing by numbers is a Count again. Comparisons are of the values: which of two is the larger is decided at those sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import TypeAlias

from polytc.program.affine import Affine, Quotient, add
from polytc.program.sizes import Size, form_of
from polytc.program.sizes import at as size_at

Terms: TypeAlias = tuple[tuple[float, tuple[int, ...]], ...]
"""Coefficients and the factors of each, which are Sizes; a factor that is negative counts as 0, as a loop's iterations do."""


class Count(float):
    """terms: none of the same factors, in order of appearance; the float: their sum at the sizes at hand."""

    terms: Terms

    @classmethod
    def of(cls, value: float, terms: Iterable[tuple[float, tuple[int, ...]]]) -> float:
        """A Count, or a plain number where no size is in it."""
        found = dict[tuple[int, ...], float]()
        for c, factors in terms:
            key = tuple(sorted(factors, key=str))
            found[key] = found.get(key, 0.0) + c
        kept = tuple((c, factors) for factors, c in found.items() if c)
        if not any(factors for _, factors in kept):
            return float(value)
        made = cls(value)
        made.terms = kept
        return made

    @classmethod
    def trips(cls, n: int, sizes: Mapping[str, int]) -> float:
        """So many iterations, none if that is negative."""
        value = float(max(0, size_at(n, sizes)))
        return cls.of(value, [(1.0, (n,))]) if isinstance(n, Size) else value

    @classmethod
    def whole_or_part(cls, n: int, sizes: Mapping[str, int]) -> float:
        """So many iterations, of which the last one counts as what is there of it: K/16 of (K + 15)//16."""
        form = form_of(n)
        if len(form.terms) != 1 or not isinstance(form.terms[0][0], Quotient) or form.terms[0][1] != 1:
            return cls.trips(n, sizes)
        last = form.terms[0][0]
        if last.a.constant % last.divisor != last.divisor - 1:      # rounded down
            return cls.trips(n, sizes)
        inside = Size.of(1, add(last.a, Affine(form.constant * last.divisor - last.divisor + 1)))
        return cls.trips(inside, sizes) * (1.0 / last.divisor)

    def __add__(self, other: float) -> float:
        return Count.of(float(self) + float(other), (*self.terms, *terms(other)))

    __radd__ = __add__

    def __neg__(self) -> float:
        return self * -1.0

    def __sub__(self, other: float) -> float:
        return self + other * -1.0

    def __rsub__(self, other: float) -> float:
        return self * -1.0 + other

    def __mul__(self, other: float) -> float:
        return Count.of(float(self) * float(other), [(a * b, (*f, *g)) for a, f in self.terms for b, g in terms(other)])

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> float:
        return self * (1.0 / float(other))

    def __str__(self) -> str:
        return " + ".join("*".join([*([f"{c:.6g}"] if c != 1 or not f else []), *(f"({n})" for n in f)])
                          for c, f in self.terms).replace("+ -", "- ")

    def __reduce__(self) -> tuple[object, ...]:
        return Count.of, (float(self), self.terms)


def terms(n: float) -> Terms:
    """Of a Count, or of a number."""
    if isinstance(n, Count):
        return n.terms
    return ((float(n), ()),) if n else ()


def at(n: float, sizes: Mapping[str, int]) -> float:
    """The number for given sizes."""
    if not isinstance(n, Count):
        return float(n)
    return sum(c * prod(max(0, size_at(f, sizes)) for f in factors) for c, factors in n.terms)
