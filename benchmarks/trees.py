"""Tree ensembles of ai.onnx.ml beside ONNX Runtime, in turns, at 1, 100 and 10,000 rows.

    python benchmarks/trees.py [--only REGEX] [--threads 1] [--seconds 0.5] [--rows 1,100,10000]

Trees are grown at random: each node divides what reaches it, so that paths are as hard to predict as those of trained trees.
Each call has other rows than the one before. Each line: the median times, ours over theirs, and the largest difference.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

import polytc

FEATURES = 20


@dataclass(frozen=True)
class Forest:
    """depth: of the deepest leaf; leaves: of each tree at most; classes: 0 for regression."""

    name: str
    trees: int
    depth: int
    leaves: int
    classes: int
    one_class_a_tree: bool = False


FORESTS = (
    Forest("boosted, 100 trees of depth 3", 100, 3, 8, 0),
    Forest("boosted, 100 trees of depth 6", 100, 6, 64, 0),
    Forest("boosted, 300 trees of 31 leaves, 3 classes", 300, 10, 31, 3, one_class_a_tree=True),
    Forest("forest, 100 trees of depth 8, regression", 100, 8, 256, 0),
    Forest("forest, 100 trees of depth 8, 3 classes", 100, 8, 256, 3),
    Forest("forest, 100 deep trees, 2 classes", 100, 24, 1000, 1),
)


def model(forest: Forest, seed: int = 0) -> onnx.ModelProto:
    """A TreeEnsembleRegressor or TreeEnsembleClassifier over f32 rows of 20 features."""
    r = np.random.default_rng(seed)
    side = "class" if forest.classes else "target"
    lists: dict[str, list[Any]] = {n: [] for n in (
        "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes", "nodes_truenodeids",
        "nodes_falsenodeids", f"{side}_treeids", f"{side}_nodeids", f"{side}_ids", f"{side}_weights")}
    for tree in range(forest.trees):
        _grow(forest, tree, r, lists, side)
    if forest.classes:
        lists["classlabels_int64s"] = list(range(max(forest.classes, 2)))
    else:
        lists["n_targets"] = 1  # type: ignore[assignment]
    op = "TreeEnsembleClassifier" if forest.classes else "TreeEnsembleRegressor"
    outputs = ["label", "scores"] if forest.classes else ["y"]
    node = helper.make_node(op, ["x"], outputs, domain="ai.onnx.ml", **lists)
    kinds = {"label": TensorProto.INT64}
    graph = helper.make_graph([node], "trees", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", FEATURES])], [
        helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), None) for n in outputs])
    opsets = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 18)]
    return helper.make_model(graph, ir_version=9, opset_imports=opsets)


def _grow(forest: Forest, tree: int, r: np.random.Generator, lists: dict[str, list[Any]], side: str) -> None:
    """One tree: the node that the most rows reach is divided next, at a place that a tenth to half of them are below."""
    depth, share, children = [0], [1.0], {}
    leaves = 1
    while leaves < forest.leaves:
        open_ = [k for k in range(len(depth)) if k not in children and depth[k] < forest.depth]
        if not open_:
            break
        k = max(open_, key=lambda n: share[n])
        below = r.uniform(0.1, 0.5)
        children[k] = len(depth), below
        depth += [depth[k] + 1] * 2
        share += [share[k] * below, share[k] * (1 - below)]
        leaves += 1
    quantiles = np.sort(r.standard_normal(4096))
    for k in range(len(depth)):
        first, below = children.get(k, (0, 0.5))
        row = {"treeids": tree, "nodeids": k, "featureids": int(r.integers(FEATURES)) if k in children else 0,
               "values": float(np.float32(quantiles[int(below * 4096)])), "modes": "BRANCH_LEQ" if k in children else "LEAF",
               "truenodeids": first, "falsenodeids": first + 1 if k in children else 0}
        for name, value in row.items():
            lists[f"nodes_{name}"].append(value)
        if k not in children:
            for c in [tree % forest.classes] if forest.one_class_a_tree else range(max(forest.classes, 1)):
                weight = float(np.float32(r.uniform(-1, 1)))
                for name, value in zip(("treeids", "nodeids", "ids", "weights"), (tree, k, c, weight)):
                    lists[f"{side}_{name}"].append(value)


def compare(forest: Forest, rows: int, threads: int, seconds: float) -> tuple[float, float, float]:
    """Median seconds of ours and of ONNX Runtime, and the largest difference."""
    import onnxruntime

    data = model(forest).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    theirs = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    ours = polytc.load_onnx(data).compile(threads=threads)
    r = np.random.default_rng(1)
    pool = [r.standard_normal((rows, FEATURES)).astype(np.float32) for _ in range(max(2, 20000 // rows) if rows < 10000 else 3)]
    a, b = ours.run(None, {"x": pool[0]}), theirs.run(None, {"x": pool[0]})
    error = max(float(np.abs(x.astype(np.float64).reshape(-1) - y.reshape(-1)).max()) for x, y in zip(a, b, strict=True))
    times: tuple[list[float], list[float]] = ([], [])
    end, k = time.perf_counter() + 2 * seconds, 0
    while time.perf_counter() < end or k < 5:
        for run, into in ((ours.run, times[0]), (theirs.run, times[1])):
            begin = time.perf_counter()
            run(None, {"x": pool[k % len(pool)]})
            into.append(time.perf_counter() - begin)
        k += 1
    return statistics.median(times[0]), statistics.median(times[1]), error


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rows", default="1,100,10000")
    given = parser.parse_args(arguments)
    table = Table("trees", "rows", "polytc", "ONNX Runtime", "ratio", "difference")
    for forest in FORESTS:
        if re.search(given.only, forest.name):
            for rows in map(int, given.rows.split(",")):
                ours, theirs, error = compare(forest, rows, given.threads, given.seconds)
                table.add_row(forest.name, f"{rows:,}", f"{ours * 1e6:,.1f} us", f"{theirs * 1e6:,.1f} us",
                              f"{ours / theirs:.2f}", f"{error:.1g}")
    Console(width=130).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
