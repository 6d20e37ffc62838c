"""The sizes of a `def`, by the dimensions that it declares: `f32[N] x` tells N, `i64[R+1] r` tells R where no other does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from polytc.lang.definitions.expand import nodes
from polytc.lang.parsing import syntax as sx
from polytc.program.traces.traced import whole


def evaluate_size(e: sx.Expr, numbers: Mapping[str, complex]) -> int | None:
    """The value of a size formula, e.g. `2*N + 1`; None if a name in it is unknown."""
    match e:
        case sx.Number(value=int() as n):
            return whole(n)
        case sx.Name() if e.id in numbers and not isinstance(numbers[e.id], complex):
            return whole(numbers[e.id])
        case sx.Binary(op="+" | "-" | "*" | "//" | "%"):
            a, b = evaluate_size(e.a, numbers), evaluate_size(e.b, numbers)
            if a is None or b is None or (e.op in ("//", "%") and b == 0):
                return None
            return {"+": a + b, "-": a - b, "*": a * b, "//": a // (b or 1), "%": a % (b or 1)}[e.op]
        case sx.Unary(op="-"):
            a = evaluate_size(e.a, numbers)
            return None if a is None else -a
        case _:
            return None


def unknown(e: sx.Expr, numbers: Mapping[str, complex]) -> list[str]:
    """The names in a formula that have no value."""
    return list(dict.fromkeys(n.id for n in nodes(e) if isinstance(n, sx.Name) and n.id not in numbers))


def solved(dims: Iterable[tuple[sx.Expr, int]], numbers: Mapping[str, complex]) -> dict[str, int]:
    """The sizes that follow from formulas that are affine in one unknown size, and from those that others are known by then.
    dims: formulas and the extents that they have; numbers: what is known."""
    rest, found = list(dims), dict[str, int]()
    while True:
        known = {**numbers, **found}
        open_ = [(e, extent, names[0]) for e, extent in rest if len(names := unknown(e, known)) == 1]
        told = next(((name, n) for e, extent, name in open_ if (n := _root(e, extent, name, known)) is not None), None)
        if told is None:
            return found
        found[told[0]] = told[1]


def _root(e: sx.Expr, extent: int, name: str, numbers: Mapping[str, complex]) -> int | None:
    """The whole number from 0 that a name stands for where a formula has a value; None where there is none, or several."""
    form = affine(e, name, numbers)
    if form is None or form[0] == 0 or (extent - form[1]) % form[0] != 0:
        return None
    n = (extent - form[1]) // form[0]
    return n if n >= 0 else None


def affine(e: sx.Expr, name: str, numbers: Mapping[str, complex]) -> tuple[int, int] | None:
    """(a, b) of a formula `a*name + b`."""
    value = evaluate_size(e, numbers)
    if value is not None:
        return 0, value
    match e:
        case sx.Name():
            return (1, 0) if e.id == name else None
        case sx.Unary(op="-"):
            a = affine(e.a, name, numbers)
            return None if a is None else (-a[0], -a[1])
        case sx.Binary(op="+" | "-" | "*"):
            a, b = affine(e.a, name, numbers), affine(e.b, name, numbers)
            if a is None or b is None:
                return None
            if e.op == "*":
                return (a[0] * b[1] + a[1] * b[0], a[1] * b[1]) if 0 in (a[0], b[0]) else None
            sign = 1 if e.op == "+" else -1
            return a[0] + sign * b[0], a[1] + sign * b[1]
    return None
