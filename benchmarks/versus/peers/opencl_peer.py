"""polytc's OpenCL target: an Op that writes to given arrays of the host."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import polytc
from polytc.targets.opencl.driver import devices
from versus.case import Case
from versus.peers import Prepared, empty


def version() -> str:
    return str(devices.choose())


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared:
    """threads: as many as the driver likes; the process has no more processors."""
    op = polytc.compile(case.text, target="opencl")
    outputs = tuple(empty(case).values())
    given, out = tuple(inputs[name] for name in op.inputs), outputs if len(outputs) > 1 else outputs[0]
    return Prepared(lambda: op(*given, out=out), lambda _: outputs)
