"""The benchmarks of compile time: their cases exist, and what a process prints is what the table shows."""

from __future__ import annotations

import os

import pytest

import compile_time
import start_time

COLD = {**os.environ, "POLYTC_CACHE": "0"}


@pytest.mark.parametrize("name", compile_time.CASES)
def test_every_case_is_in_its_table_and_has_a_model(name: str) -> None:
    case = compile_time.case_of(name)
    assert case.onnx
    assert case.name == compile_time.CASES[name][1]


@pytest.mark.long
def test_an_operator_is_measured_in_a_process_of_its_own() -> None:
    found = compile_time.measure("polytc", "elementwise", None, 1, 1)
    assert 0 < sum(found[s] for s in compile_time.STAGES if s in found) <= found["total"] * 1.2
    assert {"import", "start", "loops", "passes", "code"} <= set(found)


@pytest.mark.part(4)
@pytest.mark.parametrize("script", [start_time.SHAPE, start_time.INT4], ids=["shape", "int4"])
def test_first_calls_are_timed(script: str) -> None:
    assert start_time.told(script, COLD) > 0
