"""An index as the two digits of its values, `size*high + low`: `i // size` is high, `i % size` is low."""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.scalars import I64


def in_digits(s: pr.Statement, r: pr.Range, high: pr.Range, low: pr.Range) -> pr.Statement:
    """The statement with the digits in place of an index. high, low: their ranges; low's is 0:size."""
    digits = (high, low)
    return pr.with_expressions(s, lambda e: digits_for(e, r.index, high.index, low.index, int(low.upper)),
                               tuple(new for x in s.ranges for new in (digits if x is r else (x,))))


def digits_for(e: pr.Expr, index: str, high: str, low: str, size: int) -> pr.Expr:
    """The expression with the digits in place of an index, of which the lower one has the values 0:size."""
    whole = _sum(size, pr.Index(high), pr.Index(low))

    def put(e: pr.Expr) -> pr.Expr:
        if isinstance(e, pr.Binary) and e.op in ("//", "%") and e.a == pr.Index(index) and isinstance(e.b, pr.Const):
            number = int(e.b.value)
            if number % size == 0:
                return _digit(e, number // size, size, high, low)
            if number > 0 and size % number == 0:
                digit = replace(e, a=pr.Index(low))
                return digit if e.op == "%" else _sum(size // number, pr.Index(high), digit)
        operands = pr.children(e)
        return whole if e == pr.Index(index) else pr.rebuild(e, tuple(map(put, operands))) if operands else e
    return normalise(put(e))


def _sum(times: int, high: pr.Expr, low: pr.Expr) -> pr.Expr:
    return pr.Binary("+", pr.Binary("*", pr.Const(times, I64), high, I64), low, I64)


def _digit(e: pr.Binary, times: int, size: int, high: str, low: str) -> pr.Expr:
    """The quotient or remainder of the index by `times` times the size."""
    if times == 1:
        return pr.Index(high if e.op == "//" else low)
    digit = pr.Binary(e.op, pr.Index(high), pr.Const(times, I64), I64)
    return digit if e.op == "//" else _sum(size, digit, pr.Index(low))
