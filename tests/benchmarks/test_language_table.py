"""The language's table of programs and the operators of Tensor Comprehensions, on every target and against the evaluator."""

from __future__ import annotations

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


@pytest.mark.parametrize("program", [*PROGRAMS, *TC], ids=lambda p: p.name)
def test_on_every_target(program: Program, targets: tuple[str, ...]) -> None:
    for target in ("evaluate", *targets):
        check(program, target)


def test_names_are_unique() -> None:
    names = [p.name for p in (*PROGRAMS, *TC)]
    assert len(set(names)) == len(names)
