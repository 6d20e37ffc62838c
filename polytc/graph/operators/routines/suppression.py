"""NonMaxSuppression: the best boxes of each class, without those that overlap a better one."""

from __future__ import annotations

import functools

import numpy as np

from polytc.graph.operators.binding import Binder, Routine, Site
from polytc.graph.operators.routines import native_suppression as native


def non_max_suppression(site: Site) -> Routine:
    boxes, scores = site.shape(0), site.shape(1)
    if len(boxes) != 3 or len(scores) != 3 or boxes[2] != 4 or boxes[0] != scores[0] or boxes[1] != scores[2]:
        raise site.misfit("boxes need the shape [batch, boxes, 4], scores [batch, classes, boxes]")
    return Routine(functools.partial(_suppress, bool(site.attr("center_point_box", 0))), (0, 1, 2, 3, 4))


def _suppress(centred: bool, boxes: np.ndarray, scores: np.ndarray, most: np.ndarray | None = None,
              overlap: np.ndarray | None = None, threshold: np.ndarray | None = None) -> list[np.ndarray]:
    """Rows (batch, class, box), the better boxes first. Without `most` none is asked for."""
    wide = np.float64 if np.float64 in (boxes.dtype, scores.dtype) else np.float32
    if threshold is None:
        scores = np.where(np.isnan(scores), -np.inf, scores)
    low, high = corners(boxes.astype(wide), centred)
    found = native.suppress(np.ascontiguousarray(np.concatenate([low, high], axis=-1)), np.ascontiguousarray(scores, wide),
                            0 if most is None else int(most.item()), 0.0 if overlap is None else overlap.item(),
                            None if threshold is None else threshold.item())
    return [found]


def corners(boxes: np.ndarray, centred: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper corner of each box, from two opposite corners in any order, or from centre and extents."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centred:
        return first - second / 2, first + second / 2
    return np.minimum(first, second), np.maximum(first, second)


ROWS: dict[str, Binder] = {"NonMaxSuppression": non_max_suppression}
