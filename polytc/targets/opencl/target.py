"""The OpenCL target."""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.codegen import loops
from polytc.codegen.target import Binary, Source
from polytc.machine import GENERIC_GPU, Machine
from polytc.targets.opencl import emit
from polytc.targets.opencl.driver import conformance, devices
from polytc.targets.opencl.executable import Open, OpenCLExecutable


@dataclass(frozen=True)
class OpenCLTarget:
    """machine: what strategies read. By default a generic GPU, so that the text is the same everywhere. device: what
    devices.choose is asked for. texts: are they written? Else sources tell kernels and launches alone."""

    machine: Machine = GENERIC_GPU
    name: str = "opencl"
    takes_sizes: bool = True
    device: str = ""
    texts: bool = True

    def __post_init__(self) -> None:
        """OpenCL C has no masked vector accesses and no matrix unit, whatever the device, and does not say that groups go on
        while others wait for them."""
        object.__setattr__(self, "machine", replace(self.machine, masked=False, matrix_unit=None, waiting_groups=False))

    def on(self, device: str) -> OpenCLTarget:
        """The target for another device: a number in the order of `polytc devices`, or a part of a name."""
        return replace(self, name=f"opencl:{device}", device=device)

    def here(self) -> OpenCLTarget:
        """The target whose machine is the device that `load` will use: faster code there, but other text elsewhere.

        Raises TargetError E501, E503 or E504 without a working device.
        """
        return self.made_for(devices.choose(self.device))

    def described(self, machine: Machine) -> OpenCLTarget:
        """The target for a machine. Raises TargetError E541 for one that has no work-groups."""
        if not machine.max_work_group:
            raise errors.fail("E541", "the machine has no work-groups (max_work_group is 0), as devices of OpenCL have",
                              kind=errors.TargetError, notes=["target='cpu' takes it"])
        return replace(self, machine=machine)

    def driven(self) -> OpenCLTarget:
        """This target's machine with the faults of the driver of the device that `load` will use. Raises what `here` does."""
        return replace(self, machine=replace(self.machine, faults=conformance.faults(devices.choose(self.device))))

    def made_for(self, device: devices.Device) -> OpenCLTarget:
        """The target whose machine is a device, with the faults of its driver."""
        return replace(self, machine=replace(devices.machine_of(device), faults=conformance.faults(device)))

    def emit(self, module: loops.Module) -> Source:
        """OpenCL C, without any device."""
        return emit.emit(module, self.machine) if self.texts else emit.launched(module, self.machine)

    def build(self, source: Source) -> Binary:
        """The text itself: what the driver's compiler makes of it depends on the device, see driver/programs.py."""
        return Binary.of(source, source.text.encode())

    def load(self, binary: Binary, threads: int = 0) -> OpenCLExecutable | Open:
        """Kernels compiled for the device that `devices.choose` gives; `threads` is ignored.

        Raises TargetError E501, E503 or E504 without a working device, E505 for what it cannot hold, E506 for a failed build.
        """
        return (Open if "sizes" in binary.options else OpenCLExecutable)(binary, devices.choose(self.device))
