"""Several Loop AST modules -> one OpenCL C text to read and to ship: the functions that kernels need once, each kernel under
a comment."""

from __future__ import annotations

from collections.abc import Sequence

from polytc.machine import Machine
from polytc.targets.ctext import launched
from polytc.targets.ctext.library import Library, Part
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.opencl.emit import before, build_options, written
from polytc.targets.opencl.language import OPENCL


def library(parts: Sequence[Part], machine: Machine) -> Library:
    """One text of all parts; raises what `emit` raises."""
    preamble = Preamble(OPENCL)
    return launched.library(parts, lambda p: written(p.module, machine, preamble, p.named, p.notes)[1], build_options,
                            lambda _, doubles: before(preamble, doubles))
