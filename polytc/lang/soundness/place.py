"""Where statements run and what they write: domains one by one, and the bounds of the tensors that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polytc.lang.report import Report
from polytc.lang.soundness import check, resets
from polytc.lang.soundness.coverage import Image, bounding_box, image
from polytc.lang.soundness.guards import guarded
from polytc.lang.soundness.proof import Prover
from polytc.lang.typing import ranges
from polytc.lang.typing.agreement import check_own_reads
from polytc.lang.typing.declare import Declarations
from polytc.lang.typing.lowered import Lowered
from polytc.program import program as pr
from polytc.program.affine import Affine, affine, indices, interval
from polytc.program.domain import Domain, condition_indices

_REACH = 1 << 62
"""Subscripts stay below this, so that no target's 64-bit arithmetic on them wraps."""

_ROUNDS = 6
"""Bounds of tensors that a loop reads before it writes them settle within this many rounds, or not at all."""


class Placing:
    """The statements of one program with their domains. prover: what decides the questions that take too many points.

    placed, images: one a statement, None where it was refused (and the image where only its box is known); hulls: the bounds of
    all tensors; open: is there a read whose bounds are still to be proved?
    """

    def __init__(self, lowered: Sequence[Lowered | None], d: Declarations, prover: Prover | None) -> None:
        self.lowered, self.d, self.prover = lowered, d, prover
        self.placed: list[check.Placed | None] = []
        self.images: list[Image | None] = []
        self.hulls: dict[str, ranges.Hull] = {}
        self.open = False

    def run(self, report: Report) -> Placing:
        """Place all statements. What a `for` reads before it writes it has the bounds that the round before found."""
        looped = any(s is not None and s.loops for s in self.lowered)
        for _ in range(_ROUNDS):
            trial, before = Report(report.source), self.hulls
            self.place_once(before, trial)
            self.hulls = self.bounds()
            if self.hulls == before or not looped:
                break
        else:
            for name in sorted(self.hulls):
                if self.hulls[name] != before.get(name):
                    trial.add("E201", f"the bounds of `{name}` depend on themselves", self.d.spans.get(name),
                              "each round of the `for` leaves less of it: state the ranges with `where`")
        report.found += [x for x in trial.found if x not in report.found]
        return self

    def place_once(self, before: Mapping[str, ranges.Hull], report: Report) -> None:
        """Domains, statement by statement; what a statement writes bounds the later ones that read it. before: bounds of what
        is not written yet."""
        hulls: dict[str, ranges.Hull] = {n: tuple((0, x - 1) for x in self.d.shapes[n]) for n in self.d.inputs}
        lost: set[str] = set()
        self.placed, self.images = [], []
        for s in self.lowered:
            known = {**before, **hulls} if s is not None and s.loops else hulls
            leader = self.placed[-s.source.member] if s is not None and s.source.member else None
            result, written = (None, None) if s is None or lost & read_names(s) else self.one(s, known, report, leader)
            if result is None and s is not None:
                lost.add(s.target)
            if result is not None and result.lowered.target not in self.d.inputs:
                old = hulls.get(result.lowered.target)
                new = written.hull if written else _reached(result)
                hulls[result.lowered.target] = new if old is None else _union(old, new)
            self.placed.append(result)
            self.images.append(written)

    def one(self, s: Lowered, hulls: Mapping[str, ranges.Hull], report: Report, leader: check.Placed | None
            ) -> tuple[check.Placed | None, Image | None]:
        """leader: the first statement of the tuple reduction that this one belongs to; they have one domain."""
        if s.source.member and leader is None:
            return None, None
        target = hulls.get(s.target)
        declared = self.d.declared.get(s.target)
        if declared is not None and None not in declared:
            target = tuple(ends for ends in declared if ends is not None)
        found = (leader.domain, leader.ranges) if leader is not None else ranges.infer(s, hulls, target, report)
        if found is None or not _reachable(s, found[0], report):
            return None, None
        if check_own_reads(s, hulls, found[1], self.d, report):
            return None, None
        placed = _left_forms(guarded(s, found[0], hulls), *found, target, report)
        if placed is None or not (s.loops or self.in_bounds(placed, hulls, report)):
            return None, None
        return placed, self.image(placed)

    def in_bounds(self, s: check.Placed, hulls: Mapping[str, ranges.Hull], report: Report) -> bool:
        """Are all reads in bounds, or may the prover find them so?"""
        trial = Report(report.source)
        if check.check_bounds(s, hulls, self.d.sizes, trial):
            return True
        if self.prover is not None and all(x.code == "E204" for x in trial.found):
            self.open = True
            return True
        report.found += [x for x in trial.found if x not in report.found]
        return False

    def image(self, s: check.Placed) -> Image | None:
        """What a statement writes; its bounds alone for an update, as the initialisation writes the rest, and in loops,
        where the prover knows it. What starts again in an iteration is written too, whether a term meets it or not."""
        if resets.restarts(s.lowered):
            s = resets.restarted(s)
        if s.vacant:
            return Image(_of_none(s))
        if s.lowered.loops or (s.lowered.op is not None and not s.lowered.source.reset):
            box = bounding_box(s.forms, s.domain)
            if box is None and s.lowered.loops and self.prover is not None:
                box = self.prover.hull(s.lowered.subscripts, s.domain)
            if box is not None:
                return Image(box)
        return image(s.forms, s.domain)

    def bounds(self) -> dict[str, ranges.Hull]:
        """Bounds of all tensors: of the inputs, and the hull of all writers of the others."""
        hulls: dict[str, ranges.Hull] = {n: tuple((0, x - 1) for x in self.d.shapes[n]) for n in self.d.inputs}
        for s, written in zip(self.placed, self.images, strict=True):
            if s is not None and s.lowered.target not in self.d.inputs:
                new = written.hull if written else _reached(s)
                old = hulls.get(s.lowered.target)
                hulls[s.lowered.target] = new if old is None else _union(old, new)
        return hulls


def read_names(s: Lowered) -> set[str]:
    """The tensors that a statement's expressions read."""
    return {n.tensor for e in s.expressions for n in pr.walk(e) if isinstance(n, pr.Read)}


def _reached(s: check.Placed) -> ranges.Hull:
    """The intervals of the subscripts of the left side."""
    domain = (resets.restarted(s) if resets.restarts(s.lowered) else s).domain
    return tuple(interval(f, domain.box) for f in s.forms)


def _of_none(s: check.Placed) -> ranges.Hull:
    """The bounds of what a statement without instances writes: a subscript of an index without values has none, the others have
    those that the other indices give them."""
    box = {i: ends for i, ends in s.domain.box.items() if i not in s.vacant}
    own = [f for f in s.forms if not indices(f) & s.vacant]
    found = image(own, Domain(box, tuple(c for c in s.domain.conditions if condition_indices(c) <= box.keys())))
    rest = iter(found.hull if found is not None else [interval(f, box) for f in own])
    lows = (interval(f, s.domain.box)[0] for f in s.forms)
    return tuple((low, low - 1) if indices(f) & s.vacant else next(rest) for f, low in zip(s.forms, lows, strict=True))


def _left_forms(s: Lowered, domain: Domain, known: pr.Box, target: ranges.Hull | None, report: Report) -> check.Placed | None:
    """The statement with the forms of its left side, see Placed. known: the ranges of its indices; target: the bounds of what
    it writes, if they are known."""
    forms, box = list(map(affine, s.subscripts)), dict(domain.box)
    scattered = {axis: f"{s.target}_{axis}" for axis, form in enumerate(forms) if form is None}
    for axis, name in scattered.items():
        if target is None:
            shape = ",".join(["10"] * len(forms))
            report.add("E216", f"the extent of dimension {axis} of `{s.target}` is not known", s.source.target_span,
                       f"what is read there may be any number: declare the shape, `-> ({s.value.dtype}[{shape}] {s.target})`, "
                       "or write the tensor first")
            return None
        while name in box:
            name += "_"
        box[name] = target[axis]
        forms[axis] = Affine(0, ((name, 1),))
    added = tuple(i for i in box if i not in domain.box)
    reach = {**known, **{i: box[i] for i in added}}
    return check.Placed(s, Domain(box, domain.conditions), tuple(f for f in forms if f is not None), added, reach)


def _union(a: ranges.Hull, b: ranges.Hull) -> ranges.Hull:
    """The smallest box around both; what has no elements does not make the other one larger."""
    if check.without_elements(a) != check.without_elements(b):
        return b if check.without_elements(a) else a
    return tuple((min(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True))


def _reachable(s: Lowered, domain: Domain, report: Report) -> bool:
    """No subscript leaves the integers that every target computes with (E306)."""
    places = [(s.subscripts, s.source.target_span)]
    for e in s.expressions:
        places += [(n.subscripts, s.span(n)) for n in pr.walk(e) if isinstance(n, pr.Read)]
    good = True
    for subscripts, span in places:
        for form in map(affine, subscripts):
            low, high = interval(form, domain.box) if form is not None else (0, 0)
            if max(-low, high) >= _REACH:
                report.add("E306", f"a subscript reaches {low if -low > high else high}", span,
                           "subscripts are computed in i64 and stay below 2**62")
                good = False
    return good
