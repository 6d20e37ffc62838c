"""Models whose calls run for some images after another: numbers as ONNX Runtime's, whoever gives and takes the arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import polytc
from polytc.disk import folder
from polytc.graph.model import Model
from polytc.graph.plan import Array
from polytc.graph.planning import batch_tiles
from polytc.graph.specialisation.specialise import specialise
from polytc.machine import AVX2, Estimate, Machine
from polytc.program.scalars import F32
from tests.graph.small_models import model_of

N = helper.make_node
R = np.random.default_rng(3)
IMAGES = 6


def weights(*shape: int) -> np.ndarray:
    return (R.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def network() -> onnx.ModelProto:
    """Convolutions, a sum, pooling, a layer and softmax; an inner value and a view of it are outputs, too."""
    nodes = [N("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]), N("Relu", ["c1"], ["r1"]),
             N("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]), N("Add", ["c2", "c1"], ["s"]), N("Relu", ["s"], ["r2"]),
             N("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), N("Flatten", ["p"], ["f"]),
             N("Gemm", ["f", "w3", "b3"], ["g"], transB=1), N("Add", ["g", "z"], ["h"]), N("Softmax", ["h"], ["y"]),
             N("Reshape", ["r2", "rows"], ["v"])]
    constants = {"w1": weights(8, 3, 3, 3), "b1": weights(8, 1)[:, 0], "w2": weights(8, 8, 3, 3), "w3": weights(5, 8 * 6 * 5),
                 "b3": weights(5, 1)[:, 0], "rows": np.array([-1, 10], np.int64)}
    inputs = {"x": (np.float32, (IMAGES, 3, 12, 10)), "z": (np.float32, (IMAGES, 1))}
    return model_of(nodes, inputs, ["y", "r2", "v"], constants)


def feeds() -> dict[str, np.ndarray]:
    return {"x": R.standard_normal((IMAGES, 3, 12, 10)).astype(np.float32),
            "z": R.standard_normal((IMAGES, 1)).astype(np.float32)}


def theirs(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    model = onnx.shape_inference.infer_shapes(model)
    for o in model.graph.output:
        o.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    found: list[np.ndarray] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)
    return found


@pytest.fixture(params=[1, 2, 3])
def some(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Images of a tile, whatever is estimated."""
    images: int = request.param
    monkeypatch.setattr(batch_tiles._Batch, "time",
                        lambda self, k, machine: Estimate(launches=abs(k - images)))
    monkeypatch.setattr(batch_tiles, "_sizes", lambda images, machine: [k for k in range(images, 0, -1) if images % k == 0])
    return images


def compiled(model: onnx.ModelProto, **options: object) -> Model:
    return polytc.load_onnx(model).compile(threads=2, **options)  # type: ignore[arg-type]


def assert_close(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, atol=2e-6, rtol=2e-5)


@pytest.mark.part(2)
@pytest.mark.parametrize("target", ["cpu", pytest.param("interp", marks=pytest.mark.long)])
def test_results(some: int, target: str) -> None:
    model, given = network(), feeds()
    m = compiled(model, target=target)
    expected = theirs(model, given)
    found = m.run(None, given)
    assert f"in {IMAGES // some} rounds" in m.report()
    assert_close(found, expected)
    assert_close(m.run(["v"], given), expected[2:])
    kept = [a.copy() for a in found]
    other = feeds()
    assert_close(m.run(None, other), theirs(model, other))
    assert_close(found, kept)  # earlier results stay


def test_arrays_of_any_kind(some: int) -> None:
    model, given = network(), feeds()
    m, expected = compiled(model), theirs(model, given)
    strided = np.zeros((IMAGES, 3, 12, 20), np.float32)
    strided[..., ::2] = given["x"]
    assert_close(m.run(None, {"x": strided[..., ::2], "z": given["z"]}), expected)
    raw = np.zeros(given["x"].nbytes + 1, np.uint8)
    odd = raw[1:].view(np.float32).reshape(given["x"].shape)
    odd[...] = given["x"]
    assert_close(m.run(None, {"x": odd, "z": given["z"]}), expected)


FROM_CACHE = """
import sys
import numpy as np
from polytc.disk import stamps
from polytc.graph.planning import batch_tiles
from polytc.machine import Estimate
stamps.SETTLED = -60.0
batch_tiles._Batch.time = lambda self, k, machine: Estimate(launches=k)
batch_tiles._sizes = lambda images, machine: [images, 1]
import polytc
m = polytc.load_onnx(sys.argv[1] + "/m.onnx").compile(threads=1)
x, z, *expected = (np.load(f"{sys.argv[1]}/{n}.npy") for n in range(5))
for found, array in zip(m.run(None, {"x": x, "z": z}), expected, strict=True):
    np.testing.assert_allclose(found, array, atol=2e-6, rtol=2e-5)
print("polytc.graph.parts" in sys.modules)
"""


@pytest.mark.long
@pytest.mark.skipif(not folder.SUPPORTED or not Path("/proc/cpuinfo").exists(), reason="models are kept on Linux")
def test_from_the_cache(tmp_path: Path) -> None:
    """What was kept runs in rounds, and nothing is compiled."""
    model, given = network(), feeds()
    onnx.save(model, tmp_path / "m.onnx")
    for k, array in enumerate((*given.values(), *theirs(model, given))):
        np.save(tmp_path / f"{k}.npy", array)
    around = {n: v for n, v in os.environ.items() if n not in ("POLYTC_CHECK", "POLYTC_CACHE", "POLYTC_DUMP")}
    for compiled_here in ("True", "False"):
        done = subprocess.run([sys.executable, "-c", FROM_CACHE, str(tmp_path)], capture_output=True, text=True, check=False,
                              env={**around, "POLYTC_CACHE_DIR": str(tmp_path / "cache")})
        assert done.stdout.split() == [compiled_here], done.stderr


@pytest.mark.part(2)
def test_profiles_count_all_rounds(some: int) -> None:
    given = feeds()
    rounds, whole = compiled(network()).profile(given, runs=2), compiled(network(), layouts=False).profile(given, runs=2)
    assert sum(k.operations for k in rounds.kernels) == sum(k.operations for k in whole.kernels)
    assert rounds.kernels[0].result.startswith(f"f32[{IMAGES}, ")


def test_batches_that_belong_together_stay_whole(some: int) -> None:
    nodes = [N("ReduceMean", ["x", "axes"], ["m"]), N("Sub", ["x", "m"], ["y"])]
    model = model_of(nodes, {"x": (np.float32, (IMAGES, 4))}, ["y"], {"axes": np.array([0], np.int64)}, opset=18)
    x = R.standard_normal((IMAGES, 4)).astype(np.float32)
    m = compiled(model)
    np.testing.assert_allclose(m.run(None, {"x": x})[0], x - x.mean(0, keepdims=True), atol=1e-6)
    assert "rounds" not in m.report()


def test_what_is_no_image_s_does_not_run_again_and_again() -> None:
    """A product of weights that are inputs would run in each round."""
    nodes = [N("MatMul", ["a", "a"], ["aa"]), N("ReduceMean", ["aa"], ["m"], keepdims=0), N("Relu", ["x"], ["r"]),
             N("Mul", ["r", "m"], ["s"]), N("Sigmoid", ["s"], ["y"])]
    shapes = {"x": (32, 16, 112, 112), "a": (256, 256)}
    graph = polytc.load_onnx(model_of(nodes, {n: (np.float32, shape) for n, shape in shapes.items()}, ["y"]))
    plan = specialise(graph, {n: Array(F32, shape) for n, shape in shapes.items()}).plan
    assert batch_tiles.tile(plan, AVX2) is plan


def test_tiles_are_chosen_by_what_fits_the_caches() -> None:
    def rounds(images: int, side: int, machine: Machine) -> int:
        nodes = [N("Relu", ["x"], ["a"]), N("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1]), N("Sigmoid", ["b"], ["c"]),
                 N("Conv", ["c", "w"], ["y"], pads=[1, 1, 1, 1])]
        model = model_of(nodes, {"x": (np.float32, (images, 32, side, side))}, ["y"], {"w": weights(32, 32, 3, 3)})
        graph = polytc.load_onnx(model)
        return batch_tiles.tile(specialise(graph, {"x": Array(F32, (images, 32, side, side))}).plan, machine).rounds
    assert rounds(32, 112, AVX2) > 1
    assert rounds(32, 4, AVX2) == 1
    assert rounds(1, 112, AVX2) == 1
