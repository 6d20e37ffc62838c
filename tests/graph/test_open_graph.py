"""Sizes that change from call to call: a graph is walked once for all of them, and a new size is bound and nothing else."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import polytc
from polytc import compiler
from polytc.errors import ArgumentError, CompileError
from polytc.graph import open_graph, parts
from polytc.graph.model import Model
from polytc.graph.running import open_plans
from tests.graph.open_graphs import MODELS, array, decoder, parsed, step

Runtime = Callable[[onnx.ModelProto, dict[str, np.ndarray]], list[np.ndarray]]


class Counts:
    """How often a graph was walked with traced sizes and for given ones, code was bound to memory, and programs compiled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.traced = self.specialised = self.bound = self.compiled = 0

        def counted(name: str, module: Any, function: str) -> None:
            original = getattr(module, function)

            def call(*args: Any, **named: Any) -> Any:
                setattr(self, name, getattr(self, name) + 1)
                return original(*args, **named)
            monkeypatch.setattr(module, function, call)
        counted("traced", open_graph, "specialise")
        counted("specialised", parts, "specialise")
        counted("bound", open_plans.OpenPlan, "instance")
        counted("compiled", compiler, "start_program")

    def clear(self) -> None:
        self.traced = self.specialised = self.bound = self.compiled = 0


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    return Counts(monkeypatch)


def agree(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for mine, other in zip(got, wanted, strict=True):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)


def opened(model: onnx.ModelProto, **options: Any) -> Model:
    return polytc.load_onnx(model).compile(threads=1, symbolic=True, **options)


@pytest.mark.part(6)
@pytest.mark.parametrize("name", MODELS)
def test_new_sizes_are_bound_and_nothing_else(name: str, counts: Counts, runtime: Runtime) -> None:
    case = MODELS[name]
    made = case.make()
    model = opened(made)
    for k, size in enumerate(case.sizes):
        feeds = case.feeds(size)
        agree(model.run(None, feeds), runtime(made, feeds))
        if k == 0:
            assert counts.compiled > 0
            counts.compiled = 0
    assert counts.specialised == 0
    assert counts.compiled == 0
    assert counts.traced <= case.traces + (name == "decoder")  # the first walk finds that a value decides shapes
    assert counts.bound == len(set(case.sizes))
    counts.clear()
    for size in case.sizes[-3:]:
        feeds = case.feeds(size)
        agree(model.run(None, feeds), runtime(made, feeds))
    assert (counts.traced, counts.specialised, counts.bound, counts.compiled) == (0, 0, 0, 0)


def test_images_of_an_open_batch_have_channels_last(runtime: Runtime) -> None:
    """As those of a given one do: along 7 columns of an image vectors would be half empty."""
    made = parsed("g (float[B, 16, 7, 7] x) => (float[B, 32, 7, 7] y) { h = Conv (x, v)  r = Relu (h)  y = Conv (r, w) }",
                  {"v": array(64, 16, 1, 1), "w": array(32, 64, 1, 1)})
    model = opened(made)
    for batch in (2, 5, 3):
        agree(model.run(None, {"x": (x := array(batch, 16, 7, 7))}), runtime(made, {"x": x}))
    assert [k.result for k in model.profile({"x": x}, runs=1).kernels] == ["f32[3, 7, 7, 64]", "f32[3, 32, 7, 7]"]


@pytest.mark.part(6)
@pytest.mark.parametrize("name", MODELS)
def test_sizes_of_0_and_1_are_right(name: str, runtime: Runtime) -> None:
    case = MODELS[name]
    made = case.make()
    model = opened(made)
    for size in (*case.alone, case.sizes[0], *case.alone, 2 if name != "recogniser" else 6, 3 if name != "recogniser" else 7):
        feeds = case.feeds(size)
        agree(model.run(None, feeds), runtime(made, feeds))


def test_a_decoder_of_growing_cache_goes_on_by_its_own_results(counts: Counts, runtime: Runtime) -> None:
    made = decoder()
    model = opened(made)
    feeds = step(4)
    for past in range(4, 24):
        got = model.run(None, feeds)
        agree(got, runtime(made, feeds))
        if past == 5:
            counts.clear()
        feeds = {**step(past + 1), "pk": got[1], "pv": got[2]}
    assert (counts.specialised, counts.compiled) == (0, 0)
    assert counts.traced <= 1
    assert "then" not in model.report()  # one part


def test_a_value_that_changes_no_extent_binds_nothing(counts: Counts, runtime: Runtime) -> None:
    """A cache of fixed extent, of which more and more is filled."""
    made = decoder("16")
    model = opened(made)
    for total in range(3, 16):
        feeds = step(16) | {"lengths": np.array([total - 1], np.int32), "total": np.array([total], np.int32)}
        agree(model.run(None, feeds), runtime(made, feeds))
    assert counts.bound == 1
    assert counts.specialised == 0


def test_the_elements_of_a_shape_are_sizes(counts: Counts, runtime: Runtime) -> None:
    made = parsed("""g (float[N, 6] x, int64[2] shape) => (float[A, B] y) {
        r = Reshape (x, shape)
        y = Relu (r)
    }""", {})
    model = opened(made)
    for n, shape in ((8, (4, 12)), (10, (5, 12)), (10, (3, 20)), (6, (2, 18))):
        feeds = {"x": array(n, 6), "shape": np.array(shape)}
        agree(model.run(None, feeds), runtime(made, feeds))
    assert counts.specialised == 0
    before = counts.compiled
    feeds = {"x": array(7, 6), "shape": np.array((-1, 14))}
    agree(model.run(None, feeds), runtime(made, feeds))
    feeds = {"x": array(7, 6), "shape": np.array((0, 6))}
    agree(model.run(None, feeds), runtime(made, feeds))
    assert counts.compiled == before


@pytest.mark.parametrize("symbolic", [True, False])
def test_an_input_that_decides_shapes_is_read_as_data_too(symbolic: bool) -> None:
    made = parsed("""g (float[N] x, int64[2] shape) => (float[A, B] y, float[2] z, bool[2] same) {
        y = Reshape (x, shape)
        z = Gather (x, shape)
        same = Equal (shape, shape)
    }""", {})
    model = polytc.load_onnx(made).compile(threads=1, symbolic=symbolic)
    for shape in ((3, 5), (4, 5), (5, 3), (3, 5)):
        x = array(math.prod(shape))
        y, z, same = model.run(None, {"x": x, "shape": np.array(shape)})
        np.testing.assert_array_equal(y, x.reshape(shape))
        np.testing.assert_array_equal(z, x[list(shape)])
        assert same.all()


@pytest.mark.parametrize("shapes", [((4, 12), (4, 12, 1), (4, 6, 2), (48,)), ((4, 12, 1), (4, 12), (2, 2, 2, 6))])
def test_shapes_of_other_ranks_have_plans_of_their_own(shapes: tuple[tuple[int, ...], ...], runtime: Runtime) -> None:
    made = parsed("g (float[N, 6] x, int64[K] shape) => (float y) { y = Reshape (x, shape) }", {})
    made.graph.output[0].type.tensor_type.ClearField("shape")
    model = opened(made)
    for shape in (*shapes, *shapes):
        feeds = {"x": array(8, 6), "shape": np.array(shape)}
        agree(model.run(None, feeds), runtime(made, feeds))


def test_a_reduction_of_no_axes_may_do_nothing(runtime: Runtime) -> None:
    made = parsed("""g (float[A, B] x) => (int64[2] y) {
        shape = Shape (x)
        y = ReduceSum <noop_with_empty_axes = 1> (shape)
    }""", {})
    model = opened(made)
    for shape in ((2, 3), (5, 7)):
        feeds = {"x": array(*shape)}
        agree(model.run(None, feeds), runtime(made, feeds))


@pytest.mark.long
def test_sizes_that_are_refused_are_refused_after_others_were_not(runtime: Runtime) -> None:
    case = MODELS["encoder"]
    model = opened(case.make())
    model.run(None, case.feeds(20))
    with pytest.raises(CompileError, match="E609"):
        model.run(None, case.feeds(65))  # there are 64 positions
    model.run(None, case.feeds(64))
    with pytest.raises(CompileError, match="E609"):
        model.run(None, case.feeds(66))


def test_memory_is_bounded_over_many_sizes(counts: Counts) -> None:
    made = parsed("g (float[N, 4] x) => (float[N, 4] y) { a = Relu (x) y = MatMul (a, w) }", {"w": array(4, 4)})
    model = opened(made, kept=5)
    w = np.asarray(onnx.numpy_helper.to_array(made.graph.initializer[0]))
    for n in range(2, 1002):
        x = array(n, 4)
        np.testing.assert_allclose(model(x), np.maximum(x, 0) @ w, rtol=1e-4, atol=1e-5)
    assert len(model._instances) == 5
    assert counts.traced <= 2
    known = model._partitioned.opened._known.items()
    assert sum(len(plans.plans) for _, plans in known) <= 2
    counts.clear()
    model(array(1001, 4))
    assert counts.bound == 0
    model(array(3, 4))
    assert counts.bound == 1


def test_subjects_of_plans_are_bounded() -> None:
    made = parsed("g (float[A, B, C, D] x) => (float[A, B, C, D] y) { y = Relu (x) }", {})
    model = opened(made)
    for number in range(16):
        x = array(*(1 if number >> k & 1 else 3 for k in range(4)))
        np.testing.assert_array_equal(model(x), np.maximum(x, 0))
    assert len(model._partitioned.opened._known) <= open_graph.SUBJECTS


@pytest.mark.parametrize("kept", [0, -1, 2.5, True, "4"])
def test_what_is_kept_is_a_positive_number(kept: object, small_cnn: onnx.ModelProto) -> None:
    with pytest.raises(ArgumentError, match="E410"):
        polytc.load_onnx(small_cnn).compile(kept=kept)


def test_models_without_open_sizes_keep_as_many(build: Any) -> None:
    made = build([onnx.helper.make_node("Relu", ["x"], ["y"])], {"x": (np.float32, ["n"])}, ["y"])
    model = polytc.load_onnx(made).compile(target="interp", kept=2)
    for n in (3, 4, 5, 3):
        x = array(n)
        np.testing.assert_array_equal(model(x), np.maximum(x, 0))
    assert len(model._instances) == 2


def test_sessions_of_several_threads_share_plans(counts: Counts, runtime: Runtime) -> None:
    case = MODELS["encoder"]
    made = case.make()
    model = opened(made)
    model.run(None, case.feeds(case.sizes[0]))
    counts.clear()
    feeds = [case.feeds(n) for n in (21, 25, 30, 18) for _ in range(3)]
    wanted = [runtime(made, f) for f in feeds]
    wrong: list[object] = []

    def work(session: Model, start: int) -> None:
        for k in range(len(feeds)):
            at = (start + k) % len(feeds)
            try:
                agree(session.run(None, feeds[at]), wanted[at])
            except Exception as error:
                wrong.append(error)
    threads = [threading.Thread(target=work, args=(model.session() if n else model, 3 * n)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert (counts.traced, counts.specialised, counts.compiled) == (0, 0, 0)


def test_a_profile_and_a_report_of_open_plans() -> None:
    case = MODELS["trees"]
    model = opened(case.make())
    for n in case.sizes[:3]:
        model.run(None, case.feeds(n))
    assert "f32[33, 4]" in model.report()
    assert "1 kernels for all sizes" in model.report()
    assert model.kernels == 1
    assert "TreeEnsemble" in str(model.profile(case.feeds(50), runs=2))


def test_indices_are_checked_without_open_plans(counts: Counts) -> None:
    case = MODELS["encoder"]
    model = opened(case.make(), checked=True)
    model.run(None, case.feeds(20))
    with pytest.raises(IndexError, match="E418"):
        model.run(None, {"ids": np.full((2, 21), 9)})
    assert counts.traced == 0


def test_a_target_of_another_kind_has_open_plans(counts: Counts, runtime: Runtime) -> None:
    case = MODELS["recogniser"]
    made = case.make()
    model = polytc.load_onnx(made).compile(target="interp", symbolic=True)
    for size in case.sizes[:3]:
        feeds = case.feeds(size)
        agree(model.run(None, feeds), runtime(made, feeds))
    assert (counts.traced, counts.specialised) == (1, 0)
