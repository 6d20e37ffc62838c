"""Extents of grids whose sizes are not fixed: numbers, formulas of sizes, products of these, as of `(M + 31)//32` and 32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

from polytc.program import sizes as formulas
from polytc.program.sizes import Size


@dataclass(frozen=True)
class Product:
    """A product of sizes, e.g. of `(M + 31)//32` and 32: what a Size, which is linear, cannot say."""

    factors: tuple[int, ...]

    def __mul__(self, other: Extent) -> Extent:
        if other == 1:
            return self
        return Product((*self.factors, *(other.factors if isinstance(other, Product) else (other,))))

    __rmul__ = __mul__

    def __str__(self) -> str:
        """As Python reads it: `N * (C//256)`, since `N * C//256` is another number."""
        return " * ".join(f"({n})" if isinstance(n, Size) and set(str(n)) & set(" /%") else str(n) for n in self.factors)

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number for given sizes."""
        return reduce(lambda a, n: a * formulas.at(n, sizes), self.factors, 1)


Extent: TypeAlias = "int | Product"
"""A number, or the product of some sizes."""


def times(a: Extent, b: Extent) -> Extent:
    """a * b, a number where both are."""
    if a == 1 or b == 1:
        return b if a == 1 else a
    if isinstance(a, Product):
        return a * b
    if isinstance(b, Product):
        return Product((a, *b.factors))
    return Product((a, b)) if isinstance(a, Size) or isinstance(b, Size) else a * b


def at(n: Extent, sizes: Mapping[str, int]) -> int:
    """An extent for given sizes."""
    return n.at(sizes) if isinstance(n, Product) else formulas.at(n, sizes)


def replaced(n: Extent, sizes: Mapping[str, int]) -> Extent:
    """An extent with others for some of its sizes."""
    if not isinstance(n, Product):
        return formulas.replaced(n, sizes)
    made: Extent = 1
    for f in n.factors:
        made = times(made, formulas.replaced(f, sizes))
    return made


def data(n: Extent) -> Any:
    """An extent as what JSON can hold; `from_data` reads it."""
    return ["product", *map(formulas.data, n.factors)] if isinstance(n, Product) else formulas.data(n)


def from_data(found: Any) -> Extent:
    """What `data` wrote."""
    if isinstance(found, list) and found[0] == "product":
        return Product(tuple(map(formulas.from_data, found[1:])))
    return formulas.from_data(found)
