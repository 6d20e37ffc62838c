"""Kinds of processors that a model ahead of time is compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from polytc import machine
from polytc.errors import ModelError, fail
from polytc.machine import Machine

PROCESSORS: Mapping[str, tuple[tuple[Machine | None, ...], str]] = {
    "host": ((None,), ""),
    "x86-64-v3": ((replace(machine.AVX2, cpu="x86-64-v3"),), "x86_64-unknown-linux-gnu"),
    "x86-64-v4": ((replace(machine.AVX512, cpu="x86-64-v4"),), "x86_64-unknown-linux-gnu"),
    "x86-64": ((replace(machine.AVX512, cpu="x86-64-v4"), replace(machine.AVX2, cpu="x86-64-v3")), "x86_64-unknown-linux-gnu"),
    "aarch64": ((machine.NEON,), "aarch64-unknown-linux-gnu"),
}
"""name -> the machines to make code for, the best first, None for this one, and LLVM's triple."""


@dataclass(frozen=True)
class Processors:
    """machines: that code is made for, of which the first that a processor is runs there. triple: of the system, '' for this
    one."""

    machines: tuple[Machine | None, ...]
    triple: str


def named(name: str) -> Processors:
    """The kinds that a name stands for. Raises ModelError E621 for an unknown one."""
    if name not in PROCESSORS:
        raise fail("E621", f"there is no processor {name!r}", kind=ModelError, notes=[f"those are {', '.join(PROCESSORS)}"])
    return Processors(*PROCESSORS[name])
