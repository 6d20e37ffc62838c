"""Whole models on an OpenCL device: intermediate values and weights stay there, inputs and outputs are copied once a run."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.runtime.device_chains import DeviceWalk
from polytc.targets.opencl import executable
from polytc.targets.opencl.driver import devices
from tests.opencl_here import NEEDS_OPENCL

pytestmark = NEEDS_OPENCL
N = helper.make_node


@pytest.fixture
def graph(build) -> polytc.Graph:
    """Products with constant weights around what splits them into several kernels, and two outputs."""
    r = np.random.default_rng(3)
    constants = {"w": r.standard_normal((12, 20)).astype(np.float32), "v": r.standard_normal((20, 5)).astype(np.float32)}
    nodes = [N("MatMul", ["x", "w"], ["a"]), N("Softmax", ["a"], ["b"], axis=-1), N("MatMul", ["b", "v"], ["c"]),
             N("Add", ["c", "z"], ["d"]), N("Softmax", ["d"], ["y"], axis=0)]
    return polytc.load_onnx(build(nodes, {"x": (np.float32, [7, 12]), "z": (np.float32, [7, 5])}, ["y", "c"], constants))


@pytest.mark.parametrize("shared", [True, False])
def test_values_stay_on_the_device(graph: polytc.Graph, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shared:  # as on a device with memory of its own
        monkeypatch.setattr(executable.OpenCLExecutable, "_is_shared", lambda self, array: False)
    cl, copied = devices.pyopencl(), []
    copy = cl.enqueue_copy
    monkeypatch.setattr(cl, "enqueue_copy", lambda *a, **k: copied.append(a) or copy(*a, **k))
    model, reference = graph.compile(target="opencl"), graph.compile(target="evaluate")
    r = np.random.default_rng(4)
    for run in range(3):
        feeds = {"x": r.standard_normal((7, 12)).astype(np.float32), "z": r.standard_normal((7, 5)).astype(np.float32)}
        copied.clear()
        for found, expected in zip(model.run(None, feeds), reference.run(None, feeds), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        if run:  # the first one has the weights as well
            assert len(copied) == (0 if shared else 4)
    (ready,) = (ready for _, ready in model._partitioned.parts())
    assert [type(p) for p in ready.instance.chain._parts] == [DeviceWalk]
    assert len(ready.instance.steps) > 1


@pytest.mark.parametrize("shared", [True, False])
def test_layers_that_share_their_code_have_arguments_of_their_own(build, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shared:
        monkeypatch.setattr(executable.OpenCLExecutable, "_is_shared", lambda self, array: False)
    r = np.random.default_rng(5)
    weights = {f"w{n}": r.standard_normal((12, 12)).astype(np.float32) for n in range(3)}
    nodes = []
    for n in range(3):
        nodes += [N("MatMul", [f"x{n}", f"w{n}"], [f"a{n}"]), N("Softmax", [f"a{n}"], [f"x{n + 1}"])]
    graph = polytc.load_onnx(build(nodes, {"x0": (np.float32, [7, 12])}, ["x3"], weights))
    model = graph.compile(target="opencl", fusion=False)
    (ready,) = (ready for _, ready in model._partitioned.parts())
    (walk,) = ready.instance.chain._parts
    assert len({id(step.executable) for step in walk._steps}) < len(walk._steps)
    for _ in range(3):
        x = expected = r.standard_normal((7, 12)).astype(np.float32)
        for w in weights.values():
            e = np.exp(expected @ w - (expected @ w).max(axis=-1, keepdims=True))
            expected = e / e.sum(axis=-1, keepdims=True)
        (found,) = model.run(None, {"x0": x})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_devices_that_are_processors_get_the_layouts_of_processors(build) -> None:
    if devices.choose().kind != "cpu":
        pytest.skip("not a processor")
    r = np.random.default_rng(6)
    weights = {f"w{n}": r.standard_normal((32, 32, 1, 1)).astype(np.float32) for n in range(3)}
    nodes = [N("Conv", [f"x{n}", f"w{n}"], [f"x{n + 1}"]) for n in range(3)]
    graph = polytc.load_onnx(build(nodes, {"x0": (np.float32, [1, 32, 5, 5])}, ["x3"], weights))
    for target in ("cpu", "opencl"):
        (ready,) = (ready for _, ready in graph.compile(target=target)._partitioned.parts())
        assert ready.plan.types["x1"].shape == (1, 5, 5, 32), target


def test_one_output_of_two_and_changed_inputs_in_the_same_array(graph: polytc.Graph) -> None:
    model, reference = graph.compile(target="opencl"), graph.compile(target="evaluate")
    feeds = {"x": np.ones((7, 12), np.float32), "z": np.zeros((7, 5), np.float32)}
    kept = model.run(["c"], feeds)[0].copy()
    feeds["x"][3] = 2
    (found,), (expected,) = model.run(["c"], feeds), reference.run(["c"], feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert not np.allclose(kept, found)


def test_each_kernel_is_timed(graph: polytc.Graph) -> None:
    feeds = {"x": np.ones((7, 12), np.float32), "z": np.zeros((7, 5), np.float32)}
    model = graph.compile(target="opencl")
    profile = model.profile(feeds, runs=2)
    (ready,) = (ready for _, ready in model._partitioned.parts())
    assert str(profile).count("\n") >= len(ready.instance.steps)
