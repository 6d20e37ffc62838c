"""How large index expressions may be where sizes are not fixed, as formulas of the sizes.

    block0 for b in 0:(M + 31)//32 { ... }   ->   (M + 31)//32 work-groups, a number when the kernel is launched
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import TypeAlias

from polytc.codegen import loops, traverse
from polytc.codegen.lower import size
from polytc.program.extents import Extent, Product, times
from polytc.program.sizes import Size, Undecided, bounds, form_of

Range: TypeAlias = tuple[int, int]
"""The smallest and the largest value of a variable, as numbers or formulas of sizes."""
Pick: TypeAlias = Callable[[int, int], int]
"""The smaller or the larger one of two numbers. Raises Undecided where sizes decide that."""


def limits(e: loops.Expr, known: Mapping[str, Range]) -> Range:
    """Bounds of an expression over loop variables with known ranges and sizes, as formulas of the sizes (for numbers there is
    codegen.intervals). Raises Undecided where there are none."""
    match e:
        case loops.Const():
            return int(e.value), int(e.value)
        case loops.Var():
            if e.name in known:
                return known[e.name]
            if e.least is not None:
                n = Size.named(e.name, 1)
                return n, n
        case loops.Call(fn="min" | "max") | loops.Select():
            parts = [limits(a, known) for a in (e.args if isinstance(e, loops.Call) else (e.a, e.b))]
            if any(_starts_below_sizes(v, known) for v in traverse.walk_expr(e)):
                raise Undecided(f"{loops.format_expr(e)}: formulas are compared for sizes from 1 on")
            lowest, highest = _PICKS[e.fn] if isinstance(e, loops.Call) else (_below_both, _above_both)
            return reduce(lowest, (p[0] for p in parts)), reduce(highest, (p[1] for p in parts))
        case loops.Binary(op="+"):
            (a, b), (c, d) = limits(e.a, known), limits(e.b, known)
            return a + c, b + d
        case loops.Binary(op="-"):
            (a, b), (c, d) = limits(e.a, known), limits(e.b, known)
            return a - d, b - c
        case loops.Binary(op="*", b=loops.Const() as factor):
            ends = [n * int(factor.value) for n in limits(e.a, known)]
            return (ends[0], ends[1]) if factor.value >= 0 else (ends[1], ends[0])
        case loops.Binary(op="*", a=loops.Const()):
            return limits(loops.binary("*", e.b, e.a), known)
        case loops.Binary(op="//", b=loops.Const() as divisor) if divisor.value > 0:
            low, high = limits(e.a, known)
            return low // int(divisor.value), high // int(divisor.value)
        case loops.Binary(op="%", b=loops.Const() as divisor) if divisor.value > 0:
            return 0, int(divisor.value) - 1
    raise Undecided(f"how large {loops.format_expr(e)} may be")


def _starts_below_sizes(e: loops.Expr, known: Mapping[str, Range]) -> bool:
    """Is it a variable of a loop of the host that may be less than 1, as no size is?"""
    return isinstance(e, loops.Var) and e.name not in known and e.least is not None and e.least < 1


def _smaller(a: int, b: int) -> int:
    return a if a <= b else b


def _larger(a: int, b: int) -> int:
    return a if a >= b else b


def _one_of(pick: Pick, a: int, b: int) -> int:
    """The one that is picked, or, where sizes decide that, one of the two, a number if there is one: both are above their
    minimum and below their maximum."""
    try:
        return pick(a, b)
    except Undecided:
        return b if isinstance(a, Size) else a


def _beyond_both(pick: Pick, end: int, a: int, b: int) -> int:
    """The one that is picked, or, where sizes decide that, a number below both (end 0) or above them (end 1)."""
    try:
        return pick(a, b)
    except Undecided:
        ends = [n for n in (bounds(form_of(x))[end] for x in (a, b)) if n is not None]
        if len(ends) < 2:
            raise
        return pick(*ends)


_below_both, _above_both = partial(_beyond_both, _smaller, 0), partial(_beyond_both, _larger, 1)
_PICKS = {"min": (_below_both, partial(_one_of, _smaller)), "max": (partial(_one_of, _larger), _above_both)}


def extent(e: loops.Expr) -> Extent | None:
    """A product of numbers and of formulas of sizes as an Extent; None for any other expression."""
    if isinstance(e, loops.Binary) and e.op == "*":
        a, b = extent(e.a), extent(e.b)
        return None if a is None or b is None else times(a, b)
    try:
        low, high = limits(e, {})
    except Undecided:
        return None
    return high if low == high else None


def formula(e: loops.Expr) -> int | None:
    """Arithmetic on variables and numbers as a number, or a formula of the variables; None for any other expression."""
    match e:
        case loops.Const():
            return int(e.value)
        case loops.Var():
            return Size.named(e.name, 1)
        case loops.Unary(op="-"):
            return _applied("*", formula(e.a), -1)
        case loops.Binary(op="+" | "-"):
            return _applied(e.op, formula(e.a), formula(e.b))
        case loops.Binary(op="*", a=loops.Const() as factor):
            return _applied("*", formula(e.b), int(factor.value))
        case loops.Binary(op="*" | "//" | "%", b=loops.Const() as b) if e.op == "*" or b.value > 0:
            return _applied(e.op, formula(e.a), int(b.value))
    return None


_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}


def _applied(op: str, a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else _OPERATORS[op](a, b)


def expression(n: Extent) -> loops.Expr:
    """An extent over the variables of the sizes."""
    factors = n.factors if isinstance(n, Product) else (n,)
    return reduce(lambda a, b: loops.binary("*", a, b), (size(f, spelled=True) for f in factors))
