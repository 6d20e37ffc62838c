"""Errors of whole models computed with fast algebra (products in parts, Winograd) and without, against the model in f64.

    python benchmarks/algebra_errors.py FOLDER [--only bert,vit]     FOLDER/NAME/model.onnx, as for benchmarks/zoo.py

The f64 model is the file with every f32 made an f64, weights exactly. The errors are of all outputs of floats: the largest, and
the root of the mean square, relative to the largest magnitude of that output. Outputs whose two results are the same bits are
not in the table.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, numpy_helper

import polytc
from zoo_case import Feeds, feeds_of

WIDER = {TensorProto.FLOAT: TensorProto.DOUBLE}
TINY = 1e-30
OF_TYPES = ("to", "dtype", "output_dtype", "stash_type")
"""Attributes that name an element type."""


@dataclass(frozen=True)
class Errors:
    """Of one output: largest and root mean square, over its largest magnitude."""

    largest: float
    mean: float


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with f64 in place of f32, in place."""
    _widen_graph(model.graph)
    for function in model.functions:
        _widen_nodes(function.node)
        _keep_factors(function)
    return model


def _widen_graph(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in WIDER:
            value.type.tensor_type.elem_type = WIDER[value.type.tensor_type.elem_type]
    del graph.value_info[:]
    _widen_nodes(graph.node)
    _keep_factors(graph)


def _keep_factors(graph: GraphProto | FunctionProto) -> None:
    """Casts to f32 before the factors of Resize, which are so by its schema."""
    nodes = list[NodeProto]()
    for node in graph.node:
        if node.op_type == "Resize":
            for k in (1, 2):
                if k < len(node.input) and node.input[k]:
                    cast = onnx.helper.make_node("Cast", [node.input[k]], [f"{node.output[0]}/{k}/f32"], to=TensorProto.FLOAT)
                    node.input[k] = cast.output[0]
                    nodes.append(cast)
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _widen_nodes(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        for a in node.attribute:
            if a.type == AttributeProto.TENSOR:
                _widen_tensor(a.t)
            elif a.type == AttributeProto.GRAPH:
                _widen_graph(a.g)
            elif a.name in OF_TYPES and a.i in WIDER:
                a.i = WIDER[a.i]
        if node.op_type == "ConstantOfShape" and not node.attribute:
            node.attribute.append(onnx.helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
        elif node.op_type == "Constant":
            for a in node.attribute:
                if a.name in ("value_float", "value_floats"):
                    numbers = np.array(a.f if a.name == "value_float" else a.floats, np.float64)
                    a.CopyFrom(onnx.helper.make_attribute("value", numpy_helper.from_array(numbers)))


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in WIDER:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def outputs_of(path: Path, feeds: Feeds, algebra: str) -> dict[str, np.ndarray]:
    """What the model computes. algebra: `fast` or `direct`."""
    graph = polytc.load_onnx(path)
    results = graph.compile(algebra=algebra, threads=1).run(None, feeds)
    return {v.name: np.asarray(a) for v, a in zip(graph.outputs, results, strict=True)}


def exact(path: Path, feeds: Feeds) -> dict[str, np.ndarray]:
    """What it computes in f64."""
    model = widened(onnx.load(path))
    with tempfile.TemporaryDirectory() as folder:
        wide = Path(folder) / "model.onnx"
        onnx.save(model, wide, save_as_external_data=True, location="weights")
        feeds = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in feeds.items()}
        return outputs_of(wide, feeds, "direct")


def errors(mine: np.ndarray, wide: np.ndarray) -> Errors:
    mine, wide = (a[np.isfinite(mine) & np.isfinite(wide)] for a in (mine, wide))
    scale = float(np.abs(wide).max(initial=0.0)) or 1.0
    apart = np.abs(mine.astype(np.float64) - wide) / scale
    return Errors(float(apart.max(initial=0.0)), float(np.sqrt((apart ** 2).mean())) if apart.size else 0.0)


def rows(folder: Path) -> Iterator[tuple[str, Errors, Errors]]:
    """(output, errors of the direct way, errors of fast algebra) of a model whose results differ."""
    path = folder / "model.onnx"
    feeds = feeds_of(folder, polytc.load_onnx(path))
    direct, fast = (outputs_of(path, feeds, algebra) for algebra in ("direct", "fast"))
    names = [n for n, a in direct.items() if a.dtype == np.float32 and not np.array_equal(a, fast[n], equal_nan=True)]
    if not names:
        return
    wide = exact(path, feeds)
    for name in names:
        yield name, errors(direct[name], wide[name]), errors(fast[name], wide[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    given = parser.parse_args()
    parts = given.only.split(",")
    print(f"{'model':24} {'output':24} {'direct':>9} {'fast':>9} {'ratio':>6}   of root mean squares")
    ratios = []
    for path in sorted(given.folder.glob("*/model.onnx")):
        if not any(p in path.parent.name for p in parts):
            continue
        try:
            for name, direct, fast in rows(path.parent):
                ratios.append((fast.largest / max(direct.largest, TINY), fast.mean / max(direct.mean, TINY)))
                print(f"{path.parent.name:24} {name[:24]:24} {direct.largest:9.2e} {fast.largest:9.2e} "
                      f"{ratios[-1][0]:6.2f}   {ratios[-1][1]:.2f}", flush=True)
        except (polytc.PolytcError, ValueError, TypeError) as error:  # f64 is not allowed everywhere
            print(f"{path.parent.name:24} {str(error).splitlines()[0][:100]}", flush=True)
    for told, column in zip(("largest error", "root mean square"), zip(*ratios, strict=True)):
        of = np.array(column)
        print(f"{len(of)} outputs, {told} over that of the direct way: {np.median(of):.2f} (median), at most {of.max():.2f}, "
              f"{(of <= 1).mean():.0%} not above 1")


if __name__ == "__main__":
    main()
