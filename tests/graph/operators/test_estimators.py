"""Trees, linear models, support vector machines and encoders of ai.onnx.ml beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import polytc
from tests.graph.operators.estimator_models import MODES, PLACES, check, model_of_nodes, node_model, random_trees, rows

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
R = np.random.default_rng(5)


def compare(model: Any, *feeds: dict[str, np.ndarray], target: str = "cpu", atol: float = 2e-6) -> None:
    """All native, and equal to ONNX Runtime on each of the feeds."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ours = polytc.load_onnx(model, strict=True).compile(target=target, threads=1, strict=True)
    for each in feeds:
        check(ours.run(None, each), theirs.run(None, each), atol)


def x(array: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": array}


# ---- trees

@pytest.mark.part(5)
@pytest.mark.parametrize("modes", [*((m,) for m in MODES), MODES[:4]], ids=str)
@pytest.mark.parametrize("missing", [False, True])
def test_tests_of_nodes(modes: tuple[str, ...], missing: bool) -> None:
    """Inputs that are equal to what nodes compare with, and NaN, for few rows and for many."""
    equal = len(modes) == 1 and modes[0] in ("BRANCH_EQ", "BRANCH_NEQ")  # which ONNX Runtime has for integers
    places = np.arange(1, 5, dtype=np.float32) if equal else PLACES
    trees = random_trees("target", 7, 6, 1, 3, modes=modes, missing=missing, places=places)
    model = node_model("TreeEnsembleRegressor", x(rows(1)), {"y": F32}, n_targets=1, **trees)
    few, many = (np.abs(np.rint(3 * a)) if equal else a for a in (rows(3, 1, nan=True), rows(67, 2, nan=True)))
    compare(model, x(few), x(many))


@pytest.mark.part(4)
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_aggregates(aggregate: str, targets: int) -> None:
    base = [0.5, -1.0, 0.25][:targets]
    trees = random_trees("target", 9, 4, targets, 4)
    model = node_model("TreeEnsembleRegressor", x(rows(1)), {"y": F32}, n_targets=targets, aggregate_function=aggregate,
                       base_values=base, **trees)
    compare(model, x(rows(1)), x(rows(33, 2)))


@pytest.mark.part(10)
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("one_target", [False, True])
def test_transforms(transform: str, one_target: bool) -> None:
    """Trees that are about all classes, and trees about one each, of which one class has more."""
    trees = random_trees("class", 10, 5, 3, 5, one_target=one_target)
    model = node_model("TreeEnsembleClassifier", x(rows(1)), {"l": I64, "s": F32}, post_transform=transform,
                       classlabels_int64s=[7, -2, 40], **trees)
    compare(model, x(rows(1)), x(rows(35, 2)), atol=1e-4 if transform == "PROBIT" else 2e-6)  # a difference of roots


@pytest.mark.part(14)
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("base", [None, [0.25], [0.25, -0.5]], ids=str)
@pytest.mark.parametrize("about", [0, 1, 2])
def test_two_classes(transform: str, positive: bool, base: list[float] | None, about: int) -> None:
    """about: the class that has weights, 2 for both. ONNX Runtime's rules for which score decides."""
    if about == 1 and base is not None and len(base) == 2:
        pytest.skip("onnx says nothing, and ONNX Runtime leaves the trees out")
    trees = random_trees("class", 5, 3, 2 if about == 2 else 1, 6)
    if about == 1:
        trees["class_ids"] = [1] * len(trees["class_ids"])
    if positive:
        trees["class_weights"] = [abs(w) / 5 for w in trees["class_weights"]]
    extra = {} if base is None else {"base_values": base}
    model = node_model("TreeEnsembleClassifier", x(rows(1)), {"l": I64, "s": F32}, post_transform=transform,
                       classlabels_int64s=[3, 9], **trees, **extra)
    compare(model, x(rows(1)), x(rows(20, 2)))


def test_classes_without_weights_have_no_part() -> None:
    """All scores are negative; the classes that no leaf of a row is about have 0, and are not the best."""
    trees = random_trees("class", 1, 3, 3, 8)
    trees["class_weights"] = [-abs(w) for w in trees["class_weights"]]
    for kept in ([0, 1], [2]):
        keep = [k for k, c in enumerate(trees["class_ids"]) if c in kept]
        fewer = {n: [v[k] for k in keep] if n.startswith("class_") else v for n, v in trees.items()}
        compare(node_model("TreeEnsembleClassifier", x(rows(1)), {"l": I64, "s": F32}, classlabels_int64s=[1, 2, 3], **fewer),
                x(rows(20, 2)))
    some = [k for k in range(len(trees["class_ids"])) if k % 3 != trees["class_nodeids"][k] % 3]
    fewer = {n: [v[k] for k in some] if n.startswith("class_") else v for n, v in trees.items()}
    compare(node_model("TreeEnsembleClassifier", x(rows(1)), {"l": I64, "s": F32}, classlabels_int64s=[1, 2, 3], **fewer),
            x(rows(40, 3)))


@pytest.mark.part(2)
@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_types_of_inputs(dtype: Any) -> None:
    trees = random_trees("class", 8, 7, 4, 9)
    model = node_model("TreeEnsembleClassifier", x(rows(1).astype(dtype)), {"l": I64, "s": F32},
                       classlabels_int64s=[0, 1, 2, 3], **trees)
    compare(model, x((rows(2) * 2).astype(dtype)), x((rows(30, 2) * 2).astype(dtype)))


def test_deep_trees_and_trees_of_one_leaf() -> None:
    """Depths of more than the part that is decided at once, and no steps at all."""
    for depth, trees in ((12, 2), (0, 3)):
        lists = random_trees("target", trees, depth, 1, 10)
        compare(node_model("TreeEnsembleRegressor", x(rows(1)), {"y": F32}, n_targets=1, **lists), x(rows(5)), x(rows(130, 1)))


def ensemble_5(dtype: Any) -> dict[str, Any]:
    """Membership at the root, then comparisons; two targets."""
    def tensor(values: Any, kind: Any = dtype) -> Any:
        array = np.array(values, kind)
        return helper.make_tensor("t", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.tobytes(), raw=True)
    return {
        "n_targets": 2, "nodes_splits": tensor([np.nan, 0.5, 1.0, np.nan]), "nodes_featureids": [0, 1, 2, 3],
        "nodes_modes": tensor([6, 0, 4, 6], np.uint8), "nodes_truenodeids": [1, 0, 2, 0], "nodes_falsenodeids": [2, 1, 3, 4],
        "nodes_trueleafs": [0, 1, 1, 1], "nodes_falseleafs": [0, 1, 1, 1], "tree_roots": [0, 3],
        "membership_values": tensor([3, 1, 2, np.nan, 4, 1, np.nan]), "leaf_targetids": [0, 1, 0, 1, 0],
        "leaf_weights": tensor([1, 2.5, -3, 4, 8])}


@pytest.mark.part(6)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_ensembles_with_sets(dtype: Any, aggregate: int) -> None:
    feed = np.abs(np.rint(2 * rows(60, 3))).astype(dtype)
    model = node_model("TreeEnsemble", x(feed), {"y": helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}, 5,
                       aggregate_function=aggregate, **ensemble_5(dtype))
    compare(model, x(feed), x(feed[:2]))


def test_refusals() -> None:
    trees = random_trees("target", 2, 3, 1, 3)
    for name, values, message in (
            ("nodes_featureids", [9] * len(trees["nodes_featureids"]), "asks for the feature 9 of 4"),
            ("nodes_truenodeids", [77] * len(trees["nodes_truenodeids"]), "that is not there"),
            ("nodes_truenodeids", [0] * len(trees["nodes_truenodeids"]), "lead back to themselves"),
            ("nodes_values", trees["nodes_values"][1:], "different lengths"),
            ("target_ids", [3] * len(trees["target_ids"]), "about target 3 of 1")):
        model = node_model("TreeEnsembleRegressor", x(rows(1)), {"y": F32}, n_targets=1, **trees | {name: values})
        with pytest.raises(polytc.ModelError, match=message):
            polytc.load_onnx(model).compile().run(None, x(rows(2)))


# ---- others

KERNELS = [("LINEAR", [0.0, 0.0, 0.0]), ("POLY", [0.3, 0.5, 3.0]), ("RBF", [0.4, 0.0, 0.0]), ("SIGMOID", [0.2, 0.1, 0.0])]


def numbers(*shape: int) -> list[float]:
    return [float(v) for v in np.float32(R.standard_normal(shape)).reshape(-1)]


@pytest.mark.part(16)
@pytest.mark.parametrize(("kernel", "parameters"), KERNELS, ids=[k for k, _ in KERNELS])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("probabilities", [False, True])
def test_support_vector_classifiers(kernel: str, parameters: list[float], classes: int, probabilities: bool) -> None:
    counts = [3, 2, 4, 1][:classes]
    pairs = classes * (classes - 1) // 2
    extra = {"prob_a": [-abs(v) - 0.5 for v in numbers(pairs)], "prob_b": numbers(pairs)} if probabilities else {}
    model = node_model("SVMClassifier", x(rows(1)), {"l": I64, "s": F32}, kernel_type=kernel, kernel_params=parameters,
                       vectors_per_class=counts, support_vectors=numbers(sum(counts), 4), rho=numbers(pairs),
                       coefficients=numbers(classes - 1, sum(counts)), classlabels_ints=[5, 1, 8, 2][:classes], **extra)
    compare(model, x(rows(1)), x(rows(19, 1)))


@pytest.mark.part(3)
@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [2, 3])
def test_transformed_scores_of_support_vectors(transform: str, classes: int) -> None:
    """The score of two classes is the second's, its opposite the first's: found by random models."""
    pairs = classes * (classes - 1) // 2
    model = node_model("SVMClassifier", x(rows(1)), {"l": I64, "s": F32}, kernel_type="POLY", kernel_params=[.25, .5, 2.],
                       vectors_per_class=[2] * classes, support_vectors=numbers(2 * classes, 4), rho=numbers(pairs),
                       coefficients=numbers(classes - 1, 2 * classes), classlabels_ints=[5, 1, 8][:classes],
                       post_transform=transform)
    compare(model, x(rows(1)), x(rows(19, 1)))


@pytest.mark.part(2)
@pytest.mark.parametrize(("kernel", "parameters"), KERNELS, ids=[k for k, _ in KERNELS])
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_regressors(kernel: str, parameters: list[float], one_class: int) -> None:
    model = node_model("SVMRegressor", x(rows(1)), {"y": F32}, kernel_type=kernel, kernel_params=parameters, n_supports=6,
                       support_vectors=numbers(6, 4), rho=[0.2], coefficients=numbers(6), one_class=one_class)
    compare(model, x(rows(19, 1)))


@pytest.mark.part(6)
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_linear_models(transform: str, targets: int, dtype: Any) -> None:
    feed = (rows(9, 1) * 3).astype(dtype)
    weights = {"coefficients": numbers(targets, 4), "intercepts": numbers(targets), "post_transform": transform}
    labels = [4, 1, 3][:max(targets, 2)]
    compare(node_model("LinearClassifier", x(feed), {"l": I64, "s": F32}, classlabels_ints=labels, **weights),
            x(feed), x(feed[:1]))
    if dtype is np.float32:
        compare(node_model("LinearRegressor", x(feed), {"y": F32}, targets=targets, **weights), x(feed), x(feed[:1]))


I = (R.integers(-2, 5, (6, 3))).astype(np.int64)
SMALL = [
    ("Scaler", rows(6), F32, {"offset": [1.0, 2, 3, 4], "scale": [0.5, 1, 2, 3]}),
    ("Scaler", I, F32, {"offset": [1.0], "scale": [3.0]}),
    ("Binarizer", rows(6), F32, {"threshold": 0.5}), ("Normalizer", rows(6), F32, {"norm": "L1"}),
    ("Normalizer", rows(6), F32, {"norm": "L2"}), ("Normalizer", np.abs(rows(6)), F32, {"norm": "MAX"}),
    ("Normalizer", np.zeros((2, 3), np.float32), F32, {"norm": "L2"}), ("Normalizer", I, F32, {"norm": "L1"}),
    ("Imputer", rows(6, nan=True), F32, {"imputed_value_floats": [1.0, 2, 3, 4], "replaced_value_float": float("nan")}),
    ("Imputer", rows(6), F32, {"imputed_value_floats": [9.0], "replaced_value_float": 0.5}),
    ("Imputer", I, I64, {"imputed_value_int64s": [9], "replaced_value_int64": 2}),
    ("LabelEncoder", I, I64, {"keys_int64s": [3, -1, 2], "values_int64s": [30, 10, 20], "default_int64": -7}),
    ("LabelEncoder", I, F32, {"keys_int64s": [3, -1, 2], "values_floats": [0.5, 1.5, 2.5], "default_float": 4.0}),
    ("LabelEncoder", rows(9, nan=True), I64, {"keys_floats": [0.5, float("nan"), -1.0], "values_int64s": [30, 10, 20]}),
    ("OneHotEncoder", I, F32, {"cats_int64s": [3, -1, 2], "zeros": 1}),
    ("OneHotEncoder", rows(6) * 3, F32, {"cats_int64s": [1, 0, 2]})]


@pytest.mark.part(4)
@pytest.mark.parametrize(("op", "feed", "result", "attributes"), SMALL, ids=[f"{k}-{c[0]}" for k, c in enumerate(SMALL)])
def test_what_prepares_inputs(op: str, feed: np.ndarray, result: int, attributes: dict[str, Any]) -> None:
    version = 2 if op == "LabelEncoder" else 1
    compare(node_model(op, x(feed), {"y": result}, version, **attributes), x(feed), x(feed[:1]))


def test_features_are_chosen_and_joined() -> None:
    a, b, places = rows(5), I[:5], np.array([[2, 0, 2]])
    ml = {"domain": "ai.onnx.ml"}
    picked = model_of_nodes([helper.make_node("ArrayFeatureExtractor", ["x", "places"], ["y"], **ml)],
                            {"x": a, "places": places}, {"y": F32})
    picked.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 1
    compare(picked, {"x": a, "places": places})
    compare(model_of_nodes([helper.make_node("FeatureVectorizer", ["x", "z"], ["y"], inputdimensions=[4, 3], **ml)],
                           {"x": a, "z": b.astype(np.float32)}, {"y": F32}), {"x": a, "z": b.astype(np.float32)})


@pytest.mark.parametrize("target", ["interp", "evaluate"])
def test_other_targets(target: str) -> None:
    trees = random_trees("class", 3, 6, 3, 11)
    model = node_model("TreeEnsembleClassifier", x(rows(1)), {"l": I64, "s": F32}, classlabels_int64s=[0, 1, 2], **trees)
    compare(model, x(rows(18, 1)), target=target)


def test_no_rows() -> None:
    trees = random_trees("class", 3, 6, 3, 11)
    model = node_model("TreeEnsembleClassifier", x(rows(1)), {"l": I64, "s": F32}, classlabels_int64s=[0, 1, 2], **trees)
    compare(model, x(rows(0)))
