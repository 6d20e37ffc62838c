"""Coefficients of polytc's mathematical functions: minimax fits by Remez's exchange, rounded one coefficient at a time.

    python benchmarks/minimax.py            # prints polytc/targets/llvm/coefficients.py

A fit is a polynomial that levels its weighted error against a function, computed with mpmath in 40 digits (E. Remez, 1934). A
rounded coefficient is fixed and those of higher powers are fitted again, so that they make good what the rounding has lost.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import mpmath as mp
import numpy as np

Number: TypeAlias = Any
mp.mp.dps = 40

POINTS = 200
ROUNDS = 30


@dataclass(frozen=True)
class Fit:
    """A polynomial's task. bits: significant ones of a coefficient, 24 for f32 and 53 for f64. function: of t in [low, high].
    weight: what an error at t counts."""

    bits: int
    function: Callable[[Number], Number]
    weight: Callable[[Number], Number]
    low: Number
    high: Number
    degree: int

    @cached_property
    def samples(self) -> tuple[list[Number], list[Number], list[Number]]:
        """Points dense at the ends, and the function and the weight there."""
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        points = [middle - half * mp.cospi(mp.mpf(2 * i + 1) / (2 * POINTS)) for i in range(POINTS)]
        return points, [self.function(t) for t in points], [abs(self.weight(t)) for t in points]


def horner(coefficients: Sequence[Number], t: Number) -> Number:
    """The value of a polynomial, coefficients from the constant up."""
    total = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * t + c
    return total


def errors(fit: Fit, coefficients: Sequence[Number]) -> list[Number]:
    """The weighted error at each of the fit's samples."""
    return [w * (horner(coefficients, t) - f) for t, f, w in zip(*fit.samples, strict=True)]


def remez(fit: Fit, fixed: Sequence[Number]) -> list[Number]:
    """The best coefficients that start with `fixed`."""
    points, values, weights = fit.samples
    start, count = len(fixed), fit.degree + 2 - len(fixed)
    # What is left to fit is t^start times a polynomial: left of 0 its signs alternate the other way if start is odd.
    side = [-1 if t < 0 and start % 2 else 1 for t in points]
    reference = [round((i + 0.5) * POINTS / count - 0.5) for i in range(count)]
    best: tuple[Number, list[Number]] | None = None
    for _ in range(ROUNDS):
        rows, right = [], []
        for i, at in enumerate(reference):
            t = points[at]
            rows.append([t**k for k in range(start, fit.degree + 1)] + [-((-1) ** i) * side[at] / weights[at]])
            right.append(values[at] - horner(fixed, t))
        *free, level = mp.lu_solve(mp.matrix(rows), mp.matrix(right))
        coefficients = [*fixed, *free]
        error = errors(fit, coefficients)
        worst = max(map(abs, error))
        if best is None or worst < best[0]:
            best = worst, coefficients
        if worst <= abs(level) * mp.mpf("1.01"):
            break
        reference = _extrema([e * s for e, s in zip(error, side, strict=True)], count, reference)
    assert best is not None
    return best[1]


def _extrema(error: Sequence[Number], count: int, before: list[int]) -> list[int]:
    """The places of `count` extrema with signs that take turns, the largest of all among them: the smallest are left out, inner
    ones together with a neighbour."""
    runs: list[int] = []
    for i, e in enumerate(error):
        if runs and (e > 0) == (error[runs[-1]] > 0):
            runs[-1] = max(runs[-1], i, key=lambda k: abs(error[k]))
        else:
            runs.append(i)
    if len(runs) < count:
        return before
    while len(runs) > count:
        size = [abs(error[i]) for i in runs]
        least = size.index(min(size))
        if len(runs) == count + 1 or least in (0, len(runs) - 1):
            runs.pop(0 if size[0] < size[-1] else -1)
        else:
            beside = least - 1 if size[least - 1] < size[least + 1] else least + 1
            for i in sorted((least, beside), reverse=True):
                runs.pop(i)
    return runs


def rounded(x: Number, bits: int) -> Number:
    """The nearest number of so many significant bits."""
    with mp.workprec(bits):
        return +x


def solve(fit: Fit) -> tuple[list[Number], Number]:
    """Rounded coefficients, and the largest weighted error that they leave."""
    found: list[Number] = []
    while len(found) <= fit.degree:
        found.append(rounded(remez(fit, found)[len(found)], fit.bits))
    return found, max(map(abs, errors(fit, found)))


def _even(function: Callable[[Number], Number]) -> Callable[[Number], Number]:
    """function(x) / x as a function of x^2."""
    return lambda z: function(mp.sqrt(z)) / mp.sqrt(z)


SINGLE, DOUBLE = 24, 53
HALF_LN2 = mp.log(2) / 2
ROOT = (mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1)
"""What remains of the argument of a logarithm."""
ERF_LIMIT = {SINGLE: mp.mpf("3.93"), DOUBLE: mp.mpf("5.93")}
"""From here on erf is 1."""


def series(bits: int, function: Callable[[Number], Number], high: Number, degree: int) -> Fit:
    """An odd function as x (1 + x^2 P(x^2)) up to x = high: the fit of P, by the relative error of the function."""
    ratio = _even(function)
    return Fit(bits, lambda z: (ratio(z) - 1) / z, lambda z: z / ratio(z), mp.mpf(2) ** -20, high**2, degree)


def exp_of_reduced(bits: int, degree: int) -> Fit:
    return Fit(bits, lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: r**2 / mp.exp(r), -HALF_LN2, HALF_LN2, degree)


def exp2_of_reduced(bits: int, degree: int) -> Fit:
    return Fit(bits, lambda f: (mp.mpf(2)**f - 1) / f, lambda f: f / (mp.mpf(2)**f - 1), -mp.mpf(1) / 2, mp.mpf(1) / 2, degree)


def cosine(bits: int, degree: int) -> Fit:
    return Fit(bits, lambda z: (mp.cos(mp.sqrt(z)) - 1) / z, lambda z: z / mp.cos(mp.sqrt(z)), mp.mpf(2) ** -20,
               (mp.pi / 4) ** 2, degree)


def atanh_ratio(z: Number) -> Number:
    """atanh(s) / s as a function of s^2."""
    return mp.atanh(mp.sqrt(z)) / mp.sqrt(z)


def log2_of_erfc(bits: int, degree: int) -> Fit:
    return Fit(bits, lambda x: mp.log(mp.erfc(x), 2) / x, lambda x: x * mp.log(2) * mp.erfc(x) / mp.erf(x), mp.mpf(2) ** -30,
               ERF_LIMIT[bits], degree)


ATANH_HIGH = (ROOT[1] / (2 + ROOT[1])) ** 2
LOG_SINGLE = Fit(SINGLE, lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3, lambda f: f**3 / mp.log1p(f), *ROOT, 7)
LOG_DOUBLE = Fit(DOUBLE, lambda z: 2 * (atanh_ratio(z) - 1) / z, lambda z: z / (2 * atanh_ratio(z)), mp.mpf(2) ** -20,
                 ATANH_HIGH, 7)

TYPED: dict[str, tuple[str, Fit, Fit]] = {
    "EXP": ("(e^r - 1 - r) / r^2 on |r| <= ln(2)/2.", exp_of_reduced(SINGLE, 4), exp_of_reduced(DOUBLE, 9)),
    "EXP2": ("(2^f - 1) / f on |f| <= 1/2.", exp2_of_reduced(SINGLE, 5), exp2_of_reduced(DOUBLE, 10)),
    "LOG": ("f32: (ln(1 + f) - f + f^2/2) / f^3; f64: (2 atanh(s) - 2s) / s^3 in s^2, s = f / (2 + f).",
            LOG_SINGLE, LOG_DOUBLE),
    "ERF": ("log2(1 - erf(x)) / x on 0 <= x <= ERF_LIMIT.", log2_of_erfc(SINGLE, 7), log2_of_erfc(DOUBLE, 23)),
    "SINH": ("(sinh(x) - x) / x^3 in x^2 on |x| <= 1.", series(SINGLE, mp.sinh, mp.mpf(1), 2),
             series(DOUBLE, mp.sinh, mp.mpf(1), 6)),
    "SIN": ("(sin(r) - r) / r^3 in r^2 on |r| <= pi/2.", series(SINGLE, mp.sin, mp.pi / 2 + mp.mpf("0.01"), 3),
            series(DOUBLE, mp.sin, mp.pi / 2 + mp.mpf("0.01"), 7)),
    "COS": ("(cos(r) - 1) / r^2 in r^2 on |r| <= pi/4.", cosine(SINGLE, 3), cosine(DOUBLE, 7)),
    "ASIN": ("(asin(x) - x) / x^3 in x^2 on |x| <= 1/2.", series(SINGLE, mp.asin, mp.mpf("0.5"), 4),
             series(DOUBLE, mp.asin, mp.mpf("0.5"), 11)),
    "ATAN": ("(atan(x) - x) / x^3 in x^2 on |x| <= tan(pi/8).", series(SINGLE, mp.atan, mp.tan(mp.pi / 8), 3),
             series(DOUBLE, mp.atan, mp.tan(mp.pi / 8), 10)),
}
"""Name -> (what it is, the fit for f32, the fit for f64)."""

SINGLES: dict[str, tuple[str, Fit]] = {
    "LOG2_SINGLE": ("log2(1 + f) / f, computed in f64 for f32.",
                    Fit(DOUBLE, lambda f: mp.log(1 + f, 2) / f, lambda f: f / mp.log(1 + f, 2), *ROOT, 12)),
    "EXP2_SINGLE": ("2^f on |f| <= 1/2, computed in f64 for f32.",
                    Fit(DOUBLE, lambda f: mp.mpf(2)**f, lambda f: mp.mpf(2)**-f, -mp.mpf(1) / 2, mp.mpf(1) / 2, 6)),
    "LOG_TAIL": ("(atanh(s) / s - 1 - s^2/3) / s^4 in s^2, f64.",
                 Fit(DOUBLE, lambda z: (atanh_ratio(z) - 1 - z / 3) / z**2, lambda z: z**2 / atanh_ratio(z), mp.mpf(2) ** -16,
                     ATANH_HIGH, 8)),
}
"""Name -> (what it is, the fit)."""


def parts(x: Number, count: int, bits: int) -> list[Number]:
    """A positive number as a sum of so many, each as much of what is left as its bits hold, so that none is negative."""
    out: list[Number] = []
    for _ in range(count):
        out.append(mp.mpf(x - sum(out), prec=bits, rounding="d"))
    return out


def _tuple(numbers: Sequence[Number], bits: int) -> str:
    """Python's shortest spelling of numbers of f32 or f64."""
    texts = [str(np.float32(float(c))) if bits == SINGLE else repr(float(c)) for c in numbers]
    return "(" + ", ".join(texts) + ")"


def _report(name: str, fit: Fit, lost: Number) -> None:
    print(f"{name:12} {fit.bits} bits, degree {fit.degree}: {mp.nstr(lost * mp.mpf(2)**fit.bits, 3)} / 2^{fit.bits}",
          file=sys.stderr)


def table() -> str:
    """The text of coefficients.py."""
    lines = ['"""Coefficients of the elementary functions; made by benchmarks/minimax.py, which says how."""', "",
             "from polytc.program.scalars import F32, F64", ""]
    for name, (note, *both) in TYPED.items():
        found = []
        for fit in both:
            coefficients, lost = solve(fit)
            _report(name, fit, lost)
            found.append(_tuple(coefficients, fit.bits))
        lines += [f"{name} = {{", f"    F32: {found[0]},", f"    F64: {found[1]},", "}", f'"""{note}"""', ""]
    for name, (note, fit) in SINGLES.items():
        coefficients, lost = solve(fit)
        _report(name, fit, lost)
        lines += [f"{name} = {_tuple(coefficients, fit.bits)}", f'"""{note}"""', ""]
    lines += [f"ERF_LIMIT = {{F32: {float(ERF_LIMIT[SINGLE])}, F64: {float(ERF_LIMIT[DOUBLE])}}}", ""]
    for name, value in (("PI", mp.pi), ("HALF_PI", mp.pi / 2)):
        single, double = (_tuple(parts(value, 3, bits), bits) for bits in (SINGLE, DOUBLE))
        lines += [f"{name} = {{F32: {single}, F64: {double}}}"]
    for name, value in (("THIRD", mp.mpf(1) / 3), ("TWO_OVER_LN2", 2 / mp.log(2))):
        lines += [f"{name} = {_tuple(parts(value, 2, DOUBLE), DOUBLE)}"]
    lines += ['"""Numbers as sums, f64 for the last two."""', ""]
    return "\n".join(_wrapped(line) for line in lines)


def _wrapped(line: str) -> str:
    """Lines of at most 128 characters, broken behind commas and spaces."""
    indent = " " * (len(line) - len(line.lstrip()) + line.startswith(" ") * 6 + 4)
    return line if line.startswith('"') else textwrap.fill(line, 128, subsequent_indent=indent, break_long_words=False)


if __name__ == "__main__":
    print(table(), end="")
