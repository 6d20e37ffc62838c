"""Attention of ONNX Runtime's own, beside ONNX Runtime."""

from __future__ import annotations

import pytest

from tests.graph.onnx.contrib.attention_cases import CASES
from tests.graph.onnx.contrib.cases import Case, check


@pytest.mark.part(3)
@pytest.mark.parametrize("case", CASES, ids=[f"{c.op}{n}" for n, c in enumerate(CASES)])
def test_beside_onnx_runtime(case: Case) -> None:
    check(case)
