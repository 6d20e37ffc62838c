"""Constants that are bands along the diagonal: which arrays are, and models whose masks are such constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

import polytc
from polytc.graph.plan import Array
from polytc.graph.planning import banded_constants
from polytc.graph.planning.banded_constants import DiagonalBand
from polytc.graph.specialisation.specialise import specialise

N = helper.make_node
LEAST = float(np.finfo(np.float32).min)


def lower(rows: int, columns: int, shift: int = 0) -> np.ndarray:
    return np.tri(rows, columns, shift, dtype=bool)


def added(seen: np.ndarray, fill: float = -np.inf) -> np.ndarray:
    return np.where(seen, 0, fill).astype(np.float32)


@pytest.mark.parametrize(("array", "band"), [
    (lower(5, 5), DiagonalBand(None, 0, True, False)),
    (~lower(5, 7, 2), DiagonalBand(None, 2, False, True)),
    (added(lower(4, 9, 3))[None, None], DiagonalBand(None, 3, 0.0, -np.inf)),
    (added(lower(6, 6) & ~lower(6, 6, -3), LEAST), DiagonalBand(-2, 0, 0.0, LEAST)),
    (np.stack([added(lower(3, 3))] * 4), DiagonalBand(None, 0, 0.0, -np.inf)),
    (np.eye(3, dtype=np.float16), DiagonalBand(0, 0, 1.0, 0.0)),
])
def test_bands(array: np.ndarray, band: DiagonalBand) -> None:
    assert banded_constants.diagonal_band(array) == band


@pytest.mark.parametrize("array", [
    np.zeros((4, 4), np.float32),
    np.arange(9, dtype=np.float32).reshape(3, 3),
    added(lower(4, 4)) + np.array([[0], [0], [2], [0]], np.float32),     # three numbers
    added(lower(4, 4) ^ np.eye(4, dtype=bool)[::-1]),                    # a hole
    np.where(lower(3, 3), 0.0, -0.0) + np.where(np.eye(3), -0.0, 0.0),   # zeros of both signs
    np.stack([added(lower(3, 3)), added(lower(3, 3, 1))]),               # matrices that differ
    lower(1, 5), np.tri(4, dtype=np.int64), np.zeros((0, 4, 4), np.float32), np.float32(1)])
def test_other_arrays(array: np.ndarray) -> None:
    assert banded_constants.diagonal_band(np.asarray(array)) is None


def test_zeros_keep_their_signs() -> None:
    signs = np.where(lower(3, 3), np.float32(0), np.float32(-0.0))
    found = banded_constants.diagonal_band(signs)
    assert found is not None
    assert (np.signbit(found.inside), np.signbit(found.outside)) == (False, True)


def attention(build: Callable[..., onnx.ModelProto], mask: np.ndarray, *, select: bool = False) -> onnx.ModelProto:
    """Two heads over as many places as the mask has."""
    rows, keys = mask.shape[-2:]
    masks = [N("Where", ["mask", "s", "fill"], ["l"])] if select else [N("Add", ["s", "mask"], ["l"])]
    nodes = [N("MatMul", ["q", "k"], ["s"]), *masks, N("Softmax", ["l"], ["p"], axis=-1), N("MatMul", ["p", "v"], ["y"])]
    inputs = {"q": (np.float32, [1, 2, rows, 8]), "k": (np.float32, [1, 2, 8, keys]), "v": (np.float32, [1, 2, keys, 8])}
    return build(nodes, inputs, ["y"], {"mask": mask, "fill": np.float32(-np.inf)})


def feeds(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {v.name: random.standard_normal([d.dim_value for d in v.type.tensor_type.shape.dim]).astype(np.float32)
            for v in model.graph.input}


@pytest.mark.part(5)
@pytest.mark.parametrize(("target", "mask", "select"), [
    ("cpu", added(lower(96, 96)), False), ("cpu", added(lower(96, 96), LEAST)[None, None], False), ("cpu", lower(96, 96), True),
    ("cpu", lower(80, 112, 32) & ~lower(80, 112, -1), True), ("cpu", lower(40, 40), True),
    ("interp", added(lower(24, 24)), False), ("interp", added(lower(24, 24), LEAST)[None, None], False),
    ("interp", lower(20, 28, 8) & ~lower(20, 28, -1), True), ("interp", lower(40, 40), True)])
def test_results(build, runtime, target: str, mask: np.ndarray, select: bool) -> None:
    model = attention(build, mask, select=select)
    inputs = feeds(model)
    (found,), (expected,) = polytc.load_onnx(model).compile(target=target).run(None, inputs), runtime(model, inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def planned(model: onnx.ModelProto):
    graph = polytc.load_onnx(model)
    return specialise(graph, {v.name: Array(v.dtype, v.static_shape) for v in graph.inputs}).plan


def test_masks_are_no_arrays_any_more(build) -> None:
    plan = planned(attention(build, added(lower(64, 64))))
    assert "mask" in plan.constants
    after = banded_constants.compute_bands(plan)
    assert not set(after.constants) & {"mask"}
    assert not any("mask" in c.inputs for c in after.calls)


def test_operands_of_products_and_outputs_stay_arrays(build) -> None:
    ones = np.tri(16, dtype=np.float32)
    plan = planned(build([N("MatMul", ["x", "sums"], ["y"])], {"x": (np.float32, [4, 16])}, ["y"], {"sums": ones}))
    assert banded_constants.compute_bands(plan) == plan
    model = build([N("Add", ["x", "mask"], ["y"]), N("Identity", ["mask"], ["z"])], {"x": (np.float32, [16, 16])}, ["y", "z"],
                  {"mask": ones})
    x = np.ones((16, 16), np.float32)
    y, z = polytc.load_onnx(model).compile().run(None, {"x": x})
    np.testing.assert_array_equal(y, 1 + ones)
    np.testing.assert_array_equal(z, ones)
