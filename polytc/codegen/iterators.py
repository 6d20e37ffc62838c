"""isl's names for the variables of loops: `c<d>` is the loop of schedule depth d, counted from the outside."""

from __future__ import annotations

import re

_NAME = re.compile(r"c(\d+)")


def name(depth: int) -> str:
    """The variable of the loop of a depth."""
    return f"c{depth}"


def depth(variable: str) -> int | None:
    """The depth of the loop that isl gave a variable; None for other variables."""
    found = _NAME.fullmatch(variable)
    return int(found[1]) if found is not None else None
