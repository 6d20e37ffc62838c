"""Libraries whose sizes stay open, against ONNX Runtime at each size."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import polytc
from polytc.errors import ModelError
from polytc.graph import ahead
from polytc.targets.llvm.standalone.chain import Status
from tests.graph.library.compiled_library import CC, Library, pointers
from tests.graph.open_graphs import Feeds, array, images, parsed
from tests.graph.random_shapes import RandomGraph

Runtime = Callable[..., list[np.ndarray]]
compiles = pytest.mark.skipif(CC is None, reason="there is no C compiler")


def attention() -> onnx.ModelProto:
    return parsed("""
        g (float[batch, seq, 32] x) => (float[batch, seq, 64] y, float[batch, 64] z, int64[3] shape) {
            m = MatMul (x, w)
            a = Add (m, b)
            h = Relu (a)
            t = Transpose <perm = [0, 2, 1]> (h)
            s = MatMul (h, t)
            p = Softmax <axis = -1> (s)
            y = MatMul (p, h)
            z = ReduceMean <axes = [1], keepdims = 0> (y)
            shape = Shape (y)
        }""", {"w": array(32, 64), "b": array(64)})


def masked() -> onnx.ModelProto:
    """Values that follow from sizes: positions, rows of which there are fewer as m grows, and an output that is an input."""
    return parsed("""
        g (float[n, 4] x, float[m, 4] y) => (float[k, 4] rows, float[n] places, float[n, 4] same, float[n, m] products) {
            sx = Shape (x)
            n = Gather <axis = 0> (sx, zero)
            sy = Shape (y)
            m = Gather <axis = 0> (sy, zeros)
            p = Range (zero, n, one)
            places = Cast <to = 1> (p)
            few = Div (sixty, m)
            shape = Concat <axis = 0> (few, four)
            first = ReduceMean <axes = [0]> (x)
            wide = Expand (first, shape)
            rows = Exp (wide)
            same = Identity (x)
            t = Transpose (y)
            products = MatMul (x, t)
        }""", {"zero": np.int64(0), "one": np.int64(1), "zeros": np.array([0]), "sixty": np.array([60]),
             "four": np.array([4])})


def check(library: Library, model: onnx.ModelProto, runtime: Runtime, sizes: Mapping[str, int], feeds: Feeds) -> None:
    assert library.resize(sizes) == Status.OK, sizes
    for got, wanted in zip(library.run(feeds), runtime(model, feeds), strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), sizes
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max(initial=1), err_msg=str(sizes))


@pytest.mark.part(5)
@compiles
@pytest.mark.parametrize("threads", [1, 3])
def test_every_size_of_a_range(tmp_path: Path, runtime: Runtime, threads: int) -> None:
    model = attention()
    library = Library(model, tmp_path, threads, sizes={"batch": (1, 3), "seq": (1, 40)})
    assert library.sizes == [("batch", 1, 3), ("seq", 1, 40)]
    assert library.shapes("outputs") == [("f32", (3, 40, 64)), ("f32", (3, 64)), ("i64", (3,))]
    for batch, seq in itertools.product((3, 1, 2), (40, 1, 2, 3, 16, 17, 39)):
        check(library, model, runtime, {"batch": batch, "seq": seq}, {"x": array(batch, seq, 32)})
    library.close()


@pytest.mark.long
@compiles
def test_sizes_outside_change_nothing(tmp_path: Path, runtime: Runtime) -> None:
    model = attention()
    library = Library(model, tmp_path, sizes={"batch": 2, "seq": (4, 9)})
    assert library.resize({"batch": 1, "seq": 5}) == Status.OK
    for batch, seq in ((0, 5), (3, 5), (1, 3), (1, 10), (-1, 5), (1, 1 << 40)):
        assert library.resize({"batch": batch, "seq": seq}) == Status.BAD_SIZE
    assert library.functions.net_resize(library.model, None) == Status.BAD_SIZE
    x = array(1, 5, 32)
    np.testing.assert_allclose(library.run({"x": x})[0], runtime(model, {"x": x})[0], rtol=1e-4, atol=1e-5)
    library.close()


@pytest.mark.long
@compiles
def test_extents_without_names(tmp_path: Path, runtime: Runtime) -> None:
    model = images()
    library = Library(model, tmp_path, shapes={"x": ("n", 3, "h", "w")}, sizes={"n": 2, "h": (4, 50), "w": (4, 60)})
    for n, h, w in ((2, 50, 60), (1, 4, 4), (1, 5, 60), (2, 31, 32), (2, 7, 8), (1, 50, 4), (2, 4, 59)):
        check(library, model, runtime, {"n": n, "h": h, "w": w}, {"x": array(n, 3, h, w)})
    library.close()


@compiles
def test_values_that_follow_from_sizes(tmp_path: Path, runtime: Runtime) -> None:
    """Also sizes for which a value is larger than for the largest sizes: memory is there for these too."""
    model = masked()
    library = Library(model, tmp_path, sizes={"n": 30, "m": 30})
    for n, m in ((30, 30), (30, 1), (30, 2), (2, 30), (1, 1), (17, 5), (5, 17)):
        check(library, model, runtime, {"n": n, "m": m}, {"x": array(n, 4), "y": array(m, 4)})
    library.close()


@pytest.mark.long
@compiles
def test_arrays_are_looked_at_with_the_sizes_now(tmp_path: Path) -> None:
    """An output may lie where that of the largest sizes would meet another array."""
    library = Library(attention(), tmp_path, sizes={"batch": 1, "seq": 40})
    assert library.resize({"batch": 1, "seq": 2}) == Status.OK
    memory = np.zeros(64 + 2 * 64 + 64, np.float32)
    x, y, z, shape = memory[:64], memory[64:192], memory[192:], np.zeros(3, np.int64)
    assert library.functions.net_run(library.model, *pointers([x, y, z, shape])) == Status.OK
    assert library.functions.net_run(library.model, *pointers([x, memory[63:191], z, shape])) == Status.BAD_ARRAY
    library.close()


@pytest.mark.long
@compiles
def test_two_threads_with_one_model(tmp_path: Path) -> None:
    """Runs and changes of sizes exclude each other: each run that says OK has the result of the sizes before or behind it."""
    library = Library(attention(), tmp_path, sizes={"batch": 1, "seq": 24})
    x, told = array(1, 24, 32), set[int]()
    wanted = {}
    for seq in (1, 24):
        assert library.resize({"batch": 1, "seq": seq}) == Status.OK
        wanted[seq] = library.run({"x": x[:, :seq]})[1]
    ended = threading.Event()

    def change() -> None:
        for k in itertools.count():
            told.add(library.resize({"batch": 1, "seq": (1, 24)[k % 2]}))
            if ended.is_set():
                break
    other = threading.Thread(target=change)
    other.start()
    for _ in range(300):
        y, z, shape = np.zeros((1, 24, 64), np.float32), np.zeros((1, 64), np.float32), np.zeros(3, np.int64)
        status = library.functions.net_run(library.model, *pointers([x, y, z, shape]))
        assert status in (Status.OK, Status.BUSY)
        if status == Status.OK:
            np.testing.assert_array_equal(z, wanted[int(shape[1])])
    ended.set()
    other.join()
    assert told <= {Status.OK, Status.BUSY}
    library.close()


@compiles
@pytest.mark.part(24)
@pytest.mark.parametrize("seed", range(48))
def test_random_models_that_compute_with_shapes(seed: int, tmp_path: Path) -> None:
    """What ONNX Runtime refuses may be refused."""
    graph = RandomGraph(seed, (5, 8, 11)[seed % 3])
    made = graph.model()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = {d.dim_param for i in made.graph.input for d in i.type.tensor_type.shape.dim if d.dim_param}
    try:
        library = Library(made, tmp_path, sizes=dict.fromkeys(names, 9))
    except ModelError:
        return
    for point in [graph.point() for _ in range(12)]:
        feeds = graph.feeds(point)
        own = {n: v for n, v in point.items() if n in names}
        status = library.resize(own)
        try:
            wanted = session.run(None, feeds)
        except Exception:  # sizes that a node refuses
            continue
        assert status == Status.OK or not all(1 <= v <= 9 for v in own.values()), own
        for mine, other in zip(library.run(feeds) if status == Status.OK else (), wanted, strict=status == Status.OK):
            assert (mine.dtype, mine.shape) == (other.dtype, other.shape), point
            np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-5 * np.abs(other).max(initial=1), err_msg=str(point))
    library.close()


@compiles
def test_prefix_sums(tmp_path: Path, runtime: Runtime) -> None:
    model = parsed("g (float[1, 4, n] x) => (float[1, 4, n] y) { y = CumSum (x, axis) }", {"axis": np.int64(2)})
    library = Library(model, tmp_path, sizes={"n": 99})
    for n in (99, 1, 2, 3, 17, 64, 98):
        check(library, model, runtime, {"n": n}, {"x": array(1, 4, n)})
    library.close()


@pytest.mark.parametrize(("node", "why"), [("ConvTranspose <strides = [2]> (x, w)", "the size n is needed as a number")])
def test_a_model_of_which_each_size_makes_other_programs(tmp_path: Path, node: str, why: str) -> None:
    made = parsed(f"g (float[1, 4, n] x) => (float[1, k, m] y) {{ y = {node} }}", {"w": array(4, 3, 4)})
    with pytest.raises(ModelError, match="more than 32 parts") as caught:
        ahead.export(polytc.load_onnx(made), tmp_path, sizes={"n": 99})
    assert why in str(caught.value)
    assert ahead.export(polytc.load_onnx(made), tmp_path, sizes={"n": (7, 9)}).code.exists()


@pytest.mark.parametrize(("options", "part"), [
    ({"sizes": {"batch": 2}}, "no fixed type and shape"),
    ({"sizes": {"batch": 2, "seq": 3, "k": 4}}, "no input has a size 'k'"),
    ({"sizes": {"batch": 0, "seq": 3}}, "from 1 to 0"), ({"sizes": {"batch": (3, 2), "seq": 3}}, "from 3 to 2"),
    ({"sizes": {"batch": 2, "seq": 1 << 31}}, "from 1 to"),
    ({"sizes": {"batch": (1 << 31) - 1, "seq": (1 << 31) - 1}}, "would be f32")])
def test_refusals(tmp_path: Path, options: dict[str, Any], part: str) -> None:
    with pytest.raises(ModelError, match=part) as caught:
        ahead.export(polytc.load_onnx(attention()), tmp_path, **options)
    assert caught.value.code in ("E612", "E621")
