"""InterpTarget: the third sibling target, which doubles as a sanitizer of everything before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polytc.codegen import loops
from polytc.codegen.size_binding import UNKNOWN
from polytc.codegen.target import Binary, Bound, BoundRun, Launch, Source
from polytc.machine import GENERIC_CPU, Machine
from polytc.targets.interp import emit, support


class InterpExecutable:
    """A module as Python functions. An access outside of a buffer raises TargetError E520; fresh memory holds NaN."""

    def __init__(self, binary: Binary) -> None:
        self.binary = binary
        namespace: dict[str, Any] = dict(support.NAMESPACE)
        exec(compile(binary.code, f"<polytc interp {binary.name}>", "exec"), namespace)
        self._functions = [(namespace[launch.entry], launch.args) for launch in binary.launches]

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on arrays for binary.args, seen in the shapes that the loops know."""
        arrays = {b.name: a.reshape(-1).view(b.dtype.numpy).reshape(-1 if b.shape == (UNKNOWN,) else b.shape)
                  for b, a in zip(self.binary.args, buffers, strict=True)}
        arrays |= {b.name: support.poison(b.shape, b.dtype.numpy) for b in self.binary.scratch}
        with np.errstate(all="ignore"):
            for function, args in self._functions:
                function(*(arrays[a] for a in args))

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """A function that runs on these arrays."""
        return BoundRun(self.run, buffers)


@dataclass(frozen=True)
class InterpTarget:
    """Runs a module in Python; the text of its source is the printed Loop AST. machine: what strategies read."""

    machine: Machine = GENERIC_CPU
    name: str = "interp"
    takes_sizes: bool = False

    def described(self, machine: Machine) -> InterpTarget:
        """The target whose loops are made for a machine."""
        return replace(self, machine=machine)

    def here(self) -> InterpTarget:
        """This target: it runs everywhere alike."""
        return self

    def emit(self, module: loops.Module) -> Source:
        """The printed Loop AST."""
        launches = tuple(Launch(f"_kernel{n}", tuple(b.name for b in k.args)) for n, k in enumerate(module.kernels))
        return Source(self.name, f"{module}\n", launches, module)

    def build(self, source: Source) -> Binary:
        """Python code, a function a kernel."""
        pairs = zip(source.module.kernels, source.launches, strict=True)
        return Binary.of(source, "\n".join(emit.kernel_source(k, launch.entry) for k, launch in pairs).encode())

    def load(self, binary: Binary, threads: int = 1) -> InterpExecutable:
        """The executable; `threads` is ignored."""
        return InterpExecutable(binary)
