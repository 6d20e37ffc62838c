"""More of ONNX Runtime's own operators, beside ONNX Runtime or numpy."""

from __future__ import annotations

import pytest

from tests.graph.onnx.contrib.cases import Case, check
from tests.graph.onnx.contrib.more_cases import CASES


@pytest.mark.part(16)
@pytest.mark.parametrize("case", CASES, ids=[f"{c.op}{n}" for n, c in enumerate(CASES)])
def test_beside_a_reference(case: Case) -> None:
    check(case)
