"""The language's table of programs and the operators of Tensor Comprehensions, on every target and against the evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polytc
from language.program import Program
from language.programs import PROGRAMS
from language.tc import PROGRAMS as TC


def check(program: Program, target: str) -> None:
    found = polytc.run(program.text, target=target, **program.arrays(), **program.numbers)
    results = found if isinstance(found, tuple) else (found,)
    expected = program.expected()
    assert len(results) == len(expected)
    for got, want in zip(results, expected, strict=True):
        assert got.shape == want.shape
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(got, want, rtol=0, atol=program.tolerance * scale, err_msg=f"{program.name} on {target}")


ALL = (*PROGRAMS, *TC)
AS_OTHERS = {"tc tmm", "tc tbmm", "tc sgemm", "tc conv2d", "tc strided conv2d", "tc MLP1", "tc MLP3", "tc WaveNet block",
             "causal attention", "max and average pool, partial windows"}
"""Products, convolutions and windows as in the table's other programs or in tests/test_programs.py."""
ON_DEVICES = AS_OTHERS | {"batched, transposed, bias, relu", "strided, dilated conv", "grouped conv, 5-d", "grouped conv, flat",
                          "depthwise conv", "softmax", "tc moments"}
"""The same, and what OpenCL's compiler takes long for."""


def but(others: set[str]) -> list[Any]:
    return [pytest.param(p, id=p.name, marks=pytest.mark.long if p.name in others else ()) for p in ALL]


@pytest.mark.part(10)
@pytest.mark.parametrize("program", ALL, ids=lambda p: p.name)
def test_on_every_target(program: Program, targets: tuple[str, ...]) -> None:
    for target in ("evaluate", *targets):
        if target not in ("interp", "opencl"):
            check(program, target)


@pytest.mark.part(12)
@pytest.mark.parametrize("program", but(AS_OTHERS))
def test_in_the_interpreter(program: Program) -> None:
    check(program, "interp")


@pytest.mark.part(12)
@pytest.mark.parametrize("program", but(ON_DEVICES))
def test_on_the_opencl_device(program: Program, targets: tuple[str, ...]) -> None:
    if "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    check(program, "opencl")


def test_names_are_unique() -> None:
    names = [p.name for p in ALL]
    assert len(set(names)) == len(names)
