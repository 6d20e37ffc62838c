"""SVMClassifier and SVMRegressor."""

from __future__ import annotations

import itertools

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Ref, Site, Step
from polytc.graph.operators.estimators.linear_models import second_column
from polytc.graph.operators.estimators.scores import labels_of, rows_of, transformed


def _kernel(site: Site, source: Ref, vectors: np.ndarray, kind: str, output: str) -> Step:
    gamma, coef0, degree = ([float(p) for p in site.attr("kernel_params") or []] + [0.0] * 3)[:3]
    attrs = {"LINEAR": {}, "POLY": {"gamma": gamma, "coef0": coef0, "degree": degree},
             "SIGMOID": {"gamma": gamma, "coef0": coef0}, "RBF": {"gamma": gamma}}[kind]
    return Apply(f"support_vectors.{kind.capitalize()}", (source, vectors), (output,), attrs)


def _floats(site: Site, name: str) -> np.ndarray:
    return np.array(site.attr(name) or [], np.float32)


def _matrix(site: Site, numbers: np.ndarray, rows: int, width: int, what: str) -> np.ndarray:
    if numbers.size != rows * width:
        raise site.misfit(f"{numbers.size} {what} for {rows} rows of {width}")
    return numbers.reshape(rows, width)


def regressor(site: Site) -> Lowering:
    """One class: 1 inside, -1 outside."""
    steps, source, _, width = rows_of(site)
    rho, weights, count = _floats(site, "rho"), _floats(site, "coefficients"), site.attr("n_supports", 0)
    if len(rho) < 1:
        raise site.misfit("it has no rho")
    one_class = bool(site.attr("one_class", 0))
    kind = site.attr("kernel_type", "LINEAR") if count else "LINEAR"
    vectors = _floats(site, "support_vectors") if count else weights
    steps.append(_kernel(site, source, _matrix(site, vectors, count or 1, width, "numbers"), kind, "kernels"))
    name: int | str = "sums" if one_class else 0
    if count:
        own = _matrix(site, weights, 1, count, "coefficients")
        steps.append(Apply("support_vectors.Weighted", ("kernels", own, rho[:1]), (name,)))
    else:
        steps.append(Apply("support_vectors.Shifted", ("kernels", rho[:1]), (name,)))
    return (*steps, Apply("support_vectors.Side", ("sums",))) if one_class else tuple(steps)


def classifier(site: Site) -> Lowering:
    """With support vectors: one score for each pair of classes, the class of most votes, and, where there are prob_a and
    prob_b, probabilities of classes. Without: one row of coefficients for each class."""
    labels, counts = labels_of(site, "classlabels_ints"), site.attr("vectors_per_class") or []
    return _pairs(site, labels, counts) if sum(counts) else _one_score_a_class(site, labels)


def _one_score_a_class(site: Site, labels: np.ndarray) -> Lowering:
    steps, source, _, width = rows_of(site)
    classes, rho, weights = len(labels), _floats(site, "rho"), _floats(site, "coefficients")
    if len(rho) < 1:
        raise site.misfit("it has no rho")
    steps += [Apply("support_vectors.Linear", (source, _matrix(site, weights, classes, width, "coefficients")), ("dots",)),
              Apply("support_vectors.Shifted", ("dots", np.repeat(rho[:1], classes)), ("sums",))]
    if classes == 2 and not len(_floats(site, "prob_a")):
        raise site.unsupported("two classes without support vectors")
    return (*steps, Apply("scores.Best", ("sums", labels), (0,)),
            *transformed("sums", site.attr("post_transform", "NONE"), classes, 1))


def _pairs(site: Site, labels: np.ndarray, counts: list[int]) -> Lowering:
    classes, total = len(labels), sum(counts)
    steps, source, _, width = rows_of(site)
    pairs = list(itertools.combinations(range(classes), 2))
    rho, a, b = _floats(site, "rho"), _floats(site, "prob_a"), _floats(site, "prob_b")
    if len(counts) != classes or classes < 2 or len(rho) < len(pairs) or len(a) != len(b) or (len(a) and len(a) < len(pairs)):
        raise site.misfit(f"{classes} classes do not go with its vectors_per_class, rho, prob_a and prob_b")
    weights = _matrix(site, _floats(site, "coefficients")[:(classes - 1) * total], classes - 1, total, "coefficients")
    starts = np.cumsum([0, *counts])
    own = np.zeros((len(pairs), total))  # of each pair, the coefficients of its two classes
    for p, (i, j) in enumerate(pairs):
        own[p, starts[i]:starts[i + 1]] = weights[j - 1, starts[i]:starts[i + 1]]
        own[p, starts[j]:starts[j + 1]] = weights[i, starts[j]:starts[j + 1]]
    ayes, noes = (np.array([[int(c == pair[side]) for c in range(classes)] for pair in pairs], np.int32) for side in (0, 1))
    vectors = _matrix(site, _floats(site, "support_vectors"), total, width, "numbers of support vectors")
    steps += [_kernel(site, source, vectors, site.attr("kernel_type", "LINEAR"), "kernels"),
              Apply("support_vectors.Weighted", ("kernels", own, rho[:len(pairs)]), ("sums",)),
              Apply("support_vectors.Votes", ("sums", ayes, noes), ("votes",)),
              Apply("scores.Best", ("votes", labels), (0,))]
    transform = site.attr("post_transform", "NONE")
    if len(a):
        steps += _coupled(a[:len(pairs)], b[:len(pairs)], pairs, classes)
        return (*steps, *transformed("probabilities", transform, classes, 1))
    if classes > 2:
        return (*steps, *transformed("sums", transform, len(pairs), 1))
    if transform == "PROBIT":
        raise site.unsupported("PROBIT of one score for two classes")
    if transform == "NONE":
        return (*steps, Apply("scores.Opposite", ("sums",), (1,)))
    return (*steps, *second_column("sums", True, transform))


def _coupled(a: np.ndarray, b: np.ndarray, pairs: list[tuple[int, int]], classes: int) -> list[Step]:
    """Steps from scores of pairs to probabilities of classes."""
    place, first = np.zeros((classes, classes), np.int32), np.zeros((classes, classes), np.int32)
    for p, (i, j) in enumerate(pairs):
        place[i, j] = place[j, i] = p
        first[i, j] = 1
    return [Apply("support_vectors.Pairs", ("sums", a, b, place, first), ("pairs",), {"k": classes}),
            Apply("support_vectors.Coupled", ("pairs",), ("probabilities",), {"k": classes, "bound": 0.005 / classes})]


ROWS: dict[str, Binder] = {"ai.onnx.ml::SVMClassifier": classifier, "ai.onnx.ml::SVMRegressor": regressor}
