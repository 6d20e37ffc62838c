"""Parentheses and comments. Expressions are written with parentheses around each operation, and without where they say
nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence


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


def comment(lines: Sequence[str]) -> str:
    """Lines as a comment that nothing in them can end."""
    return "/*\n" + "\n".join(f" * {safe(line)}".rstrip() for line in lines) + "\n */\n"


def safe(text: str) -> str:
    """One line that may stand in a comment: printable ASCII without the signs that begin and end comments, or trigraphs."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", lambda m: f"{m[0]} ", plain)
