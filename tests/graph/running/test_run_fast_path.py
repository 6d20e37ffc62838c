"""Quick runs of models: the same results and refusals as the general way, results in memory of their own."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.errors import ArgumentError
from polytc.graph import parts

R = np.random.default_rng(9)


def image(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


@pytest.fixture
def general_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each run that went the general way."""
    seen: list[int] = []
    general = parts.PartitionedModel.run
    monkeypatch.setattr(parts.PartitionedModel, "run", lambda *args: seen.append(1) or general(*args))
    return seen


@pytest.fixture
def model(build):
    """y = (x + 1) v, z = (x + 1) - w, for any number of rows."""
    nodes = [helper.make_node("Add", ["x", "one"], ["s"]), helper.make_node("Mul", ["s", "v"], ["y"]),
             helper.make_node("Sub", ["s", "w"], ["z"])]
    return polytc.load_onnx(build(nodes, {"x": (np.float32, ["N", 37]), "v": (np.float32, [37]), "w": (np.float32, ["N", 37])},
                                  ["y", "z"], {"one": np.float32(1)})).compile(threads=1)


def check(model, x: np.ndarray, v: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    y, z = model.run(None, {"x": x, "v": v, "w": w})
    np.testing.assert_allclose(y, (x + 1) * v, rtol=1e-6)
    np.testing.assert_allclose(z, (x + 1) - w, rtol=1e-6, atol=1e-6)
    return [y, z]


def test_the_same_results_in_memory_of_their_own(model, general_runs) -> None:
    kept = []
    for k in range(5):
        kept.append(check(model, image(4, 37), image(37), image(4, 37)))
        assert len(general_runs) == 1, k
    copies = [a.copy() for pair in kept for a in pair]
    check(model, image(4, 37), image(37), image(4, 37))
    arrays = [a for pair in kept for a in pair]
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.flags.writeable
        assert array.ctypes.data % 64 == 0


def test_other_shapes_views_and_kinds_of_arrays_go_the_general_way(model, general_runs) -> None:
    x, v = image(4, 37), image(37)
    check(model, x, v, x)
    check(model, x, v, x)
    assert len(general_runs) == 1
    check(model, image(5, 37), v, image(5, 37))
    check(model, image(74, 4)[:37].T, v, x)
    check(model, np.asarray(x.tolist(), np.float32)[::-1], v[::-1], x)
    assert len(general_runs) == 4
    y, = model.run(["y"], {"x": x, "v": v, "w": x})
    np.testing.assert_allclose(y, (x + 1) * v, rtol=1e-6)
    check(model, x, v, x)


@pytest.mark.parametrize(("feeds", "code"), [
    ({"x": image(4, 37), "v": image(37)}, "E610"), ({"x": image(4, 37), "v": image(37), "u": image(4, 37)}, "E610"),
    ({"x": image(4, 37), "v": image(37).astype(np.float64), "w": image(4, 37)}, "E610"),
    ({"x": image(4, 37), "v": image(37), "w": image(5, 37)}, "E611"),
    ({"x": image(4, 36), "v": image(37), "w": image(4, 36)}, "E611")])
def test_the_same_refusals(model, feeds, code) -> None:
    check(model, image(4, 37), image(37), image(4, 37))
    with pytest.raises(ArgumentError) as caught:
        model.run(None, feeds)
    assert caught.value.code == code


def test_values_that_are_compiled_in(build) -> None:
    graph = polytc.load_onnx(build([helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Exp", ["r"], ["y"])],
                                   {"x": (np.float32, [6]), "s": (np.int64, [2])}, ["y"]))
    compiled, x = graph.compile(threads=1), image(6)
    for shape in ((2, 3), (2, 3), (3, 2), (3, 2), (2, 3)):
        np.testing.assert_allclose(compiled(x, np.array(shape)), np.exp(x.reshape(shape)), rtol=1e-6)


def test_outputs_that_share_memory(build, general_runs) -> None:
    nodes = [helper.make_node("Exp", ["x"], ["y"]), helper.make_node("Flatten", ["y"], ["flat"], axis=0)]
    compiled = polytc.load_onnx(build(nodes, {"x": (np.float32, [2, 3])}, ["y", "flat"])).compile(threads=1)
    for _ in range(3):
        x = image(2, 3)
        y, flat = compiled(x)
        np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
        np.testing.assert_array_equal(flat, y.reshape(1, 6))
        y[:] = 0
        assert flat.all()
    assert len(general_runs) == 1


def test_many_arrays(build, general_runs) -> None:
    names = [f"x{i}" for i in range(12)]
    nodes = [helper.make_node("Exp", [n], [f"e{n}"]) for n in names] + [helper.make_node("Sum", names, ["sum"])]
    graph = build(nodes, {n: (np.float32, [20]) for n in names}, [*(f"e{n}" for n in names), "sum"])
    compiled = polytc.load_onnx(graph).compile(threads=1)
    for _ in range(3):
        arrays = [image(20) for _ in names]
        *found, total = compiled(*arrays)
        for a, e in zip(arrays, found, strict=True):
            np.testing.assert_allclose(e, np.exp(a), rtol=1e-6)
        np.testing.assert_allclose(total, sum(arrays), rtol=1e-5, atol=1e-5)
    assert len(general_runs) == 1
