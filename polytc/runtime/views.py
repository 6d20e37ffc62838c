"""Arrays in the caller's shapes for code that sees the same memory in others (see lang/rewrites/coalesce.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Viewed:
    """An executable whose arguments are viewed in `shapes`, one an argument, before it runs on them."""

    inner: Any
    shapes: tuple[tuple[int, ...], ...]

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """As codegen.target.Executable.run."""
        self.inner.run(self._views(buffers))

    def bind(self, buffers: Sequence[np.ndarray]) -> Callable[[], None]:
        """As codegen.target.Executable.bind."""
        bound: Callable[[], None] = self.inner.bind(self._views(buffers))
        return bound

    def _views(self, buffers: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [b.reshape(shape) for b, shape in zip(buffers, self.shapes, strict=True)]
