"""Programs with a constant part: it runs when arrays are bound, once, and its results stay with the binding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.lang.program import Program


@dataclass(frozen=True)
class WithPrologue:
    """Executables of the two parts that lang.rewrites.hoist makes, run as one.

    outer: the program that the caller sees; prologue, main: the parts' programs; the executables take their inputs, then
    outputs. `bind` promises that the constants' contents will not change.
    """

    outer: Program
    prologue: Program
    main: Program
    run_prologue: Any
    run_main: Any

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Both parts, on arrays for the outer program's inputs, then outputs."""
        self.run_main.run(self._with_results(buffers))

    def bind(self, buffers: Sequence[np.ndarray]) -> Callable[[], None]:
        """Run the prologue now; the result runs the main part."""
        bound: Callable[[], None] = self.run_main.bind(self._with_results(buffers))
        return bound

    def _with_results(self, buffers: Sequence[np.ndarray]) -> list[np.ndarray]:
        given = dict(zip((*self.outer.inputs, *self.outer.outputs), buffers, strict=True))
        made = {n: aligned(self.prologue.tensor(n).shape, self.prologue.tensor(n).dtype.numpy) for n in self.prologue.outputs}
        everything = given | made
        self.run_prologue.run([everything[n].reshape(self.prologue.tensor(n).shape)
                               for n in (*self.prologue.inputs, *self.prologue.outputs)])
        return [everything[n] for n in (*self.main.inputs, *self.main.outputs)]


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array that starts on a cache line."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + size].view(dtype).reshape(shape)
