"""NonMaxSuppression: the best boxes of each class, without those that overlap a better one."""

from __future__ import annotations

import functools

import numpy as np

from polytc.graph.binding import Binder, Routine, Site


def non_max_suppression(site: Site) -> Routine:
    return Routine(functools.partial(_suppress, bool(site.attr("center_point_box", 0))), (0, 1, 2, 3, 4))


def _suppress(centred: bool, boxes: np.ndarray, scores: np.ndarray, most: np.ndarray | None = None,
              overlap: np.ndarray | None = None, threshold: np.ndarray | None = None) -> list[np.ndarray]:
    """Rows (batch, class, box), the better boxes first. Without `most` none is asked for."""
    limit = 0 if most is None else int(most.item())
    found: list[tuple[int, int, int]] = []
    for batch, per_class in enumerate(scores):
        low, high = corners(boxes[batch], centred)
        for number, row in enumerate(per_class):
            chosen = _greedy(low, high, row, limit, 0.0 if overlap is None else overlap.item(),
                             None if threshold is None else threshold.item())
            found += [(batch, number, box) for box in chosen]
    return [np.array(found, np.int64).reshape(-1, 3)]


def corners(boxes: np.ndarray, centred: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper corner of each box, from two opposite corners in any order, or from centre and extents."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if centred:
        return first - second / 2, first + second / 2
    return np.minimum(first, second), np.maximum(first, second)


def _greedy(low: np.ndarray, high: np.ndarray, scores: np.ndarray, limit: int, overlap: float,
            threshold: float | None) -> list[int]:
    """The best box, then the best that overlaps it by no more than a share `overlap`, and so on."""
    left = np.arange(len(scores)) if threshold is None else np.flatnonzero(scores > threshold)
    left = left[np.argsort(-scores[left], kind="stable")]
    chosen: list[int] = []
    while len(left) and len(chosen) < limit:
        best, left = left[0], left[1:]
        chosen.append(int(best))
        left = left[~(overlaps(low, high, best, left) > overlap)]
    return chosen


def overlaps(low: np.ndarray, high: np.ndarray, one: int, others: np.ndarray) -> np.ndarray:
    """Intersection over union of a box with others; 0 where a box is empty."""
    sides = np.maximum(np.minimum(high[one], high[others]) - np.maximum(low[one], low[others]), 0)
    common = sides[:, 0] * sides[:, 1]
    areas = np.prod(high - low, axis=1)
    union = areas[one] + areas[others] - common
    return np.where((areas[one] > 0) & (areas[others] > 0), common / np.where(union > 0, union, 1), 0)


ROWS: dict[str, Binder] = {"NonMaxSuppression": non_max_suppression}
