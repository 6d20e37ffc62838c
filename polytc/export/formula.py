"""Extents as text: in Python, whose `//` rounds down, for the .json; in C, with functions that do, and that
stop at the largest number instead of overflowing, for the host."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from polytc.export.bundle import Bundle
from polytc.poly import isl
from polytc.program.affine import Atom, QuasiAffine, Quotient, Remainder
from polytc.program.extents import Extent, Product
from polytc.program.sizes import Size, bounds, form_of, text


def row(n: Extent) -> int | str:
    """A number, or a formula in Python."""
    return str(n) if isinstance(n, (Product, Size)) else n


def rows(extents: Sequence[Extent]) -> list[int | str]:
    """See `row`."""
    return [row(n) for n in extents]


def limit(form: QuasiAffine) -> int | str:
    """What is at least 0 for sizes that are allowed, in Python."""
    return row(Size.of(0, form))


def not_allowed(forms: Sequence[QuasiAffine], values: Mapping[str, str]) -> list[str]:
    """Conditions in C, each of which sizes that are not allowed may fulfil."""
    return [f"{_affine(form, values)} < 0" for form in forms]


def below(forms: Sequence[QuasiAffine]) -> str:
    """The same in words, behind other reasons for which sizes are refused; '' where there are none."""
    return f", {' or '.join(text(form) for form in forms)} is below 0" if forms else ""


def with_products(b: Bundle, values: Mapping[str, str]) -> dict[str, str]:
    """Size -> expression in C, with the parts and the products that have names."""
    found = dict(values)
    for part in b.parts:
        found[part.name] = f"({found[part.size]} / {part.divisor})"
    for name, (x, y) in b.products:
        found[name] = found[isl.name(name)] = f"product({in_c(x, found)}, {in_c(y, found)})"
    return found


def size(b: Bundle, number: int, values: Mapping[str, str]) -> str:
    """A size or a product, by number. values: as `with_products` gave them."""
    return values[(*b.titles, *b.derived)[number]]


def rows_of_products(b: Bundle) -> list[list[int | str]]:
    """The products that have names, with their two extents in Python."""
    return [[name, row(x), row(y)] for name, (x, y) in b.products]


def in_c(n: Extent, values: Mapping[str, str]) -> str:
    """A formula in C, of type int64_t unless it is a number. values: size -> expression."""
    if isinstance(n, Product):
        return functools.reduce(lambda a, b: f"saturated({a}, {b})", (in_c(f, values) for f in n.factors))
    return f"({_affine(n.form, values)})" if isinstance(n, Size) else str(n)


def room(n: Extent, values: Mapping[str, str]) -> str:
    """Bytes of a buffer in C, at least 1 also where a temporary has no elements, as one of N - 2 rows where N is 1."""
    factors = n.factors if isinstance(n, Product) else (n,)
    sure = all((low := bounds(form_of(f))[0]) is not None and low > 0 for f in factors)
    return in_c(n, values) if sure else f"room({in_c(n, values)})"


def _affine(form: QuasiAffine, values: Mapping[str, str]) -> str:
    terms = [_times(_atom(atom, values), c) for atom, c in form.terms]
    return " + ".join([*terms, *([str(form.constant)] if form.constant or not terms else [])]).replace("+ -", "- ")


def _times(value: str, c: int) -> str:
    if c > 1 and value.startswith("product("):
        return f"product({value}, {c})"
    return value if c == 1 else f"{value} * {c}"


def _atom(atom: Atom, values: Mapping[str, str]) -> str:
    if isinstance(atom, str):
        return values[atom]
    assert isinstance(atom, Quotient | Remainder), "a formula of sizes has no pieces"
    a, quotient = _affine(atom.a, values), f"floordiv({_affine(atom.a, values)}, {atom.divisor})"
    return quotient if isinstance(atom, Quotient) else f"({a} - {quotient} * {atom.divisor})"
