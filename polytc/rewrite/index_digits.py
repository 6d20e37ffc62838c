"""An index as the two digits of its values, `size*high + low`: `i // size` is high, `i % size` is low."""

from __future__ import annotations

from polytc.program import program as pr
from polytc.program.linear import normalise
from polytc.program.scalars import I64


def in_digits(s: pr.Statement, r: pr.Range, high: pr.Range, low: pr.Range) -> pr.Statement:
    """The statement with the digits in place of an index. high, low: their ranges; low's is 0:size."""
    size, index = int(low.upper), pr.Index(r.index)
    whole = pr.Binary("+", pr.Binary("*", pr.Const(size, I64), pr.Index(high.index), I64), pr.Index(low.index), I64)

    def put(e: pr.Expr) -> pr.Expr:
        if isinstance(e, pr.Binary) and e.op in ("//", "%") and e.a == index and isinstance(e.b, pr.Const):
            times, rest = divmod(int(e.b.value), size)
            if rest == 0:
                return _digit(e, times, size, high.index, low.index)
        operands = pr.children(e)
        return whole if e == index else pr.rebuild(e, tuple(map(put, operands))) if operands else e

    digits = (high, low)
    return pr.with_expressions(s, lambda e: normalise(put(e)),
                               tuple(new for x in s.ranges for new in (digits if x is r else (x,))))


def _digit(e: pr.Binary, times: int, size: int, high: str, low: str) -> pr.Expr:
    """The quotient or remainder of the index by `times` times the size."""
    if times == 1:
        return pr.Index(high if e.op == "//" else low)
    digit = pr.Binary(e.op, pr.Index(high), pr.Const(times, I64), I64)
    if e.op == "//":
        return digit
    return pr.Binary("+", pr.Binary("*", pr.Const(size, I64), digit, I64), pr.Index(low), I64)
