"""The texts of a declared intrinsic: what they say of its operands is looked at when it is declared.

    "{C} += dot({A}, {A.0}, {Z});"   ->   E711: Z is no operand

What C makes of the rest is not looked at, but that its comments end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from polytc.program.intrinsics import HOLE, Intrinsic

_NO_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)


def wrong(intrinsic: Intrinsic, dims: Mapping[str, int]) -> str:
    """What is wrong with the texts of an intrinsic; '' if nothing is. dims: how many each operand has."""
    for language, text in intrinsic.code:
        for hole in HOLE.finditer(text):
            why = _hole(hole[1], hole[2], dims)
            if why:
                return f"has {hole[0]} in its text for {language}: {why}"
    for what, texts in (("text", intrinsic.code), ("head", intrinsic.head)):
        for language, text in texts:
            if "/*" in _NO_COMMENT.sub(" ", text):
                return f"has a comment in its {what} for {language} that does not end"
    return ""


def _hole(name: str, what: str | None, dims: Mapping[str, int]) -> str:
    if name not in dims:
        return f"{name} is none of its operands {', '.join(dims)} (braces of C have a space behind them)"
    if what is None or what == "space" or what in map(str, range(dims[name])):
        return ""
    return f"{name} has {dims[name]} dimensions, counted from 0, and `space`"
