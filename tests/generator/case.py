"""Case: a program with everything that is needed to run it again, which prints as a bug report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from polytc.program import scalars


@dataclass(frozen=True)
class Input:
    """values: ('any',) for random numbers; ('index', a, b) for integers in [a, b); ('rows', n) for numbers from 0 to n in
    order, the bounds of rows; ('special',) for random numbers with NaN and infinities among them. fine: floats that are no
    integers. layout: how the array lies in memory, one of LAYOUTS."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: tuple[str | int, ...] = ("any",)
    fine: bool = False
    layout: str = ""


LAYOUTS = ("", "transposed", "steps", "reversed", "offset")
"""In the order of the indices; in the opposite order; every second element of the last axis; from the end; a part of more."""


@dataclass(frozen=True)
class Case:
    """schedule: 'automatic', 'program', 'isl', or 'user' for the transformations that `steps` choose; values: seed of the
    inputs; smooth: the results depend on rounding. open: sizes that stay open, N7 for all extents of inputs that are 7; the
    program runs for some more of their values, from one kernel. called: as users call it, with arrays of any layout;
    constants: inputs that are given before; out: the results are written to arrays of the caller."""

    text: str
    inputs: tuple[Input, ...]
    scalars: tuple[tuple[str, int | float], ...]
    values: int
    target: str
    schedule: str
    threads: int = 1
    smooth: bool = False
    steps: tuple[int, ...] = ()
    open: tuple[str, ...] = ()
    called: bool = False
    constants: tuple[str, ...] = ()
    out: bool = False

    def at(self, sizes: Mapping[str, int]) -> Case:
        """The case with other values of open sizes."""
        values = {int(n[1:]): k for n, k in sizes.items()}
        return replace(self, inputs=tuple(replace(x, shape=tuple(values.get(n, n) for n in x.shape)) for x in self.inputs))

    def dims(self) -> dict[str, tuple[int | str, ...]]:
        """The shapes of the inputs with the names of the open sizes."""
        return {x.name: tuple(f"N{n}" if f"N{n}" in self.open else n for n in x.shape) for x in self.inputs}

    def arrays(self) -> dict[str, np.ndarray]:
        """The inputs by name, the same every time."""
        return {x.name: array(x, np.random.default_rng([self.values, k])) for k, x in enumerate(self.inputs)}

    def __str__(self) -> str:
        """A Python script."""
        indented = self.text.replace("\n", "\n    ")
        return f'''from tests.generator.case import Case, Input
from tests.generator.judge import examine
examine(Case("""
    {indented}
""", inputs=(
    {" ".join(f"{x!r},".replace(", values=('any',)", "").replace(", fine=False", "").replace(", layout=''", "")
              for x in self.inputs)}
), scalars={self.scalars}, values={self.values}, target={self.target!r}, schedule={self.schedule!r}, threads={self.threads},
    smooth={self.smooth}, steps={self.steps}, open={self.open}, called={self.called}, constants={self.constants},
    out={self.out}))'''


def array(x: Input, rng: np.random.Generator) -> np.ndarray:
    dtype = scalars.named(x.dtype)
    if x.values[0] == "index":
        found = rng.integers(int(x.values[1]), int(x.values[2]), x.shape)
    elif x.values[0] == "rows":
        found = np.sort(rng.integers(0, int(x.values[1]) + 1, x.shape))
    elif dtype.kind == "b":
        found = rng.integers(0, 2, x.shape)
    elif x.fine and dtype.is_float:
        found = rng.standard_normal(x.shape)
    else:
        found = rng.integers(0 if dtype.kind == "u" else -3, 4, x.shape)
    result = np.asarray(found).astype(dtype.numpy)
    if x.values[0] == "special":
        chosen = rng.integers(0, 12, x.shape)
        for n, value in enumerate((np.nan, np.inf, -np.inf)):
            result[chosen == n] = value
    return result
