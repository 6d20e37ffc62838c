"""What the domain of a statement says about an affine form: enough for most subscripts, without isl."""

from __future__ import annotations

from polytc.program import program as pr
from polytc.program.affine import Affine, QuasiAffine, add, affine, interval
from polytc.program.sizes import surely


def at_least(form: QuasiAffine, least: int, s: pr.Statement) -> bool:
    """Is the form provably `least` or more at all instances of a statement? The box is looked at, and each condition alone."""
    ahead = add(form, Affine(least), -1)
    if surely(lambda: box_interval(ahead, s.ranges)[0] >= 0):
        return True
    beyond = [add(ahead, c, -1) for w in s.where if (c := _at_least_zero(w)) is not None]
    return any(not rest.terms and surely(lambda rest=rest: rest.constant >= 0) for rest in beyond)  # type: ignore[misc]


def box_interval(form: QuasiAffine, ranges: tuple[pr.Range, ...]) -> tuple[float, float]:
    """Bounds of a form over a box; infinite if it has other indices or is no sum of them."""
    box = pr.box(ranges)
    return interval(form, box) if all(atom in box for atom, _ in form.terms) else (float("-inf"), float("inf"))


def _at_least_zero(condition: pr.Expr) -> QuasiAffine | None:
    """The form that an inequality makes at least 0."""
    if not isinstance(condition, pr.Binary) or condition.op not in ("<=", "<", ">=", ">"):
        return None
    a, b = affine(condition.a), affine(condition.b)
    if a is None or b is None:
        return None
    form = add(a, b, -1) if condition.op[0] == ">" else add(b, a, -1)
    return form if len(condition.op) == 2 else add(form, Affine(1), -1)
