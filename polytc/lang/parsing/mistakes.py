"""Why a text does not parse: what stands where it does not belong, and the likely mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polytc import errors
from polytc.errors import CompileError, Span
from polytc.lang.parsing.habits import recognised

if TYPE_CHECKING:
    from lark import Token

errors.register(E001="text that does not belong here", E002="bracket never closed", E003="character outside the language")

STARTS = {"NAME", "DEF", "_OP", "PRECISE", "FAST", "DIRECT", "FOR", "ASSUME", "LPAR", "ACC", "TEMP"}
"""Tokens that can begin an item: a newline before any other token continues the line."""
_MISTAKES = {
    "indices are separated by commas": ["C[i j] = A[i, j]", "C[i, j] = A[i j]"],
    "a statement needs `=` or an update such as `+=` after its left side": ["C[i]", "C[i] A[i]", "C"],
    "a subscript is missing": ["C[i,] = A[i]", "C[,i] = A[i]", "C[i] = A[i,]"],
    "an operand is missing": ["C[i] =", "C[i] = A[i] +", "C[i] = * A[i]", "C[i] = A[i] + * B[i]", "C[i] += ", "C[i] = -"],
    "a range is written `where i in lower:upper`": ["C[i] = A[i] where i in 5", "C[i] = A[i] where i in", "C[i] = A[i] where",
                                                     "C[i] = A[i] where i in 0,5", "C[i] = A[i] where i in (0:5)"],
    "an update is written `+=`, `*=`, `min=`, `max=`, `&=`, `|=` or `^=`": ["C[i] == A[i]", "C[i] += = A[i]", "C[i] =+ A[i]"],
    "put parentheses around a guarded read inside an expression: `(A[i-1] else 0) * B[i]`": [
        "C[i] = A[i] else 0 * B[i] else 0", "C[i] = B[i] * A[i] else", "C[i] = A[i-1] else"],
    "a definition reads `def name(f32[N] A) -> (C) { ... }`": [
        "def (f32[N] A) -> (C) { C[i] = A[i] }", "def f(f32[N] A) { C[i] = A[i] }", "def f f32[N] A",
        "def f(f32[N] A) -> (C) C[i] = A[i]", "def f(f32[N] A) -> { C[i] = A[i] }", "def f[N](f32[N] A)"],
    "statements are separated by a newline or `;`": ["C[i] = A[i] B[i] = A[i]", "C[i] = A[i], B[i] = A[i]"],
    "a conditional value is written `c ? a : b`": ["C[i] = A[i] > 0 ? A[i]", "C[i] = A[i] > 0 ? A[i], 0"],
    "name the outputs: `-> (C, M)`": ["C[i] = A[i] -> ", "C[i] = A[i] -> ()", "-> (C)\nC[i] = A[i]", "C[i] = A[i] -> 3"],
    "a power is written `pow(a, b)`": ["C[i] = A[i]**2"],
}
"""Advice -> broken programs that deserve it; an error in the same parser state gets the same advice."""

_WORDS = {"or": "write `||`", "and": "write `&&`", "not": "write `!`", "if": "a conditional value is written `c ? a : b`",
          "else": "`else` guards one read in parentheses: `(A[i-1] else 0)`",
          **dict.fromkeys(("in", "where", "for", "def", "op", "assume", "inout", "precise"), "a reserved word is no name")}
"""Words of other languages -> what is written here."""


_CHARACTERS = {
    **dict.fromkeys("'\"\u201c\u201d\u2018\u2019", "strings are not part of the language"),
    "@": "a matrix product is written `C[i,j] += A[i,k] * B[k,j]`", "\\": "a line goes on where an operator stands at its end",
    "\u2264": "write `<=`", "\u2265": "write `>=`", "\u2260": "write `!=`", "\u00d7": "write `*`", "\u00b7": "write `*`",
    "\u22c5": "write `*`", "\u2212": "write `-`", "\u2013": "write `-`", "\u2192": "write `->`", "\u2208": "write `in`",
    "\u2211": "a sum is an update: `S += A[i]`", "\u03a3": "a sum is an update: `S += A[i]`", "\u221a": "write `sqrt(x)`",
    "\u2190": "write `=`", "\u00b2": "write `x * x`", "\u00b3": "write `pow(x, 3)`", "\u2026": "write every index",
    "\u221e": "write `inf`", "$": "a name is letters, digits and `_`", "`": "a name stands by itself",
}
"""A character -> what is written here."""


def foreign(at: Span, text: str) -> CompileError:
    """The diagnostic for a character outside of the language."""
    cure = _CHARACTERS.get(text[at.start])
    return errors.fail("E003", f"the character {text[at.start]!r} is not part of the language", at, [cure] if cure else [],
                       source=text)


def explain(error: Any, text: str, parse: Callable[[str], Any]) -> CompileError:
    """The diagnostic for lark's error at a token. parse: a text to lark's tree, which tells in what state others fail."""
    token = getattr(error, "token", None)
    assert token is not None, error
    span = end(text) if token.type == "$END" else token_span(token)
    unclosed = _unclosed(text)
    if unclosed is not None and token.type in ("$END", "RBRACE", "RPAR", "RSQB", *STARTS):
        return errors.fail("E002", f"`{text[unclosed.start]}` is never closed", unclosed, source=text)
    form = recognised(text, span)
    if form is not None:
        at, cure = form
        shown = text[at.start:at.end]
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        return errors.fail("E001", f"`{shown}` does not belong here", at, [cure], source=text)
    if token in (")", "]", "}") and _unclosed(text, span.start) is None:
        return errors.fail("E001", f"`{token}` closes nothing", span, ["no bracket is open here: leave it out"], source=text)
    found = "the end of the text" if token.type == "$END" else f"`{token}`"
    examples = {advice: [prefix + e for e in broken for prefix in ("", "Z = 0\n")] for advice, broken in _MISTAKES.items()}
    advice = _WORDS.get(str(token)) or error.match_examples(parse, examples, use_accepts=False)
    return errors.fail("E001", f"{found} does not belong here", span, [advice] if advice else [], source=text)


def _unclosed(text: str, end: int | None = None) -> Span | None:
    """The first bracket without its partner, comments left out. end: how far to look."""
    stack: list[tuple[str, Span]] = []
    pairs = {")": "(", "]": "[", "}": "{"}
    offset = 0
    for number, line in enumerate(text[:end].split("\n"), 1):
        code = line.split("#", 1)[0]
        for column, char in enumerate(code):
            if char in pairs.values():
                stack.append((char, Span(offset + column, offset + column + 1, number, column + 1)))
            elif char in pairs:
                if not stack or stack[-1][0] != pairs[char]:
                    return stack[-1][1] if stack else None
                stack.pop()
        offset += len(line) + 1
    return stack[-1][1] if stack else None


def end(text: str) -> Span:
    """The place behind the last character that is no space."""
    last = text.rstrip()
    line = last.count("\n") + 1
    return Span(len(last), len(last) + 1, line, len(last) - (last.rfind("\n") + 1) + 1)


def token_span(token: Token) -> Span:
    """The place of a token."""
    start = token.start_pos or 0
    return Span(start, token.end_pos or start + 1, token.line or 1, token.column or 1)
