"""InterpTarget: the third sibling target, which doubles as a sanitizer of everything before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polytc.codegen import loops
from polytc.codegen.interp import emit, support
from polytc.codegen.target import Launch, Source
from polytc.machine import GENERIC_CPU, Machine


class InterpExecutable:
    """A module as Python functions. An access outside of a buffer raises TargetError E520; fresh memory holds NaN."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._functions: list[tuple[Callable[..., None], tuple[str, ...]]] = []
        for kernel in source.module.kernels:
            name, text = emit.kernel_source(kernel)
            namespace: dict[str, Any] = dict(support.NAMESPACE)
            exec(compile(text, f"<polytc interp {kernel.name}>", "exec"), namespace)
            self._functions.append((namespace[name], tuple(b.name for b in kernel.args)))

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on arrays that match module.args."""
        module = self.source.module
        arrays = {b.name: a for b, a in zip(module.args, buffers, strict=True)}
        arrays |= {b.name: support.poison(b.shape, b.dtype.numpy) for b in module.scratch}
        with np.errstate(all="ignore"):
            for function, args in self._functions:
                function(*(arrays[a] for a in args))

    def bind(self, buffers: Sequence[np.ndarray]) -> Callable[[], None]:
        """A function that runs on these arrays."""
        held = tuple(buffers)
        return lambda: self.run(held)


class InterpTarget:
    """Runs a module in Python; the text of its source is the printed Loop AST."""

    name = "interp"

    def __init__(self, machine: Machine = GENERIC_CPU) -> None:
        self.machine = machine

    def here(self) -> InterpTarget:
        """This target: it runs everywhere alike."""
        return self

    def emit(self, module: loops.Module) -> Source:
        launches = tuple(Launch(k.name, tuple(b.name for b in k.args)) for k in module.kernels)
        return Source(self.name, f"{module}\n", launches, module)

    def load(self, source: Source, threads: int = 1) -> InterpExecutable:
        """The executable; `threads` is ignored."""
        return InterpExecutable(source)
