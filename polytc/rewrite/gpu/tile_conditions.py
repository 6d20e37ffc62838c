"""Conditions of a contraction that is cut into whole tiles: triangles and parts of its box.

    C[i,j] += A[i,k]*B[k,j] where j <= i                with A[2048,64], B[64,2048] on gpu
    ->  ...
        C_acc[...] += A_tile[...]*B_tile[...] where -(128*i_group) + 128*j_group - 127 <= 0
        C[128*i_group + 8*i_item + i_row, ...] = C_acc[...]
            where 128*j_group + 4*j_item + j_lane + 64*j_vector <= 128*i_group + 8*i_item + i_row

What a condition says of whole tiles decides which groups and steps run; of single elements, which are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, interval
from polytc.program.linear import collected, expression, linear
from polytc.program.scalars import BOOL, I64
from polytc.program.sizes import Size, may_be_less
from polytc.rewrite.gpu.tiled_indices import TiledIndex, substitute_tiled

_LEAST = {"<": True, "<=": True, ">": False, ">=": False}
"""Whether a comparison of a form with 0 holds somewhere if it does for the form's smallest value, else for its largest."""


def fits(s: pr.Statement) -> bool:
    """Are the conditions of a statement such that tiles pay: comparisons of linear forms, of which no two tie the same indices,
    as those of a band do, and none is about the `for` loops around, on which scratch would have to wait for the next launch?"""
    ties: set[frozenset[str]] = set()
    for c in s.where:
        form = form_of(c)
        if form is None or any(i not in s.indices for i, _ in form.terms):
            return False
        tied = frozenset(i for i, _ in form.terms)
        if len(tied) > 1 and tied in ties:
            return False
        ties.add(tied)
    return True


def reached(conditions: Iterable[pr.Expr], cuts: Mapping[str, TiledIndex], all_: bool = False) -> tuple[pr.Expr, ...]:
    """The conditions under which some element of a tile may meet them, or all elements do, over the outer parts of the cuts."""
    ranges = pr.box(r for c in cuts.values() for r, _ in c.inner)
    found: list[pr.Expr] = []
    for c in conditions:
        form = form_of(c)
        assert form is not None, "tile conditions: no comparison"
        assert isinstance(c, pr.Binary)
        base, rest = substitute_tiled(form, cuts, "base"), substitute_tiled(form, cuts, "rest", constant=False)
        low, high = interval(rest, ranges)
        extreme = Affine(base.constant + (low if _LEAST[c.op] != all_ else high), base.terms)
        if extreme.terms:
            found.append(pr.Binary(c.op, expression(extreme), pr.Const(0, I64), BOOL))
    return tuple(found)


def whole_steps(conditions: Sequence[pr.Expr], cuts: Mapping[str, TiledIndex], groups: Sequence[pr.Range],
                steps: Sequence[pr.Range], around: Sequence[pr.Range]) -> tuple[pr.Bound, pr.Bound] | None:
    """The steps of one loop in which a condition holds for all elements of a tile, and the others; None where there is more
    than one condition, or never such a step. groups, steps, around: the loops of groups, of steps, and those around them."""
    found = reached(conditions, cuts, all_=True)
    ranges = {r.index: r for r in (*groups, *steps)}
    if len(found) != 1 or not isinstance(found[0], pr.Binary) or not may_hold(found[0], pr.box((*ranges.values(), *around))):
        return None
    bound = as_bound(found[0], ranges)
    r = next((r for r in steps if r.index == bound.index), None)
    if r is None or isinstance(r.extent, Size):
        return None
    if bound.lower == pr.Const(r.lower, I64):
        return bound, pr.Bound(r.index, bound.upper, pr.Const(r.upper, I64))
    return bound, pr.Bound(r.index, pr.Const(r.lower, I64), bound.lower)


def may_hold(c: pr.Binary, box: pr.Box) -> bool:
    """May a comparison with a constant hold for some indices in a box?"""
    form = linear(c.a)
    assert form is not None, "tile conditions: no linear form"
    assert isinstance(c.b, pr.Const), "tile conditions: no comparison with a constant"
    low, high = interval(form, box)
    least, most = (int(c.b.value), high) if c.op == ">=" else (low, int(c.b.value) - (c.op == "<"))
    return not may_be_less(most, least)


def as_bound(c: pr.Binary, ranges: Mapping[str, pr.Range]) -> pr.Bound:
    """A comparison as what it leaves of the range of one of its indices, that with the smallest coefficient."""
    form = form_of(c)
    assert form is not None, "tile conditions: no comparison"
    if c.op in (">", ">="):
        form = collected(((i, -x) for i, x in form.terms), -form.constant)
    constant = form.constant + (c.op in ("<", ">"))                              # form <= 0
    index, each = min(form.terms, key=lambda term: abs(term[1]))
    rest, size, r = [(i, x) for i, x in form.terms if i != index], abs(each), ranges[index]
    if each > 0:
        return pr.Bound(index, pr.Const(r.lower, I64), _divided(collected(((i, -x) for i, x in rest), size - constant), size))
    return pr.Bound(index, _divided(collected(rest, constant + size - 1), size), pr.Const(r.upper, I64))


def shortest(c: pr.Binary) -> pr.Binary:
    """The comparison of a multiple of one index with a number as one of the index: 64*i_group <= 353 is i_group < 6."""
    form = form_of(c)
    if form is None or len(form.terms) != 1 or isinstance(form.constant, Size):
        return c
    index, each = form.terms[0]
    found = as_bound(c, {index: pr.Range(index, 0, 0)})
    end, below = (found.upper, "<") if (each > 0) == (c.op in ("<", "<=")) else (found.lower, ">=")
    return pr.Binary(below, pr.Index(index), end, BOOL)


def _divided(form: Linear, size: int) -> pr.Expr:
    """The form, divided and rounded down."""
    if not form.terms:
        return pr.Const(form.constant // size, I64)
    return expression(form) if size == 1 else pr.Binary("//", expression(form), pr.Const(size, I64), I64)


def form_of(c: pr.Expr) -> Linear | None:
    """The linear form that a comparison compares with 0; None for other conditions."""
    if not isinstance(c, pr.Binary) or c.op not in _LEAST:
        return None
    return linear(pr.Binary("-", c.a, c.b, I64))
