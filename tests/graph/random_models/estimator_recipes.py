"""Recipes of ai.onnx.ml's operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.graph.operators.estimator_models import MODES, random_trees
from tests.graph.random_models.builder import Builder

ML = "ai.onnx.ml"
INPUTS = [np.float32, np.float32, np.float64, np.int64, np.int32]
ENDS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
WORDS = ["a", "b", "cc", "", "d e"]


def rows(b: Builder, features: int, kinds: list[Any] = INPUTS) -> tuple[Any, int, str]:
    t, n = b.c.of(kinds), b.size()
    return t, n, b.tensor(t, (n, features), None if b.c.likely(50) else lambda r, s: r.integers(-3, 4, s) / 2)


def numbers(b: Builder, n: int) -> list[float]:
    return [float(x) for x in np.round(b.random().standard_normal(n), 2)]


def labels(b: Builder, n: int) -> tuple[dict[str, Any], Any]:
    if b.c.likely(30):
        return {"classlabels_strings": [f"c{k}" for k in range(n)]}, str
    return {"classlabels_ints": [k * 2 - 1 for k in b.c.shuffled(range(n))]}, np.int64


def trees(b: Builder) -> None:
    features, side = b.c.between(1, 5), b.c.of(["class", "target"])
    _, n, x = rows(b, features, INPUTS if side == "class" else INPUTS[:3])
    targets = b.c.between(1, 4)
    own = random_trees(side, b.c.between(1, 6), b.c.between(1, 4), targets, b.c.below(999), features=features,
                       modes=b.c.of([MODES[:1], MODES[:2], MODES]), missing=b.c.likely(30))
    own |= {"post_transform": b.c.of(ENDS[:4])}
    if side == "class":
        words, t = labels(b, max(targets, 2))
        own |= {("classlabels_int64s" if k == "classlabels_ints" else k): v for k, v in words.items()}
        if b.c.likely(30):
            own["base_values"] = numbers(b, max(targets, 2))
        b.node("TreeEnsembleClassifier", [x], (t, (n,)), (np.float32, 2), domain=ML, **own)
        return
    own |= {"n_targets": targets, "aggregate_function": b.c.of(["SUM", "AVERAGE", "MIN", "MAX"])}
    if b.c.likely(30):
        own["base_values"] = numbers(b, targets)
    b.node("TreeEnsembleRegressor", [x], (np.float32, (n, targets)), domain=ML, **own)


def linear(b: Builder) -> None:
    features, targets = b.c.between(1, 9), b.c.between(1, 4)
    single = b.c.likely(50)
    _, n, x = rows(b, features, [np.float32] if single else INPUTS)
    own: dict[str, Any] = {"post_transform": b.c.of(ENDS[:4])}
    if single:
        if b.c.likely(60):
            own["intercepts"] = numbers(b, targets)
        b.node("LinearRegressor", [x], (np.float32, (n, targets)), domain=ML, targets=targets,
               coefficients=numbers(b, targets * features), **own)
        return
    words, t = labels(b, max(targets, 2))
    own["intercepts"] = numbers(b, targets)
    b.node("LinearClassifier", [x], (t, (n,)), (np.float32, 2), domain=ML, coefficients=numbers(b, targets * features),
           multi_class=b.c.below(2), **words, **own)


def vectors(b: Builder) -> None:
    features, kernel = b.c.between(1, 5), b.c.of(["LINEAR", "RBF", "POLY", "SIGMOID"])
    single = b.c.likely(50)
    _, n, x = rows(b, features, [np.float32] if single else INPUTS)
    own: dict[str, Any] = {"kernel_type": kernel, "kernel_params": [0.25, 0.5, float(b.c.between(1, 3))],
                           "post_transform": b.c.of(ENDS[:4])}
    if single:
        count = b.c.between(1, 6)
        b.node("SVMRegressor", [x], (np.float32, (n, 1)), domain=ML, n_supports=count, one_class=b.c.below(2), rho=[0.3],
               support_vectors=numbers(b, count * features), coefficients=numbers(b, count),
               **own | {"post_transform": "NONE"})
        return
    classes = b.c.between(2, 4)
    words, t = labels(b, classes)
    per = [b.c.between(1, 4) for _ in range(classes)]
    pairs = classes * (classes - 1) // 2
    if b.c.likely(40):
        own |= {"prob_a": [-1.0 - .1 * k for k in range(pairs)], "prob_b": [0.1 * k for k in range(pairs)]}
    b.node("SVMClassifier", [x], (t, (n,)), (np.float32, 2), domain=ML, vectors_per_class=per, rho=numbers(b, pairs),
           support_vectors=numbers(b, sum(per) * features), coefficients=numbers(b, sum(per) * (classes - 1)), **words, **own)


def scaled(b: Builder) -> None:
    features = b.c.between(1, 9)
    t, n, x = rows(b, features)
    match b.c.below(4):
        case 0:
            wide = b.c.of([features, 1])
            b.node("Scaler", [x], (np.float32, (n, features)), domain=ML, offset=numbers(b, wide), scale=numbers(b, wide))
        case 1:
            b.node("Normalizer", [x], (np.float32, (n, features)), domain=ML, norm=b.c.of(["MAX", "L1", "L2"]))
        case 2:
            b.node("Binarizer", [x], (t, (n, features)), domain=ML, threshold=b.c.of([0.0, 0.5, -1.0]))
        case _:
            whole = np.dtype(t).kind == "i"
            values = [int(v * 9) for v in numbers(b, b.c.of([features, 1]))] if whole else numbers(b, b.c.of([features, 1]))
            own = {"imputed_value_int64s": values, "replaced_value_int64": 1} if whole else {
                "imputed_value_floats": values, "replaced_value_float": b.c.of([float("nan"), 1.0, -0.5])}
            b.node("Imputer", [x], (t, (n, features)), domain=ML, **own)


def joined(b: Builder) -> None:
    n, widths = b.size(), [b.c.between(1, 5) for _ in range(b.c.between(1, 3))]
    t = b.c.of(INPUTS)
    b.node("FeatureVectorizer", [b.tensor(t, (n, w)) for w in widths], (np.float32, (n, sum(widths))), domain=ML,
           inputdimensions=widths)


def extracted(b: Builder) -> None:
    t, s = b.c.of(INPUTS), b.shape(1, 3)
    if not s[-1]:
        s = (*s[:-1], 3)
    at = b.given(b.filled(np.int64, (b.c.between(1, 5),), lambda r, q: r.integers(0, s[-1], q)), 60)
    b.node("ArrayFeatureExtractor", [b.tensor(t, s), at], (t, max(len(s), 2)), domain=ML)


def encoded(b: Builder) -> None:
    s, words, out = b.shape(0, 3), b.c.likely(30), b.c.of(["values_floats", "values_int64s", "values_strings"])
    kinds = {"values_floats": np.float32, "values_int64s": np.int64, "values_strings": str}
    values = {"values_floats": [0.5, -1.0, 7.0], "values_int64s": [9, -3, 4], "values_strings": ["x", "yy", ""]}[out]
    own: dict[str, Any] = {out: values}
    if b.c.likely(50):
        own |= {"default_float": 2.5} if out == "values_floats" else {"default_int64": 77} if out == "values_int64s" else {
            "default_string": "none"}
    if words:
        x = b.given(np.asarray(b.random().choice(WORDS, s), object), 20)
        own["keys_strings"] = WORDS[:3]
    elif b.c.likely(50):
        x, own["keys_int64s"] = b.tensor(np.int64, s), [1, 5, -2]
    else:
        x = b.tensor(np.float32, s, lambda r, q: r.choice([1.0, .5, -0.0, np.nan, 3], q))
        own["keys_floats"] = [0.0, 0.5, b.c.of([1.0, float("nan")])]
    b.node("LabelEncoder", [x], (kinds[out], s), domain=ML, **own)


def one_hot(b: Builder) -> None:
    s = b.shape(1, 3)
    if b.c.likely(30):
        x, own = b.given(np.asarray(b.random().choice(WORDS[:3], s), object), 20), {"cats_strings": WORDS[:3]}
    else:
        x, own = b.tensor(b.c.of(INPUTS[:4]), s, lambda r, q: r.integers(0, 4, q)), {"cats_int64s": [0, 1, 3,
                 2][:b.c.between(1, 4)]}
    b.node("OneHotEncoder", [x], (np.float32, len(s) + 1), domain=ML, **own, **({"zeros": 1} if b.c.likely(80) else {}))


def mapped(b: Builder) -> None:
    s = b.shape(1, 2)
    own: dict[str, Any] = {"cats_int64s": [4, 0, 9], "cats_strings": WORDS[:3], "default_int64": -7, "default_string": "other"}
    if b.c.likely(50):
        b.node("CategoryMapper", [b.given(np.asarray(b.random().choice(WORDS, s), object), 20)], (np.int64, s), domain=ML,
                 **own)
    else:
        b.node("CategoryMapper", [b.tensor(np.int64, s, lambda r, q: r.choice([4, 0, 9, 3], q))], (str, s), domain=ML, **own)


RECIPES = [trees, trees, linear, vectors, scaled, joined, extracted, encoded, one_hot, mapped]
