"""Everything that can be measured on the processor, and on the OpenCL device, that are here."""

from __future__ import annotations

from polytc.machine import Machine
from polytc.measurement import device, processor, programs
from polytc.measurement.findings import Finding
from polytc.targets.opencl.driver import devices


def of_processor(machine: Machine) -> list[Finding]:
    """What was found, in some seconds on one core, and on all for the cost of a parallel region."""
    core = processor.core(machine)
    return [*processor.findings(machine, core), *programs.findings(machine, core.clock)]


def of_device(wanted: str) -> list[Finding]:
    """What was found on an OpenCL device: see devices.choose. Raises TargetError E501, E503 or E504 without one that works."""
    return list(device.findings(devices.choose(wanted)))
