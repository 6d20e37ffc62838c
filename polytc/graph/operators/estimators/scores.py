"""From scores of classes to labels and transformed scores, as classifiers of ai.onnx.ml give them.

What onnx leaves open, two classes with one score above all, is as in ONNX Runtime.
"""

from __future__ import annotations

import numpy as np

from polytc.graph.operators.binding import Apply, Ref, Site, Step, View

TRANSFORMS = {"SOFTMAX": "scores.Softmax", "LOGISTIC": "scores.Logistic", "SOFTMAX_ZERO": "scores.SoftmaxZero",
              "PROBIT": "scores.Probit"}


def rows_of(site: Site, name: str = "x") -> tuple[list[Step], Ref, int, int]:
    """The input as rows: steps to it, its name, and how many rows of how many numbers. A vector is one row."""
    shape = site.shape(0)
    if len(shape) > 2 or not shape:
        raise site.misfit(f"its input has {len(shape)} dimensions, and must have one or two")
    if len(shape) == 1:
        return [View(0, (1, shape[0]), name)], name, 1, shape[0]
    return [], 0, shape[0], shape[1]


def labels_of(site: Site, *names: str) -> np.ndarray:
    """The labels of the classes. Strings have been replaced by codes (graph/string_codes.py)."""
    for name in names:
        if site.attr(name):
            return np.array(site.attr(name), np.int64)
    raise site.unsupported("it has no labels of classes that are numbers")


def transformed(source: Ref, kind: str, columns: int, output: int | str) -> list[Step]:
    """Scores behind a post_transform; of a single column only PROBIT changes anything."""
    if kind not in TRANSFORMS or (columns == 1 and kind != "PROBIT"):
        return [Apply("elementwise.Copy", (source,), (output,))]
    return [Apply(TRANSFORMS[kind], (source,), (output,))]
