"""The CUDA target."""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.codegen import loops
from polytc.codegen.target import Binary, Executable, Source
from polytc.machine import DEVICES, Machine
from polytc.targets.cuda import emit

errors.register(E515="no CUDA device, or no driver for it")


@dataclass(frozen=True)
class CudaTarget:
    """machine: what strategies read."""

    machine: Machine = DEVICES["nvidia-sm90"]
    name: str = "cuda"
    takes_sizes: bool = True

    def __post_init__(self) -> None:
        """CUDA C has no masked vector accesses."""
        object.__setattr__(self, "machine", replace(self.machine, masked=False))

    def described(self, machine: Machine) -> CudaTarget:
        """The target for a GPU. Raises TargetError E541 for another machine."""
        if machine.kind != "gpu" or not machine.max_work_group:
            raise errors.fail("E541", "the machine is no GPU, and CUDA C is for such", kind=errors.TargetError,
                              notes=["target='cpu' and target='c' take it"])
        return replace(self, machine=machine)

    def here(self) -> CudaTarget:
        """Raises TargetError E515 without a device."""
        raise errors.fail("E515", "there is no CUDA device", kind=errors.TargetError, notes=[])

    def emit(self, module: loops.Module) -> Source:
        """CUDA C, without any device."""
        return emit.emit(module, self.machine)

    def build(self, source: Source) -> Binary:
        """The text itself: what it becomes depends on the device."""
        return Binary.of(source, source.text.encode())

    def load(self, binary: Binary, threads: int = 0) -> Executable:
        """Raises TargetError E515 without a device."""
        self.here()
        raise AssertionError
