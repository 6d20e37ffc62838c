"""Which operands the operators of a row belong to: C's precedence, but that comparisons chain as Python's do.

    a + b * c < d     ->   (a + (b * c)) < d
    a <= b < c        ->   one chain of comparisons

By two stacks, in time linear in the length of the row (Dijkstra, Algol 60 translation, 1961).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from polytc.errors import Span
from polytc.lang.parsing import syntax
from polytc.program.scalars import COMPARISONS

LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), tuple(COMPARISONS), ("<<", ">>"), ("+", "-"), ("*", "/", "//", "%"))
"""Operators of two operands; those of a level go from left to right, and those of later ones bind closer."""
_LEVEL = {symbol: n for n, level in enumerate(LEVELS) for symbol in level}


def grouped(operands: Sequence[tuple[syntax.Expr, Span]], symbols: Sequence[str]) -> syntax.Expr:
    """The expression of operands, each with its place in the text, and the operators between them."""
    values, waiting = [operands[0]], list[str]()
    for symbol, operand in zip(symbols, operands[1:], strict=True):
        level = _LEVEL[symbol]
        while waiting and (_LEVEL[waiting[-1]] > level or _LEVEL[waiting[-1]] == level and symbol not in COMPARISONS):
            _join(values, waiting)
        waiting.append(symbol)
        values.append(operand)
    while waiting:
        _join(values, waiting)
    return values[0][0]


def _join(values: list[tuple[syntax.Expr, Span]], waiting: list[str]) -> None:
    """Make one value of the last operator, or of the last chain of comparisons, and its operands."""
    count = 1
    if waiting[-1] in COMPARISONS:
        count = sum(1 for _ in takewhile(lambda s: s in COMPARISONS, reversed(waiting)))
    symbols, parts = tuple(waiting[-count:]), values[-count - 1:]
    first, last = parts[0][1], parts[-1][1]
    span = Span(first.start, last.end, first.line, first.column)
    terms = tuple(e for e, _ in parts)
    del waiting[-count:], values[-count - 1:]
    if count == 1:
        loose = symbols[0] in ("&", "|", "^") and any(map(_is_bare_comparison, parts))
        values.append((syntax.Binary(symbols[0], terms[0], terms[1], span, loose), span))
    else:
        values.append((syntax.ChainedComparison(terms, symbols, span), span))


def _is_bare_comparison(part: tuple[syntax.Expr, Span]) -> bool:
    """Is an operand a comparison without parentheses, which would be part of its place?"""
    e, place = part
    return e.span == place and (isinstance(e, syntax.ChainedComparison) or isinstance(e, syntax.Binary) and e.op in COMPARISONS)
