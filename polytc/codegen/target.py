"""What a target is: a sibling that turns a Loop AST module into source text, and source into something that runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from polytc.codegen import loops
from polytc.machine import Machine


@dataclass(frozen=True)
class Launch:
    """One kernel of a source: its entry point, the names of its arguments in order, and for OpenCL the NDRange
    (sizes in work-items, axis 0 first; empty for CPUs)."""

    entry: str
    args: tuple[str, ...]
    global_size: tuple[int, ...] = ()
    local_size: tuple[int, ...] = ()


@dataclass(frozen=True)
class Source:
    """Generated code and how to call it. text: LLVM IR, OpenCL C, or the printed Loop AST for the interpreter.
    module: the Loop AST it came from, after this target's passes."""

    target: str
    text: str
    launches: tuple[Launch, ...]
    module: loops.Module
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


class Executable(Protocol):
    """Loaded code of one module."""

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on arrays matching `source.module.args` (C-contiguous, right dtype and shape, checked by the caller):
        inputs are only read, outputs are overwritten. Scratch is the executable's own affair."""
        ...


class Target(Protocol):
    """A row of the target registry."""

    name: str
    machine: Machine

    def here(self) -> Target:
        """The same target for the device that `load` would use: better code there. Raises TargetError without a device."""
        ...

    def emit(self, module: loops.Module) -> Source:
        """Pure: needs no device."""
        ...

    def load(self, source: Source, threads: int) -> Any:
        """Machine code on the device: an Executable."""
        ...
