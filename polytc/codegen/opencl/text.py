"""Parentheses: expressions are written with them around each operation, and without where they say nothing."""

from __future__ import annotations

import re


def bare(text: str, op: str = "") -> str:
    """Without the parentheses around the whole; with op '+' only if what is inside may stand in a sum."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            whole = position == len(text) - 1
            break
    else:
        whole = False
    if not whole:
        return text
    inner = text[1:-1]
    if inner.startswith("-") and op:
        return text
    return inner if not op or not re.search(r"[<>=!&|?]", inner) else text


def add(op: str, a: str, b: str) -> str:
    """`(a op b)` with fewer parentheses where a sum needs none; for op '+', '-' and others."""
    if op == "+" and re.fullmatch(r"\(-\d+\)", b):
        return f"({bare(a, '+')} - {b[2:-1]})"
    if op in ("+", "-") and b == "0":
        return a
    if op == "+":
        return f"({bare(a, '+')} + {bare(b, '+')})"
    return f"({bare(a, '+')} - {b})" if op == "-" else f"({a} {op} {b})"
