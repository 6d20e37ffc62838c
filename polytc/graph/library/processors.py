"""Kinds of processors that a model ahead of time is compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from polytc import machine
from polytc.errors import ModelError, fail
from polytc.machine import Machine
from polytc.targets.llvm.target import TRIPLES

_V3, _V4 = replace(machine.AVX2, cpu="x86-64-v3"), replace(machine.AVX512, cpu="x86-64-v4")

PROCESSORS: Mapping[str, tuple[Machine | None, ...]] = {
    "host": (None,), "x86-64-v3": (_V3,), "x86-64-v4": (_V4,), "x86-64": (_V4, _V3), "aarch64": (machine.NEON,)}
"""name -> the machines to make code for, the best first, None for this one."""


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
    machines = PROCESSORS[name]
    return Processors(machines, "" if machines[0] is None else TRIPLES[machines[0].architecture])
