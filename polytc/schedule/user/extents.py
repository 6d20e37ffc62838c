"""How many iterations a loop has: numbers, or formulas of the sizes that stay open."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

import islpy

from polytc.poly import isl
from polytc.poly.scop import Scop, extract
from polytc.program import affine
from polytc.program import program as pr
from polytc.program import sizes as formulas
from polytc.program.generalise import numeric
from polytc.schedule.user.loopnest import NamedLoop, Row

_PARAM = islpy.dim_type.param


@dataclass(frozen=True)
class Domains:
    """Instances of each statement, by name, where it has any. of: for all sizes; typical: for the representative ones; names:
    of the sizes."""

    of: dict[str, tuple[pr.Statement, islpy.Set]]
    typical: dict[str, tuple[pr.Statement, islpy.Set]]
    names: tuple[str, ...]


def domains(scop: Scop) -> Domains:
    """The instances of each statement."""
    found = _by_name(scop)
    return Domains(found, _by_name(extract(numeric(scop.program))) if scop.program.sizes else found, scop.program.sizes)


def _by_name(scop: Scop) -> dict[str, tuple[pr.Statement, islpy.Set]]:
    known = {isl.name(s.name): s for s in scop.program.statements}
    return {known[d.get_tuple_name()].name: (known[d.get_tuple_name()], d) for d in isl.sets(scop.domain)}


def of(loop: NamedLoop, instances: Domains) -> tuple[int, int]:
    """The smallest half-open range that holds all iterations of the loop, for the representative sizes; (0, 0) if there is
    none."""
    values = [_values(r, *instances.typical[r.statement]) for r in loop.rows if r.statement in instances.typical]
    low, high = [v.min_val().to_python() for v in values], [v.max_val().to_python() for v in values]
    return (min(low), max(high) + 1) if low else (0, 0)


def texts(loop: NamedLoop, instances: Domains) -> tuple[str, str]:
    """That range for all sizes, as formulas."""
    found = _ends(loop, instances) if instances.names else None
    if found is None:
        return str(of(loop, instances)[0]), str(of(loop, instances)[1])
    one = islpy.PwAff.read_from_str(found[1].get_ctx(), "{ [1] }")
    return _text(found[0], instances.names, min), _text(found[1].add(one), instances.names, max)


def bounded(loop: NamedLoop, instances: Domains) -> bool:
    """Is there a number of iterations that the loop never has more of, whatever the sizes?"""
    found = _ends(loop, instances)
    return found is None or bool(found[1].sub(found[0]).max_val().is_int())


def constant(loop: NamedLoop, instances: Domains) -> bool:
    """Does the loop run from one number to another, whatever the sizes?"""
    found = _ends(loop, instances) if instances.names else None
    forms = [[aff for _, aff in _pieces(end)] for end in found or ()]
    return all(len(set(map(str, affs))) == 1 and affs[0].is_cst() for affs in forms)


def _ends(loop: NamedLoop, instances: Domains) -> tuple[islpy.PwAff, islpy.PwAff] | None:
    """The first and the last iteration of the loop, by the sizes."""
    ends = [islpy.Map.from_pw_aff(_values(r, *instances.of[r.statement])).range() for r in loop.rows
            if r.statement in instances.of]
    if not ends:
        return None
    low = reduce(lambda a, b: a.union_min(b), (s.dim_min(0) for s in ends))
    high = reduce(lambda a, b: a.union_max(b), (s.dim_max(0) for s in ends))
    return low, high


def first(loop: NamedLoop, statement: str, instances: Domains) -> int | None:
    """The first iteration of a loop around a statement, None if that depends on the sizes."""
    if statement not in instances.of:
        return 0
    row = next(r for r in loop.rows if r.statement == statement)
    least = islpy.Map.from_pw_aff(_values(row, *instances.of[statement])).range().dim_min(0)
    forms = {str(f) for _, f in _pieces(least)}
    aff = _pieces(least)[0][1]
    return int(aff.get_constant_val().to_python()) if len(forms) == 1 and aff.is_cst() else None


def _values(row: Row, s: pr.Statement, domain: islpy.Set) -> islpy.PwAff:
    """The iterations of a loop that run a statement."""
    text = f"{{ {isl.instance(s)} -> [({isl.expr(row.value)})] }}"
    return islpy.PwAff.read_from_str(domain.get_ctx(), text).intersect_domain(domain)


def _pieces(value: islpy.PwAff) -> list[tuple[islpy.Set, islpy.Aff]]:
    found: list[tuple[islpy.Set, islpy.Aff]] = []
    value.coalesce().foreach_piece(lambda where, aff: found.append((where, aff)))
    return found


def _text(value: islpy.PwAff, names: tuple[str, ...], widest: Callable[[Iterable[int]], int]) -> str:
    """A formula of sizes; the largest or the smallest of several, where the pieces take that; of numbers the widest."""
    affs = [aff for _, aff in _pieces(value)]
    shown = list(dict.fromkeys(formulas.text(_form(a, names)) for a in affs))
    if len(shown) == 1:
        return shown[0]
    whole = [islpy.PwAff.from_aff(a) for a in affs]
    for what, joined in (("max", reduce(lambda a, b: a.max(b), whole)), ("min", reduce(lambda a, b: a.min(b), whole))):
        if joined.intersect_params(value.domain().params()).is_equal(value):
            return f"{what}({', '.join(shown)})"
    if all(a.is_cst() for a in affs):
        return str(widest(a.get_constant_val().to_python() for a in affs))
    return "..."


def _form(aff: islpy.Aff, names: tuple[str, ...]) -> affine.QuasiAffine:
    """An integer function of parameters as a formula of sizes."""
    form, divisor = _scaled(aff, {isl.name(n): n for n in names})
    return form if divisor == 1 else affine.Affine(0, ((affine.Quotient(form, divisor), 1),))


def _scaled(aff: islpy.Aff, names: dict[str, str]) -> tuple[affine.QuasiAffine, int]:
    """(form, number): the function is the form over the number."""
    divisor = aff.get_denominator_val().to_python()

    def times(value: islpy.Val) -> int:
        return int(value.mul(islpy.Val(divisor, value.get_ctx())).to_python())
    total: affine.QuasiAffine = affine.Affine(times(aff.get_constant_val()))
    for d in range(aff.dim(_PARAM)):
        c = times(aff.get_coefficient_val(_PARAM, d))
        total = affine.add(total, affine.Affine(0, ((names[aff.get_dim_name(_PARAM, d)], 1),)), c)
    for d in range(aff.dim(islpy.dim_type.div)):
        c = times(aff.get_coefficient_val(islpy.dim_type.div, d))
        if c:
            total = affine.add(total, affine.Affine(0, ((affine.Quotient(*_scaled(aff.get_div(d), names)), 1),)), c)
    return total, divisor
