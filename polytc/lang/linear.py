"""Linear forms: a subscript as a sum of `coefficient * index` and a number."""

from __future__ import annotations

from dataclasses import dataclass

from polytc.lang import program as pr
from polytc.lang.scalars import I64


@dataclass(frozen=True)
class Linear:
    """sum(c * index) + constant; terms are sorted by index name and have no zero coefficient. 2*h + r - 1 is
    Linear((('h', 2), ('r', 1)), -1)."""

    terms: tuple[tuple[str, int], ...]
    constant: int

    def coefficient(self, index: str) -> int:
        return dict(self.terms).get(index, 0)

    @property
    def plain(self) -> str | None:
        """The index if the form is just one index, else None."""
        return self.terms[0][0] if len(self.terms) == 1 and self.terms[0][1] == 1 and self.constant == 0 else None


def linear(e: pr.Expr) -> Linear | None:
    """The linear form of an integer expression; None if it has `//`, `%`, a gather or a product of indices."""
    match e:
        case pr.Const() if not isinstance(e.value, float):
            return Linear((), int(e.value))
        case pr.Index():
            return Linear(((e.name, 1),), 0)
        case pr.Cast() if e.dtype.is_int:
            return linear(e.a)
        case pr.Unary(op="-"):
            return _scale(linear(e.a), -1)
        case pr.Binary(op="+" | "-"):
            return _add(linear(e.a), _scale(linear(e.b), 1 if e.op == "+" else -1))
        case pr.Binary(op="*"):
            a, b = linear(e.a), linear(e.b)
            if a is not None and not a.terms:
                return _scale(b, a.constant)
            if b is not None and not b.terms:
                return _scale(a, b.constant)
            return None
        case _:
            return None


def expression(form: Linear) -> pr.Expr:
    """The expression of a linear form."""
    result: pr.Expr | None = None
    for index, c in form.terms:
        term: pr.Expr = pr.Index(index) if abs(c) == 1 else pr.Binary("*", pr.Const(abs(c), I64), pr.Index(index), I64)
        if result is None:
            result = term if c > 0 else pr.Unary("-", term, I64)
        else:
            result = pr.Binary("+" if c > 0 else "-", result, term, I64)
    if result is None:
        return pr.Const(form.constant, I64)
    if form.constant:
        result = pr.Binary("+" if form.constant > 0 else "-", result, pr.Const(abs(form.constant), I64), I64)
    return result


def bounds(form: Linear, ranges: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Smallest and largest value over a box of half-open index ranges."""
    low = high = form.constant
    for index, c in form.terms:
        lower, upper = ranges[index]
        ends = (c * lower, c * (upper - 1))
        low, high = low + min(ends), high + max(ends)
    return low, high


def _add(a: Linear | None, b: Linear | None) -> Linear | None:
    if a is None or b is None:
        return None
    total = dict(a.terms)
    for index, c in b.terms:
        total[index] = total.get(index, 0) + c
    return Linear(tuple(sorted((i, c) for i, c in total.items() if c)), a.constant + b.constant)


def _scale(a: Linear | None, factor: int) -> Linear | None:
    if a is None:
        return None
    return Linear(tuple((i, c * factor) for i, c in a.terms if c * factor), a.constant * factor)
