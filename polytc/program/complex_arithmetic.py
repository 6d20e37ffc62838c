"""Complex numbers that are known, and what is said of operations that complex numbers do not have."""

from __future__ import annotations

import cmath
import operator
from collections.abc import Callable
from typing import Any

from polytc.program import program as pr
from polytc.program.scalars import COMPLEX, DType

CURES = {True: ("complex numbers have no order", "compare `abs(z)`, or `real(z)` and `imag(z)`"),
         False: ("`+ - * / == !=` are there", "take the parts, `real(z)` and `imag(z)`, or `abs(z)`")}
"""What helps, by whether the operation compares."""

UPDATE_CURES = {"min": CURES[True], "max": CURES[True]}
"""The same of updates."""


def cures_of_call(fn: str) -> tuple[str, ...]:
    """What stands in place of a function that complex numbers do not have."""
    near = {"log": "`log(abs(z)) + 1j*angle(z)`", "pow": "write a product: `z*z`", "sign": "`z / abs(z)`",
            "cos": "`(exp(1j*z) + exp(-1j*z)) / 2`", "sin": "`(exp(1j*z) - exp(-1j*z)) / 2j`"}
    own = [near[fn]] if fn in near else CURES[True][:1] if fn in ("min", "max", "clamp") else []
    return (*own, f"functions of complex numbers: {', '.join(COMPLEX)}")


def constant(value: complex, dtype: DType) -> pr.Const:
    """A number of a complex type; a real one is a float, whose imaginary part nothing computes. A real part of 0 has no sign.
    """
    if isinstance(value, complex):
        value = value.real if value.imag == 0 else complex(value.real or 0.0, value.imag)
    return pr.Const(value, dtype)


_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "==": operator.eq, "!=": operator.ne}


def folded(op: str, x: complex | None, y: complex | None) -> complex | bool | None:
    """Arithmetic of two numbers; None where they are not both known, or the result is not finite."""
    if x is None or y is None or op not in _FOLD:
        return None
    try:
        found: complex | bool = _FOLD[op](complex(x), complex(y))
    except (ZeroDivisionError, OverflowError):
        return None
    return found if isinstance(found, bool) or cmath.isfinite(found) else None
