"""Rows of operators: C's precedence by a second reading, and the places of what they become."""

from __future__ import annotations

import random

import pytest

from polytc.lang.parsing import syntax
from polytc.lang.parsing.parser import parse

BY_STRENGTH = ["* / // %", "+ -", "<< >>", "< <= > >= == !=", "&", "^", "|", "&&", "||"]
"""As a table of C has them, the strongest first."""


def shown(e: syntax.Expr) -> str:
    match e:
        case syntax.Name():
            return e.id
        case syntax.Unary():
            return f"({e.op}{shown(e.a)})"
        case syntax.Binary():
            return f"({shown(e.a)}{e.op}{shown(e.b)})"
        case syntax.ChainedComparison():
            rest = (f"{op}{shown(x)}" for op, x in zip(e.ops, e.operands[1:], strict=True))
            return f"({shown(e.operands[0])}{''.join(rest)})"
        case _:
            raise AssertionError(e)


def expected(row: list[str]) -> str:
    """The row with all parentheses: from the strongest operators to the weakest, each joins its neighbours."""
    for level in BY_STRENGTH:
        chain = "<" in level and "<<" not in level
        at = 1
        while at < len(row):
            if row[at] not in level.split():
                at += 2
                continue
            end = at
            while chain and end + 2 < len(row) and row[end + 2] in level.split():
                end += 2
            row[at - 1:end + 2] = ["(" + "".join(row[at - 1:end + 2]) + ")"]
    return row[0]


def value(text: str) -> syntax.Expr:
    statement = parse(f"C[i] = {text}")[0].body[0]
    assert isinstance(statement, syntax.Statement)
    return statement.value


@pytest.mark.parametrize("seed", range(60))
def test_precedence(seed: int) -> None:
    rng = random.Random(seed)
    symbols = " ".join(BY_STRENGTH).split()
    row = [rng.choice("abcxyz")]
    for _ in range(rng.randint(1, 9)):
        row += [rng.choice(symbols), rng.choice("abcxyz")]
    assert shown(value(" ".join(row))) == expected(list(row))


def test_places() -> None:
    text = "a + (b - 1)*c < d"
    found, start = value(text), len("C[i] = ")
    assert isinstance(found, syntax.Binary)
    assert (found.span.start - start, found.span.end - start) == (0, len(text))
    total = found.a
    assert isinstance(total, syntax.Binary)
    product = total.b
    assert isinstance(product, syntax.Binary)
    assert (product.span.start - start, product.span.end - start) == (text.index("("), text.index("c") + 1)
    assert product.span.column == product.span.start + 1
