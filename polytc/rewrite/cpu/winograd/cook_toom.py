"""Exact matrices of fast correlations: y = A (G g * B d) with one product for each of n = m + r - 1 points.

F(2, 3) makes two results of a window of three taps with 4 products instead of 6, F(4, 3) four with 6 instead of 12:

    y[0] = d[0] g[0] + d[1] g[1] + d[2] g[2];   y[1] = d[1] g[0] + d[2] g[1] + d[3] g[2]

Two polynomials are multiplied by evaluating both in n points, one of them infinity, and interpolating; a correlation is the
transpose of that (Toom 1963, Cook 1966; Winograd, Arithmetic Complexity of Computations, SIAM 1980). All numbers are exact
fractions; what multiplies by 0 or 1 can be left out of the text made from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TypeAlias

Matrix: TypeAlias = tuple[tuple[Fraction, ...], ...]

POINTS: dict[int, tuple[Fraction, ...]] = {
    3: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(2)),
    5: (Fraction(0), Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}
"""How many -> where the polynomials are evaluated, beside infinity. Pairs p, -p leave zeros in the matrices; dyadic numbers
make A and B exact in binary; and among those, these have (nearly) the smallest rounding errors: a quarter of those of 0, 1, -1,
2, -2 (docs/accuracy.md; Barabasz, Anderson, Soodhalter & Gregg, Error Analysis and Improving the Accuracy of Winograd
Convolution for Deep Neural Networks, TOMS 2020)."""


@dataclass(frozen=True)
class Correlation:
    """results, taps: m and r of F(m, r). inputs: B, n x n, is applied to the data; weights: G, n x r, to the taps; output: A,
    m x n, to the products."""

    results: int
    taps: int
    inputs: Matrix
    weights: Matrix
    output: Matrix

    @property
    def points(self) -> int:
        """n, the products that m results take."""
        return self.results + self.taps - 1


def correlation(results: int, taps: int) -> Correlation:
    """The matrices of F(results, taps). Raises KeyError where POINTS has no row for that many points."""
    points = POINTS[results + taps - 2]
    count = len(points)
    zero, one = Fraction(0), Fraction(1)
    scales = tuple(prod((p - q for q in points if q != p), start=one) for p in points)
    weights = (*(tuple(p ** k / scale for k in range(taps)) for p, scale in zip(points, scales, strict=True)),
               tuple(one if k == taps - 1 else zero for k in range(taps)))
    inputs = (*(_with_roots([q for q in points if q != p], count + 1) for p in points), _with_roots(points, count + 1))
    output = tuple((*(p ** i for p in points), one if i == results - 1 else zero) for i in range(results))
    return Correlation(results, taps, inputs, weights, output)


def _with_roots(roots: list[Fraction] | tuple[Fraction, ...], size: int) -> tuple[Fraction, ...]:
    """Coefficients, lowest power first, of the monic polynomial with these roots, padded with zeros."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *coefficients], [*(-root * c for c in coefficients), Fraction(0)]
        coefficients = [a + b for a, b in zip(shifted, scaled, strict=True)]
    return (*coefficients, *(Fraction(0) for _ in range(size - len(coefficients))))
