"""The target C, for export only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from polytc import errors
from polytc.codegen import loops
from polytc.codegen.target import Binary, Source
from polytc.machine import AVX2, Machine
from polytc.targets.c import emit

errors.register(E514="a target that can only be exported")


@dataclass(frozen=True)
class PortableMachine(Machine):
    """A CPU whose code is plain C: it has no dot products of words, and compilers see rows in the loops over lanes."""

    @property
    def dots(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def shuffles(self) -> bool:
        """No."""
        return False


def portable(machine: Machine) -> PortableMachine:
    """The machine, for plain C."""
    return PortableMachine(**{name: getattr(machine, name) for name in Machine.__dataclass_fields__})


PORTABLE = portable(replace(AVX2, cores=4))
"""Registers and caches of an ordinary processor of today, whichever it is."""


@dataclass(frozen=True)
class CTarget:
    """machine: what strategies read."""

    machine: Machine = PORTABLE
    name: str = "c"
    takes_sizes: bool = True

    def described(self, machine: Machine) -> CTarget:
        """The target for a processor. Raises TargetError E541 for a GPU."""
        if machine.kind != "cpu":
            raise errors.fail("E541", "the machine is a GPU, and C is for processors", kind=errors.TargetError,
                              notes=["polytc export opencl writes code for it"])
        return replace(self, machine=portable(machine))

    def here(self) -> NoReturn:
        """Raises TargetError E514: no compiler of C is run."""
        raise errors.fail("E514", "the target 'c' is for export only", kind=errors.TargetError,
                          notes=["polytc export c writes a folder; polytc.lower(..., target=\"c\") gives the text",
                                 "to run a program here, compile it with target=\"cpu\""])

    def emit(self, module: loops.Module) -> Source:
        """C99."""
        return emit.emit(module)

    def build(self, source: Source) -> Binary:
        """Raises TargetError E514."""
        self.here()

    def load(self, binary: Binary, threads: int = 0) -> NoReturn:
        """Raises TargetError E514."""
        self.here()
