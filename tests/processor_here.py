"""Described processors on the one that is here."""

from __future__ import annotations

from polytc.codegen.target import Target
from polytc.machine import Machine
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from tests.aarch64_here import EmulatedArm, emulates


def target_for(machine: Machine, name: str = "cpu") -> Target:
    """What runs code for a machine: 'cpu' is machine code where the processor here, or an emulator, has all that the machine
    has; else, and for 'interp', its loops are interpreted."""
    native = LLVMTarget(machine)
    if name != "cpu" or native.lacks():
        return EmulatedArm(machine) if name == "cpu" and emulates(machine) else InterpTarget(machine)
    return native
