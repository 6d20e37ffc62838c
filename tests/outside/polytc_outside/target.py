"""The target `plain`: a program as loops of Python over numpy scalars, for reading and for stepping through with a debugger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polytc.codegen import loops
from polytc.codegen.target import Binary, Bound, BoundRun, Launch, Source
from polytc.machine import GENERIC_CPU, Machine
from polytc_outside import writer

SCALAR = replace(GENERIC_CPU, vector_bytes=1)
"""A machine without vectors, so that no statement of the Loop AST has any."""


@dataclass(frozen=True)
class PlainTarget:
    """machine: what strategies read."""

    machine: Machine = SCALAR
    name: str = "plain"
    takes_sizes: bool = False

    def here(self) -> PlainTarget:
        """This target: Python runs everywhere."""
        return self

    def emit(self, module: loops.Module) -> Source:
        """A function of its buffers for each kernel."""
        launches = tuple(Launch(f"kernel{k}", tuple(b.name for b in kernel.args)) for k, kernel in enumerate(module.kernels))
        text = "\n".join(writer.function(x.entry, kernel) for x, kernel in zip(launches, module.kernels, strict=True))
        return Source(self.name, text, launches, module)

    def build(self, source: Source) -> Binary:
        """The text itself."""
        return Binary.of(source, source.text.encode())

    def load(self, binary: Binary, threads: int = 1) -> PlainCode:
        """The functions; one thread runs them."""
        return PlainCode(binary)


class PlainCode:
    """The functions of a module, in the order of its launches."""

    def __init__(self, binary: Binary) -> None:
        self.binary = binary
        names: dict[str, Any] = dict(writer.NAMES)
        exec(compile(binary.code, f"<plain {binary.name}>", "exec"), names)
        self._functions = [(names[x.entry], x.args) for x in binary.launches]

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on arrays for binary.args. Buffers without a known shape are flat (codegen/sizes.py)."""
        arrays = {b.name: writer.shaped(a, b.shape) for b, a in zip(self.binary.args, buffers, strict=True)}
        arrays |= {b.name: np.empty(b.shape, b.dtype.numpy) for b in self.binary.scratch}
        with np.errstate(all="ignore"):
            for function, args in self._functions:
                function(*(arrays[a] for a in args))

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """`run` on these arrays."""
        return BoundRun(self.run, buffers)
