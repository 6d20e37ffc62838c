"""Extents that must agree: two parameters that a statement walks along one index have as many elements along it.

A range is the largest for which all reads are in bounds. Where one of two arrays is longer, that would drop its rest without a
word; so such a range is stated, not inferred. Reads that ask for less than an array has (a window, a guarded read) say so
themselves, and the bounds of temporaries are the program's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polytc.lang.report import Report
from polytc.lang.typing import cures
from polytc.lang.typing.declare import Declarations
from polytc.lang.typing.lowered import Lowered
from polytc.program import program as pr
from polytc.program.affine import affine, indices, interval


def check_extents(statements: Sequence[Lowered | None], d: Declarations, report: Report) -> None:
    """An index that stands alone in unguarded reads of several parameters has one extent in all of them (E207), unless a range
    is stated for it, or the parameter is read through a window of the index too, as in `A[i] + A[i+1]`."""
    for s in statements:
        if s is not None and not s.source.member:
            _check(s, d, report)


def _check(s: Lowered, d: Declarations, report: Report) -> None:
    stated = {b.index for b in s.bounds} | {b.index for b in s.limits}
    reads = [r for r in _values(s) if r.tensor in d.inputs]
    windows = {(r.tensor, i) for r in reads for i in _moved(r)}
    alone: dict[str, dict[str, tuple[int, pr.Read]]] = {}
    for r in reads:
        for axis, form in enumerate(map(affine, r.subscripts)):
            index = None if form is None else form.index
            if index is None or index in stated or (r.tensor, index) in windows:
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


def check_own_reads(s: Lowered, box: pr.Box, d: Declarations, report: Report) -> bool:
    """Does what a statement reads of its own tensor, beside the element that it writes, cut a parameter short at both ends
    (E207)? That is a recurrence without a `for`. box: the ranges that were found."""
    stated = {b.index for b in s.bounds} | {b.index for b in s.limits}
    own = [r for r in _values(s) if r.tensor == s.target and r.subscripts != s.subscripts]
    moved = {i for x in own for i in pr.index_names(x)}
    if s.loops or s.target in d.inputs or not own:
        return False
    for r in _values(s):
        for axis, form in enumerate(map(affine, r.subscripts)):
            index = None if form is None else form.index
            if r.tensor not in d.inputs or index is None or index in stated or index not in moved:
                continue
            (low, high), extent = box[index], d.shapes[r.tensor][axis]
            if 0 < low <= high < extent - 1:
                ends = f"{high}:-1:-1" if _looks_ahead(own, index) else f"{low}:{extent}"
                report.add("E207", f"`{index}` is {low}:{high + 1} by what `{s.target}` has so far, and 0:{extent} in "
                           f"`{r.tensor}`",
                           s.span(r), cures.of_recurrence(s.source, index, ends, report.source),
                           f"or say how far to go: `where {index} in {low}:{high + 1}`")
                return True
    return False


def _looks_ahead(own: Sequence[pr.Read], index: str) -> bool:
    """Does some read go to a larger place than the index?"""
    forms = [affine(e) for r in own for e in r.subscripts if index in pr.index_names(e)]
    return any(f is not None and interval(f, dict.fromkeys(indices(f), (0, 0)))[0] > 0 for f in forms)


def _values(s: Lowered) -> Iterator[pr.Read]:
    """The unguarded reads of what the instances compute."""
    for e in (s.value.expr, *s.also):
        yield from (n for n in pr.walk(e) if isinstance(n, pr.Read) and n.default is None)


def _moved(read: pr.Read) -> set[str]:
    """The indices in the subscripts of a read that stand beside something else."""
    forms = [f for f in map(affine, read.subscripts) if f is not None]
    return {i for f in forms if f.index is None for i in indices(f)}
