"""The definitions that all targets share, as functions of C: a line for each operation.

    const float t0 = fabs(a);
    float t1 = 0.5f;
    t1 = t1 * t0 + 2.0f;                      a polynomial, a line for each coefficient
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field

from polytc.functions.table import DEFINITIONS
from polytc.program.scalars import F32, DType
from polytc.targets.ctext.language import Language


@dataclass
class Lines:
    """A functions.arithmetic.Arithmetic of names and numbers in the text."""

    c: Language
    dtype: DType
    lines: list[str] = field(default_factory=list)

    @property
    def digits(self) -> int:
        return 24 if self.dtype == F32 else 53

    def _named(self, text: str, kind: str = "const T") -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{kind} {name} = {text};")
        return name

    def number(self, x: float) -> str:
        return self.c.constant(float(self.dtype.numpy.type(x)), self.dtype)

    def add(self, a: str, b: str) -> str:
        return self._named(f"{a} + {b}")

    def sub(self, a: str, b: str) -> str:
        return self._named(f"{a} - {b}")

    def mul(self, a: str, b: str) -> str:
        return self._named(f"{a} * {b}")

    def div(self, a: str, b: str) -> str:
        return self._named(f"{a} / {b}")

    def neg(self, a: str) -> str:
        return self._named(f"-{a}")

    def abs(self, a: str) -> str:
        return self._named(f"fabs({a})")

    def sqrt(self, a: str) -> str:
        return self._named(f"sqrt({a})")

    def trunc(self, a: str) -> str:
        return self._named(f"trunc({a})")

    def round(self, a: str) -> str:
        return self._named(f"rint({a})")

    def copysign(self, size: str, sign: str) -> str:
        return self._named(f"copysign({size}, {sign})")

    def fma(self, a: str, b: str, c: str) -> str:
        return self._named(f"{a} * {b} + {c}")

    def fused(self, a: str, b: str, c: str) -> str:
        return self._named(f"fma({a}, {b}, {c})")

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        total = self._named(self.number(coefficients[-1]), "T")
        self.lines += [f"{total} = {total} * {x} + {self.number(c)};" for c in reversed(coefficients[:-1])]
        return total

    def less(self, a: str, b: str) -> str:
        return self._named(f"{a} < {b}", "const int")

    def equal(self, a: str, b: str) -> str:
        return self._named(f"{a} == {b}", "const int")

    def both(self, a: str, b: str) -> str:
        return f"({a} && {b})"

    def choose(self, cond: str, a: str, b: str) -> str:
        return self._named(f"{cond} ? {a} : {b}", "const T")

    def at_most(self, a: str, high: float) -> str:
        return self._named(f"{a} > {self.number(high)} ? {self.number(high)} : {a}")

    def exp(self, a: str) -> str:
        return self._named(f"exp({a})")

    def exp2(self, a: str) -> str:
        return self._named(f"exp2({a})")

    def log(self, a: str) -> str:
        return self._named(f"log({a})")

    def cbrt(self, a: str) -> str:
        return self._named(f"cbrt({a})")

    def pow(self, a: str, b: str) -> str:
        return self._named(f"pow({a}, {b})")

    def fmod(self, a: str, b: str) -> str:
        return self._named(f"fmod({a}, {b})")


def function(name: str, language: Language, dtype: DType) -> tuple[int, str] | None:
    """(number of arguments, body with T for the type) of a function that all targets share; halves are computed in f32."""
    definition = DEFINITIONS.get(name)
    if definition is None:
        return None
    arity = len(inspect.signature(definition).parameters) - 1
    m = Lines(language, F32 if dtype.is_half else dtype)
    result = definition(m, *"abc"[:arity])
    return arity, " ".join([*m.lines, f"return {result};"])
