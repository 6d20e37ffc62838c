"""The CUDA target."""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.codegen import loops
from polytc.codegen.target import Binary, Source
from polytc.machine import DEVICES, Machine
from polytc.targets.cuda import devices, emit, nvrtc
from polytc.targets.cuda.executable import CudaExecutable, Open


@dataclass(frozen=True)
class CudaTarget:
    """machine: what strategies read. compute: the compute capability of the device that code is built for, 90 of 9.0; 0: that
    of the one that is there when it is loaded. texts: are they written? Else sources tell kernels and launches alone."""

    machine: Machine = DEVICES["nvidia-sm90"]
    compute: int = 0
    name: str = "cuda"
    takes_sizes: bool = True
    texts: bool = True

    def __post_init__(self) -> None:
        """CUDA C has no masked vector accesses."""
        object.__setattr__(self, "machine", replace(self.machine, masked=False))

    @property
    def forkable(self) -> bool:
        """See codegen.target.Forkable: NVRTC needs no device."""
        return self.compute > 0

    def described(self, machine: Machine) -> CudaTarget:
        """The target for a GPU. Raises TargetError E541 for another machine."""
        if machine.kind != "gpu" or not machine.max_work_group:
            raise errors.fail("E541", "the machine is no GPU, and CUDA C is for such", kind=errors.TargetError,
                              notes=["target='cpu' and target='c' take it"])
        return replace(self, machine=machine, compute=0)

    def here(self) -> CudaTarget:
        """The target whose machine is the device that `load` will use. Raises TargetError E524 without a device."""
        found = devices.choose()
        return replace(self, machine=found.machine, compute=found.architecture)

    def emit(self, module: loops.Module) -> Source:
        """CUDA C, without any device."""
        return emit.emit(module, self.machine) if self.texts else emit.launched(module, self.machine)

    def assembly(self, source: Source) -> str:
        """PTX for the machine, of which `architecture` knows it. Raises TargetError E524 without NVRTC."""
        return nvrtc.compiled(source.text, architecture(self.machine), source.options["build"].split()).decode().rstrip("\0")

    def build(self, source: Source) -> Binary:
        """Code of the device, if it is known, else the text. Raises TargetError E524 without NVRTC, E525 where that refuses."""
        if not self.compute:
            return Binary.of(source, source.text.encode())
        code = nvrtc.for_device(source.text, self.compute, source.options["build"].split())
        return Binary.of(source, code, compute=str(self.compute))

    def load(self, binary: Binary, threads: int = 0) -> CudaExecutable | Open:
        """Kernels compiled for the device that `devices.choose` gives; `threads` is ignored.

        Raises TargetError E524 without a device or compiler, E525 where that refuses, E526 for what the driver does.
        """
        return (Open if "sizes" in binary.options else CudaExecutable)(binary, devices.choose())


def architecture(machine: Machine) -> str:
    """That of a described GPU of NVIDIA, "sm_90" of nvidia-sm90; "sm_80" of any other, whose PTX newer ones take, too."""
    name = next((n for n, known in DEVICES.items() if replace(known, masked=False) == machine), "")
    return f"sm_{name[9:]}" if name.startswith("nvidia-sm") else "sm_80"
