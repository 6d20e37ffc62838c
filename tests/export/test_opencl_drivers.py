"""Exported programs of each family: one build of the C host, run on each driver that is here, and against numpy."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import polytc
from language.program import Program
from polytc.export import bundle, opencl
from polytc.machine import DEVICES
from polytc.targets import registry
from polytc.targets.opencl.target import OpenCLTarget
from tests import drivers
from tests.export import exported
from tests.families import FAMILIES

NAME = "family"
EXPORTED = ("odd rows", "sums of columns", "softmax", "tiles of both", "tc MLP1", "padded image", "scattered sums",
            "max and average pool, partial windows", "three axes turned", "CSR matrix-vector product", "recurrence",
            "causal attention", "places of the largest", "types", "jacobi-2d, time loop", "conjugate gradients",
            "gram-schmidt")
_ALL = {p.name: p for programs in FAMILIES.values() for p in programs}


def write(p: Program, to: Path, target: OpenCLTarget) -> list[np.ndarray]:
    """Exports a program as NAME; its inputs."""
    arrays = p.arrays()
    program = polytc.build(p.text, {n: a.shape for n, a in arrays.items()}, {n: a.dtype for n, a in arrays.items()},
                           scalars=p.numbers)
    opencl.write(bundle.of_program(program, target, NAME), target.machine, to)
    return [arrays[n] for n in program.inputs]


@pytest.mark.part(17)
@pytest.mark.opencl
@pytest.mark.parametrize("name", EXPORTED)
def test_on_each_driver(name: str, tmp_path: Path) -> None:
    p, folder = _ALL[name], tmp_path / "out"
    inputs = write(p, folder, OpenCLTarget(DEVICES["nvidia-sm90"]))
    exported.built(folder, NAME)
    exported.agree(exported.outputs(folder, NAME, inputs), p.expected(), p.tolerance)
    for driver in filter(drivers.available, drivers.LIBRARIES):
        found = exported.outputs(folder, NAME, inputs, environment=drivers.environment(driver, _folder(tmp_path / driver)))
        exported.agree(found, p.expected(), p.tolerance)
    assert drivers.findings(tmp_path / "oclgrind") == []


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.opencl
def test_a_host_without_a_device_says_what_is_missing(tmp_path: Path) -> None:
    target = registry.target("opencl")
    assert isinstance(target, OpenCLTarget)
    write(_ALL["odd rows"], tmp_path, target)
    exported.built(tmp_path, NAME)
    done = subprocess.run(["./run", "."], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "OCL_ICD_VENDORS": f"{_folder(tmp_path / 'none')}/"})
    assert done.returncode == 1
    assert "there is no OpenCL device: install" in done.stderr
