"""Models of one node of ai.onnx.ml, and random trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
STRING = TensorProto.STRING
Kinds: TypeAlias = Mapping[str, "int | onnx.TypeProto"]
PLACES = np.float32([-1.5, -1, -0.25, 0, 0.5, 1, 2])
"""What nodes compare with, and what is among the inputs."""


def kind_of(array: np.ndarray) -> int:
    return STRING if array.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(array.dtype)


def node_model(op: str, feeds: Mapping[str, np.ndarray], outputs: Kinds, version: int = 3,
               **attributes: Any) -> onnx.ModelProto:
    """outputs: name -> element type. The first axis of all inputs is open."""
    node = helper.make_node(op, list(feeds), list(outputs), "node", domain="ai.onnx.ml", **attributes)
    return model_of_nodes([node], feeds, outputs, version)


def model_of_nodes(nodes: Sequence[onnx.NodeProto], feeds: Mapping[str, np.ndarray], outputs: Kinds,
                   version: int = 3) -> onnx.ModelProto:
    """outputs: element types of tensors, or types."""
    inputs = [helper.make_tensor_value_info(n, kind_of(a), ["rows", *a.shape[1:]]) for n, a in feeds.items()]
    results = [helper.make_value_info(n, kind) if isinstance(kind, onnx.TypeProto)
               else helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()]
    opsets = [helper.make_opsetid("ai.onnx.ml", version), helper.make_opsetid("", 19)]
    return helper.make_model(helper.make_graph(list(nodes), "g", inputs, results), ir_version=10, opset_imports=opsets)


def random_trees(side: str, trees: int, depth: int, targets: int, seed: int, *, modes: Sequence[str] = MODES[:1],
                 missing: bool = False, features: int = 4, one_target: bool = False, places: np.ndarray = PLACES
                 ) -> dict[str, Any]:
    """Attributes of a TreeEnsembleClassifier ('class') or TreeEnsembleRegressor ('target'). one_target: a tree is about one."""
    r = np.random.default_rng(seed)
    lists: dict[str, list[Any]] = {f"nodes_{n}": [] for n in (
        "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    lists |= {f"{side}_{n}": [] for n in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree: int, left: int) -> int:
        k = sum(t == tree for t in lists["nodes_treeids"])
        inner = left > 0 and (left == depth or r.random() < 0.8)
        row = {"treeids": tree, "nodeids": k, "featureids": int(r.integers(features)), "values": float(r.choice(places)),
               "modes": str(r.choice(modes)) if inner else "LEAF", "truenodeids": 0, "falsenodeids": 0,
               "missing_value_tracks_true": int(missing and r.random() < 0.5)}
        at = len(lists["nodes_treeids"])
        for name, value in row.items():
            lists[f"nodes_{name}"].append(value)
        if inner:
            lists["nodes_truenodeids"][at], lists["nodes_falsenodeids"][at] = grow(tree, left - 1), grow(tree, left - 1)
        else:
            for target in [tree % targets] if one_target else range(targets):
                for name, value in zip(("treeids", "nodeids", "ids", "weights"),
                                       (tree, k, target, float(np.float32(r.uniform(-1, 1))))):
                    lists[f"{side}_{name}"].append(value)
        return k

    for tree in range(trees):
        grow(tree, depth)
    if not missing:
        del lists["nodes_missing_value_tracks_true"]
    return dict(lists)


def rows(count: int, seed: int = 0, *, features: int = 4, nan: bool = False) -> np.ndarray:
    """Numbers, half of which nodes compare with."""
    r = np.random.default_rng(seed)
    x = np.where(r.random((count, features)) < 0.5, r.choice(PLACES, (count, features)), r.standard_normal((count, features)))
    if nan:
        x[r.random(x.shape) < 0.2] = np.nan
    return x.astype(np.float32)


def check(ours: Sequence[Any], theirs: Sequence[Any], atol: float = 2e-6
          ) -> None:
    """Labels are equal, and scores within the rounding of f32."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, list):
            assert [list(d) for d in a] == [list(d) for d in b]
            a, b = (np.array([list(d.values()) for d in rows_]) for rows_ in (a, b))
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=atol * max(1.0, float(np.nanmax(np.abs(b), initial=0))))
        else:
            np.testing.assert_array_equal(a, b)
