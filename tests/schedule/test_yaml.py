"""Texts that are no schedule end in a diagnostic: isl's reader ended the process on some of these."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.errors import CompileError
from tests.generator.worker import Worker
from tests.mutants import schedules

TEXT, SHAPES = "B[i] = 2 * A[i]; C[i] = B[i] + 1; -> (B, C)".replace("; ->", "\n->"), {"A": (9,)}

GOOD = """\
domain: "{ S1[i] : 0 <= i <= 8; S2[i] : 0 <= i <= 8 }"
child:
  sequence:
  - filter: "{ S1[i] }"
    child:
      mark: "N0.0.S1 sequential"
      child:
        schedule: "[{ S1[i] -> [(i)] }]"
        permutable: 1
        coincident: [ 1 ]
  - filter: "{ S2[i] }"
    child:
      mark: "N0.1.S2 sequential"
      child:
        schedule: "[{ S2[i] -> [(i)] }]"
"""

CHANGES = [
    ('  - filter: "{ S1', '  -0 filter: "{ S1'),
    ("child:\n  sequence", ' 8 }"\nchild:\n  sequence'),
    ("{ S1[i] }", "{ S1[i] : i > 3 }"),
    ("{ S2[i] }", "{ S1[i]; S2[i] }"),
    ("[ 1 ]", "[ 1, 1 ]"),
    ("[ 1 ]", "[ ]"),
    ("[ 1 ]", "1"),
    ("permutable: 1", "permutable: 7"),
    ("[{ S2[i] -> [(i)] }]", "[{ S1[i] -> [(i)] }]"),
    ("[{ S2[i] -> [(i)] }]", "[]"),
    ("[{ S2[i] -> [(i)] }]", "[{ S2[i] -> [(NaN)] }]"),
    ("[{ S2[i] -> [(i)] }]", "[p] -> [{ S2[i] -> [(i + p)] }]"),
    ("N0.1", "N0.1\ud800"),
    ("permutable: 1", "permutable: \u0661"),
    ("[{ S2[i] -> [(i)] }]", "[{ S2[i] -> [(i)] : i > 2 }]"),
    ('mark: "N0.1', "mark: N0.1"),
    ("sequence:", "sequence: 1"),
    ("sequence:", "seq:"),
    ("child:\n  sequence", "child:\n  domain"),
    ("permutable: 1", "permutable: 1\n        permutable: 1"),
    ("        coincident", "          coincident"),
    ("domain", "filter"),
    ("[i] : 0 <= i <= 8; S2", "[i : 0 <= i <= 8; S2"),
    ("child:\n  seq", "child:\nseq"),
    ("child:", ""),
    ('    child:\n      mark: "N0.0', 'mark: "N0.0'),
    ('- filter: "{ S1[i] }"', "- child:"),
    ("domain", "\0domain"),
]


def run(text: str) -> np.ndarray:
    return polytc.run(TEXT, A=np.ones(9, np.float32), target="interp", schedule=text)[1]


def test_flow_style() -> None:
    text = str(polytc.lower(TEXT, shapes=SHAPES, schedule=GOOD).schedule.tree)
    assert text.startswith("{")
    np.testing.assert_array_equal(run(text), np.full(9, 3))
    for broken in (text[:-2], text.replace(",", "", 1), text.replace("child", "{", 1), text + "}", text.replace("]", "", 1)):
        with pytest.raises(CompileError):
            run(broken)


def test_the_good_one() -> None:
    np.testing.assert_array_equal(run(GOOD), np.full(9, 3))


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_broken_ones(old: str, new: str) -> None:
    assert old in GOOD
    with pytest.raises(CompileError) as refusal:
        run(GOOD.replace(old, new, 1))
    assert refusal.value.code in ("E702", "E703", "E705"), refusal.value


DEEP = 3000
HEAD = 'domain: "{ S1[i] : 0 <= i <= 8; S2[i] : 0 <= i <= 8 }"'
BLOCKS = "".join(" " * n + "child:\n" + " " * (n + 1) + 'mark: "x sequential"\n' for n in range(DEEP))
FLOW = 'child: { mark: "x sequential", ' * DEEP + "}" * DEEP


LISTS = f"child: {'[' * DEEP}{']' * DEEP}"


@pytest.mark.part(2)
@pytest.mark.parametrize("text", [f"{HEAD}\n{BLOCKS}", f"{{ {HEAD}, {FLOW} }}", f"{{ {HEAD}, {LISTS} }}"])
def test_deep_nests(text: str) -> None:
    with pytest.raises(CompileError, match="E702"):
        run(text)


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.long)])
def test_mutants(count: int) -> None:
    worker = Worker(60, schedules.judge)
    for number in range(count):
        found = worker.judge(schedules.mutant(number))
        assert not found.bad, found
    worker.close()


@pytest.mark.long
def test_many_mutants() -> None:
    worker = Worker(60, schedules.judge)
    for number in range(3000):
        found = worker.judge(schedules.mutant(number))
        assert not found.bad, found
    worker.close()
