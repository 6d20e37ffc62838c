"""The first random models of the campaign (python -m tests.graph.random_models), and its parts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import polytc
from tests.generator.choices import replayed, seeded
from tests.generator.worker import Worker
from tests.graph.random_models.__main__ import judged
from tests.graph.random_models.builder import Builder
from tests.graph.random_models.judge import _explained, _moved, difference, judge, reference
from tests.graph.random_models.models import FAMILIES, Made, made


@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.long)])
def test_first_models(count: int) -> None:
    """None goes wrong, and most can be compared: in a process of their own, as ONNX Runtime crashes on some."""
    worker, kinds = Worker(60, judge), Counter[str]()
    for seed in range(count):
        chance = seeded(seed)
        made(chance)
        found = judged(worker, chance.taken, 60)
        assert not found.bad, f"model {seed}: {found.kind}\n{found.text}\n{found.detail}"
        kinds[found.kind] += 1
    worker.close()
    assert kinds["right"] + kinds["tie"] > count * .6, kinds


def test_choices_decide() -> None:
    """The same choices, the same model: worker processes are handed nothing else."""
    for seed in range(20):
        chance = seeded(seed)
        first = made(chance)
        assert str(made(replayed(chance.taken))) == str(first)
        assert made(replayed(chance.taken)).model.SerializeToString() == first.model.SerializeToString()


def test_every_recipe_makes_models() -> None:
    for recipe in {r for family in FAMILIES for r in family}:
        for seed in range(5):
            b = Builder(seeded(seed))
            recipe(b)
            assert b.model().graph.node


def test_ties_are_explained_and_steps_are_not() -> None:
    """With steps of 1/8, 5/16 is a tie between 2 and 3 (and 3 more, the zero point); 0.3 is none."""
    b = Builder(replayed([]))
    b.feeds["x"] = np.float32([5 / 16, .3])
    b.node("QuantizeLinear", ["x", b.constant(np.float32(1 / 8)), b.constant(np.uint8(3))], (np.uint8, (2,)))
    case = Made(b.model(), b.feeds)
    expected = reference(case)
    np.testing.assert_array_equal(expected[0], [5, 5])
    for found, explained in (([6, 5], True), ([5, 6], False), ([4, 5], False), ([7, 5], False)):
        assert difference([np.uint8(found)], expected)
        assert _explained(case, [np.uint8(found)], expected) == explained


def test_difference() -> None:
    x = np.float32([1, np.nan, np.inf, 2])
    assert difference([x], [x.copy()]) == ""
    assert "at (3,)" in difference([np.float32([1, np.nan, np.inf, 2.001])], [x])
    assert "at (1,)" in difference([np.float32([1, 0, np.inf, 2])], [x])
    assert "float64" in difference([x.astype(np.float64)], [x])
    assert difference([np.array(["a"], object)], [np.array(["b"], object)])
    assert (_moved(x, np.random.default_rng(0)) != x).any()


def test_a_wrong_number_is_not_explained() -> None:
    """One in a hundred is no rounding."""
    b = Builder(replayed([]))
    b.feeds["x"] = np.float32([1, 2])
    b.node("Gelu", ["x"], (np.float32, (2,)))
    case = Made(b.model(), b.feeds)
    expected = reference(case)
    found = polytc.load_onnx(case.model).compile(threads=1).run(None, case.feeds)
    assert difference(found, expected) == ""
    assert not _explained(case, [found[0] * np.float32(1.01)], expected)
