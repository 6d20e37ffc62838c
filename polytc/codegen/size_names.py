"""The sizes of code that takes any: those that its caller gives, and the products of extents that it has names for.

    Y[i,j] = X[i,j]*2 with X[n, m], as Y[i_j] = X[i_j]*2 with X[n_m]   ->   sizes n, m;  products n_m = n * m
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # programs that are loaded from the cache have no loops
    from polytc.codegen.loops import Module


def described(module: Module) -> dict[str, str]:
    """What a binary keeps of the names: those that its kernels have for sizes, and for each product its two extents."""
    from polytc.program.sizes import data  # only code of open sizes needs formulas of them

    own = len(module.sizes) - len(module.products)
    found = {"sizes": json.dumps(module.sizes[:own])}
    if module.products:
        rows = zip(module.products, module.sizes[own:], strict=True)
        found["products"] = json.dumps([[name, *map(data, ends), spelled] for (name, ends), spelled in rows])
    return found


def named(options: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes with the products. options: of the binary."""
    if "products" not in options:
        return dict(sizes)
    from polytc.program.sizes import from_data, with_products

    return with_products(sizes, [(name, (from_data(a), from_data(b))) for name, a, b, _ in json.loads(options["products"])])


def spelled(options: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, int]:
    """The same as kernels call them."""
    names = [*json.loads(options["sizes"]), *(row[-1] for row in json.loads(options.get("products", "[]")))]
    return dict(zip(names, named(options, sizes).values(), strict=True))
