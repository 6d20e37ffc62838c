"""Everything that can be measured on the processor that we run on."""

from __future__ import annotations

from polytc.machine import Machine
from polytc.measurement import processor, programs
from polytc.measurement.findings import Finding


def of_processor(machine: Machine) -> list[Finding]:
    """What was found, in some seconds on one core, and on all for the cost of a parallel region."""
    core = processor.core(machine)
    return [*processor.findings(machine, core), *programs.findings(machine, core.clock)]
