"""Several Loop AST modules -> one CUDA C text to read and to ship: the functions that kernels need once, each kernel under a
comment."""

from __future__ import annotations

from collections.abc import Sequence

from polytc.machine import Machine
from polytc.targets.ctext import launched
from polytc.targets.ctext.library import Library, Part
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.cuda.emit import before, build_options, written
from polytc.targets.cuda.language import CUDA


def library(parts: Sequence[Part], machine: Machine) -> Library:
    """One text of all parts; raises what `emit` raises."""
    preamble = Preamble(CUDA)
    return launched.library(parts, lambda p: written(p.module, machine, preamble, p.named, p.notes)[1], build_options,
                            lambda texts, _: before(preamble, texts))
