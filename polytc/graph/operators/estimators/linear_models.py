"""LinearClassifier and LinearRegressor."""

from __future__ import annotations

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Ref, Site, Step
from polytc.graph.operators.estimators.scores import labels_of, rows_of, transformed


def _sums(site: Site, targets: int, output: str) -> tuple[list[Step], str]:
    """Products of rows with the coefficients of each target, and the intercepts."""
    steps, source, _, width = rows_of(site)
    weights = np.array(site.attr("coefficients") or [], np.float32)
    given = site.attr("intercepts")
    intercepts = np.array(given or [0.0] * targets, np.float32)
    if targets < 1 or len(weights) != targets * width or len(intercepts) != targets:
        raise site.misfit(f"{len(weights)} coefficients and {len(intercepts)} intercepts, {targets} targets, {width} features")
    return [*steps, Apply("scores.Linear", (source, weights.reshape(targets, width), intercepts), (output,))], output


def regressor(site: Site) -> Lowering:
    targets = site.attr("targets", 1)
    steps, sums = _sums(site, targets, "sums")
    return (*steps, *transformed(sums, site.attr("post_transform", "NONE"), targets, 0))


def classifier(site: Site) -> Lowering:
    """One row of coefficients for two classes: a score above 0 is the second one."""
    targets = len(site.attr("intercepts") or []) or len(labels_of(site, "classlabels_ints"))
    labels, transform = labels_of(site, "classlabels_ints"), site.attr("post_transform", "NONE")
    steps, sums = _sums(site, targets, "sums")
    if targets > 1:
        if len(labels) != targets:
            raise site.misfit(f"{len(labels)} labels for {targets} classes")
        return (*steps, Apply("scores.Best", (sums, labels), (0,)), *transformed(sums, transform, targets, 1))
    both = labels if len(labels) == 2 else np.array([0, 1])
    steps.append(Apply("scores.Above", (sums, both), (0,), {"column": 0, "bound": 0.0}))
    return (*steps, *second_column(sums, len(labels) == 2, transform))


def second_column(sums: Ref, two: bool, transform: str) -> list[Step]:
    """The scores of both classes from one; of one class if there is but one label."""
    if not two:
        return transformed(sums, transform, 1, 1)
    if transform == "PROBIT":
        return [Apply("scores.Probit", (sums,), ("probit",)), Apply("scores.Complement", ("probit",), (1,))]
    if transform == "LOGISTIC":
        return [Apply("scores.Opposite", (sums,), ("both",)), *transformed("both", transform, 2, 1)]
    return [Apply("scores.Complement", (sums,), (1,))]


ROWS: dict[str, Binder] = {"ai.onnx.ml::LinearClassifier": classifier, "ai.onnx.ml::LinearRegressor": regressor}
