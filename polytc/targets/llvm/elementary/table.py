"""Which intrinsic is computed by which expansion."""

from __future__ import annotations

from collections.abc import Callable

from polytc.functions.table import DEFINITIONS
from polytc.targets.llvm import ir
from polytc.targets.llvm.elementary import circular, exponentials, exponents, logarithms, powers, shared

Expansion = Callable[..., ir.Value]
"""(m, arguments...) -> value"""

EXPANSIONS: dict[str, Expansion] = {
    "exp": exponentials.exp, "exp2": exponentials.exp2, "expm1": exponentials.expm1, "sinh": exponentials.sinh,
    "cosh": exponentials.cosh, "tanh": exponentials.tanh, "sigmoid": exponentials.sigmoid, "erf": exponentials.erf,
    "log": logarithms.log, "log2": logarithms.log2, "log10": logarithms.log10, "log1p": logarithms.log1p,
    "asinh": logarithms.asinh, "acosh": logarithms.acosh, "atanh": logarithms.atanh,
    "sin": circular.sin, "cos": circular.cos, "tan": circular.tan, "asin": circular.asin, "acos": circular.acos,
    "atan": circular.atan, "atan2": circular.atan2, "pow": powers.pow, "cbrt": powers.cbrt,
    "ldexp": exponents.ldexp, "logb": exponents.logb, "nextafter": exponents.nextafter,
    **{name: shared.expansion(definition) for name, definition in DEFINITIONS.items()},
}

NEAR_ONLY = ("sin", "cos", "tan")
"""Their expansions are for arguments that are `circular.near`."""

CALLED = ("erfinv", "erfcinv", "normcdfinv", "lgamma", "tgamma")
"""They are hundreds of instructions, and called."""
