"""Extents that must agree: two parameters that a statement walks along one index have as many elements along it.

A range is the largest for which all reads are in bounds. Where one of two arrays is longer, that would drop its rest without a
word; so such a range is stated, not inferred. Reads that ask for less than an array has (a window, a guarded read) say so
themselves, and the bounds of temporaries are the program's own. A tensor that a statement reads and goes on writing is short
only because that statement did not run yet: there a loop is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd

from polytc.lang.report import Report
from polytc.lang.typing import branches, cures
from polytc.lang.typing.declare import Declarations
from polytc.lang.typing.lowered import Lowered
from polytc.lang.typing.ranges import Hull
from polytc.program import program as pr
from polytc.program.affine import Affine, QuasiAffine, add, affine, indices
from polytc.program.solutions import holding, solve


def check_extents(statements: Sequence[Lowered | None], d: Declarations, report: Report) -> None:
    """An index that stands alone in unguarded reads of several parameters has one extent in all of them (E207), unless a range
    is stated for it, or the parameter is read through a window of the index too, as in `A[i] + A[i+1]`, or in a branch for
    some values of the index."""
    for s in statements:
        if s is not None and not s.source.member:
            _check(s, d, report)


def _check(s: Lowered, d: Declarations, report: Report) -> None:
    stated = {b.index for b in s.bounds} | {b.index for b in s.limits}
    behind = {(r, i) for e in _computed(s) for r, path in branches.reads(e) for c in path for i in pr.index_names(c)
              if holding(c, i) is not None}
    reads = [r for r in _values(s) if r.tensor in d.inputs]
    windows = {(r.tensor, i) for r in reads for i in _moved(r)}
    alone: dict[str, dict[str, tuple[int, pr.Read]]] = {}
    for r in reads:
        for axis, form in enumerate(map(affine, r.subscripts)):
            index = None if form is None else form.index
            if index is None or index in stated or (r.tensor, index) in windows or (r, index) in behind:
                continue
            extent, known = d.shapes[r.tensor][axis], alone.setdefault(index, {})
            if r.tensor not in known or extent < known[r.tensor][0]:  # of two axes of one tensor the shorter one counts
                known[r.tensor] = extent, r
    for index, known in alone.items():
        (first, (extent, _)), *others = known.items()
        for other, (n, read) in others:
            if n != extent:
                report.add("E207", f"`{index}` is {extent} in `{first}` and {n} in `{other}`", s.span(read),
                           "correct the shapes, or say how far to go: "
                           f"`where {index} in 0:{min(x for x, _ in known.values())}`")
                break


def check_own_reads(s: Lowered, hulls: Mapping[str, Hull], box: pr.Box, d: Declarations, report: Report) -> bool:
    """Does what a statement reads of its own tensor, that it would write itself if it went on, cut a parameter short at both
    ends, or to one element (E207)? That is a recurrence without a `for`. box: the ranges that were found."""
    if s.loops or s.target in d.inputs or s.target not in hulls:
        return False
    stated = {b.index for b in s.bounds} | {b.index for b in s.limits}
    own = [r for r in _values(s) if r.tensor == s.target and r.subscripts != s.subscripts and follows(r, s)]
    for r in _values(s):
        for axis, form in enumerate(map(affine, r.subscripts)):
            index = None if form is None else add(form, Affine(-form.constant)).index
            if form is None or index is None or index in stated or r.tensor not in d.inputs:
                continue
            ends, extent = _allowed(own, index, hulls[s.target], box), d.shapes[r.tensor][axis]
            if ends is None:
                continue
            first, last = (n + form.constant for n in ends)
            if 0 < first <= last < extent - 1 or 0 <= first == last < extent != 1:
                onward = f"{ends[1]}:{-1 - form.constant}:-1" if _looks_ahead(own, index, s) else \
                    f"{ends[0]}:{extent - form.constant}"
                text, span = f"{ends[0]}:{ends[1] + 1}", s.span(r)
                report.add("E207", f"`{index}` is {text} by what `{s.target}` has so far, and `{r.tensor}` goes on to {extent}",
                           span, cures.of_recurrence(s.source, index, onward, report.source),
                           f"or say how far to go: `where {index} in {text}`")
                return True
    return False


def _allowed(own: Sequence[pr.Read], index: str, hull: Hull, box: pr.Box) -> tuple[int, int] | None:
    """The first and the last value that reads of a tensor with these bounds allow an index; None if they allow any."""
    forms = [(f, *ends) for r in own for f, ends in zip(map(affine, r.subscripts), hull, strict=True) if f is not None]
    found = [solve(f, low, high, index, box, every=True) for f, low, high in forms if index in indices(f)]
    lows = [ends[0] for ends in found if ends is not None and ends[0] is not None]
    highs = [ends[1] for ends in found if ends is not None and ends[1] is not None]
    return (max(lows), min(highs)) if lows and highs else None


def follows(read: pr.Read, s: Lowered) -> bool:
    """May an instance of a statement write what another one reads, were its ranges longer? `T[1,i] = T[0,i]` does not."""
    return not any(_never_equal(affine(a), affine(b)) for a, b in zip(s.subscripts, read.subscripts, strict=True))


def _never_equal(a: QuasiAffine | None, b: QuasiAffine | None) -> bool:
    """Do two forms differ whatever values the indices of either have?"""
    if a is None or b is None:
        return False
    divisor, distance = gcd(*(c for f in (a, b) for _, c in f.terms)), b.constant - a.constant
    return distance % divisor != 0 if divisor else distance != 0


def _looks_ahead(own: Sequence[pr.Read], index: str, s: Lowered) -> bool:
    """Does some read go to a larger place than the element that is written?"""
    forms = [(affine(a), affine(b)) for r in own for a, b in zip(s.subscripts, r.subscripts, strict=True)
             if index in pr.index_names(b)]
    return any(a is not None and b is not None and b.constant > a.constant for a, b in forms)


def _values(s: Lowered) -> Iterator[pr.Read]:
    """The unguarded reads of what the instances compute."""
    for e in _computed(s):
        yield from (n for n in pr.walk(e) if isinstance(n, pr.Read) and n.default is None)


def _computed(s: Lowered) -> tuple[pr.Expr, ...]:
    """What the instances compute."""
    return (s.value.expr, *s.also)


def _moved(read: pr.Read) -> set[str]:
    """The indices in the subscripts of a read that stand beside something else."""
    forms = [f for f in map(affine, read.subscripts) if f is not None]
    return {i for f in forms if f.index is None for i in indices(f)}
