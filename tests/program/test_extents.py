"""Extents as text: formulas that other hosts evaluate."""

from __future__ import annotations

import itertools
from math import prod

import pytest

from polytc.program import extents
from polytc.program.extents import Extent
from polytc.program.sizes import Size

N, C = (Size.named(n, v) for n, v in (("N", 7), ("C", 1000)))
FACTORS = {"name": N, "quotient": C // 256, "remainder": C % 256, "sum": N + 3, "multiple": 2 * C, "number": 4,
           "rounded up": (C + 15) // 16}


@pytest.mark.parametrize("chosen", list(itertools.permutations(FACTORS, 3)), ids="*".join)
def test_a_product_is_text_of_python(chosen: tuple[str, ...]) -> None:
    total: Extent = 1
    for name in chosen:
        total = extents.times(total, FACTORS[name])
    for n, c in ((1, 1), (7, 1000), (3, 255), (5, 257)):
        sizes = {"N": n, "C": c}
        values = {"name": n, "quotient": c // 256, "remainder": c % 256, "sum": n + 3, "multiple": 2 * c, "number": 4,
                  "rounded up": (c + 15) // 16}
        assert eval(str(total), {}, sizes) == extents.at(total, sizes) == prod(values[x] for x in chosen)
