"""What C99 and C++ have other rows for than OpenCL C (see intrinsics.py): predicates that are truth values of any kind, and no
`min` and `max` of integers that all compilers know."""

from __future__ import annotations

from polytc.targets.ctext import intrinsics

FLOAT = {**intrinsics.FLOAT, **{fn: f"({fn}({{0}}) != 0)" for fn in ("isnan", "isinf", "isfinite", "signbit")}}
INTEGER = {**intrinsics.INTEGER, "min": "@least", "max": "@most", "clamp": "@least(@most({0}, {1}), {2})", "abs": "@absolute"}
UNSIGNED = {**intrinsics.UNSIGNED, "sign": "AS({0} > 0)"}
HELPERS = {"least": (2, "return a < b ? a : b;"), "most": (2, "return a > b ? a : b;"),
           "absolute": (1, "return a < 0 ? NEG : a;"), "sign": (1, "return a != a ? a : (T)((a > 0) - (a < 0));"),
           "tohalf": (1, "return polytc_of_half(polytc_half(a));"),
           "tobfloat": (1, "return polytc_of_bfloat(polytc_bfloat(a));")}
"""In place of those of preamble.py."""
