"""Described processors on the one that is here."""

from __future__ import annotations

from polytc.codegen.interp import InterpTarget
from polytc.codegen.llvm.target import LLVMTarget
from polytc.codegen.target import Target
from polytc.machine import Machine


def target_for(machine: Machine, name: str = "cpu") -> Target:
    """What runs code for a machine: 'cpu' is machine code where the processor here has all that the machine has; else, and for
    'interp', its loops are interpreted."""
    native = LLVMTarget(machine)
    return InterpTarget(machine) if name != "cpu" or native.lacks() else native
