"""Which elements of a tensor have been written: boxes where writers fill boxes, explicit points otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polytc.lang.typing.ranges import Hull
from polytc.program import program as pr
from polytc.program.affine import QuasiAffine, exact, indices, interval, values
from polytc.program.domain import Domain
from polytc.program.traces.traced import whole

RASTER_LIMIT = 1 << 27
"""Elements of a tensor that a check may mark one by one."""


@dataclass(frozen=True)
class Image:
    """What the left side of a statement writes: the product, over groups of dimensions, of the coordinates in each group.

    hull: its bounding box; parts: (dimensions, their coordinates as one array each) of the groups that do not fill their box.
    """

    hull: Hull
    parts: tuple[tuple[tuple[int, ...], tuple[np.ndarray, ...]], ...] = ()

    def mask(self) -> np.ndarray:
        """One bool an element of the hull."""
        inside = np.ones([high - low + 1 for low, high in self.hull], bool)
        for dims, coordinates in self.parts:
            shape = [self.hull[d][1] - self.hull[d][0] + 1 if d in dims else 1 for d in range(len(self.hull))]
            part = np.zeros(shape, bool)
            place = dict(zip(dims, coordinates, strict=True))
            part[tuple(place[d] - self.hull[d][0] if d in place else 0 for d in range(len(shape)))] = True
            inside &= part
        return inside


def dense(form: QuasiAffine, box: pr.Box) -> bool:
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


def separate(forms: Sequence[QuasiAffine]) -> bool:
    """Does every index occur in one form only?"""
    counted = [i for f in forms for i in indices(f)]
    return len(counted) == len(set(counted))


def image(forms: Sequence[QuasiAffine], domain: Domain) -> Image | None:
    """The elements that `forms` reach over `domain`; None if there are too many points to list."""
    hull = [interval(f, domain.box) for f in forms]
    parts: list[tuple[tuple[int, ...], tuple[np.ndarray, ...]]] = []
    for dims in _groups(forms, domain):
        group = [forms[d] for d in dims]
        own = frozenset().union(*(indices(f) for f in group))
        if not domain.connected(own)[1] and separate(group) and all(dense(f, domain.box) for f in group):
            continue
        points = domain.points(own)
        if points is None:
            return None
        count = len(next(iter(points.values())))
        coordinates = tuple(np.broadcast_to(values(f, points.__getitem__), (count,)) for f in group)
        for d, c in zip(dims, coordinates, strict=True):
            hull[d] = (int(c.min()), int(c.max()))
        parts.append((dims, coordinates))
    return Image(tuple(hull), tuple(parts))


def bounding_box(forms: Sequence[QuasiAffine], domain: Domain) -> Hull | None:
    """The hull of `forms` over `domain` where corners of the box attain it; None where only the points could tell."""
    own = frozenset().union(*(indices(f) for f in forms))
    hull = tuple(interval(f, domain.box) for f in forms)
    if all(map(exact, forms)) and not domain.connected(own)[1] and all(low <= high for low, high in domain.box.values()):
        return hull
    corners = domain.corners(own)
    if any(len(a) == 0 for a in corners.values()):
        return None
    reached = [values(f, corners.__getitem__) for f in forms]
    return hull if all((whole(r.min()), whole(r.max())) == h for r, h in zip(reached, hull, strict=True)) else None


def _groups(forms: Sequence[QuasiAffine], domain: Domain) -> list[tuple[int, ...]]:
    """Dimensions that share indices, directly or through conditions, together."""
    found: list[tuple[frozenset[str], tuple[int, ...]]] = []
    for d, f in enumerate(forms):
        tied = domain.connected(indices(f))[0]
        dims: tuple[int, ...] = (d,)
        for other in [g for g in found if g[0] & tied]:
            found.remove(other)
            tied, dims = tied | other[0], other[1] + dims
        found.append((tied, tuple(sorted(dims))))
    return [dims for _, dims in found]


class Coverage:
    """The written part of one tensor, growing statement by statement. hull: the tensor's bounds."""

    def __init__(self, hull: Hull) -> None:
        self.hull = hull
        self.boxes: list[Hull] = []
        self.images: list[Image] = []
        self.domains: list[tuple[tuple[str, ...], Domain]] = []
        self.vague = False

    def add(self, written: Image | None) -> None:
        """Note what a statement writes; None: it has too many points to list."""
        if written is None:
            self.vague = True
        elif written.parts:
            self.images.append(written)
        else:
            self.boxes.append(written.hull)

    def add_domain(self, forms: Sequence[QuasiAffine], domain: Domain) -> None:
        """Remember a writer with plain indices on its left side as it stands: readers with the same conditions match it."""
        names = tuple(f.index or "" for f in forms)
        if all(names) and len(set(names)) == len(names) and domain.conditions:
            self.domains.append((names, domain))

    @property
    def whole(self) -> bool:
        """Does one writer reach every element of the tensor?"""
        return any(inside(self.hull, b) for b in self.boxes)

    def matches(self, forms: Sequence[QuasiAffine | None], domain: Domain) -> bool:
        """Does a reader with plain subscripts stay inside one writer, condition by condition?"""
        names = tuple(f.index or "" if f is not None else "" for f in forms)
        if not all(names):
            return False
        for own, writer in self.domains:
            renamed: dict[str, pr.Expr] = {w: pr.Index(r) for w, r in zip(own, names, strict=True)}
            inside = all(writer.box[w][0] <= domain.box[r][0] and domain.box[r][1] <= writer.box[w][1]
                         for w, r in zip(own, names, strict=True))
            if inside and all(pr.substitute(c, renamed) in domain.conditions for c in writer.conditions):
                return True
        return False

    def contains(self, box: Hull) -> bool:
        """Is all of `box` written? Exact for written boxes; other writers count only where there is a raster."""
        if any(inside(box, b) for b in self.boxes):
            return True
        return len(self.boxes) > 1 and _covered(box, self.boxes)

    def raster(self) -> np.ndarray | None:
        """One bool an element of the tensor, in its own bounds; None if it is too large to know."""
        shape = [high - low + 1 for low, high in self.hull]
        if self.vague or math.prod(shape) > RASTER_LIMIT:
            return None
        mask = np.zeros(shape, bool)
        for i in (*map(Image, self.boxes), *self.images):
            ends = zip(i.hull, self.hull, strict=True)
            mask[tuple(slice(low - first, high - first + 1) for (low, high), (first, _) in ends)] |= i.mask()
        return mask


def inside(a: Hull, b: Hull) -> bool:
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
