"""Operands in panels: which, how wide, and that the copy is all that changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polytc.machine import AVX2, AVX512, Machine
from polytc.program.program import Program
from polytc.rewrite.cpu import pack
from polytc.stages import build
from tests.rewrite.equal import same_results

MATMUL = "C[i,j] += A[i,k]*B[k,j]"


def product(rows: int, depth: int, columns: int) -> Program:
    return build(MATMUL, {"A": (rows, depth), "B": (depth, columns)})


@pytest.mark.parametrize("machine", [AVX2, AVX512])
def test_panels_are_as_wide_as_the_vectors_of_a_tile(machine: Machine) -> None:
    (panels,) = pack.decide(product(512, 512, 512), machine).choices
    assert (panels.statement, panels.tensor, panels.operand, panels.along) == ("S1", "B", 1, "j")
    assert panels.width % (machine.vector_bytes // 4) == 0


def test_a_copy_must_pay_for_itself_in_each_call() -> None:
    decision = pack.decide(product(40, 300, 400), AVX512)
    assert [str(r) for r in decision.reasons] == ["S1: not B in panels of 80 along j: 1.33 of the cycles"]
    assert not decision.choices
    constant = replace(product(40, 300, 400), constants=("B",))
    assert pack.decide(constant, AVX512).choices, "a constant is copied once, when arrays are bound"


def test_what_is_packed_computes_the_same() -> None:
    """Also where the last panel is not full."""
    before = replace(product(40, 33, 90), constants=("B",))
    decision = pack.decide(before, AVX2)
    after = pack.pack(before, decision)
    (panels,) = decision.choices
    assert after.tensor("B_packed").shape == (-(-90 // panels.width), 33, panels.width)
    same_results(before, after)
