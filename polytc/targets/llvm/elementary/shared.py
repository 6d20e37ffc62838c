"""The definitions that all targets share, in instructions."""

from __future__ import annotations

from collections.abc import Callable

from polytc.targets.llvm import ir, remainder
from polytc.targets.llvm.elementary import exponentials, logarithms, powers
from polytc.targets.llvm.elementary.floats import Floats


class Shared(Floats):
    """Floats as a functions.arithmetic.Arithmetic."""

    @property
    def digits(self) -> int:
        return self.format.mantissa + 1

    def round(self, a: ir.Value) -> ir.Value:
        return self.fn.intrinsic("rint", (a,))

    def exp(self, a: ir.Value) -> ir.Value:
        return exponentials.exp(self, a)

    def exp2(self, a: ir.Value) -> ir.Value:
        return exponentials.exp2(self, a)

    def log(self, a: ir.Value) -> ir.Value:
        return logarithms.log(self, a)

    def cbrt(self, a: ir.Value) -> ir.Value:
        return powers.cbrt(self, a)

    def pow(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return powers.pow(self, a, b)

    def fmod(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return remainder.fmod(self.fn, a, b)


def expansion(definition: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    """A definition as a function of Floats and arguments."""
    return lambda m, *args: definition(Shared(m.fn, m.dtype, m.type, m.machine), *args)
