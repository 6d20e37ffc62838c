"""Two copies of local tiles: the same results with one barrier a step, and where there is no room for them, one copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.machine import DEVICES, Machine
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget

GPU = DEVICES["nvidia-sm90"]
MATMUL = "C[i,j] += A[i,k]*B[k,j]"


def text(machine: Machine, depth: int) -> str:
    shapes = {"A": (256, depth), "B": (depth, 256)}
    return str(polytc.lower(MATMUL, OpenCLTarget(machine), shapes=shapes).source)


@pytest.mark.part(4)
@pytest.mark.parametrize("depth", [64, 80, 211, 101])
def test_results(depth: int, targets: tuple[str, ...]) -> None:
    """Even and odd numbers of steps, the last of which may be shorter."""
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    rng = np.random.default_rng(depth)
    a, b = (rng.integers(-4, 5, s).astype("f4") for s in ((70, depth), (depth, 75)))
    assert "A_tile_other" in text(GPU, depth)
    np.testing.assert_array_equal(polytc.compile(MATMUL, OpenCLTarget(GPU))(a, b), a @ b)


def test_the_interpreter_sees_no_item_read_what_another_writes() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("f4") for s in ((9, 70), (70, 10)))
    np.testing.assert_array_equal(polytc.compile(MATMUL, InterpTarget(GPU))(a, b), a @ b)


def test_items_meet_once_in_a_step() -> None:
    source = text(GPU, 1024)
    loop = source[source.index("for (int k"):]
    assert loop.count("barrier(CLK_LOCAL_MEM_FENCE)") == 2, "and a loop makes two steps"


@pytest.mark.parametrize(("machine", "depth"), [
    (GPU, 48), (replace(GPU, local_bytes=6 << 10, unit_local_bytes=0), 256), (DEVICES["mali"], 256)])
def test_few_steps_and_little_memory_have_one_copy(machine: Machine, depth: int) -> None:
    assert "_other" not in text(machine, depth)
