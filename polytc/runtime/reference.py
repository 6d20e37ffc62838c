"""The reference evaluator behind the interface of compiled code, so that everything that runs code can run the oracle too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polytc import lang
from polytc.codegen.target import Bound, Held
from polytc.lang.program import Program


@dataclass(frozen=True)
class Reference:
    """An Executable (see codegen.target) that computes by `lang.evaluate`."""

    program: Program

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """buffers: arrays for the program's inputs, then for its outputs, which are overwritten."""
        count = len(self.program.inputs)
        found = lang.evaluate(self.program, dict(zip(self.program.inputs, buffers[:count])))
        for name, buffer in zip(self.program.outputs, buffers[count:], strict=True):
            buffer[...] = found[name]

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """`run` on these buffers, as a function without arguments."""
        return Held(self.run, buffers)
