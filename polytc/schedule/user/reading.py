"""isl schedule tree -> loop nest: a saved schedule becomes one that can be edited again.

Names come from the bands' names ('S1,S2:i/x,j', loopnest.BandName). The loops of a band that has none, of a strategy or of a
schedule written by hand, are named after the index that they run over: 'i', or from the outside 'i.0', 'i.1', ...
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import islpy

from polytc import errors
from polytc.poly import isl, marks
from polytc.poly.marks import Mark
from polytc.poly.nest import Leaf
from polytc.program import program as pr
from polytc.program.scalars import I64
from polytc.schedule.user import loopnest, quasi_affine
from polytc.schedule.user.directives import tiling
from polytc.schedule.user.loopnest import Body, NamedLoop, Row

_WHAT = islpy.schedule_node_type


def body(tree: islpy.Schedule, program: pr.Program) -> Body:
    """The loops of a schedule tree of the program. Raises E708 for what is no loop nest: other nodes than bands, marks,
    sequences and filters, pieces, a statement in several places."""
    known = {isl.name(s.name): s for s in program.statements}
    found = _node(tree.get_root().child(0), known, None)
    held = loopnest.statements(found)
    if sorted(held) != sorted(s.name for s in program.statements):
        raise _refused("it has a statement in several places")
    for s in held:
        found = _named(found, s)
    return tiling.unambiguous(found)


def _named(found: Body, statement: str) -> Body:
    """With names for the loops that the statement has none for."""
    around = [next(r for r in x.rows if r.statement == statement) for x in loopnest.loops(found, statement)]
    nameless = {n: {e.name for e in pr.walk(r.value) if isinstance(e, pr.Index)} for n, r in enumerate(around) if not r.name}
    bases = {n: min(indices) if len(indices) == 1 else "c" for n, indices in nameless.items()}
    taken, seen = {r.name for r in around}, Counter[str]()
    for n, base in bases.items():
        name = base if base != "c" and list(bases.values()).count(base) == 1 else f"{base}.{seen[base]}"
        while name in taken:
            seen[base] += 1
            name = f"{base}.{seen[base]}"
        seen[base] += 1
        taken.add(name)
        found = loopnest.edit(found, statement, n, partial(_renamed, statement, name))
    return found


def _renamed(statement: str, name: str, x: NamedLoop) -> Body:
    return (replace(x, rows=tuple(replace(r, name=name) if r.statement == statement else r for r in x.rows)),)


def _refused(why: str) -> errors.CompileError:
    return errors.fail("E708", f"the loops of this schedule cannot be edited: {why}",
                       notes=["polytc.compile(schedule=text) takes it as it is"])


def _node(node: islpy.ScheduleNode, known: dict[str, pr.Statement], mark: Mark | None) -> Body:
    """mark: what stands above a band."""
    kind = node.get_type()
    if kind == _WHAT.leaf:
        names = [s.get_tuple_name() for s in isl.sets(node.get_domain())]
        if len(names) != 1:
            raise _refused("instances of several statements run at once")
        return (Leaf(known[names[0]].name),)
    if kind == _WHAT.mark:
        return _node(node.child(0), known, marks.of(node))
    if kind == _WHAT.filter:
        return _node(node.child(0), known, None)
    if kind == _WHAT.sequence:
        return tuple(x for n in range(node.n_children()) for x in _node(node.child(n), known, None))
    if kind != _WHAT.band:
        raise _refused("it has nodes other than bands, marks, sequences and filters")
    return _band(node, known, mark)


def _band(node: islpy.ScheduleNode, known: dict[str, pr.Statement], mark: Mark | None) -> Body:
    inside = _node(node.child(0), known, None)
    below = loopnest.statements(inside)
    members = node.band_n_member()
    mark = mark or Mark("")
    titles = loopnest.BandName.read(mark.name).titles
    partial = node.band_get_partial_schedule()
    for m in reversed(range(members)):
        values = {s: _value(partial.get_at(m), known, s) for s in below}
        given = titles[m] if len(titles) == members else ()
        names = list(given * len(below) if len(given) == 1 else given)
        if len(names) != len(below):
            names = [""] * len(below)
        rows = tuple(Row(s, n, values[s]) for s, n in zip(below, names, strict=True))
        inside = (NamedLoop(rows, inside, mark.kind(m)),)
    return inside


def _value(member: islpy.UnionPwAff, known: dict[str, pr.Statement], statement: str) -> pr.Expr:
    """A member's value for the instances of a statement."""
    parts = member.get_pw_aff_list()
    for n in range(parts.n_pw_aff()):
        part = parts.get_at(n)
        name = part.get_domain_space().get_tuple_name(islpy.dim_type.set)
        if known[name].name == statement:
            if part.n_piece() != 1:
                raise _refused(f"the iterations of {statement} are given in pieces")
            return quasi_affine.normal(_expr(part.as_aff(), known[name].indices))
    raise _refused(f"a band does not say when {statement} runs")


def _expr(aff: islpy.Aff, indices: tuple[str, ...]) -> pr.Expr:
    """A quasi-affine expression; what it is divided by must be 1."""
    value, denominator = _scaled(aff, indices)
    if denominator != 1:
        raise _refused("a band runs over fractions")
    return value


def _scaled(aff: islpy.Aff, indices: tuple[str, ...]) -> tuple[pr.Expr, int]:
    """(expression, number): the expression over the number."""
    den = aff.get_denominator_val().to_python()
    if any(not aff.get_coefficient_val(islpy.dim_type.param, d).is_zero() for d in range(aff.dim(islpy.dim_type.param))):
        raise _refused("the iterations of a band depend on sizes")
    total: pr.Expr = pr.Const(_times(aff.get_constant_val(), den), I64)
    for d, index in enumerate(indices):
        total = _plus(total, _times(aff.get_coefficient_val(islpy.dim_type.in_, d), den), pr.Index(index))
    for d in range(aff.dim(islpy.dim_type.div)):
        c = _times(aff.get_coefficient_val(islpy.dim_type.div, d), den)
        if c:
            value, divisor = _scaled(aff.get_div(d), indices)
            total = _plus(total, c, pr.Binary("//", value, pr.Const(divisor, I64), I64))
    return total, den


def _times(value: islpy.Val, factor: int) -> int:
    return int(value.mul(islpy.Val(factor, value.get_ctx())).to_python())


def _plus(total: pr.Expr, c: int, value: pr.Expr) -> pr.Expr:
    return total if c == 0 else pr.Binary("+", total, pr.Binary("*", pr.Const(c, I64), value, I64), I64)
