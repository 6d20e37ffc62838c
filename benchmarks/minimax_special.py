"""Coefficients of the functions that all targets share: error functions, their inverses and the gamma function.

    python benchmarks/minimax_special.py            # prints polytc/functions/coefficients.py

The fits are those of benchmarks/minimax.py. Half lines become intervals by t = (z - k) / (z + k) (M. M. Shepherd,
J. G. Laframboise, Mathematics of Computation 36, 1981).
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

from minimax import DOUBLE, SINGLE, Fit, Number, _report, _tuple, _wrapped, parts, solve

HALF = mp.mpf(1) / 2
ERFCX_CENTRE = 3
INVERSE_CENTRE = {SINGLE: mp.mpf("4.5"), DOUBLE: mp.mpf("7.5")}
INVERSE_END = {SINGLE: mp.mpf("10.2"), DOUBLE: mp.mpf("27.4")}
"""sqrt(-ln(y (2 - y))) of the smallest y."""
NEAR = 4
"""-ln(1 - x^2) up to which erfinv(x) is x times a polynomial."""
STIRLING = {SINGLE: 4, DOUBLE: 8}
"""From here on the gamma function is Stirling's, corrected by a polynomial."""


def erfcx(z: Number) -> Number:
    return mp.exp(z * z) * mp.erfc(z)


def scaled_erfcx(t: Number) -> Number:
    """(z + 1/2) erfcx(z) at t = (z - k) / (z + k)."""
    z = ERFCX_CENTRE * (1 + t) / (1 - t)
    return (z + HALF) * erfcx(z)


def inverse(w: Number) -> Number:
    """erfinv(x) with w = -ln(1 - x^2), by Halley's steps."""
    if w < NEAR + 1:
        return mp.erfinv(mp.sqrt(-mp.expm1(-w)))
    y = mp.exp(-w) / (1 + mp.sqrt(-mp.expm1(-w)))
    found = mp.sqrt(w)
    for _ in range(60):
        d = (mp.erfc(found) - y) * mp.sqrt(mp.pi) / 2 * mp.exp(found * found)
        step = d / (1 - found * d) if abs(1 - found * d) > HALF else d
        found += step
        if abs(step) < mp.mpf(10) ** -36:
            break
    return found


def ratio(w: Number) -> Number:
    """erfinv(x) / x with w = -ln(1 - x^2)."""
    return inverse(w) / mp.sqrt(-mp.expm1(-w))


def relative(bits: int, function: Callable[[Number], Number], low: Number, high: Number, degree: int) -> Fit:
    """A fit by the relative error."""
    return Fit(bits, function, lambda t: 1 / function(t), mp.mpf(low), mp.mpf(high), degree)


def near(bits: int, degree: int) -> Fit:
    """erfinv(x) / x of w - 2."""
    return relative(bits, lambda t: ratio(t + 2), HALF**40 - 2, NEAR - 2, degree)


def tail(bits: int, degree: int) -> Fit:
    """erfinv(x) / s with s = sqrt(w), of t = (s - k) / (s + k)."""
    k = INVERSE_CENTRE[bits]
    low, high = ((s - k) / (s + k) for s in (mp.sqrt(NEAR), INVERSE_END[bits]))

    def function(t: Number) -> Number:
        s = k * (1 + t) / (1 - t)
        return inverse(s * s) / s
    return relative(bits, function, low, high, degree)


def lgamma_between(bits: int, degree: int) -> Fit:
    """ln(gamma(y)) / ((y - 1) (y - 2)) of y - 3/2."""
    def function(t: Number) -> Number:
        y = t + 3 * HALF
        return mp.loggamma(y) / ((y - 1) * (y - 2))
    return relative(bits, function, mp.mpf("-0.8"), mp.mpf("0.75"), degree)


def reciprocal_gamma(bits: int, degree: int) -> Fit:
    """1 / gamma(y) of y - 3/2, by its relative error."""
    return relative(bits, lambda t: mp.rgamma(t + 3 * HALF), -1, 3 * HALF, degree)


def stirling(bits: int, degree: int) -> Fit:
    """x (ln(gamma(x)) - ((x - 1/2) (ln(x) - 1) + (ln(2 pi) - 1) / 2)) of z = 1 / x^2, by the error of ln(gamma(x))."""
    def function(z: Number) -> Number:
        x = 1 / mp.sqrt(z)
        with mp.workdps(60):
            return x * (mp.loggamma(x) - ((x - HALF) * (mp.log(x) - 1) + (mp.log(2 * mp.pi) - 1) / 2))
    return Fit(bits, function, lambda z: mp.sqrt(z) / mp.loggamma(1 / mp.sqrt(z)), mp.mpf(2) ** -20,
               mp.mpf(STIRLING[bits]) ** -2, degree)


def gamma_correction(bits: int, degree: int) -> Fit:
    """gamma(x) / (x^(x - 1/2) e^-x) of 1 / x."""
    def function(r: Number) -> Number:
        x = 1 / r
        with mp.workdps(60):
            return mp.exp(mp.loggamma(x) - (x - HALF) * mp.log(x) + x)
    return relative(bits, function, mp.mpf(2) ** -12, mp.mpf(1) / STIRLING[bits], degree)


def circular(bits: int, function: Callable[[Number], Number], at_zero: Number, degree: int) -> Fit:
    """(f(r) - f(0)) / r^2 of r^2, |r| <= 1/4, by the relative error of f."""
    return Fit(bits, lambda z: (function(mp.sqrt(z)) - at_zero) / z, lambda z: z / function(mp.sqrt(z)), HALF**20, HALF**4,
               degree)


def error_ratio(bits: int, degree: int) -> Fit:
    """erf(x) / x of x^2, |x| <= 1/2, by the error of erfc(x)."""
    return Fit(bits, lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z), lambda z: mp.sqrt(z) / mp.erfc(mp.sqrt(z)), HALF**20, HALF**2,
               degree)


def sine_ratio(r: Number) -> Number:
    return mp.sinpi(r) / r


TYPED: dict[str, tuple[str, Fit, Fit]] = {
    "SINPI": ("(sin(pi r) / r - pi) / r^2 in r^2 on |r| <= 1/4.", circular(SINGLE, sine_ratio, mp.pi, 2),
              circular(DOUBLE, sine_ratio, mp.pi, 6)),
    "COSPI": ("(cos(pi r) - 1) / r^2 in r^2 on |r| <= 1/4.", circular(SINGLE, mp.cospi, 1, 3),
              circular(DOUBLE, mp.cospi, 1, 6)),
    "ERF_NEAR": ("erf(x) / x in x^2 on |x| <= 1/2.", error_ratio(SINGLE, 4), error_ratio(DOUBLE, 9)),
    "ERFCX": ("(z + 1/2) e^(z^2) erfc(z) in (z - 3) / (z + 3), z >= 0.", relative(SINGLE, scaled_erfcx, -1, 1 - HALF**30, 12),
              relative(DOUBLE, scaled_erfcx, -1, 1 - HALF**30, 24)),
    "ERFINV": ("erfinv(x) / x in w - 2, w = -ln(1 - x^2) <= 4.", near(SINGLE, 9), near(DOUBLE, 20)),
    "ERFINV_TAIL": ("erfinv(x) / s, s = sqrt(w), in (s - k) / (s + k), k = INVERSE_CENTRE; f64: a first guess.",
                    tail(SINGLE, 12), tail(DOUBLE, 13)),
    "LGAMMA": ("ln(gamma(y)) / ((y - 1) (y - 2)) in y - 3/2, 0.7 <= y <= 2.25.", lgamma_between(SINGLE, 12),
               lgamma_between(DOUBLE, 27)),
    "STIRLING": ("x (ln(gamma(x)) - (x - 1/2) (ln(x) - 1) - (ln(2 pi) - 1) / 2) in 1/x^2, x >= STIRLING_FROM.",
                 stirling(SINGLE, 1), stirling(DOUBLE, 5)),
    "RGAMMA": ("1 / gamma(y) in y - 3/2, 1/2 <= y <= 3.", reciprocal_gamma(SINGLE, 12), reciprocal_gamma(DOUBLE, 20)),
    "GAMMA": ("gamma(x) / (x^(x - 1/2) e^-x) in 1/x, x >= STIRLING_FROM.", gamma_correction(SINGLE, 4),
              gamma_correction(DOUBLE, 10)),
}
"""Name -> (what it is, the fit for f32, the fit for f64)."""


def table() -> str:
    """The text of coefficients.py."""
    lines = ['"""Coefficients of the shared functions, by the digits of the type, from benchmarks/minimax_special.py."""', ""]
    for name, (note, *both) in TYPED.items():
        found = []
        for fit in both:
            coefficients, lost = solve(fit)
            _report(name, fit, lost)
            found.append(_tuple(coefficients, fit.bits))
        lines += [f"{name} = {{", f"    {SINGLE}: {found[0]},", f"    {DOUBLE}: {found[1]},", "}", f'"""{note}"""', ""]
    for name, values in (("INVERSE_CENTRE", INVERSE_CENTRE), ("STIRLING_FROM", STIRLING)):
        lines += [f"{name} = {{{SINGLE}: {float(values[SINGLE])}, {DOUBLE}: {float(values[DOUBLE])}}}"]
    for name, value in (("PI", mp.pi), ("LOG2_10", mp.log(10, 2)), ("HALF_ROOT", mp.sqrt(HALF))):
        single, double = (_tuple(parts(value, 2, bits), bits) for bits in (SINGLE, DOUBLE))
        lines += [f"{name} = {{{SINGLE}: {single}, {DOUBLE}: {double}}}"]
    lines += ['"""Numbers as sums."""']
    return "\n".join(_wrapped(line) for line in lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
