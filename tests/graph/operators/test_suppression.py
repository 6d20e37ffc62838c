"""NonMaxSuppression on many boxes: what a plain loop over all pairs keeps."""

from __future__ import annotations

import numpy as np
import pytest

from polytc.graph.operators.routines import suppression

R = np.random.default_rng(3)


def plain(boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, threshold: float | None) -> list[list[int]]:
    found = []
    for batch, per_class in enumerate(scores):
        for number, row in enumerate(per_class):
            order = sorted((k for k in range(len(row)) if threshold is None or row[k] > threshold), key=lambda k: (-row[k], k))
            kept: list[int] = []
            for k in order:
                if len(kept) < most and all(share(boxes[batch, k], boxes[batch, j]) <= overlap for j in kept):
                    kept.append(k)
            found += [[batch, number, k] for k in kept]
    return found


def share(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of boxes given by two opposite corners."""
    (ay, ax), (by, bx) = np.sort(a.reshape(2, 2), 0).T, np.sort(b.reshape(2, 2), 0).T
    common = max(0.0, min(ay[1], by[1]) - max(ay[0], by[0])) * max(0.0, min(ax[1], bx[1]) - max(ax[0], bx[0]))
    areas = [(y[1] - y[0]) * (x[1] - x[0]) for y, x in ((ay, ax), (by, bx))]
    return common / (sum(areas) - common) if min(areas) > 0 else 0.0


@pytest.mark.part(3)
@pytest.mark.parametrize("most", [1, 20, 150, 1000])
@pytest.mark.parametrize("threshold", [None, 0.5])
@pytest.mark.parametrize("count", [1, 63, 500])
def test_many_boxes(count: int, threshold: float | None, most: int) -> None:
    """Corners on a grid and few different scores: many equal ones, and boxes without an area."""
    boxes = R.integers(0, 12, (2, count, 4)).astype(np.float64)
    scores = R.integers(0, 8, (2, 2, count)) / 8
    limits = None if threshold is None else np.array([threshold])
    found, = suppression._suppress(False, boxes, scores, np.array([most]), np.array([0.3]), limits)
    assert found.tolist() == plain(boxes, scores, most, 0.3, threshold)


def test_nothing_is_kept_where_none_is_asked_for() -> None:
    boxes, scores = np.ones((1, 3, 4), np.float32), np.ones((1, 1, 3), np.float32)
    assert suppression._suppress(False, boxes, scores)[0].shape == (0, 3)
    assert suppression._suppress(False, boxes[:, :0], scores[:, :, :0], np.array(5))[0].shape == (0, 3)


@pytest.mark.parametrize("threshold", [None, 0.25])
def test_single_precision(threshold: float | None) -> None:
    low = R.uniform(0, 30, (2, 300, 2))
    boxes = np.concatenate([low, low + R.uniform(1, 9, low.shape)], 2).astype(np.float32)
    scores = R.uniform(0, 1, (2, 3, 300)).astype(np.float32)
    limits = None if threshold is None else np.array([threshold], np.float32)
    found, = suppression._suppress(False, boxes, scores, np.array(40), np.float32([0.35]), limits)
    assert found.tolist() == plain(boxes, scores, 40, 0.35, threshold)
    assert len(found) == 240


def test_scores_that_are_no_numbers_come_last_or_never() -> None:
    boxes = np.float32([[[0, 0, 1, 1], [5, 5, 6, 6], [9, 9, 10, 10]]])
    scores = np.float32([[[np.nan, 0.5, 0.75]]])
    assert suppression._suppress(False, boxes, scores, np.array(9))[0][:, 2].tolist() == [2, 1, 0]
    assert suppression._suppress(False, boxes, scores, np.array(9), None, np.array(0.1))[0][:, 2].tolist() == [2, 1]
