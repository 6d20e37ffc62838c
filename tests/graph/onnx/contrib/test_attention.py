"""Attention of ONNX Runtime's own, beside ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.graph.onnx.contrib.attention_cases import CASES
from tests.graph.onnx.contrib.cases import Case, check


@pytest.mark.part(38)
@pytest.mark.parametrize("case", CASES, ids=[f"{c.op}{n}" for n, c in enumerate(CASES)])
def test_beside_onnx_runtime(case: Case) -> None:
    check(case)


@pytest.mark.part(5)
@pytest.mark.parametrize("case", [c for c in CASES if c.attributes.get("unidirectional")], ids=str)
def test_of_constants_alone(case: Case) -> None:
    """onnx's evaluator takes the first row of a causal mask for all; what is constant is compiled, too."""
    check(replace(case, stored=len(case.inputs)))
