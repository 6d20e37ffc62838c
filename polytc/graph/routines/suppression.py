"""NonMaxSuppression: the best boxes of each class, without those that overlap a better one."""

from __future__ import annotations

import functools
from collections.abc import Iterator

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
        placed = Boxes(*corners(boxes[batch], centred))
        for number, row in enumerate(per_class):
            chosen = _greedy(placed, row, limit, 0.0 if overlap is None else overlap.item(),
                             None if threshold is None else threshold.item())
            found += [(batch, number, box) for box in chosen]
    return [np.array(found, np.int64).reshape(-1, 3)]


def corners(boxes: np.ndarray, centred: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper corner of each box, from two opposite corners in any order, or from centre and extents."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if centred:
        return first - second / 2, first + second / 2
    return np.minimum(first, second), np.maximum(first, second)


class Boxes:
    """Lower and upper corners of boxes."""

    def __init__(self, low: np.ndarray, high: np.ndarray) -> None:
        self.low, self.high, self.areas = low, high, np.prod(high - low, axis=1)

    def overlaps(self, ones: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Intersection over union of some boxes (rows) with others (columns); 0 where a box is empty."""
        sides = [np.maximum(np.minimum(self.high[ones, axis][:, None], self.high[others, axis])
                            - np.maximum(self.low[ones, axis][:, None], self.low[others, axis]), 0) for axis in (0, 1)]
        common = sides[0] * sides[1]
        first, second = self.areas[ones][:, None], self.areas[others]
        union = first + second - common
        return np.where((first > 0) & (second > 0), common / np.where(union > 0, union, 1), 0)


def _greedy(boxes: Boxes, scores: np.ndarray, limit: int, overlap: float, threshold: float | None) -> list[int]:
    """The best box, then the best that overlaps it by no more than a share `overlap`, and so on."""
    chosen: list[int] = []
    for block in _ranked(scores, threshold):
        left = block[~(boxes.overlaps(np.array(chosen, np.int64), block) > overlap).any(axis=0)] if chosen else block
        hides = boxes.overlaps(left, left) > overlap
        there = np.ones(len(left), bool)
        for n in range(len(left)):
            if there[n] and len(chosen) < limit:
                chosen.append(int(left[n]))
                there &= ~hides[n]
        if len(chosen) >= limit:  # before more are sorted
            break
    return chosen


def _ranked(scores: np.ndarray, threshold: float | None) -> Iterator[np.ndarray]:
    """The boxes with scores above the threshold in blocks, the best first, of equal ones the first. Only what is asked for is
    sorted."""
    left = np.arange(len(scores)) if threshold is None else np.flatnonzero(scores > threshold)
    falling = -scores[left]
    start, size = 0, BLOCK
    while start < len(left):
        best = np.arange(len(left))
        if len(left) > 2 * size:
            best = np.flatnonzero(falling < np.partition(falling, size)[size])
        order = left[best[np.argsort(falling[best], kind="stable")]]
        for first in range(start, len(order), BLOCK):
            yield order[first:first + BLOCK]
        start, size = len(order), 4 * size


BLOCK = 64
"""Boxes that are compared with each other at once."""


ROWS: dict[str, Binder] = {"NonMaxSuppression": non_max_suppression}
