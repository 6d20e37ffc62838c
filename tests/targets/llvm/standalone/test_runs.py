"""The text of what runs a chain of kernels without Python."""

from __future__ import annotations

import re

import pytest

from polytc.targets.llvm.standalone.chain import Argument, Chain
from polytc.targets.llvm.standalone.module import driver

X = Argument("x", "f64", (1,), 8)


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (2, 1), (40, 3)])
def test_the_stack_holds_one_pointer_an_area(inputs: int, outputs: int) -> None:
    """The model's own four and each array of the caller, of which models may have many."""
    text = driver(Chain("m", (), (None,), (), (), 64, 64, 0, (X,) * inputs, (X,) * outputs))
    run = text.partition("define i32 @m_run_arrays")[2].partition("\n}")[0]
    (count,) = re.findall(r"alloca ptr, i64 (\d+)", run)
    places = re.findall(r"%base\.(\d+) = getelementptr ptr, ptr %bases, i64 (\d+)", run)
    stored = re.findall(r"store ptr %(?:own|array)\.\d+, ptr %base\.(\d+)", run)
    assert sorted(int(k) for _, k in places) == list(range(int(count))) == list(range(4 + inputs + outputs))
    assert [name for name, _ in places] == stored
