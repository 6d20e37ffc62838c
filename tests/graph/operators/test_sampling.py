"""What onnx's evaluator and ONNX Runtime do differently, and random uses of sampling operators against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import polytc


@pytest.mark.part(2)
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("target", ["evaluate", "cpu"])
def test_points_of_cubic_samples_are_not_moved_to_the_border(target: str, corners: int, build, runtime) -> None:
    r = np.random.default_rng(2)
    feeds = {"x": r.standard_normal((2, 3, 5, 4)).astype(np.float32),
             "grid": r.uniform(-1.5, 1.5, (2, 3, 3, 2)).astype(np.float32)}
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="cubic", padding_mode="border", align_corners=corners)
    model = build([node], feeds, ["y"], opset=20)
    got = polytc.load_onnx(model).compile(target=target).run(None, feeds)[0]
    np.testing.assert_allclose(got, runtime(model, feeds)[0], rtol=1e-4, atol=1e-5)


def test_reflections_of_reflections(build) -> None:
    """Wider than the axis, and less at the other end."""
    x = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode="reflect")
    got = polytc.load_onnx(build([node], {"x": x}, ["y"], {"pads": np.array([7, -1, 1, 9])})).compile(target="evaluate")(x)
    np.testing.assert_array_equal(got, np.pad(x[:, 1:], ((7, 1), (0, 9)), mode="reflect"))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_in_other_types(dtype: type, mode: str, build, reference) -> None:
    feeds = {"x": np.random.default_rng(4).standard_normal((2, 2, 5, 6)).astype(dtype),
             "regions": np.array([[0, 1, 4, 3], [1, 1, 5, 4.5]], dtype), "images": np.array([1, 0])}
    node = helper.make_node("RoiAlign", list(feeds), ["y"], output_height=2, output_width=2, mode=mode)
    model = build([node], feeds, ["y"])
    got = polytc.load_onnx(model).compile(target="evaluate").run(None, feeds)[0]
    wanted = reference(model, feeds)[0]
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, **({"rtol": 2e-2, "atol": 1e-2} if dtype is np.float16 else {"rtol": 1e-5}))
