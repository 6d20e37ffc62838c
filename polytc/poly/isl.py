"""The door to islpy: texts in isl's notation, iteration over its collections, and its warts in one place.

isl objects of different contexts must never meet, so every Scop owns one context (see `new_context`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import islpy

from polytc.program import program as pr
from polytc.program.affine import Affine, Atom, Choice, Maximum, QuasiAffine, Quotient, affine, decidable
from polytc.program.names import ascii_name
from polytc.program.scalars import BOOL, COMPARISONS, I64
from polytc.program.sizes import Size

R = TypeVar("R")
VERSION = str(islpy.version.VERSION_TEXT)
_RESERVED = frozenset(("and", "or", "not", "exists", "floor", "ceil", "mod", "min", "max", "implies", "true", "false", "infty",
                       "infinity", "nan", "rat", "ceild", "floord"))
"""isl's words, in lower case: its parser takes them in any."""


BUDGET = 1_000_000
"""isl operations that one stage may take, half a second to three seconds; ordinary programs need 1 000 to 300 000."""

EACH = 50_000
"""isl operations for each statement of a long program: what a hundred contractions need, some seconds."""


LARGEST = 4
"""Coefficients of rows that the scheduler looks for at most: skews of stencils."""


def budget(statements: int) -> int:
    """isl operations that a stage may take for a program of so many statements."""
    return max(BUDGET, EACH * statements)


class QuotaExceeded(Exception):
    """An isl computation needed more operations than its budget."""


class Unschedulable(Exception):
    """isl's scheduler found no schedule."""


def new_context() -> islpy.Context:
    """A context with the options that polytc relies on: tile loops count tiles (not elements), which halves AST time; no
    loop unrolling by isl; SCCs kept apart, so that fusion is ours to decide."""
    ctx = islpy.Context()
    ctx.set_tile_scale_tile_loops(0)
    ctx.set_tile_shift_point_loops(1)
    ctx.set_schedule_serialize_sccs(1)
    ctx.set_schedule_max_coefficient(LARGEST)
    return ctx


def ends(values: islpy.UnionPwAff) -> tuple[islpy.Val, islpy.Val]:
    """The smallest and the largest of some integers. isl takes no fractions such as i/2, which it makes of floor(i/2) where all
    i are even; it finds the ends of the set of such values."""
    try:
        return values.min_val(), values.max_val()
    except islpy.Error as e:
        if "expecting integer affine" not in str(e):
            raise
    found = tuple(sets(islpy.UnionMap.from_union_pw_aff(values).range()))
    return min((s.dim_min_val(0) for s in found), key=_sorted), max((s.dim_max_val(0) for s in found), key=_sorted)


def _sorted(value: islpy.Val) -> float:
    return value.to_python() if value.is_int() else math.inf if value.is_infty() else -math.inf


def bounded(ctx: islpy.Context, operations: int, compute: Callable[[], R]) -> R:
    """Run `compute` with at most `operations` isl operations. Raises QuotaExceeded; the context stays usable."""
    before = ctx.get_max_operations()
    ctx.set_max_operations(operations)
    ctx.reset_operations()
    try:
        return compute()
    except Exception:
        if _spent(ctx):
            raise QuotaExceeded(f"more than {operations} isl operations") from None
        raise
    finally:
        ctx.set_max_operations(before)


def _spent(ctx: islpy.Context) -> bool:
    """Is the budget used up, so that even the smallest computation fails? (Not every one that failed says so.)"""
    try:
        islpy.Set.read_from_str(ctx, "{ : }")
    except islpy.Error as e:
        return "maximal number of operations exceeded" in str(e)
    return False


def schedule(constraints: islpy.ScheduleConstraints) -> islpy.Schedule:
    """What isl's scheduler finds. Raises Unschedulable where it gives up, which it does on some dependences in many pieces
    ("unable to carry dependences"); inside of `bounded` only."""
    try:
        return constraints.compute_schedule()
    except islpy.Error as e:
        raise Unschedulable(f"isl is {str(e).partition('failed: ')[2].partition(' in ')[0]}") from None


def name(identifier: str) -> str:
    """An identifier that isl's parser takes: its reserved words, with or without underscores behind them, get one more, and
    letters outside of ASCII are spelled by their numbers."""
    plain = ascii_name(identifier)
    return plain + "_" if plain.rstrip("_").lower() in _RESERVED else plain


def number(n: int) -> str:
    """A number, or a formula of sizes over parameters, in isl's notation."""
    return f"({formula(n.form)})" if isinstance(n, Size) else str(int(n))


def formula(form: QuasiAffine | Atom) -> str:
    """The same for a form over sizes, or indices."""
    match form:
        case str():
            return name(form)
        case Affine():
            return " + ".join([*(f"{c} * {formula(atom)}" for atom, c in form.terms), str(form.constant)])
        case Maximum():
            return f"max({formula(form.a)}, {formula(form.b)})"
    assert not isinstance(form, Choice), "isl: a choice is written as its pieces"
    inner = formula(form.a)
    return f"floor(({inner})/{form.divisor})" if isinstance(form, Quotient) else f"(({inner}) mod {form.divisor})"


def parameters(program: pr.Program) -> str:
    """What stands before a set or relation in whose text the program's sizes may occur: `[M, K] -> `, or nothing."""
    return f"[{', '.join(map(name, program.sizes))}] -> " if program.sizes else ""


def facts(program: pr.Program) -> str:
    """What holds for the parameters, as conditions: sizes are at least 1."""
    return " and ".join(f"{name(n)} >= 1" for n in program.sizes)


def instances(program: pr.Program, boxed: bool = False) -> str:
    """The instances of all statements, as a set in isl's notation."""
    known = facts(program)
    parts = (domain(s, boxed) for s in program.statements)
    parts = (f"{p}{' and ' if ' : ' in p else ' : '}{known}" if known else p for p in parts)
    return f"{parameters(program)}{{ {'; '.join(parts)} }}"


def expr(e: pr.Expr) -> str | None:
    """A quasi-affine integer or a condition in isl's notation; None if it is not affine (a gather)."""
    match e:
        case pr.Const() if e.dtype == BOOL:
            return "true" if e.value else "false"
        case pr.Const() if not e.dtype.is_float:
            return number(int(e.value) if isinstance(e.value, bool | float) else e.value)
        case pr.Index():
            return name(e.name)
        case pr.Cast() if e.dtype == I64:  # a narrower type wraps
            return expr(e.a)
        case pr.Unary():
            a = expr(e.a)
            return None if a is None else f"(not {a})" if e.op == "!" else f"(-{a})"
        case pr.Binary():
            return _binary(e)
        case pr.Call():
            form = affine(e)
            return None if form is None else f"({formula(form)})"
        case _:
            return None


_CONDITIONS = {"==": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "!=": "!=", "&&": "and", "||": "or"}


def pieces(e: pr.Expr) -> list[tuple[str, pr.Expr]]:
    """A quasi-affine integer as (condition in isl's notation, expression without choices): isl's parser takes no nested ones.

        i < 4 ? i : 7 - i   ->   ("(i < 4)", i), ("(not (i < 4))", 7 - i)
    """
    chosen = next((n for n in pr.walk(e) if isinstance(n, pr.Select)), None)
    if chosen is None:
        return [("true", e)]
    test = expr(chosen.cond)
    found: list[tuple[str, pr.Expr]] = []
    for condition, part in ((test, chosen.a), (f"(not {test})", chosen.b)):
        inner = pr.map_expr(e, lambda n: part if n == chosen else n)  # noqa: B023
        found += [(f"{condition} and {rest}" if rest != "true" else str(condition), x) for rest, x in pieces(inner)]
    return found


def _binary(e: pr.Binary) -> str | None:
    if e.op in COMPARISONS and any(isinstance(n, pr.Select) for n in pr.walk(e)):
        if not decidable(e):
            return None
        return f"({' or '.join(f'({test} and {expr(x)})' for test, x in pieces(e))})"
    a, b = expr(e.a), expr(e.b)
    if a is None or b is None:
        return None
    match e.op:
        case "+" | "-":
            return f"({a} {e.op} {b})"
        case "*" if isinstance(e.a, pr.Const) or isinstance(e.b, pr.Const):
            return f"({a} * {b})" if isinstance(e.a, pr.Const) else f"({b} * {a})"
        case "//" if isinstance(e.b, pr.Const):
            return f"floor(({a})/{b})"
        case "%" if isinstance(e.b, pr.Const):
            return f"(({a}) mod {b})"
        case op if op in _CONDITIONS:
            return f"({a} {_CONDITIONS[op]} {b})"
        case _:
            return None


def instance(s: pr.Statement) -> str:
    """The instance tuple of a statement: `S1[i, j, k]`."""
    return f"{name(s.name)}[{', '.join(map(name, s.indices))}]"


def domain(s: pr.Statement, boxed: bool = False) -> str:
    """The domain of a statement, or its box, in isl's notation, without braces."""
    conditions = [f"{number(r.lower)} <= {name(r.index)} < {number(r.upper)}" for r in s.ranges]
    for c in () if boxed else s.where:
        text = expr(c)
        assert text is not None, f"isl: the condition {pr.format_expr(c)} of {s.name} is not affine"
        conditions.append(text)
    return instance(s) + (" : " + " and ".join(conditions) if conditions else "")


def maps(u: islpy.UnionMap) -> Iterator[islpy.Map]:
    """The maps of a union map, one a pair of spaces."""
    found = u.get_map_list()
    return (found.get_at(i) for i in range(found.n_map()))


def sets(u: islpy.UnionSet) -> Iterator[islpy.Set]:
    """The sets of a union set, one a space."""
    found = u.get_set_list()
    return (found.get_at(i) for i in range(found.n_set()))


def without_bounds(u: islpy.UnionMap, domain: islpy.UnionSet) -> islpy.UnionMap:
    """The pairs, without what follows from both being in the domain."""
    return u.gist_domain(domain).gist_range(domain)


def sample(m: islpy.Map) -> tuple[str, str] | None:
    """One pair of a map as text, `("S1[i=0, j=1]", "S1[i=1, j=0]")`, or None if the map is empty."""
    if m.is_empty():
        return None
    pair = m.sample()
    sides = []
    for kind in (islpy.dim_type.in_, islpy.dim_type.out):
        side = (pair.domain() if kind == islpy.dim_type.in_ else pair.range()).to_set()
        values = [side.plain_get_val_if_fixed(islpy.dim_type.set, d) for d in range(side.dim(islpy.dim_type.set))]
        names = [m.get_dim_name(kind, d) for d in range(m.dim(kind))]
        known = [f"{n or f'x{d}'}={v.to_python()}" for d, (n, v) in enumerate(zip(names, values, strict=True))]
        sides.append(f"{m.get_tuple_name(kind) or ''}[{', '.join(known)}]")
    return sides[0], sides[1]


def element(cells: islpy.Set) -> str:
    """One element of a set of a tensor's elements as text: 'A[1, 2]', or 's' where the tensor has no dimensions."""
    point = cells.sample().to_set()
    values = [point.plain_get_val_if_fixed(islpy.dim_type.set, d) for d in range(point.dim(islpy.dim_type.set))]
    return (cells.get_tuple_name() or "") + (f"[{', '.join(str(v.to_python()) for v in values)}]" if values else "")
