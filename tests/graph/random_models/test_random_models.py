"""The first random models of the campaign (python -m tests.graph.random_models), and its parts."""

from __future__ import annotations

from collections import Counter

import numpy as np
from onnx import helper

import polytc
from tests.generator.choices import replayed, seeded
from tests.generator.worker import Worker
from tests.graph.random_models.__main__ import judged
from tests.graph.random_models.builder import Builder
from tests.graph.random_models.judge import _explained, _moved, difference, judge, reference
from tests.graph.random_models.models import FAMILIES, Made, made

MODELS = 60


def test_first_models() -> None:
    """None goes wrong, and most can be compared: in a process of their own, as ONNX Runtime crashes on some."""
    worker, kinds = Worker(60, judge), Counter[str]()
    for seed in range(MODELS):
        chance = seeded(seed)
        made(chance)
        found = judged(worker, chance.taken, 60)
        assert not found.bad, f"model {seed}: {found.kind}\n{found.text}\n{found.detail}"
        kinds[found.kind] += 1
    worker.close()
    assert kinds["right"] + kinds["tie"] > MODELS * .6, kinds


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


def _quantiser(x: np.ndarray) -> Made:
    b = Builder(replayed([]))
    b.feeds["x"] = x
    b.node("QuantizeLinear", ["x", b.constant(np.float32(.1)), b.constant(np.uint8(3))], (np.uint8, x.shape))
    return Made(b.model(), b.feeds)


def test_ties_are_explained_and_steps_are_not() -> None:
    """0.25 is a tie of steps of 0.1, 0.22 is none."""
    case = _quantiser(np.float32([.25, .22]))
    expected = reference(case)
    low, high = np.floor(expected[0] - .5), expected[0] + 1
    tie = [min(([a for a in (np.uint8([5, 5]), np.uint8([6, 5]))]), key=lambda a: bool((a == expected[0]).all()))]
    assert low.max() < high.max()
    assert difference(tie, expected)
    assert _explained(case, tie, expected)
    step = [expected[0] + np.uint8([0, 1])]
    assert difference(step, expected)
    assert not _explained(case, step, expected)


def test_difference() -> None:
    x = np.float32([1, np.nan, np.inf, 2])
    assert difference([x], [x.copy()]) == ""
    assert "at (3,)" in difference([np.float32([1, np.nan, np.inf, 2.001])], [x])
    assert "at (1,)" in difference([np.float32([1, 0, np.inf, 2])], [x])
    assert "float64" in difference([x.astype(np.float64)], [x])
    assert difference([np.array(["a"], object)], [np.array(["b"], object)])
    assert (_moved(x, np.random.default_rng(0)) != x).any()


def test_a_wrong_kernel_is_found(monkeypatch) -> None:
    """A model that polytc computes otherwise than ONNX Runtime is no tie."""
    node = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    b = Builder(replayed([]))
    b.feeds["x"] = np.float32([1, 2])
    b.node("Gelu", ["x"], (np.float32, (2,)))
    case = Made(b.model(), b.feeds)
    expected = reference(case)
    found = polytc.load_onnx(case.model).compile(threads=1).run(None, case.feeds)
    assert difference(found, expected) == ""
    assert node.op_type == "Gelu"
    assert not _explained(case, [found[0] * np.float32(1.01)], expected)
