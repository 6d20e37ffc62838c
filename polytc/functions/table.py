"""Which function has which definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polytc.functions import elementary, error, gamma

DEFINITIONS: dict[str, Callable[..., Any]] = {
    "hypot": elementary.hypot, "fdim": elementary.fdim, "remainder": elementary.remainder, "rcbrt": elementary.rcbrt,
    "exp10": elementary.exp10, "sinpi": elementary.sinpi, "cospi": elementary.cospi,
    "erfc": error.erfc, "erfcx": error.erfcx, "normcdf": error.normcdf,
    "erfinv": error.erfinv, "erfcinv": error.erfcinv, "normcdfinv": error.normcdfinv,
    "lgamma": gamma.lgamma, "tgamma": gamma.tgamma,
}
"""name -> definition (m, arguments...) -> value, m being an Arithmetic."""
