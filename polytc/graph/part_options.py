"""How the parts of a model become code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polytc.graph.running.executables import Compile
from polytc.graph.running.instance import Progress
from polytc.graph.running.open_kernels import OpenKernels
from polytc.machine import Machine
from polytc.options import KEPT, NONE, Licence


@dataclass(frozen=True)
class Options:
    """compile: programs to code; licence: what it may do to digits; strict: nothing is left to onnx's evaluator; machine: whose
    vectors decide how inner values are stored, None where they are stored as the model says. kernels: those for all sizes,
    where sizes stay open; typical: sizes for which these should be fast. guards: may calls have some? checked: are indices
    looked at? kept: sets of types and values that each part keeps code and memory for."""

    compile: Compile
    licence: Licence = NONE
    fusion: bool = True
    strict: bool = False
    progress: Progress | None = None
    machine: Machine | None = None
    kernels: OpenKernels | None = None
    typical: Mapping[str, int] = field(default_factory=dict)
    guards: bool = True
    checked: bool = False
    kept: int = KEPT
