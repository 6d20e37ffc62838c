"""Contractions and reductions inside of `for` loops are cut for GPUs as those outside are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import compiler, stages
from polytc.codegen.target import Target
from polytc.machine import GENERIC_GPU
from polytc.rewrite import staging
from polytc.rewrite.gpu import division, work_groups_in_loops
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import families
from tests.behind import rewritten as behind_all

CARRIED = """def carried(f32[N] x, inout f32[N] y, f32[T] w) -> (y, last) {
    s = x[0]
    for t in 0:T {
        z[i] = y[i] * s                 where i >= t
        s += z[i] * x[i]                where i >= t
        old = s * w[t]
        y[i] = y[i] / 2 + old
        last = s + old
        s = last / 64
    }
}"""
"""Scalars live from one iteration to the next; `z` keeps elements of iterations long ago."""
HISTORY = """def history(f32[T,N] X, inout f32[N] y) -> (y) {
    mean = f32(0)
    for t in 0:T {
        d[i] = X[t,i] - mean
        v +=! d[i] * d[i]
        y[i] = y[i] + d[i] * v
        mean +=! y[i] / f32(70)
    }
}"""
"""`mean` is read before it is made anew."""


def carried(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    y, s = y.astype("f8"), float(x[0])
    for t, factor in enumerate(w):
        s += y[t:] * s @ x[t:]
        old = s * factor
        y, last = y / 2 + old, s + old
        s = last / 64
    return [y, last]


def history(X: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    y, mean = y.astype("f8"), 0.0
    for row in X:
        d = row - mean
        y = y + d * (d @ d)
        mean = y.sum() / 70
    return [y]


def outputs(low: compiler.Lowered, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    p = low.program
    arrays = {n: given[n].copy() if n in given else np.full(p.tensor(n).shape, 77, p.tensor(n).dtype.numpy) for n in p.arrays}
    low.target.load(low.target.build(low.source), 1).run([arrays[b.name] for b in low.loops.args])
    return [arrays[n] for n in p.outputs]


def lowered(text: str, target: Target | None = None, **shapes: tuple[int, ...]) -> compiler.Lowered:
    return compiler.lower_program(stages.build(text, shapes, dict.fromkeys(shapes, "f32")), target or OpenCLTarget())


def launches(low: compiler.Lowered) -> list[tuple[int, ...]]:
    """Items of the launches that the host repeats."""
    return [x.global_size for x in low.source.launches if x.loops]


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "reference"), [(CARRIED, carried), (HISTORY, history)])
def test_values_live_from_one_iteration_to_the_next(text: str, reference: families.Any, targets: tuple[str, ...]) -> None:
    rng = np.random.default_rng(7)
    shapes = {"x": (70,), "y": (70,), "w": (3,)} if text == CARRIED else {"X": (3, 70), "y": (70,)}
    given = {n: (rng.random(s) / 8).astype("f4") for n, s in shapes.items()}
    where: list[Target] = [InterpTarget(GENERIC_GPU), *([OpenCLTarget()] if "opencl" in targets else [])]
    for low in (lowered(text, target, **shapes) for target in where):
        assert "_mine" in str(low.rewritten)
        for got, expected in zip(outputs(low, given), reference(**given), strict=True):
            np.testing.assert_allclose(got, expected, rtol=2e-5)


@pytest.mark.part(3)
@pytest.mark.parametrize("name", ["power iteration", "gram-schmidt", "k-means"])
def test_results_on_the_interpreter(name: str) -> None:
    """Which finds accesses outside of buffers, and barriers that not all items reach."""
    p = next(x for x in families.EXTRA if x.name == name)
    given = dict(p.arrays())
    low = lowered(p.text, InterpTarget(replace(GENERIC_GPU, max_work_group=64)), **{n: a.shape for n, a in given.items()})
    for got, expected in zip(outputs(low, given), p.expected(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_sums_in_a_time_loop_are_divided() -> None:
    low = lowered(families.POWER, A=(2000, 2000), x=(2000,), w=(50,))
    assert launches(low) == [(2000 * 256,), (256,), (2048,)]
    assert low.source.text.count("barrier(") > 2


def test_what_one_group_cannot_add_up_is_divided_among_groups() -> None:
    low = lowered(families.POWER, A=(40, 40), x=(40,), w=(5,))
    assert len(launches(low)) == 3
    text = "def dots(inout f32[N] x, f32[T] w) -> (x) { for t in 0:T { s +=! x[i] * x[i]; x[i] = x[i] / s + w[t] } }"
    many = launches(lowered(text, x=(1 << 20,), w=(9,)))
    assert len(many) == 3
    assert many[0][0] >= 64 * 256


def test_products_in_a_time_loop_take_tiles() -> None:
    low = lowered(families.SQUARES, A=(512, 512), w=(9,))
    assert "__local float A_tile" in low.source.text
    assert len(launches(low)) == 2


@pytest.mark.long
def test_elimination_by_blocks_keeps_its_schedule() -> None:
    """However many items a group may have: the items go over the work by turns."""
    shapes = {"A": (64, 64)}
    for items in (1024, 256, 64):
        target = OpenCLTarget(replace(GENERIC_GPU, max_work_group=items))
        low = compiler.lower_program(stages.build(families.BLOCKS, shapes, {"A": "f32"}), target)
        assert low.schedule.how.startswith("gpu strategy")


def test_a_few_iterations_stay_in_one_group() -> None:
    text = "def dots(inout f32[N] x, f32[T] w) -> (x) { for t in 0:T { s +=! x[i] * x[i]; x[i] = x[i] / s + w[t] } }"
    assert launches(lowered(text, x=(18,), w=(500,))) == []


def told(text: str, **shapes: tuple[int, ...]) -> str:
    p = stages.build(text, shapes, dict.fromkeys(shapes, "f32"))
    return "\n".join(map(str, staging.IN_LOOPS.decide(p, GENERIC_GPU).reasons))


def test_reasons() -> None:
    text = "def dots(inout f32[N] x, f32[T] w) -> (x) { for t in 0:T { s +=! x[i] * x[i]; x[i] = x[i] / s + w[t] } }"
    assert "L1: not divided: one group takes" in told(text, x=(18,), w=(500,))
    divided = told(text, x=(500_000,), w=(9,))
    assert "L1: not" not in divided
    assert "S1: " in divided or "S1_parts" in divided
    assert told(f"precise {text}", x=(500_000,), w=(9,)) == "not divided: precise: operations keep the order of the text"


def test_precise_sums_keep_their_order() -> None:
    text = "precise def f(inout f32[N] x, f32[T] w) -> (x) { for t in 0:T { s +=! x[i] * x[i]; x[i] = x[i] / s + w[t] } }"
    p = stages.build(text, {"x": (5000,), "w": (9,)}, {"x": "f32", "w": "f32"})
    assert staging.IN_LOOPS.decide(p, GENERIC_GPU).choices == ()
    assert work_groups_in_loops.map_to_work_groups(p, division.own(GENERIC_GPU), GENERIC_GPU) == p


@pytest.mark.part(8)
@pytest.mark.parametrize("name", ["power iteration", "gram-schmidt"])
def test_open_sizes(name: str, targets: tuple[str, ...]) -> None:
    p = next(x for x in families.EXTRA if x.name == name)
    shapes = {"power iteration": {"A": ("N", "N"), "x": ("N",), "w": ("T",)},
              "gram-schmidt": {"A": ("M", "N"), "R": ("N", "N")}}[name]
    program = stages.build(p.text, shapes, dict.fromkeys(shapes, "f32"))
    assert "_mine" in str(behind_all(program, OpenCLTarget().machine))
    if "opencl" not in targets:
        return
    op = polytc.compile(p.text, target="opencl", shapes=shapes, dtypes=dict.fromkeys(shapes, "f32"))
    for n in (2, 33, 70):
        rng = np.random.default_rng(n)
        given = {a: rng.random([{"N": n, "M": n + 20, "T": 3}[d] for d in s]).astype("f4") for a, s in shapes.items()}
        expected = p.reference(*(a.copy() for a in given.values()))
        found = op(**given)
        for got, e in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
            np.testing.assert_allclose(got, e, rtol=1e-3, atol=1e-3)
