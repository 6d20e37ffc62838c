"""Weights of a few bits, beside ONNX Runtime or numpy."""

from __future__ import annotations

import pytest

from tests.graph.onnx.contrib.block_cases import CASES
from tests.graph.onnx.contrib.cases import Case, check


@pytest.mark.part(9)
@pytest.mark.parametrize("case", CASES, ids=[f"{c.op}{n}" for n, c in enumerate(CASES)])
def test_beside_a_reference(case: Case) -> None:
    check(case)
