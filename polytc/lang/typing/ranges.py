"""Range inference: for each index the largest interval for which every read of the statement is in bounds.

Note: the rule. Indices are solved in rounds. In a round, each unsolved index takes the intersection of the intervals that the
reads with no other unsolved index allow *for all* values of the solved ones (Tensor Comprehensions' rule). A read in a branch
for some values of the index says nothing of the others. `where` ranges are solved first. If no read helps, conditions bound an
index, then the declared (or already written) target does, then a guarded read, or one in a branch, that has the bare index as a
subscript (the batch index of a padded convolution).

An index has no values where its stated range is empty, where a dimension that it alone reads has extent 0, or where the plain
reads of it leave exactly none (`A[i+1] - A[i]` of one element). The statement has no instances then. A range that is stated in
terms of such an index is empty, too; a read of it and others tells nothing about the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from polytc import errors
from polytc.errors import Span
from polytc.lang.report import Report
from polytc.lang.typing import branches, cures
from polytc.lang.typing.lowered import Bound, Lowered
from polytc.program import program as pr
from polytc.program.affine import QuasiAffine, affine, indices, interval
from polytc.program.domain import Domain, as_bounds, condition_indices, separated, tighten
from polytc.program.scalars import BOOL, I64
from polytc.program.solutions import Interval, intersection, solve, solve_behind

errors.register(E201="range cannot be inferred", E202="empty range")

NARROWS_NOTHING = "conditions that read tensors, or are not affine in the indices, narrow no range: `where i in ...` does"

_FAR = 1 << 62
"""Indices stay below this."""

Hull: TypeAlias = tuple[tuple[int, int], ...]
"""(smallest, largest) coordinate in each dimension of a tensor."""


@dataclass(frozen=True)
class Constraint:
    """low <= form <= high must hold for every point for which all conditions of `path` do: dimension `axis` of a read of
    `tensor`."""

    tensor: str
    axis: int
    form: QuasiAffine
    low: int
    high: int
    span: Span
    path: branches.Path = ()


def infer(s: Lowered, hulls: Mapping[str, Hull], target: Hull | None, report: Report) -> tuple[Domain, pr.Box] | None:
    """The domain of a statement, and the ranges of its indices before conditions narrow them. hulls: of every tensor that may
    be read; target: the declared or earlier bounds of its left side. None after a report."""
    reads = constraints(s, hulls)
    guards = [*constraints(s, hulls, guarded=True), *(replace(c, path=()) for c in reads if c.path)]
    solver = _Solver(s, reads, _left(s, target), [c for c in guards if c.form.index is not None])
    box = solver.run()
    if solver.report_empty(report):
        return None
    far = [index for index, (low, high) in box.items() if max(-low, high) >= _FAR]
    for index in far:
        low, high = box[index]
        report.add("E306", f"the range of `{index}` is {low}:{high + 1}", s.source.span,
                   "indices are i64 and stay below 2**62: narrow the range")
    if far:
        return None
    missing = [i for i in s.indices if i not in box]
    for index in missing:
        asked = any(index in condition_indices(m) for m in s.masks)
        report.add("E201", f"the range of `{index}` cannot be inferred", s.source.span, *solver.reason(index),
                   NARROWS_NOTHING if asked else "", *cures.of_range(index, s, report.source))
    if missing:
        return None
    box = {i: (low, max(high, low - 1)) for i, (low, high) in box.items()}
    if _narrowed(box, solver.conditions).empty:  # ranges that depend on one another
        box |= {i: (box[i][0], box[i][0] - 1) for i in solver.without_values(box)}
    domain = _narrowed(box, (*solver.conditions, *(c for c, _ in s.conditions)))
    if not domain.empty:
        return Domain({i: domain.box.get(i, ends) for i, ends in box.items()}, domain.conditions), box
    empty = [f"the range of `{index}` is empty" for index, (low, high) in domain.box.items() if low > high]
    for message in empty or ["no point of the domain is left"]:
        report.add("E202", message, s.source.span, "the `where` conditions exclude every value")
    return None


def _narrowed(box: pr.Box, conditions: Iterable[pr.Expr]) -> Domain:
    """The domain of the indices that have values, under the conditions that name no others."""
    own = {i: ends for i, ends in box.items() if ends[0] <= ends[1]}
    return tighten(Domain(own, tuple(dict.fromkeys(c for c in conditions if condition_indices(c) <= own.keys()))))


def constraints(s: Lowered, hulls: Mapping[str, Hull], *, guarded: bool = False) -> list[Constraint]:
    """What the unguarded (or the guarded) reads of a statement demand; a subscript with a read in it (a gather) demands
    nothing."""
    found: list[Constraint] = []
    for e in s.expressions:
        for read, path in branches.reads(e):
            if (read.default is not None) == guarded and read.tensor in hulls:
                found += of_access(read.tensor, read.subscripts, hulls[read.tensor], s.span(read), path)
    return found


def _left(s: Lowered, target: Hull | None) -> list[Constraint]:
    return [] if target is None else of_access(s.target, s.subscripts, target, s.source.target_span)


def of_access(tensor: str, subscripts: tuple[pr.Expr, ...], hull: Hull, span: Span, path: branches.Path = ()
              ) -> list[Constraint]:
    """What an access to a tensor with these bounds demands."""
    forms = [affine(e) for e in subscripts]
    return [Constraint(tensor, axis, form, *hull[axis], span, path) for axis, form in enumerate(forms) if form is not None]


class _Solver:
    def __init__(self, s: Lowered, reads: list[Constraint], left: list[Constraint], guards: list[Constraint]) -> None:
        self.s, self.reads, self.left, self.guards = s, reads, left, guards
        self.box: dict[str, tuple[int, int]] = {}
        self.stated: dict[str, list[Bound]] = {}
        for b in s.bounds:
            self.stated.setdefault(b.index, []).append(b)
        self.conditions = [c for b in s.limits for c in _affine_ends(b)] + [c for b in s.bounds for c in conditions(b)]
        self.used: dict[str, list[Constraint]] = {}
        self.vacant: set[str] = set()
        """Indices without values, which is no error."""
        self.half: dict[str, Interval] = {}
        """What reads in branches say of indices that they do not bound on one side."""

    def run(self) -> dict[str, tuple[int, int]]:
        while len(self.box) < len(self.s.indices) and (
                self.by_clauses() or self.by_constraints(self.reads) or self.by_conditions()
                or self.by_constraints(self.left) or self.by_constraints(self.guards)):
            if self.contradicted():
                break
        return {i: self.box[i] for i in self.s.indices if i in self.box}

    def ready(self, form: QuasiAffine, index: str) -> bool:
        """Is `index` the only unsolved index of the form?"""
        others = indices(form) - {index}
        return index in indices(form) and others <= self.box.keys() and not others & self.vacant

    def fixed(self, index: str) -> bool:
        """Are the ends of a stated range numbers?"""
        return all(isinstance(e, pr.Const) for b in self.stated[index] for e in (b.lower, b.upper))

    def without_values(self, box: pr.Box) -> list[str]:
        """Indices whose stated ranges have no values, of some ranges that have no values together: those for which that follows
        from what their ends name, and else all whose ends name something."""
        dependent = [i for i in self.stated if not self.fixed(i)]
        return [i for i in dependent if _narrowed({x: box[x] for x in self.named(i)}, self.conditions).empty] or dependent

    def named(self, index: str) -> set[str]:
        """The index and those that the ends of its range name, and of their ranges, and so on."""
        found, left = set[str](), {index}
        while left:
            found |= left
            ends = [e for i in left for b in self.stated.get(i, ()) for e in (b.lower, b.upper)]
            left = {name for e in ends for name in pr.index_names(e)} - found
        return found

    def contradicted(self) -> list[str]:
        """Indices that have no values because what bounds them does not go together."""
        return [index for index, (low, high) in self.box.items() if low > high and index not in self.vacant]

    def by_clauses(self) -> bool:
        found: dict[str, tuple[int, int]] = {}
        for index, bounds in self.stated.items():
            forms = [(affine(b.lower), affine(b.upper)) for b in bounds]
            ends = [(low, high) for low, high in forms if low is not None and high is not None]
            if index in self.box or not all(i in self.box for pair in ends for f in pair for i in indices(f)):
                continue
            if any(i in self.vacant for pair in ends for f in pair for i in indices(f)):
                found[index] = (0, -1)
                self.vacant.add(index)
                continue
            spans = [(interval(low, self.box)[0], interval(high, self.box)[1] - 1) for low, high in ends]
            found[index] = max(low for low, _ in spans), min(high for _, high in spans)
            if any(low > high for low, high in spans):
                self.vacant.add(index)
        self.box |= found
        return bool(found)

    def by_constraints(self, constraints: list[Constraint]) -> bool:
        found: dict[str, tuple[int, int]] = {}
        for index in self.s.indices:
            if index in self.box or index in self.stated:
                continue
            used = [(c, ends) for c in constraints if self.ready(c.form, index)
                    and (ends := solve(c.form, c.low, c.high, index, self.box, every=True)) not in (None, (None, None))]
            low, high = self.within(index, used)
            if low is not None and high is not None:
                found[index] = low, high
                self.used.setdefault(index, []).extend(c for c, _ in used)
            elif any(c.path for c, _ in used):
                self.half[index] = low, high
        self.vacant |= {index for index, ends in found.items() if self.exhausted(index, *ends)}
        self.box |= found
        return bool(found)

    def within(self, index: str, used: Sequence[tuple[Constraint, Interval | None]]) -> Interval:
        """The values that constraints leave an index, each with those that it leaves where it applies everywhere. What stands
        behind conditions on the index says nothing where they fail. Of several intervals, which leave places out for which the
        conditions have a branch, it is all from the first to the last: the check of bounds then tells of the place."""
        before = self.half.get(index, (None, None))
        known = [before, *(ends for _, ends in used if ends is not None)]
        low = max((a for a, _ in known if a is not None), default=None)
        high = min((b for _, b in known if b is not None), default=None)
        pieces, own = [before], [solve_behind(c.form, c.low, c.high, index, self.box, c.path) for c, _ in used]
        for (_, ends), apart in zip(used, own, strict=True):
            pieces = intersection(pieces, apart if apart is not None else [ends or (None, None)])
        if all(x is None for x in own) or not pieces:
            return low, high
        first, last = pieces[0][0], pieces[-1][1]
        if low is not None and not any(index in condition_indices(c) for c, _ in self.s.conditions):
            start = min(0, low)  # a choice by an index is about places, which are counted from 0
            first = start if first is None else max(first, start)
        return first, last

    def exhausted(self, index: str, low: int, high: int) -> bool:
        """Do reads without elements, or plain reads with one element too few, leave an index no value?"""
        used = self.used[index]
        plain = high == low - 1 and all(indices(c.form) == {index} for c in used) and not self.apart(index)
        return low > high and (plain or any(c.low > c.high for c in used))

    def by_conditions(self) -> bool:
        for index in self.s.indices:
            if index in self.box or index in self.stated:
                continue
            low, high = self.half.get(index, (None, None))
            for condition, _ in self.s.conditions:
                bounds = as_bounds(condition)
                if bounds is None or not self.ready(bounds[0], index):
                    continue
                ends = solve(*bounds, index, self.box, every=False) or (None, None)
                low = ends[0] if low is None else low if ends[0] is None else max(low, ends[0])
                high = ends[1] if high is None else high if ends[1] is None else min(high, ends[1])
            if low is not None and high is not None:
                self.box[index] = (low, high)
                return True
        return False

    def reason(self, index: str) -> list[str]:
        """Why nothing bounds `index`."""
        if index in self.stated:
            return [f"its `where` range depends on {_list(sorted(set(self.s.indices) - set(self.box) - {index}))}, not solved"]
        mentioned = [c for c in self.reads if index in indices(c.form)]
        if not mentioned:
            names = {n.name for e in self.s.subscripts for n in pr.walk(e) if isinstance(n, pr.Index)}
            inner = next((n.tensor for r, e in self.places() if index in pr.index_names(e) for n in pr.walk(e)
                          if isinstance(n, pr.Read)), None)
            if inner is not None:
                return [f"`{inner}` is a tensor, so that memory decides where it is read: a number bounds `{index}`, as "
                        f"`{inner}` is behind `where {inner} = 3`, or where the call gives it as a scalar"]
            if index in names:
                return ["no read of this statement uses it, and guarded reads do not bound it"]
            return ["no subscript uses it: it is neither a tensor of the program, nor a size, nor a scalar"]
        notes = []
        for c in mentioned[:3]:
            others = sorted(indices(c.form) - set(self.box) - {index})
            why = f"also depends on {_list(others)}" if others else "allows every value of it"
            notes.append(f"dimension {c.axis} of `{c.tensor}` {why}")
        return list(dict.fromkeys(notes))

    def places(self) -> list[tuple[pr.Read, pr.Expr]]:
        """All reads of the statement, each with its subscripts."""
        return [(r, e) for top in self.s.expressions for r in pr.walk(top) if isinstance(r, pr.Read) for e in r.subscripts]

    def apart(self, index: str) -> bool:
        """Do the branches of a choice by the index bound it so that nothing is left of what each would leave alone? Each leaves
        out what the other one is for."""
        choices = [e for e in pr.walk(self.s.value.expr) if isinstance(e, pr.Select) and _itself(e.cond, index)]
        return any(self.leaves(e.a, index) and self.leaves(e.b, index) for e in choices)

    def leaves(self, branch: pr.Expr, index: str) -> bool:
        """Do the plain reads of a branch bound the index, and leave it values?"""
        reads = {r for r in pr.walk(branch) if isinstance(r, pr.Read) and r.default is None}
        spans = {self.s.span(r) for r in reads}
        ends = [solve(c.form, c.low, c.high, index, self.box, every=True) for c in self.used.get(index, ()) if c.span in spans]
        found = [(low, high) for low, high in filter(None, ends) if low is not None and high is not None]
        return bool(found) and max(low for low, _ in found) <= min(high for _, high in found)

    def sources(self, index: str) -> list[str]:
        """Where a range without values comes from."""
        notes: list[str] = []
        for c in self.used.get(index, [])[:3]:
            others = sorted(indices(c.form) - {index})
            values = ", ".join(f"{i} in {self.box[i][0]}:{self.box[i][1] + 1}" for i in others if i in self.box)
            notes.append(f"dimension {c.axis} of `{c.tensor}` allows the coordinates {c.low}:{c.high + 1}"
                         + (f", for all of {values}" if values else ""))
        notes = list(dict.fromkeys(notes))
        for b in self.stated.get(index, []):
            notes.append(f"stated as {pr.format_expr(b.lower)}:{pr.format_expr(b.upper)}")
        return notes

    def report_empty(self, report: Report) -> bool:
        """Report the solved indices that should have a value; the others could not be solved because of them."""
        empty = self.contradicted()
        for index in empty:
            report.add("E202", f"the range of `{index}` is empty", self.s.source.span, *self.sources(index),
                       "reads in the branches of `c ? a : b` bound it, too: guard them, `(A[i-1] else 0)`, and state its range"
                       if self.apart(index) else "")
        return bool(empty)


def _itself(e: pr.Expr, index: str) -> bool:
    """Does an expression use an index beside where it reads?"""
    return e == pr.Index(index) or not isinstance(e, pr.Read) and any(_itself(x, index) for x in pr.children(e))


def conditions(b: Bound) -> list[pr.Expr]:
    """What a stated range says beyond its bounding interval."""
    index = pr.Index(b.index)
    out: list[pr.Expr] = [] if isinstance(b.lower, pr.Const) else separated(pr.Binary(">=", index, b.lower, BOOL))
    if not isinstance(b.upper, pr.Const):
        out += separated(pr.Binary("<", index, b.upper, BOOL))
    if b.step > 1:
        offset: pr.Expr = index if b.lower == pr.Const(0, I64) else pr.Binary("-", index, b.lower, I64)
        out.append(pr.Binary("==", pr.Binary("%", offset, pr.Const(b.step, I64), I64), pr.Const(0, I64), BOOL))
    return out


def _affine_ends(b: pr.Bound) -> list[pr.Expr]:
    """What a range says whose other end is in memory."""
    return [c for c, end in zip(pr.within((b,)), (b.lower, b.upper), strict=True) if affine(end) is not None]


def _list(names: list[str]) -> str:
    return ", ".join(f"`{n}`" for n in names) or "nothing"
