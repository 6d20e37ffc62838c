"""Teams of work-items for reductions: how many, along what, and which tensors have one element a row."""

from __future__ import annotations

import pytest

from polytc.lang import build
from polytc.machine import GENERIC_GPU
from polytc.program.program import format_expr
from polytc.rewrite.gpu import work_group_shape
from polytc.schedule.facts.fusion_groups import partition

SOFTMAX = "M[i] max= X[i,j]; E[i,j] = exp(X[i,j] - M[i]); Z[i] += E[i,j]; Y[i,j] = E[i,j] / Z[i]"


def team(text: str, *shape: int) -> work_group_shape.WorkGroupShape | None:
    program = build(text, {"X": shape})
    return work_group_shape.choose(program, partition(program, "max")[-1], GENERIC_GPU)


@pytest.mark.parametrize(("columns", "size"), [(4096, 256), (1024, 256), (512, 128), (256, 64), (128, 32), (64, 32), (33, 32),
                                               (31, 16)])
def test_items_of_a_row(columns: int, size: int) -> None:
    """Four elements for each, but a warp where there are as many elements; a power of two that divides a group."""
    found = team("S[i] += X[i,j]", 64, columns)
    assert found is not None
    assert (found.axis, found.size) == (0, size)
    assert found.items == (size, min(256 // size, 64))
    assert (found.row, found.dealt) == (0 if found.items[1] > 1 else None, ("", "j"))


def test_few_elements_are_the_work_of_one_item() -> None:
    assert team("S[i] += X[i,j]", 64, 3) is None
    assert team("S[i,j] = X[i,j]", 64, 4096) is None


def test_columns_are_beside_each_other() -> None:
    found = team("S[j] += X[i,j]", 4096, 24)
    assert found is not None
    assert (found.axis, found.row) == (1, 0)
    assert found.items[0] == 32
    assert found.items[0] * found.items[1] <= 256
    assert found.dealt == ("", "i")
    assert team("S[j] += X[i,j]", 4096, 1 << 17) is None, "as many columns as items"
    assert team("S[j] += X[i,j]", 7, 24) is None


def test_all_statements_of_a_softmax_are_dealt_alike() -> None:
    found = team(SOFTMAX, 64, 1000)
    assert found is not None
    assert found.dealt == ("", "j", "j", "", "j", "j")


@pytest.mark.parametrize("text", [
    "S[i] += X[i,j]; Y[i,j] += X[i,j] * X[k,j]",
    "for i in 0:64 { S[i] += X[i,j] }",
])
def test_others_have_no_team(text: str) -> None:
    assert team(text, 64, 1000) is None


@pytest.mark.parametrize(("text", "expected"), [
    (SOFTMAX, {"M": "i", "Z": "i"}),
    ("S[i] += X[i,j]; Y[i] = S[i] * 2", {"S": "i", "Y": "i"}),
    ("S[i] += X[i,j]; Y[i,j] = X[i,j] - S[i]", {"S": "i"}),
    ("S[i] += X[i,j]; Y[a,b] = X[a,b] - S[a]", {"S": "i"}),
])
def test_tensors_with_one_element_a_row(text: str, expected: dict[str, str]) -> None:
    (group,) = partition(build(text, {"X": (64, 1000)}), "max")
    found = work_group_shape.row_tensors(group)
    assert found is not None
    assert {t: ", ".join(map(format_expr, cell)) for t, cell in found.items()} == expected
