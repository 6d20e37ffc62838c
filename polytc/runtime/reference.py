"""The reference evaluator behind the interface of compiled code, so that everything that runs code can run the oracle too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polytc import lang
from polytc.codegen.target import Bound, BoundRun

if TYPE_CHECKING:
    from polytc.program.program import Program


@dataclass(frozen=True)
class Reference:
    """An Executable (see codegen.target) that computes by `lang.evaluate`."""

    program: Program

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """buffers: arrays for the program's inputs, then for its other outputs; all outputs are overwritten."""
        given = dict(zip(self.program.arrays, buffers, strict=True))
        for name, result in lang.evaluate(self.program, given).items():
            given[name][...] = result

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """`run` on these buffers, as a function without arguments."""
        return BoundRun(self.run, buffers)
