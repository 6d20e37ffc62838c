"""Strings of a graph are numbers within it, and maps are made behind it: beside ONNX Runtime, in models and sessions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import polytc
from tests.graph.operators.estimator_models import STRING, check, model_of_nodes, node_model, random_trees, rows

ML = {"domain": "ai.onnx.ml"}
N = helper.make_node
WORDS = np.array([["red", "blue"], ["green", "never seen"], ["blue", "red"]], object)
I64, F32 = TensorProto.INT64, TensorProto.FLOAT


def compare(model: onnx.ModelProto, *feeds: dict[str, np.ndarray]) -> polytc.InferenceSession:
    """Equal to ONNX Runtime, with nothing left to onnx's evaluator."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    data = model.SerializeToString()
    theirs = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    ours = polytc.InferenceSession(data)
    polytc.load_onnx(data, strict=True)
    assert [(a.name, a.type) for a in ours.get_inputs()] == [(a.name, a.type) for a in theirs.get_inputs()]
    assert [(a.name, a.type) for a in ours.get_outputs()] == [(a.name, a.type) for a in theirs.get_outputs()]
    for each in feeds:
        check(ours.run(None, each), theirs.run(None, each))
    assert not ours._model.fallbacks()
    return ours


def classifier(labels: list[Any], **attributes: Any) -> list[onnx.NodeProto]:
    names = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
    trees = random_trees("class", 5, 4, len(labels), 3)
    return [N("TreeEnsembleClassifier", ["x"], ["l", "s"], **ML, **{names: labels}, **trees, **attributes)]


@pytest.mark.part(3)
@pytest.mark.parametrize("labels", [["a", "b", "c"], [4, 8, 2], ["yes", "no"]], ids=str)
def test_labels_and_maps(labels: list[Any]) -> None:
    """What scikit-learn's classifiers become: labels, and a dict of probabilities for each row."""
    strings = isinstance(labels[0], str)
    nodes = [*classifier(labels, post_transform="SOFTMAX"), N("Identity", ["l"], ["label"]),
             N("ZipMap", ["s"], ["map"], **ML, **{"classlabels_strings" if strings else "classlabels_int64s": labels})]
    key = STRING if strings else I64
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(key, helper.make_tensor_type_proto(F32, [])))
    model = model_of_nodes(nodes, {"x": rows(1)}, {"label": key, "map": kind})
    session = compare(model, {"x": rows(1)}, {"x": rows(40, 1)}, {"x": rows(3, 2)})
    found = session.run(["map"], {"x": rows(2)})[0]
    assert isinstance(found, list)
    assert list(found[0]) == sorted(labels)
    assert all(type(v) is float for v in found[0].values())
    again = pickle.loads(pickle.dumps(session))
    assert again.run(["map"], {"x": rows(2)}) == [found]


def test_encoders() -> None:
    nodes = [N("LabelEncoder", ["w"], ["a"], keys_strings=["blue", "red"], values_int64s=[5, 7], default_int64=-3, **ML),
             N("OneHotEncoder", ["w"], ["b"], cats_strings=["red", "green"], zeros=1, **ML),
             N("LabelEncoder", ["w"], ["c"], keys_strings=["blue"], values_strings=["azure"], default_string="other", **ML),
             N("CategoryMapper", ["w"], ["d"], cats_strings=["red", "green"], cats_int64s=[3, 1], default_int64=9, **ML),
             N("CategoryMapper", ["d"], ["e"], cats_strings=["red", "lime"], cats_int64s=[3, 1], default_string="?", **ML)]
    model = model_of_nodes(nodes, {"w": WORDS}, {"a": I64, "b": F32, "c": STRING, "d": I64, "e": STRING})
    compare(model, {"w": WORDS}, {"w": WORDS[:1]}, {"w": WORDS.astype(str)})


def test_constants_of_words() -> None:
    nodes = [N("Constant", [], ["one"], value_string="red"), N("Constant", [], ["two"], value_strings=["red", "lime"]),
             N("Equal", ["w", "one"], ["e"]), N("Concat", ["w", "two"], ["all"], axis=0),
             N("LabelEncoder", ["all"], ["l"], keys_strings=["red", "lime"], values_int64s=[5, 7], default_int64=-3, **ML)]
    words = WORDS.reshape(-1)
    compare(model_of_nodes(nodes, {"w": words}, {"e": TensorProto.BOOL, "l": I64}), {"w": words})


def test_strings_that_pass_through() -> None:
    """Also those that are in no table, and those of two inputs."""
    nodes = [N("Concat", ["w", "v"], ["all"], axis=1), N("Identity", ["all"], ["y"]), N("Equal", ["w", "v"], ["same"]),
             N("ArrayFeatureExtractor", ["w", "last"], ["z"], **ML), N("Where", ["same", "w", "other"], ["chosen"]),
             N("Constant", [], ["red"], value=helper.make_tensor("c", STRING, [1], [b"red"])),
             N("Equal", ["v", "red"], ["is_red"])]
    model = model_of_nodes(nodes, {"w": WORDS, "v": WORDS}, {
        "y": STRING, "same": TensorProto.BOOL, "z": STRING, "chosen": STRING, "is_red": TensorProto.BOOL})
    model.graph.initializer.extend([numpy_helper.from_array(np.array([1]), "last"),
                                    helper.make_tensor("other", STRING, [1, 1], [b"differs"])])
    compare(model, {"w": WORDS, "v": np.roll(WORDS, 1)}, {"w": WORDS[:1], "v": WORDS[1:2]})


def test_columns_of_a_table() -> None:
    """A ColumnTransformer's model: numbers are scaled, categories become columns, then a classifier with labels of strings."""
    nodes = [N("Scaler", ["n"], ["scaled"], offset=[0.5, 1, 0, 2], scale=[2.0, 1, 1, 3], **ML),
             N("OneHotEncoder", ["c"], ["hot"], cats_strings=["u", "v"], zeros=1, **ML),
             N("Reshape", ["hot", "shape"], ["flat"]), N("Concat", ["scaled", "flat"], ["x"], axis=1),
             *classifier(["a", "b", "c"]), N("Identity", ["l"], ["label"])]
    categories = np.array([["u"], ["w"], ["v"]], object)
    model = model_of_nodes(nodes, {"n": rows(3), "c": categories}, {"label": STRING, "s": F32})
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1, 2]), "shape"))
    compare(model, {"n": rows(3), "c": categories}, {"n": rows(1), "c": categories[:1]})


def test_other_uses_stay_on_onnx() -> None:
    """StringNormalizer works on letters: it runs on onnx's evaluator, and the labels behind it are as ever."""
    nodes = [N("StringNormalizer", ["w"], ["y"], case_change_action="UPPER"), *classifier(["a", "b", "c"]),
             N("Identity", ["l"], ["label"])]
    model = model_of_nodes(nodes, {"w": WORDS[0], "x": rows(2)}, {"y": STRING, "label": STRING})
    feeds = {"w": WORDS[0], "x": rows(2)}
    ours = polytc.load_onnx(model).compile()
    upper, label = ours.run(None, feeds)
    alone = model_of_nodes(nodes[1:], {"x": rows(2)}, {"label": STRING})  # ONNX Runtime asks for locales
    (wanted,) = onnxruntime.InferenceSession(alone.SerializeToString()).run(None, {"x": feeds["x"]})
    assert upper.tolist() == ["RED", "BLUE"]
    np.testing.assert_array_equal(label, wanted)
    assert [line.split()[0] for line in ours.fallbacks()] == ["StringNormalizer"]


def test_what_is_no_string_is_refused() -> None:
    model = node_model("LabelEncoder", {"w": WORDS}, {"y": I64}, 2, keys_strings=["a"], values_int64s=[1])
    with pytest.raises(polytc.ModelError, match="is no string"):
        polytc.load_onnx(model).compile().run(None, {"w": np.array([[1, "a"]], object)})


def test_maps_of_other_widths_are_refused() -> None:
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(I64, helper.make_tensor_type_proto(F32, [])))
    model = node_model("ZipMap", {"x": rows(2)}, {"y": kind}, classlabels_int64s=[1, 2])
    with pytest.raises(polytc.ModelError, match="2 labels for an array of shape"):
        polytc.load_onnx(model).compile().run(None, {"x": rows(2)})
