"""The intrinsics in dialects of C: one row for each of program.scalars.INTRINSICS, and 'muladd'.

FLOAT: templates on floats (`ONE` is 1 in the type); a name alone is a function of the same arguments. A name that begins with
'@' is a function of the preamble. INTEGER: the same for signed integers; UNSIGNED: where unsigned ones differ. They are OpenCL
C's; C99 has other rows where it lacks a function.
"""

from __future__ import annotations

from polytc.functions.table import DEFINITIONS

FLOAT: dict[str, str] = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "rsqrt": "(ONE / sqrt({0}))", "cbrt": "cbrt",
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
    "erf": "erf", "sigmoid": "(ONE / (ONE + exp(-({0}))))", "pow": "pow", "fmod": "fmod", "fma": "fma", "muladd": "fma",
    "copysign": "copysign", "nextafter": "nextafter", "logb": "logb", "ldexp": "@ldexp",
    **{name: f"@{name}" for name in DEFINITIONS},
    "min": "@min", "max": "@max", "clamp": "@min(@max({0}, {1}), {2})", "abs": "fabs", "sign": "@sign",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "isnan": "isnan", "isinf": "isinf",
    "isfinite": "isfinite", "signbit": "signbit",
}

INTEGER: dict[str, str] = {
    "pow": "@ipow", "fmod": "@rem", "min": "min", "max": "max", "clamp": "min(max({0}, {1}), {2})", "abs": "AS(abs({0}))",
    "sign": "@isign", "floor": "{0}", "ceil": "{0}", "trunc": "{0}", "round": "{0}",
}

UNSIGNED: dict[str, str] = {"pow": "@upow", "fmod": "@urem", "abs": "{0}"}

BOOL: dict[str, str] = {"min": "({0} & {1})", "max": "({0} | {1})", "clamp": "(({0} | {1}) & {2})"}
"""On masks; scalars keep only the lowest bit of the result. The language has no others of truth values."""
