"""Kernels of GPUs whose grids depend on open sizes, run by Python."""

from __future__ import annotations

import pytest

import polytc
from polytc.machine import DEVICES, GENERIC_GPU, Machine
from polytc.targets.interp import InterpTarget
from tests.test_symbolic import CASES


@pytest.mark.part(20)
@pytest.mark.parametrize("machine", [GENERIC_GPU, DEVICES["nvidia-sm90"]], ids=["generic-gpu", "nvidia-sm90"])
@pytest.mark.parametrize("name", CASES)
def test_work_groups_in_python(name: str, machine: Machine) -> None:
    """The loops of a GPU, with each access checked; how many groups there are the sizes say."""
    case = CASES[name]
    op = polytc.compile(case.text, InterpTarget(machine), shapes=case.shapes, dtypes=case.dtypes, typical=case.typical)
    for seed, first in enumerate((1, 3, 5) if len(case.names) < 4 else (2,)):
        case.check(op, {n: first + k for k, n in enumerate(case.names)}, seed)
