"""Who else uses a tensor: other statements, and later iterations of the loops around."""

from __future__ import annotations

from dataclasses import replace

from polytc.program.program import Binary, Index, Program, Range, Read
from polytc.program.scalars import BOOL, F32
from polytc.rewrite.gpu.enclosing import Enclosing
from polytc.schedule.facts.fusion_groups import Group, partition
from polytc.stages import build

LOOP = (Range("t", 0, 5),)


def group_of(text: str) -> tuple[Program, Group]:
    """A program of one group; T is a temporary."""
    program = build(text, {"A": (9, 9)})
    return program, partition(program, "max")[0]


def test_what_is_passed_is_used_by_others() -> None:
    program, group = group_of("T[i,j] = A[i,j]*2; Y[i,j] = T[i,j] + 1")
    assert Enclosing().uses(program, group, "Y")
    assert Enclosing().uses(program, group, "A")
    assert not Enclosing().uses(program, group, "T")


def test_statements_outside_of_the_group() -> None:
    program, group = group_of("T[i,j] = A[i,j]*2; Y[i,j] = T[i,j] + 1")
    other = replace(program.statement("S2"), name="later")
    assert Enclosing(statements=(other,)).uses(program, group, "T")


def test_values_of_earlier_iterations() -> None:
    """In a loop, a group that first sets all that it uses reads nothing of the iteration before."""
    program, group = group_of("T[i,j] = A[i,j]*2; Y[i,j] = T[i,j] + 1")
    first, second = group.statements
    some = replace(first, where=(Binary("<", Index("i"), Index("j"), BOOL),))
    added = replace(first, op="+")
    again = replace(first, value=Read("T", first.subscripts, F32))
    assert not Enclosing(LOOP).uses(program, group, "T")
    for start in (some, added, again):
        other = replace(group, statements=(start, second))
        assert Enclosing(LOOP).uses(program, other, "T")
        assert not Enclosing().uses(program, other, "T"), "there is no earlier iteration"
