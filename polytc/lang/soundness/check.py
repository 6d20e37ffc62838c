"""Proofs that a statement with known ranges is sound, each refusal with a concrete witness.

Every unguarded read is in bounds; every element read has been written; `=` writes no element twice; no instance of a
statement reads what another one writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from polytc import errors
from polytc.errors import Span
from polytc.lang.report import Report
from polytc.lang.soundness.coverage import Coverage
from polytc.lang.soundness.proof import begun
from polytc.lang.typing import cures
from polytc.lang.typing.agreement import follows
from polytc.lang.typing.lowered import Lowered
from polytc.lang.typing.ranges import NARROWS_NOTHING, Constraint, Hull, constraints
from polytc.program import program as pr
from polytc.program.affine import QuasiAffine, Quotient, Remainder, add, affine, at, exact, indices, interval, values
from polytc.program.domain import Domain, as_bounds, tighten

errors.register(E203="access out of bounds", E204="cannot be proved", E210="one element written twice",
                E211="instances of one statement depend on each other", E213="element read that nothing wrote",
                E214="output with elements that nothing writes")


@dataclass(frozen=True)
class Placed:
    """A statement with its domain. forms: of its left side, in which a subscript that reads a tensor (a scatter) is an index of
    its own, that runs over the whole dimension; scattered: these indices, which are in the domain's box only. ranges: of all
    indices, before conditions narrow them to the domain's box."""

    lowered: Lowered
    domain: Domain
    forms: tuple[QuasiAffine, ...]
    scattered: tuple[str, ...]
    ranges: pr.Box

    @property
    def vacant(self) -> frozenset[str]:
        """The indices that have no values; with one the statement has no instances."""
        return frozenset(i for i, (low, high) in self.domain.box.items() if low > high)


def without_elements(hull: Hull) -> bool:
    """Is the extent of a dimension 0?"""
    return any(low > high for low, high in hull)


def idle(s: Placed, hulls: Mapping[str, Hull]) -> bool:
    """Does nothing that the statement says happen? It has no instances, or they are all skipped, as `else identity` reads a
    tensor without elements."""
    return bool(s.vacant) or any(without_elements(hulls[r.tensor]) for r in s.lowered.skipped)


def _point(point: Mapping[str, int], names: Iterable[str]) -> str:
    """`i=1, j=0`."""
    return ", ".join(f"{i}={point[i]}" for i in point if i in set(names))


def _element(tensor: str, coordinates: Iterable[object]) -> str:
    inner = ", ".join(map(str, coordinates))
    return f"{tensor}[{inner}]" if inner else tensor


# ---- bounds

def check_bounds(s: Placed, hulls: Mapping[str, Hull], sizes: Mapping[str, object], report: Report) -> bool:
    """Every unguarded read stays inside its tensor (E203 with a point, E204 if the domain is too large to look at)."""
    if s.vacant:
        return True
    good = _check_gathers(s, hulls, report)
    for c in constraints(s.lowered, hulls):
        point = violation(c, s.domain)
        if point == {}:
            continue
        low, high = interval(c.form, s.domain.box)
        good = False
        read = f"dimension {c.axis} of `{c.tensor}`"
        if point is None:
            report.add("E204", f"{read} may be read at {low} to {high}, it has {c.low}:{c.high + 1}", c.span,
                       "the domain is too large to look at every point: narrow the ranges with `where`")
            continue
        place = ["_"] * len(hulls[c.tensor])
        place[c.axis] = str(at(c.form, point))
        known = ", ".join(f"{n}={v}" for n, v in sizes.items())
        extent = f"extent {c.high + 1}" if c.low == 0 else f"which has {c.low}:{c.high + 1}"
        where = _point(point, indices(c.form)) or "every instance"
        plain = [e.name for e in s.lowered.subscripts if isinstance(e, pr.Index) and e.name in indices(c.form)]
        recurrent = bool(plain) and not s.lowered.loops and any(
            isinstance(r, pr.Read) and r.tensor == s.lowered.target and s.lowered.span(r) == c.span and follows(r, s.lowered)
            for r in pr.walk(s.lowered.value.expr))
        backwards = not list(indices(c.form)) and at(c.form, point) < c.low
        report.add("E203", f"{read} is read out of bounds", c.span,
                   f"{f'with {known}: ' if known else ''}{where} reads {_element(c.tensor, place)}, {extent}",
                   NARROWS_NOTHING if s.lowered.masks else "",
                   f"coordinates count from {c.low}: the last one is {c.high}" if backwards else
                   cures.of_recurrence(s.lowered.source, plain[0], ":".join(
                       str(n) for n in (s.domain.box[plain[0]][0], s.domain.box[plain[0]][1] + 1)), report.source)
                   if recurrent else
                   "narrow the range with `where`, or guard the read: `(" + c.tensor + "[...] else 0)`")
    return good


def _check_gathers(s: Placed, hulls: Mapping[str, Hull], report: Report) -> bool:
    """What is read at places that memory tells has elements."""
    good = True
    for read in dict.fromkeys(n for e in s.lowered.expressions for n in pr.walk(e) if isinstance(n, pr.Read)):
        if read.default is None and None in map(affine, read.subscripts) and without_elements(hulls[read.tensor]):
            good = False
            report.add("E203", f"`{read.tensor}` has no elements that could be read", s.lowered.span(read),
                       f"guard the read: `({read.tensor}[...] else 0)`")
    return good


def violation(c: Constraint, domain: Domain) -> dict[str, int] | None:
    """A point that breaks the constraint; {} if there is none; None if there are too many points to look at."""
    if c.path:
        domain = tighten(Domain(domain.box, (*domain.conditions, *c.path)))
        if domain.empty:
            return {}
    low, high = interval(c.form, domain.box)
    if c.low <= low and high <= c.high:
        return {}
    own = indices(c.form)
    if exact(c.form) and not domain.connected(own)[1]:
        up = high > c.high
        signs = {str(atom): factor for atom, factor in c.form.terms}
        return {i: domain.box[i][(signs[i] > 0) == up] for i in domain.box if i in own} or {"": 0}
    if any(_implied(c, condition, domain.box) for condition in c.path):
        return {}
    points = domain.points(own)
    if points is None:
        return None
    reached = values(c.form, points.__getitem__)
    wrong = np.nonzero((reached < c.low) | (reached > c.high))[0]
    return {i: int(a[wrong[0]]) for i, a in points.items()} if len(wrong) else {}


def _implied(c: Constraint, condition: pr.Expr, box: pr.Box) -> bool:
    """Is a constraint kept where a comparison holds, as 0 <= i - j - 1 is where j < i? (False may mean: not seen.)"""
    bounds = as_bounds(condition)
    if bounds is None:
        return False
    form, least, most = bounds
    ends = interval(c.form, box)
    for sign in (1, -1):
        rest = interval(add(c.form, form, -sign), box)
        below, above = (least, most) if sign > 0 else (most, least)
        low = ends[0] if below is None else max(ends[0], rest[0] + sign * below)
        high = ends[1] if above is None else min(ends[1], rest[1] + sign * above)
        if c.low <= low and high <= c.high:
            return True
    return False


# ---- writes

def check_injective(s: Placed, report: Report) -> bool:
    """`=` writes each element at most once (E210 with two points)."""
    box = {i: b for i, b in s.domain.box.items() if b[1] > b[0]}
    if _mixed_radix(s.forms, box) or _full_rank(s.forms, box):
        return True
    points = s.domain.points(_entangled(s))
    span = s.lowered.source.target_span
    if points is None:
        report.add("E204", f"that the left side writes each element of `{s.lowered.target}` once", span,
                   "the domain is too large to look at every point: write the left side with plain indices")
        return False
    address = _addresses([f for f in s.forms if indices(f) <= set(points)], points)
    order = np.argsort(address, kind="stable")
    twice = np.nonzero(address[order][1:] == address[order][:-1])[0]
    if not len(twice):
        return True
    a, b = sorted((int(order[twice[0]]), int(order[twice[0] + 1])))
    first, second = ({i: int(p[k]) for i, p in points.items()} for k in (a, b))
    rest = {i: low for i, (low, _) in s.domain.box.items()} | first
    place = [at(f, rest) for f in s.forms]
    message, cure = met_twice(s.lowered.target, s.lowered.op is not None)
    report.add("E210", message, span,
               f"{_point(first, first)} and {_point(second, second)} both write {_element(s.lowered.target, place)}", cure)
    return False


def met_twice(target: str, reset: bool) -> tuple[str, str]:
    """Message and cure where a left side meets an element twice, under `=` or, with `reset`, under `op=!`."""
    if reset:
        return (f"`op=!` starts one element of `{target}` again twice",
                "write its first value in a statement of its own, and leave the `!` away")
    return f"`=` writes one element of `{target}` twice", "use an update such as `+=` if they are to be combined"


def _entangled(s: Placed) -> list[str]:
    """The indices without those that a dimension of their own determines."""
    alone = {f.index for f in s.forms if f.index is not None and sum(f.index in indices(g) for g in s.forms) == 1}
    return [i for i in s.domain.box if i not in alone] or list(s.domain.box)


def _addresses(forms: Iterable[QuasiAffine], points: Mapping[str, np.ndarray]) -> np.ndarray:
    """One number an element: equal exactly where all forms are equal."""
    count = len(next(iter(points.values()))) if points else 1
    address = np.zeros(count, np.int64)
    for f in forms:
        reached = np.broadcast_to(values(f, points.__getitem__), (count,))
        low, high = (int(reached.min()), int(reached.max())) if count else (0, 0)
        address = address * (high - low + 1) + (reached - low)
    return address


def _full_rank(forms: tuple[QuasiAffine, ...], box: Mapping[str, tuple[int, int]]) -> bool:
    """Do the forms, as a linear map of their atoms, determine every atom, and the atoms every index?"""
    atoms = list(dict.fromkeys(a for f in forms for a, _ in f.terms if indices(a) & set(box)))
    known = {a for a in atoms if isinstance(a, str)}
    halves = {(a.a, a.divisor) for a in atoms if isinstance(a, Quotient)} & {
        (a.a, a.divisor) for a in atoms if isinstance(a, Remainder)}
    known |= {inner.index for inner, _ in halves if inner.index is not None}
    if not set(box) <= known:
        return False
    rows = [[Fraction(dict(f.terms).get(a, 0)) for a in atoms] for f in forms]
    return _rank(rows) == len(atoms)


def _rank(rows: list[list[Fraction]]) -> int:
    rank = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((k for k in range(rank, len(rows)) if rows[k][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for k in range(rank + 1, len(rows)):
            factor = rows[k][column] / rows[rank][column]
            rows[k] = [x - factor * y for x, y in zip(rows[k], rows[rank], strict=True)]
        rank += 1
    return rank


def _mixed_radix(forms: tuple[QuasiAffine, ...], box: Mapping[str, tuple[int, int]]) -> bool:
    """Is every form a number in mixed radix, no index in two of them? Then the left side is injective."""
    seen: set[str] = set()
    for f in forms:
        reach = 0
        for atom, c in sorted(f.terms, key=lambda t: abs(t[1])):
            if isinstance(atom, str) and atom not in box:
                continue
            if not isinstance(atom, str) or atom in seen or abs(c) <= reach:
                return False
            seen.add(atom)
            reach += abs(c) * (box[atom][1] - box[atom][0])
    return seen == set(box)


# ---- independence

def check_independent(s: Placed, report: Report) -> bool:
    """No instance reads what another instance writes (E211 with two instances)."""
    good = True
    for read in _own_reads(s.lowered) if s.scattered else ():
        report.add("E211", f"`{s.lowered.target}` is read by a statement that scatters into it", s.lowered.span(read),
                   "several instances may meet in one element: use an update such as `+=`, or read a copy")
        return False
    for read in _own_reads(s.lowered):
        forms = [affine(e) for e in read.subscripts]
        if None in forms:
            report.add("E211", f"`{s.lowered.target}` is read through a gather by the statement that writes it",
                       s.lowered.span(read), "copy the tensor first")
            good = False
            continue
        known = tuple(f for f in forms if f is not None)
        in_place = known == s.forms and set(s.domain.box) == frozenset().union(*map(indices, s.forms))
        if in_place or _apart(s, known):
            continue
        good &= _no_conflict(s, read, known, report)
    return good


def _own_reads(s: Lowered) -> list[pr.Read]:
    return list(dict.fromkeys(n for e in s.expressions for n in pr.walk(e) if isinstance(n, pr.Read) and n.tensor == s.target))


def _apart(s: Placed, forms: tuple[QuasiAffine, ...]) -> bool:
    """Are the boxes read and written disjoint?"""
    pairs = [(interval(a, s.domain.box), interval(b, s.domain.box)) for a, b in zip(forms, s.forms, strict=True)]
    return any(r[1] < w[0] or w[1] < r[0] for r, w in pairs)


def _no_conflict(s: Placed, read: pr.Read, forms: tuple[QuasiAffine, ...], report: Report) -> bool:
    points = s.domain.points(s.domain.box)
    span: Span = s.lowered.span(read)
    message = f"the statement reads what another of its instances writes to `{s.lowered.target}`"
    cure = "instances of one statement are independent; write to another tensor, or order them with `for`"
    if points is None:
        report.add("E204", f"that no instance reads what another one writes to `{s.lowered.target}`", span, cure)
        return False
    count = len(next(iter(points.values()))) if points else 1
    both = {i: np.concatenate([a, a]) for i, a in points.items()}
    half = np.arange(2 * count) < count
    address = np.zeros(2 * count, np.int64)
    for r, w in zip(forms, s.forms, strict=True):
        reached = np.where(half, values(w, both.__getitem__), values(r, both.__getitem__))
        address = address * int(reached.max() - reached.min() + 1) + (reached - reached.min())
    writes, reads = address[:count], address[count:]
    order = np.argsort(writes, kind="stable")
    left = np.searchsorted(writes[order], reads, "left")
    right = np.searchsorted(writes[order], reads, "right")
    me = np.arange(count)
    lone = right - left == 1
    own = lone & (order[np.minimum(left, count - 1)] == me)
    clash = np.nonzero((right > left) & ~own)[0]
    if not len(clash):
        return True
    reader = int(clash[0])
    writer = next(int(k) for k in order[left[reader]:right[reader]] if k != reader)
    first, second = ({i: int(p[k]) for i, p in points.items()} for k in (reader, writer))
    place = [at(f, first) for f in forms]
    witness = f"instance {_point(first, first)} reads {_element(read.tensor, place)}, which {_point(second, second)} writes"
    report.add("E211", message, span, witness, cure)
    return False


# ---- written before read

def check_written(s: Placed, read: pr.Read | None, coverage: Coverage, report: Report) -> bool:
    """Every element read has been written before (E213). read: None stands for the update's own target."""
    if coverage.whole:
        return True
    lowered = s.lowered
    subscripts = lowered.subscripts if read is None else read.subscripts
    span = lowered.source.target_span if read is None else lowered.span(read)
    tensor = lowered.target if read is None else read.tensor
    forms = [affine(e) for e in subscripts]
    box: list[tuple[int, int]] = []
    for f, (low, high) in zip(forms, coverage.hull, strict=True):
        a, b = interval(f, s.domain.box) if f is not None else (low, high)
        box.append((max(a, low), min(b, high)))
    if any(a > b for a, b in box) or coverage.contains(tuple(box)) or coverage.matches(forms, s.domain):
        return True
    raster = coverage.raster()
    points = s.domain.points(frozenset().union(*(indices(f) for f in forms if f is not None)))
    cure = "write it first, or narrow the range with `where`"
    if raster is None or points is None:
        report.add("E204", f"that every element of `{tensor}` that is read has been written", span, cure)
        return False
    return _all_written(tensor, forms, points, raster, coverage.hull, span, report, cure)


def _all_written(tensor: str, forms: list[QuasiAffine | None], points: Mapping[str, np.ndarray], raster: np.ndarray, hull: Hull,
                 span: Span, report: Report, cure: str) -> bool:
    gathered = tuple(d for d, f in enumerate(forms) if f is None)
    written = np.asarray(raster.all(axis=gathered))
    count = len(next(iter(points.values()))) if points else 1
    places, inside = [], np.ones(count, bool)
    for f, (low, high) in zip(forms, hull, strict=True):
        if f is not None:
            reached = np.broadcast_to(values(f, points.__getitem__), (count,))
            inside &= (reached >= low) & (reached <= high)
            places.append((np.clip(reached, low, high) - low, low))
    missing = np.nonzero(inside & ~written[tuple(p for p, _ in places)])[0]
    if not len(missing):
        return True
    k = int(missing[0])
    known = iter([int(p[k]) + low for p, low in places])
    place = ["_" if f is None else str(next(known)) for f in forms]
    where = ", ".join(f"{i}={int(a[k])}" for i, a in points.items())
    report.add("E213", f"`{tensor}` is read where nothing wrote it", span,
               f"{where or 'it'} reads {_element(tensor, place)}", cure)
    return False


def check_complete(tensor: str, coverage: Coverage, span: Span | None, report: Report) -> bool:
    """An output has no holes (E214 with a coordinate)."""
    if without_elements(coverage.hull) or coverage.contains(coverage.hull):
        return True
    raster = coverage.raster()
    if raster is None:
        report.add("E204", f"that every element of the output `{tensor}` is written", span)
        return False
    holes = np.argwhere(~raster)
    if not len(holes):
        return True
    place = [int(x) + low for x, (low, _) in zip(holes[0], coverage.hull, strict=True)]
    report.add("E214", f"nothing writes some elements of the output `{tensor}`", span,
               f"the first is {_element(tensor, place)}; its bounds are "
               + ", ".join(f"{low}:{high + 1}" for low, high in coverage.hull),
               begun(tensor, coverage.hull))
    return False
