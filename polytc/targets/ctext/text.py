"""Parentheses and comments of C. Operations are written with parentheses around each, which `operand` and `bare` take away
where they say nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

CONDITIONAL, OR, AND, BITS, COMPARISON, SHIFT, SUM, PRODUCT, PREFIX, ATOM = range(10)
"""How tightly an expression holds together, loosest first."""

_LEVELS = {"?": CONDITIONAL, "||": OR, "&&": AND, "|": BITS, "^": BITS, "&": BITS, "==": COMPARISON, "!=": COMPARISON,
           "<": COMPARISON, "<=": COMPARISON, ">": COMPARISON, ">=": COMPARISON, "<<": SHIFT, ">>": SHIFT,
           "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
_TOKEN = re.compile(r"[()\[\]{}]| ([^\s()\[\]{}]{1,2}) ")


def level(text: str) -> int:
    """How tightly an expression holds together: the level of its loosest operator outside of all parentheses."""
    depth, found = 0, ATOM
    for m in _TOKEN.finditer(text):
        if m[1] is None:
            depth += 1 if m[0] in "([{" else -1
        elif depth == 0 and m[1] in _LEVELS:
            found = min(found, _LEVELS[m[1]])
    prefix = text[0] in "-!~*&" or text[0] == "(" and not is_whole(text)
    return min(found, PREFIX) if prefix else found


def is_whole(text: str) -> bool:
    """Do the first and the last sign enclose the whole?"""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth = 0
    for position, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def bare(text: str, op: str = "") -> str:
    """Without the parentheses around the whole; with op '+' only if what is inside may stand in a sum."""
    return operand(text, SUM if op else CONDITIONAL) if is_whole(text) else text


def operand(text: str, least: int, *others: int) -> str:
    """As an operand that must hold together at least so tightly, or just as others say."""
    inner = text[1:-1] if is_whole(text) else text
    holds = level(inner)
    stays = holds >= least or holds in others
    if stays and inner.startswith("-") and least > CONDITIONAL:
        return f"({inner})"
    return inner if stays else f"({inner})"


def add(op: str, a: str, b: str) -> str:
    """`(a op b)` of whole numbers that cannot overflow, for op '+', '-' and others."""
    if op == "+" and re.fullmatch(r"\(-\d+\)", b):
        return f"({operand(a, SUM)} - {b[2:-1]})"
    if op in ("+", "-") and b == "0":
        return a
    if op == "+":
        return f"({operand(a, SUM)} + {operand(b, SUM)})"
    if op == "-":
        return f"({operand(a, SUM)} - {operand(b, PRODUCT)})"
    return f"({factor(a, op)} {op} {operand(b, PREFIX)})"


def factor(a: str, op: str = "*") -> str:
    """As the left operand of a product; quotients and remainders keep their parentheses."""
    plain = op == "*" and not re.search(r" [/%] ", a)
    return operand(a, PRODUCT if plain else PREFIX)


def operation(op: str, a: str, b: str) -> str:
    """`(a op b)` with the parentheses that keep the order of evaluation, and those that people want to see."""
    match _LEVELS[op]:
        case logical if logical in (AND, OR):
            return f"({operand(a, COMPARISON, logical)} {op} {operand(b, COMPARISON, logical)})"
        case compared if compared == COMPARISON:
            return f"({operand(a, SUM)} {op} {operand(b, SUM)})"
        case added if added == SUM:
            return f"({operand(a, SUM)} {op} {operand(b, PRODUCT)})"
        case multiplied if multiplied == PRODUCT:
            return f"({factor(a, op)} {op} {operand(b, PREFIX)})"
    return f"({operand(a, PREFIX)} {op} {operand(b, PREFIX)})"


def choice(cond: str, a: str, b: str) -> str:
    """`(cond ? a : b)`."""
    return f"({operand(cond, COMPARISON)} ? {operand(a, OR)} : {operand(b, OR)})"


def comment(lines: Sequence[str]) -> str:
    """Lines as a comment that nothing in them can end."""
    return "/*\n" + "\n".join(f" * {safe(line)}".rstrip() for line in lines) + "\n */\n"


def safe(text: str) -> str:
    """One line that may stand in a comment: printable ASCII without the signs that begin and end comments, or trigraphs."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", lambda m: f"{m[0]} ", plain)
