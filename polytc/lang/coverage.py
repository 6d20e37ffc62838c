"""Which elements of a tensor have been written: boxes where writers fill boxes, explicit points otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polytc.lang import program as pr
from polytc.lang.affine import Affine, Box, indices, interval, values
from polytc.lang.domain import Domain
from polytc.lang.ranges import Hull

RASTER_LIMIT = 1 << 27
"""Elements of a tensor that a check may mark one by one."""


@dataclass(frozen=True)
class Image:
    """What the left side of a statement writes. hull: its bounding box; points: the coordinates (one array a dimension), or
    None if all of the hull is written."""

    hull: Hull
    points: tuple[np.ndarray, ...] | None


def dense(form: Affine, box: Box) -> bool:
    """Does a sum of distinct indices take every value of its interval? (Mixed radix without gaps.)"""
    reach = 0
    for atom, c in sorted(form.terms, key=lambda t: abs(t[1])):
        if not isinstance(atom, str):
            return False
        extent = box[atom][1] - box[atom][0]
        if extent and abs(c) > reach + 1:
            return False
        reach += abs(c) * extent
    return True


def separate(forms: Sequence[Affine]) -> bool:
    """Does every index occur in one form only?"""
    counted = [i for f in forms for i in indices(f)]
    return len(counted) == len(set(counted))


def image(forms: Sequence[Affine], domain: Domain) -> Image | None:
    """The elements that `forms` reach over `domain`; None if there are too many points to list."""
    own = frozenset().union(*(indices(f) for f in forms))
    hull = tuple(interval(f, domain.box) for f in forms)
    if not domain.connected(own)[1] and separate(forms) and all(dense(f, domain.box) for f in forms):
        return Image(hull, None)
    points = domain.points(own)
    if points is None:
        return None
    count = len(next(iter(points.values()))) if points else 1
    coordinates = tuple(np.broadcast_to(values(f, points.__getitem__), (count,)) for f in forms)
    if count == 0:
        return Image(hull, coordinates)
    return Image(tuple((int(c.min()), int(c.max())) for c in coordinates), coordinates)


class Coverage:
    """The written part of one tensor, growing statement by statement. hull: the tensor's bounds."""

    def __init__(self, hull: Hull) -> None:
        self.hull = hull
        self.boxes: list[Hull] = []
        self.points: list[tuple[np.ndarray, ...]] = []
        self.regions: list[tuple[tuple[str, ...], Domain]] = []
        self.vague = False

    def add(self, written: Image | None) -> None:
        """Note what a statement writes; None: it has too many points to list."""
        if written is None:
            self.vague = True
        elif written.points is None:
            self.boxes.append(written.hull)
        else:
            self.points.append(written.points)

    def add_region(self, forms: Sequence[Affine], domain: Domain) -> None:
        """Remember a writer with plain indices on its left side as it stands: readers with the same conditions match it."""
        names = tuple(f.index or "" for f in forms)
        if all(names) and len(set(names)) == len(names) and domain.conditions:
            self.regions.append((names, domain))

    def matches(self, forms: Sequence[Affine | None], domain: Domain) -> bool:
        """Does a reader with plain subscripts stay inside one writer, condition by condition?"""
        names = tuple(f.index or "" if f is not None else "" for f in forms)
        if not all(names):
            return False
        for own, region in self.regions:
            renamed: dict[str, pr.Expr] = {w: pr.Index(r) for w, r in zip(own, names, strict=True)}
            inside = all(region.box[w][0] <= domain.box[r][0] and domain.box[r][1] <= region.box[w][1]
                         for w, r in zip(own, names, strict=True))
            if inside and all(pr.substitute(c, renamed) in domain.conditions for c in region.conditions):
                return True
        return False

    def contains(self, box: Hull) -> bool:
        """Is all of `box` written? Exact for written boxes; listed points count only where there is a raster."""
        if any(_inside(box, b) for b in self.boxes):
            return True
        return len(self.boxes) > 1 and _covered(box, self.boxes)

    def raster(self) -> np.ndarray | None:
        """One bool an element of the tensor, in its own bounds; None if it is too large to know."""
        shape = [high - low + 1 for low, high in self.hull]
        if self.vague or math.prod(shape) > RASTER_LIMIT:
            return None
        mask = np.zeros(shape, bool)
        for b in self.boxes:
            ends = zip(b, self.hull, strict=True)
            mask[tuple(slice(low - first, high - first + 1) for (low, high), (first, _) in ends)] = True
        for p in self.points:
            mask[tuple(c - first for c, (first, _) in zip(p, self.hull, strict=True))] = True
        return mask


def _inside(a: Hull, b: Hull) -> bool:
    return all(bl <= al and ah <= bh for (al, ah), (bl, bh) in zip(a, b, strict=True))


def _covered(box: Hull, boxes: Sequence[Hull]) -> bool:
    """Is `box` inside of the union? Decided on the grid of all box borders."""
    cuts = [sorted({low, high + 1, *(x for b in boxes for x in (b[d][0], b[d][1] + 1) if low < x <= high)})
            for d, (low, high) in enumerate(box)]
    mask = np.zeros([len(c) - 1 for c in cuts], bool)
    for b in boxes:
        slices = []
        for d, (low, high) in enumerate(b):
            inside = [k for k, x in enumerate(cuts[d][:-1]) if low <= x <= high]
            slices.append(slice(inside[0], inside[-1] + 1) if inside else slice(0, 0))
        mask[tuple(slices)] = True
    return bool(mask.all())
