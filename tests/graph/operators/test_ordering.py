"""TopK of short rows, which is text, and of long ones, which is a native routine: ties, NaN, infinities, any axis and type."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.graph import ahead
from polytc.graph.operators.routines import selection

N = helper.make_node
R = np.random.default_rng(41)
CC = shutil.which("cc") or shutil.which("gcc")
TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]


def numbers(shape: tuple[int, ...], dtype: Any, few: bool) -> np.ndarray:
    """Many equal ones, or the whole range; of floats some that no order of bits puts right."""
    kind = np.dtype(dtype).kind
    if kind in "iu":
        ends = np.iinfo(dtype)
        return R.integers(0, 4, shape).astype(dtype) if few else R.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    x = (R.integers(-2, 2, shape) if few else R.standard_normal(shape)).astype(dtype)
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40])
    places = R.integers(0, x.size, min(9, x.size))
    x.reshape(-1)[places] = R.choice(odd, places.size).astype(dtype)
    return x


def plain(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    """Places of the k first elements of each row, by Python's stable sort."""
    def order(row: np.ndarray) -> list[int]:
        keys = [(1, 0) if v != v else (0, v.item() if row.dtype.kind in "iu" else float(v)) for v in row]
        up = sorted(range(len(row)), key=lambda j: keys[j])
        down = sorted(range(len(row)), key=lambda j: keys[j], reverse=True)
        return (down if largest else up)[:k]
    return np.apply_along_axis(lambda row: np.array(order(row)), axis, x)


CASES = [((7, 16), 1, 3), ((3, 9, 5), 1, 9), ((64,), 0, 1), ((6, 3), 0, 2), ((2, 65), 1, 65), ((4, 200, 2), 1, 5),
         ((5, 97), 1, 24), ((3, 300), 1, 75)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("largest", [0, 1])
def test_the_routine(dtype, largest) -> None:
    for shape, axis, k in CASES:
        for few in (True, False):
            x = numbers(shape, dtype, few)
            values, places = selection._top(k, axis, bool(largest), x)
            wanted = plain(x, k, axis, bool(largest))
            np.testing.assert_array_equal(places, wanted, err_msg=str((shape, k, few)))
            assert (values.dtype, places.dtype) == (x.dtype, np.int64)
            assert values.tobytes() == np.ascontiguousarray(np.take_along_axis(x, wanted, axis)).tobytes()


@pytest.mark.part(5)
@pytest.mark.parametrize(("dtype", "number", "largest"), [
    (np.float32, 0, 1), (np.float16, 1, 0), (np.int64, 3, 1), (np.float64, 3, 0), (np.uint8, 3, 1)])
def test_short_rows_are_part_of_the_one_native_call(build, targets, dtype, number, largest) -> None:
    shape, axis, k = CASES[number]
    x = numbers(shape, dtype, True)
    source = build([N("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=largest), N("Mul", ["v", "v"], ["y"])], {"x": x},
                   ["y", "i"], {"k": np.array([k])})
    wanted = plain(x, k, axis, bool(largest))
    v = np.take_along_axis(x, wanted, axis)
    for target in targets:
        model = polytc.load_onnx(source, strict=True).compile(target=target, threads=1, strict=True)
        y, i = model.run(None, {"x": x})
        np.testing.assert_array_equal(i, wanted, err_msg=target)
        np.testing.assert_array_equal(y, v * v)
        assert [depth for depth, _ in model._partitioned.parts()] == [0]


def test_one_result_alone(build) -> None:
    x = numbers((4, 10), np.float32, True)
    for names, given in ((["v", ""], "v"), (["", "i"], "i")):
        model = polytc.load_onnx(build([N("TopK", ["x", "k"], names)], {"x": x}, [given], {"k": np.array([3])})).compile()
        places = plain(x, 3, 1, True)
        np.testing.assert_array_equal(model(x), places if given == "i" else np.take_along_axis(x, places, 1))


EXPERTS, WIDTH = 8, 6


def experts(build):
    """A router's two best experts for each row, their weights by softmax, and their products."""
    r = np.random.default_rng(5)
    nodes = [N("MatMul", ["x", "router"], ["scores"]), N("TopK", ["scores", "k"], ["best", "which"]),
             N("Softmax", ["best"], ["share"]), N("Gather", ["w", "which"], ["own"]), N("Unsqueeze", ["x", "axes"], ["rows"]),
             N("MatMul", ["rows", "own"], ["each"]), N("Unsqueeze", ["share", "axis"], ["shares"]),
             N("Mul", ["each", "shares"], ["part"]), N("ReduceSum", ["part", "inner"], ["y"], keepdims=0)]
    return build(nodes,
                 {"x": (np.float32, [5, WIDTH])}, ["y"],
                 {"router": r.standard_normal((WIDTH, EXPERTS)).astype(np.float32), "k": np.array([2]),
                  "w": r.standard_normal((EXPERTS, WIDTH, WIDTH)).astype(np.float32), "axes": np.array([1, 2]),
                  "axis": np.array([2, 3]), "inner": np.array([1, 2])})


def test_a_mixture_of_experts_is_one_native_call(build, runtime, tmp_path: Path) -> None:
    source = experts(build)
    graph = polytc.load_onnx(source, strict=True)
    model = graph.compile(threads=2, strict=True)
    x = R.standard_normal((5, WIDTH)).astype(np.float32)
    expected = runtime(source, {"x": x})[0]
    np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-5)
    (_, ready), = model._partitioned.parts()
    assert ready.instance is not None
    assert ready.instance.chain.native
    if CC is None:
        pytest.skip("there is no C compiler")
    ahead.export(graph, tmp_path, name="net")
    subprocess.run([CC, "-O1", "main.c", "net.o", "-lm", "-lpthread", "-o", "net"], cwd=tmp_path, check=True)
    x.tofile(tmp_path / "x.raw")
    done = subprocess.run(["./net", "net.weights", "2", "x.raw"], cwd=tmp_path, check=True, capture_output=True, text=True)
    got = [float(v) for v in done.stdout.split()[1:]]
    np.testing.assert_allclose(got, expected.reshape(-1)[:len(got)], rtol=1e-3, atol=1e-4)
