"""The bounds that docs/accuracy.md states for complex numbers: in c64, against numpy in c128."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polytc

COUNT = 1 << 14
R = np.random.default_rng(7)
DOCUMENT = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text()


def spread() -> np.ndarray:
    """Numbers whose parts have all sizes between 1e-3 and 1e3."""
    parts = [R.normal(size=COUNT) * 10 ** R.uniform(-3, 3, COUNT) for _ in range(2)]
    return (parts[0] + 1j * parts[1]).astype(np.complex64)


CASES: dict[str, tuple[str, Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "*": ("x[i]*y[i]", np.multiply, (spread(), spread())), "/": ("x[i]/y[i]", np.divide, (spread(), spread())),
    "abs": ("abs(x[i])", np.abs, (spread(),)), "sqrt": ("sqrt(x[i])", np.sqrt, (spread(),)),
    "angle": ("angle(x[i])", np.angle, (spread(),)),
    "exp": ("exp(x[i])", np.exp, ((R.uniform(-80, 80, COUNT) + 1j * R.uniform(-99, 99, COUNT)).astype(np.complex64),))}


def stated() -> dict[str, float]:
    """The table of the document."""
    head, numbers = re.search(r"## Complex numbers.*?\n(\|.*?\|)\n\|[-|]+\|\n(\|.*?\|)\n", DOCUMENT, re.DOTALL).groups()
    names, values = ([c.strip().strip("`") for c in row.strip("|").split("|")] for row in (head, numbers))
    return dict(zip(names, map(float, values), strict=True))


@pytest.mark.part(6)
@pytest.mark.parametrize("name", CASES)
def test_bounds(name: str, targets: tuple[str, ...]) -> None:
    text, exact, given = CASES[name]
    wanted = exact(*(a.astype(np.complex128) for a in given))
    for target in targets:
        few = tuple(a[:512] for a in given) if target == "interp" else given
        found = polytc.run(f"O[i] = {text}", *few, target=target)
        off = np.abs(found.astype(wanted.dtype) - wanted[:len(found)]) / np.abs(wanted[:len(found)])
        assert off.max() <= stated()[name] * 2.0 ** -24, target


def test_the_document_has_all() -> None:
    assert stated().keys() == CASES.keys()
