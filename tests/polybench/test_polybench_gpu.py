"""PolyBench's kernels with `for` loops, mapped for GPUs and run on an OpenCL device."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from examples.polybench.kernels import KERNELS
from polytc import compiler
from polytc.program import scalars
from polytc.program.program import Program
from polytc.targets.opencl.target import OpenCLTarget
from tests import opencl_here
from tests.polybench import reference

pytestmark = opencl_here.NEEDS_OPENCL

NAMES = ("adi", "cholesky", "deriche", "durbin", "fdtd-2d", "floyd-warshall", "gramschmidt", "heat-3d", "jacobi-1d",
         "jacobi-2d", "lu", "ludcmp", "nussinov", "seidel-2d", "trisolv")
TOLERANCE = {"f": 1e-4, "d": 1e-9, "i": 0.0}
"""By type of the elements, relative to the largest magnitude."""


def program(name: str, size: str) -> Program:
    given = KERNELS[name].arguments(size)
    arrays = {n: a for n, a in given.items() if isinstance(a, np.ndarray)}
    types = {n: next(d for d in scalars.DTYPES.values() if d.numpy == a.dtype and d.name != "bf16") for n, a in arrays.items()}
    numbers = {n: a for n, a in given.items() if n not in arrays}
    return polytc.compile(KERNELS[name].text).program({n: a.shape for n, a in arrays.items()}, types, numbers)


@pytest.mark.part(15)
@pytest.mark.parametrize("name", NAMES)
def test_on_a_device(name: str) -> None:
    p, given = program(name, "MINI"), KERNELS[name].arguments("MINI")
    low = compiler.lower_program(p, OpenCLTarget())
    assert low.schedule.how.startswith("gpu strategy")
    assert any(np.prod(x.local_size) > 1 for x in low.source.launches)
    arrays = {n: np.array(given[n]) if n in given else np.zeros(p.tensor(n).shape, p.tensor(n).dtype.numpy) for n in p.arrays}
    low.target.load(low.target.build(low.source), 1).run([arrays[n] for n in p.arrays])
    found = KERNELS[name].determined("MINI", {n: arrays[n] for n in p.outputs})
    expected = KERNELS[name].determined("MINI", reference.results(name, given))
    for n, array in expected.items():
        error = abs(found[n].astype(np.float64) - array).max() / abs(array).max()
        assert error <= TOLERANCE[found[n].dtype.char], n
