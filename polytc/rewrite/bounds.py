"""What the domain of a statement says about an affine form: enough for most subscripts, without isl."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, QuasiAffine, add, affine, indices, interval
from polytc.program.domain import separated
from polytc.program.linear import collected, expression
from polytc.program.scalars import BOOL, identity
from polytc.program.sizes import surely


def at_least(form: QuasiAffine, least: int, s: pr.Statement) -> bool:
    """Is the form provably `least` or more at all instances of a statement? The box is looked at, and each condition
    alone in it."""
    ahead = add(form, Affine(least), -1)
    if surely(lambda: box_interval(ahead, s.ranges)[0] >= 0):
        return True
    beyond = [add(ahead, c, -1) for w in s.where if (c := _at_least_zero(w)) is not None]
    return any(surely(lambda rest=rest: box_interval(rest, s.ranges)[0] >= 0) for rest in beyond)  # type: ignore[misc]


def box_interval(form: QuasiAffine, ranges: tuple[pr.Range, ...]) -> tuple[float, float]:
    """Bounds of a form over a box; infinite if it has other indices."""
    box = pr.box(ranges)
    return interval(form, box) if indices(form) <= box.keys() else (float("-inf"), float("inf"))


def _at_least_zero(condition: pr.Expr) -> QuasiAffine | None:
    """The form that an inequality makes at least 0."""
    if not isinstance(condition, pr.Binary) or condition.op not in ("<=", "<", ">=", ">"):
        return None
    a, b = affine(condition.a), affine(condition.b)
    if a is None or b is None:
        return None
    form = add(a, b, -1) if condition.op[0] == ">" else add(b, a, -1)
    return form if len(condition.op) == 2 else add(form, Affine(1), -1)


def linear_bound(condition: pr.Expr) -> Linear | None:
    """The linear form that an inequality makes at least 0; None if it is no such inequality."""
    form = _at_least_zero(condition)
    if form is None:
        return None
    terms = [(atom, c) for atom, c in form.terms if isinstance(atom, str)]
    return collected(terms, form.constant) if len(terms) == len(form.terms) else None


def inequality(form: Linear) -> pr.Expr:
    """The condition that a form is at least 0, without differences: j - 2*i - 1  ->  2*i + 1 <= j."""
    small = Affine(max(0, -form.constant), tuple((i, -c) for i, c in form.terms if c < 0))
    large = Affine(max(0, form.constant), tuple((i, c) for i, c in form.terms if c > 0))
    return pr.Binary("<=", expression(small), expression(large), BOOL)


def conjuncts(conditions: Iterable[pr.Expr]) -> list[pr.Expr]:
    """Conditions taken apart at `&&`, and where they bound an index by several numbers."""
    found, rest = list[pr.Expr](), [*conditions][::-1]
    while rest:
        c = rest.pop()
        if isinstance(c, pr.Binary) and c.op == "&&":
            rest += (c.b, c.a)
        else:
            found += separated(c)
    return found


def hoisted(program: pr.Program, s: pr.Statement, read: pr.Read, ranges: Iterable[pr.Range], own: Collection[str]) -> pr.Read:
    """A read of a statement as it may stand in one over these ranges, which runs where the statement does not: where its
    conditions do not hold, or a range of it is empty. A guard says 0 of what lies outside of the tensor then, and nobody looks
    at that (`compact` of O[m,h] += W[m,c]*X[c,2*h] where m in 0:n - 5, for n = 5). own: indices of the statement with whose
    ranges these are empty."""
    always = not s.where and all(r.index in own or surely(lambda r=r: r.extent >= 1) for r in s.ranges)  # type: ignore[misc]
    whole = inside(program.tensor(read.tensor), read.subscripts, tuple(ranges))
    if always or whole or read.default is not None:
        return read
    return replace(read, default=pr.Const(identity("+", read.dtype), read.dtype))


def speculable(program: pr.Program, s: pr.Statement) -> bool:
    """May the value be computed and stored at points of the box that the conditions leave out, where nobody looks at it? It
    reads and writes what is inside of its tensors there, and divides by no integer that could be 0."""
    return (inside(program.tensor(s.target), s.subscripts, s.ranges)
            and all(r.default is not None or inside(program.tensor(r.tensor), r.subscripts, s.ranges) for r in pr.reads(s))
            and not any(isinstance(e, pr.Binary) and e.op in ("/", "//", "%") and e.dtype.is_int
                        and not isinstance(e.b, pr.Const) for e in pr.walk(s.value)))


def inside(t: pr.Tensor, subscripts: tuple[pr.Expr, ...], box: tuple[pr.Range, ...]) -> bool:
    """Are subscripts affine, and in bounds in all of a box, whatever the sizes are?"""
    forms = [form for sub in subscripts if (form := affine(sub)) is not None]

    def holds() -> bool:
        ends = [box_interval(f, box) for f in forms]
        return all(low <= least and most < low + n for (least, most), low, n in zip(ends, t.lower, t.shape, strict=True))
    return len(forms) == len(subscripts) and surely(holds)
