"""What one line of the table is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Program:
    """One program of the language.

    inputs: seeded arrays, small enough for the interpreter, odd enough for partial tiles. reference: what it gives, in order of
    the outputs, by numpy and loops alone. numbers: values of scalars. tolerance: of the largest error, against the largest
    number.
    """

    name: str
    text: str
    inputs: Callable[[np.random.Generator], Arrays]
    reference: Callable[..., Any]
    numbers: Mapping[str, int | float] = field(default_factory=dict)
    tolerance: float = 1e-5

    def arrays(self) -> Arrays:
        return self.inputs(np.random.default_rng(len(self.name)))

    def expected(self) -> list[np.ndarray]:
        """The reference's results, on copies of the inputs."""
        found = self.reference(*(a.copy() for a in self.arrays().values()))
        return [np.asarray(a) for a in (found if isinstance(found, tuple) else (found,))]


def normal(**shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Arrays]:
    """f32 inputs of a normal distribution."""
    return lambda rng: {n: rng.standard_normal(s).astype("f4") for n, s in shapes.items()}
