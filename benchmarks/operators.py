"""Single ONNX operators at the sizes that models have, beside ONNX Runtime (or OpenVINO), in turns.

    python benchmarks/operators.py [--only 'LSTM|TopK'] [--threads 1] [--seconds 0.5] [--vs onnxruntime] [--above 1.2]

Each line: the median times, ours over theirs, the largest difference of the results relative to their magnitude, and what
compiling took. Weights and shapes are constants of the model. `--above` prints only what takes more than so many times theirs.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

import polytc
from polytc.cli import peers
from polytc.cli.timing import duration, interleaved
from polytc.graph.comparison import largest_error

R = np.random.default_rng(3)


Value: TypeAlias = np.ndarray | np.generic | None


@dataclass(frozen=True)
class Case:
    """One node. weights: numbers of the inputs that the model stores."""

    name: str
    op: str
    inputs: tuple[Value, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    weights: tuple[int, ...] = ()
    outputs: int = 1
    opset: int = 21


def case(name: str, op: str, *inputs: Value, weights: tuple[int, ...] = (), outputs: int = 1, opset: int = 21,
         **attributes: Any) -> Case:
    return Case(name, op, inputs, attributes, weights, outputs, opset)


def f(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (R.standard_normal(shape) * scale).astype(np.float32)


def half(*shape: int) -> np.ndarray:
    return f(*shape).astype(np.float16)


def words(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return R.integers(limits.min, limits.max + 1, shape).astype(dtype)


def below(n: int, *shape: int) -> np.ndarray:
    return R.integers(0, n, shape).astype(np.int64)


def n(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def cell(op: str, gates: int, steps: int, hidden: int, directions: int = 1) -> Case:
    direction = "forward" if directions == 1 else "bidirectional"
    extra = {"linear_before_reset": 1} if op == "GRU" else {}
    weights = [f(directions, gates * hidden, hidden, scale=0.05) for _ in "wr"]
    return case(f"{op} T={steps} H={hidden} {direction}", op, f(steps, 1, hidden), *weights, f(directions, 2 * gates * hidden),
                weights=(1, 2, 3), outputs=2, hidden_size=hidden, direction=direction, **extra)


def quantised(*shape: int) -> tuple[Value, Value, Value]:
    return words(*shape), np.float32(0.02), np.uint8(128)


def recurrent() -> list[Case]:
    return [cell("LSTM", 4, 50, 256), cell("LSTM", 4, 50, 128, 2), cell("GRU", 3, 50, 256), cell("RNN", 1, 50, 256)]


def sampling() -> list[Case]:
    image = f(1, 64, 56, 56)
    rois = np.concatenate([R.uniform(0, 25, (100, 2)), R.uniform(28, 55, (100, 2))], 1).astype(np.float32)
    return [
        case("RoiAlign 100 of 7x7", "RoiAlign", image, rois, np.zeros(100, np.int64), output_height=7,
             output_width=7, sampling_ratio=2, spatial_scale=1.0),
        case("DeformConv 3x3", "DeformConv", f(1, 64, 28, 28), f(64, 64, 3, 3), f(1, 18, 28, 28), f(64), f(1, 9, 28, 28),
             weights=(1, 3), pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        case("GridSample linear", "GridSample", image, R.uniform(-1, 1, (1, 56, 56, 2)).astype(np.float32), mode="linear"),
        case("GridSample cubic", "GridSample", image, R.uniform(-1, 1, (1, 56, 56, 2)).astype(np.float32), mode="cubic"),
        case("Resize linear x2", "Resize", image, None, np.array([1, 1, 2, 2], np.float32), weights=(1, 2), mode="linear"),
        case("Resize nearest x2", "Resize", image, None, np.array([1, 1, 2, 2], np.float32), weights=(1, 2), mode="nearest",
             coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        case("Resize cubic x2", "Resize", f(1, 16, 56, 56), None, np.array([1, 1, 2, 2], np.float32), weights=(1, 2),
             mode="cubic"),
        case("MaxUnpool", "MaxUnpool", f(1, 64, 28, 28), (4 * np.arange(64 * 784)).reshape(1, 64, 28, 28), kernel_shape=[2, 2],
             strides=[2, 2])]


def moving() -> list[Case]:
    table, places = f(1000, 64), below(1000, 2000, 1)
    return [
        case("Gather rows", "Gather", f(30000, 256), below(30000, 512), weights=(0,)),
        case("GatherElements", "GatherElements", f(512, 1024), below(512, 512, 1024), axis=0),
        case("GatherND", "GatherND", table, below(64, 2000, 2)),
        case("ScatterND rows", "ScatterND", f(1000, 256), R.permutation(1000)[:500, None], f(500, 256)),
        case("ScatterND add", "ScatterND", table, places, f(2000, 64), reduction="add"),
        case("ScatterElements", "ScatterElements", f(512, 1024), np.argsort(f(512, 1024), 0)[:256], f(256, 1024), axis=0),
        case("Transpose NHWC", "Transpose", f(1, 128, 56, 56), perm=[0, 2, 3, 1]),
        case("Concat channels", "Concat", f(1, 64, 56, 56), f(1, 64, 56, 56), axis=1),
        case("Pad reflect", "Pad", f(1, 64, 56, 56), n(0, 0, 3, 3, 0, 0, 3, 3), weights=(1,), mode="reflect"),
        case("Slice strided", "Slice", f(1, 64, 112, 112), n(0, 0), n(112, 112), n(2, 3), n(2, 2), weights=(1, 2, 3, 4)),
        case("DepthToSpace", "DepthToSpace", f(1, 256, 28, 28), blocksize=2),
        case("OneHot", "OneHot", below(1000, 256), n(1000), np.array([0, 1], np.float32), weights=(1, 2)),
        case("Expand", "Expand", f(1, 512, 1), n(64, 512, 128), weights=(1,)),
        case("Where", "Where", R.random((256, 1024)) < 0.5, f(256, 1024), f(1, 1024))]


def choosing() -> list[Case]:
    return [
        case("TopK 50 of 8400", "TopK", f(4, 8400), n(50), weights=(1,), outputs=2),
        case("TopK 5 of 1000", "TopK", f(32, 1000), n(5), weights=(1,), outputs=2),
        case("ArgMax rows", "ArgMax", f(256, 1000), axis=1), case("ArgMax channels", "ArgMax", f(1, 21, 128, 128), axis=1),
        case("CumSum rows", "CumSum", f(256, 1024), n(1), weights=(1,)),
        case("CumSum columns", "CumSum", f(256, 1024), n(0), weights=(1,)),
        case("ReduceMax rows", "ReduceMax", f(256, 4096), n(1), weights=(1,)),
        case("ReduceSum columns", "ReduceSum", f(1024, 1024), n(0), weights=(1,)),
        case("ReduceMean space", "ReduceMean", f(1, 512, 28, 28), n(2, 3), weights=(1,)),
        case("NonZero", "NonZero", (R.random((256, 1024)) < 0.1).astype(np.float32))]


def normalising() -> list[Case]:
    image = f(1, 64, 56, 56)
    return [
        case("InstanceNorm", "InstanceNormalization", image, f(64), f(64), weights=(1, 2)),
        case("GroupNorm", "GroupNormalization", image, f(64), f(64), weights=(1, 2), num_groups=8),
        case("LayerNorm", "LayerNormalization", f(128, 768), f(768), f(768), weights=(1, 2)),
        case("LRN", "LRN", image, size=5), case("Softmax 1000", "Softmax", f(128, 1000)),
        case("LogSoftmax channels", "LogSoftmax", f(1, 21, 128, 128), axis=1),
        case("LpNormalization", "LpNormalization", f(256, 512)),
        case("MaxPool 3x3 s2", "MaxPool", f(1, 64, 112, 112), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        case("MaxPool with indices", "MaxPool", f(1, 64, 56, 56), kernel_shape=[2, 2], strides=[2, 2], outputs=2),
        case("MaxPool 5x5 s1", "MaxPool", f(1, 128, 20, 20), kernel_shape=[5, 5], pads=[2, 2, 2, 2]),
        case("MaxPool 3x3 s1", "MaxPool", f(1, 64, 56, 56), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        case("AveragePool 7x7 s1", "AveragePool", f(1, 64, 56, 56), kernel_shape=[7, 7], pads=[3, 3, 3, 3]),
        case("AveragePool 3x3", "AveragePool", f(1, 64, 56, 56), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        case("GlobalAveragePool", "GlobalAveragePool", f(1, 1280, 7, 7))]


def pointwise() -> list[Case]:
    x = f(128, 3072)
    return [case(op, op, x) for op in ("Gelu", "Erf", "Tanh", "Exp", "Sigmoid", "Softplus", "Mish", "HardSwish")] + [
        case("Pow", "Pow", np.abs(x), np.float32(1.7), weights=(1,)),
        case("Add broadcast", "Add", f(1, 64, 56, 56), f(64, 1, 1)),
        case("Cast f32 f16", "Cast", x, to=TensorProto.FLOAT16), case("Cast f32 i64", "Cast", x, to=TensorProto.INT64),
        case("Add f16", "Add", half(128, 3072), half(128, 3072)), case("Softmax f16", "Softmax", half(128, 1000)),
        case("MatMul f16", "MatMul", half(128, 512), half(512, 512), weights=(1,)),
        case("Conv f16", "Conv", half(1, 64, 28, 28), half(64, 64, 3, 3), weights=(1,), pads=[1, 1, 1, 1])]


def integers() -> list[Case]:
    signed, scale, zero = words(512, 512, dtype=np.int8), np.float32(0.02), np.uint8(128)
    image = quantised(1, 64, 28, 28)
    rest = (scale, np.int8(0), np.float32(3), zero)
    known = (1, 2, 3, 4, 5, 6, 7)

    def convolution(name: str, kernel: np.ndarray, **attributes: Any) -> Case:
        return case(f"QLinearConv {name}", "QLinearConv", *image, kernel, *rest, weights=known, pads=[1, 1, 1, 1], **attributes)

    return [
        case("MatMulInteger", "MatMulInteger", words(128, 512), signed, zero, np.int8(0), weights=(1, 2, 3)),
        case("QLinearMatMul", "QLinearMatMul", *quantised(128, 512), signed, *rest, weights=known),
        convolution("3x3", words(64, 64, 3, 3, dtype=np.int8)),
        convolution("4 groups", words(64, 16, 3, 3, dtype=np.int8), group=4),
        convolution("depthwise", words(64, 1, 3, 3, dtype=np.int8), group=64),
        case("ConvInteger 3x3", "ConvInteger", image[0], words(64, 64, 3, 3, dtype=np.int8), zero, np.int8(0),
             weights=(1, 2, 3), pads=[1, 1, 1, 1]),
        case("QuantizeLinear", "QuantizeLinear", f(128, 3072), scale, zero, weights=(1, 2)),
        case("DequantizeLinear", "DequantizeLinear", words(128, 3072), scale, zero, weights=(1, 2)),
        case("DynamicQuantizeLinear", "DynamicQuantizeLinear", f(128, 768), outputs=3)]


CASES = [*recurrent(), *sampling(), *moving(), *choosing(), *normalising(), *pointwise(), *integers()]


def model_of(given: Case) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The node as a model, and its inputs."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(given.inputs)]
    arrays = {name: np.asarray(a) for name, a in zip(names, given.inputs, strict=True) if a is not None}
    stored = {f"x{i}" for i in given.weights}
    outputs = [f"y{i}" for i in range(given.outputs)]
    node = helper.make_node(given.op, names, outputs, **given.attributes)
    feeds = {k: a for k, a in arrays.items() if k not in stored}
    graph = helper.make_graph(
        [node], "operator",
        [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, a in feeds.items()],
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(a, k) for k, a in arrays.items() if k in stored])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", given.opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model), feeds


def measure(given: Case, peer: str, threads: int, seconds: float) -> tuple[float, float, float, float]:
    """Seconds of ours and of theirs, the difference, seconds to compile. Raises peers.Refused where they do not have it."""
    model, feeds = model_of(given)
    start = time.perf_counter()
    ours = polytc.load_onnx(model).compile(threads=threads)
    results = ours.run(None, feeds)
    compiling = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        theirs = peers.PEERS[peer](path, feeds, threads)
    error = max(largest_error(a, np.asarray(b)) for a, b in zip(results, theirs(), strict=True))
    times = interleaved({"ours": lambda: ours.run(None, feeds), "theirs": theirs}, seconds)
    return times["ours"].median, times["theirs"].median, error, compiling


def rows(cases: Sequence[Case], peer: str, threads: int, seconds: float, above: float) -> Table:
    table = Table("operator", "polytc", peer, "ratio", "difference", "compiled in", title=f"{threads} thread(s)")
    for given in cases:
        try:
            ours, theirs, error, compiling = measure(given, peer, threads, seconds)
        except (peers.Refused, polytc.PolytcError) as refusal:
            table.add_row(given.name, "", "", "", "", f"{type(refusal).__name__}: {str(refusal)[:80]}")
            continue
        print(f"{given.name}: {ours / theirs:.2f}", file=sys.stderr, flush=True)
        if ours / theirs >= above:
            table.add_row(given.name, duration(ours), duration(theirs), f"{ours / theirs:.2f}", f"{error:.0e}",
                          duration(compiling))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators whose line matches")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each operator, both together")
    parser.add_argument("--vs", default="onnxruntime", choices=list(peers.PEERS))
    parser.add_argument("--above", type=float, default=0.0)
    given = parser.parse_args()
    chosen = [c for c in CASES if re.search(given.only, c.name)]
    Console(width=120).print(rows(chosen, given.vs, given.threads, given.seconds, given.above))


if __name__ == "__main__":
    main()
