"""Generic operators to plain statements: index packs, attributes and broadcasting are written out for concrete ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from polytc import errors
from polytc.errors import Span
from polytc.lang.parsing import syntax as sx
from polytc.lang.report import Report, closest
from polytc.program.names import claim

errors.register(E107="attribute missing, unknown or of the wrong kind", E110="index pack of unknown or unequal rank",
                E207="extents that do not agree")

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


def expand(function: sx.Function, shapes: Shapes, attrs: Mapping[str, Any], packs: Mapping[str, int], report: Report
           ) -> sx.Function:
    """`function` without packs and attributes. Diagnostics go to `report`; what comes back is then unusable."""
    attributes = _attributes(function, attrs, report)
    if report.found:
        return function
    ranks = _Ranks(function, shapes, attributes, packs).solve(report)
    if report.found:
        return function
    return _Expansion(function, shapes, attributes, ranks, report).run()


def _attributes(function: sx.Function, attrs: Mapping[str, Any], report: Report) -> dict[str, Any]:
    known = {a.name: a for a in function.attributes}
    for name in attrs:
        if name not in known:
            report.add("E107", f"`{function.name}` has no attribute `{name}`", function.span, closest(name, known),
                       f"its attributes are {', '.join(known) or 'none'}")
    values = {name: plain_number(attrs.get(name, a.default)) for name, a in known.items()}
    for name, value in values.items():
        if value is None:
            report.add("E107", f"the attribute `{name}` of `{function.name}` must be given", known[name].span,
                       f'attrs={{"{name}": ...}}')
        elif isinstance(value, (list, tuple)):
            values[name] = tuple(map(plain_number, value))
            if not all(isinstance(v, (int, float, complex)) for v in values[name]):
                report.add("E107", f"the attribute `{name}` must hold numbers, not {value!r}", known[name].span)
        elif not isinstance(value, (int, float, complex)):
            report.add("E107", f"the attribute `{name}` must be a number or a list of numbers, not {value!r}", known[name].span)
    return values


def plain_number(value: Any) -> Any:
    """A numpy number as a Python number; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def names(e: sx.Expr) -> Iterator[str]:
    """Every bare name below `e`, in order."""
    if isinstance(e, sx.Name):
        yield e.id
    for operand in sx.operands(e):
        yield from names(operand)


def nodes(e: sx.Expr) -> Iterator[sx.Expr]:
    """`e` and everything below it."""
    yield e
    for operand in sx.operands(e):
        yield from nodes(operand)


def clause_expressions(c: sx.Clause) -> tuple[sx.Expr, ...]:
    """The expressions of one `where` clause."""
    if isinstance(c, sx.RangeClause):
        return (c.lower, c.upper) if c.step is None else (c.lower, c.upper, c.step)
    return (c.value,)


def _statements(function: sx.Function) -> tuple[sx.Statement, ...]:
    return tuple(s for s in function.body if isinstance(s, sx.Statement))


@dataclass(frozen=True)
class _Rank:
    """One equation: the packs (by group) and the number of plain dimensions of an access to `tensor`."""

    tensor: str
    plain: int
    groups: tuple[frozenset[str], ...]
    span: Span


class _Ranks:
    """Finds the rank of every pack from shapes, list attributes, and packs that stand together in one `*( )`."""

    def __init__(self, function: sx.Function, shapes: Shapes, attributes: Mapping[str, Any], packs: Mapping[str, int]) -> None:
        self.function, self.attributes = function, attributes
        self.spans: dict[str, Span] = {}
        self.broadcast: list[_Rank] = []
        self.equations: list[_Rank] = []
        self.groups: list[tuple[frozenset[str], Span]] = []
        self.tensors = {n: len(s) for n, s in shapes.items()}
        self.ranks = dict(packs) | {n: len(v) for n, v in attributes.items() if isinstance(v, tuple)}
        self._collect_names()
        self._collect_equations()

    def _collect_names(self) -> None:
        for pack in self._packs():
            if isinstance(pack.a, sx.Name) and not pack.single and pack.a.id not in self.attributes:
                self.spans.setdefault(pack.a.id, pack.span)
        for s in _statements(self.function):
            for c in s.clauses:
                if isinstance(c, sx.RangeClause) and c.pack:
                    self.spans.setdefault(c.index, c.span)

    def _packs(self) -> Iterator[sx.Pack]:
        f = self.function
        for p in (*f.params, *(f.outputs or ())):
            yield from (d for d in p.dims or () if isinstance(d, sx.Pack))
        for s in _statements(f):
            for e in (*s.subscripts, s.value, *(x for c in s.clauses for x in clause_expressions(c))):
                yield from (n for n in nodes(e) if isinstance(n, sx.Pack))

    def group(self, e: sx.Expr) -> frozenset[str]:
        """The packs and list attributes in `*(e)`."""
        return frozenset(n for n in names(e) if n in self.spans or isinstance(self.attributes.get(n), tuple))

    def _equation(self, tensor: str, dims: tuple[sx.Expr, ...], span: Span) -> _Rank:
        packs = [d for d in dims if isinstance(d, sx.Pack) and not d.single]
        return _Rank(tensor, len(dims) - len(packs), tuple(self.group(p.a) for p in packs), span)

    def _collect_equations(self) -> None:
        f = self.function
        relaxed = {p.name for p in f.params if any(isinstance(d, sx.Pack) and d.optional for d in p.dims or ())}
        for p in (*f.params, *(f.outputs or ())):
            if p.dims is not None:
                (self.broadcast if p.name in relaxed else self.equations).append(self._equation(p.name, p.dims, p.span))
        for s in _statements(f):
            self.equations.append(self._equation(s.target, s.subscripts, s.target_span))
            for e in (s.value, *(x for c in s.clauses for x in clause_expressions(c))):
                self.equations += [self._equation(n.tensor, n.subscripts, n.span) for n in nodes(e)
                                   if isinstance(n, sx.Access) and n.tensor not in relaxed]
            for c in s.clauses:
                if isinstance(c, sx.RangeClause) and c.pack:
                    together = {c.index}.union(*(self.group(e) for e in clause_expressions(c)))
                    self.groups.append((frozenset(together), c.span))
        self.groups += [(self.group(p.a), p.span) for p in self._packs()]

    def solve(self, report: Report) -> dict[str, int]:
        """Ranks of all packs; E110 for the ones that stay unknown or contradict each other."""
        while self._propagate(report) or self._widen():
            if report.found:
                return {}
        for name, span in self.spans.items():
            if name not in self.ranks:
                report.add("E110", f"the rank of the pack `*{name}` cannot be found", span,
                           "nothing with a known rank uses it alone: give it with packs={...}")
        return self.ranks

    def _set(self, name: str, rank: int, span: Span, report: Report) -> bool:
        if rank < 0 or self.ranks.get(name, rank) != rank:
            found = "fewer than no" if rank < 0 else str(rank)
            report.add("E110", f"the pack `*{name}` has {found} axes here, expected {self.ranks.get(name, 'some')}", span)
            return False
        fresh = name not in self.ranks
        self.ranks[name] = rank
        return fresh

    def _propagate(self, report: Report) -> bool:
        changed = False
        for group, span in self.groups:
            known = sorted(n for n in group if n in self.ranks)
            if known:
                for n in sorted(group):
                    changed |= self._set(n, self.ranks[known[0]], span, report)
        for eq in self.equations:
            open_groups = [g for g in eq.groups if not any(n in self.ranks for n in g)]
            ranks = [self.ranks[n] for g in eq.groups if g not in open_groups for n in sorted(g & set(self.ranks))[:1]]
            closed = eq.plain + sum(ranks)
            if not open_groups and eq.tensor not in self.tensors:
                self.tensors[eq.tensor] = closed
                changed = True
            elif len(set(open_groups)) == 1 and eq.tensor in self.tensors and open_groups[0]:
                left = self.tensors[eq.tensor] - closed
                changed |= self._set(sorted(open_groups[0])[0], left // len(open_groups), eq.span, report)
        return changed

    def _widen(self) -> bool:
        """A pack that only broadcast parameters bind has the rank of the widest of them."""
        widest: dict[str, int] = {}
        for eq in self.broadcast:
            unknown = [next(iter(g)) for g in eq.groups if not any(n in self.ranks for n in g)]
            known = sum(self.ranks[n] for g in eq.groups for n in g if n in self.ranks)
            if len(unknown) == 1 and eq.tensor in self.tensors:
                widest[unknown[0]] = max(widest.get(unknown[0], 0), self.tensors[eq.tensor] - eq.plain - known)
        for name, rank in widest.items():
            self.ranks[name] = max(rank, 0)
            return True
        return False


@dataclass(frozen=True)
class _Axis:
    """One dimension of a parameter's header: the index that names it (None for another expression)."""

    name: str | None
    optional: bool


class _Expansion:
    """Rewrites one function with all ranks known."""

    def __init__(self, function: sx.Function, shapes: Shapes, attributes: Mapping[str, Any], ranks: Mapping[str, int],
                 report: Report) -> None:
        self.function, self.shapes, self.attributes, self.report = function, shapes, attributes, report
        self.packs = {n: r for n, r in ranks.items() if n not in attributes}
        taken = {n for s in _statements(function) for e in (*s.subscripts, s.value) for n in names(e)}
        taken |= {s.target for s in _statements(function)} | {p.name for p in function.params} | set(attributes)
        self.axes = {p: tuple(claim(f"{p}{k}", taken) for k in range(r)) for p, r in self.packs.items()}
        self.headers = {p.name: self.header(p) for p in function.params if p.dims is not None}
        self.extents = self._extents()
        self.ones = self._ones()

    def header(self, p: sx.Param) -> tuple[_Axis, ...]:
        found: list[_Axis] = []
        for d in p.dims or ():
            if isinstance(d, sx.Pack) and not d.single and isinstance(d.a, sx.Name):
                found += [_Axis(n, d.optional) for n in self.axes.get(d.a.id, ())]
            else:
                inner = d.a if isinstance(d, sx.Pack) else d
                found.append(_Axis(inner.id if isinstance(inner, sx.Name) else None, isinstance(d, sx.Pack)))
        return tuple(found)

    def _actual(self, tensor: str) -> list[tuple[_Axis, int]]:
        """The axes that the array really has, aligned right, with their extents."""
        axes, shape = self.headers[tensor], self.shapes.get(tensor)
        return [] if shape is None else list(zip(axes[len(axes) - len(shape):], shape, strict=False))

    def _extents(self) -> dict[str, int]:
        """Extent of each index of the headers; equal names must agree, broadcast ones up to extents of 1."""
        found: dict[str, tuple[int, str]] = {}
        for p in self.function.params:
            axes, shape = self.headers.get(p.name), self.shapes.get(p.name)
            if axes is None or shape is None:
                continue
            missing = axes[:max(len(axes) - len(shape), 0)]
            if len(shape) > len(axes) or not all(a.optional for a in missing):
                self.report.add("E105", f"`{p.name}` has {len(axes)} dimensions here, the array has {len(shape)}", p.span)
                continue
            for axis, extent in self._actual(p.name):
                if axis.name is None or (axis.optional and extent == 1):
                    continue
                known, other = found.setdefault(axis.name, (extent, p.name))
                if known != extent:
                    self.report.add("E207", f"`{axis.name}` is {known} in `{other}` and {extent} in `{p.name}`", p.span)
        return {n: e for n, (e, _) in found.items()}

    def _ones(self) -> frozenset[str]:
        """Indices that only broadcast axes of extent 1 name: nothing bounds them, their only value is 0."""
        optional = {a.name for axes in self.headers.values() for a in axes if a.optional and a.name is not None}
        ranged = {c.index for s in _statements(self.function) for c in s.clauses if isinstance(c, sx.RangeClause)}
        ranged |= {n for p in ranged for n in self.axes.get(p, ())}
        return frozenset(n for n in optional if n not in self.extents and n not in ranged)

    def run(self) -> sx.Function:
        f = self.function
        body = tuple(self.item(s) for s in f.body)
        params = tuple(self.param(p) for p in f.params)
        outputs = None if f.outputs is None else tuple(self.param(p) for p in f.outputs)
        return replace(f, attributes=(), params=params, outputs=outputs, body=body)

    def item(self, s: sx.Item) -> sx.Item:
        match s:
            case sx.Statement():
                return self.statement(s)
            case sx.Assumption():
                return replace(s, value=self.rewrite(s.value, None))
            case sx.CallStatement():
                numbers = [k for k, (number, _) in enumerate(s.parameters) if number]
                args = tuple(self.rewrite(a, None) if k in numbers else a for k, a in enumerate(s.call.args))
                return replace(s, call=replace(s.call, args=args, attributes=tuple(map(self.given, s.call.attributes))))
            case _:
                return s

    def given(self, g: sx.Given) -> sx.Given:
        """An attribute of a call, which may be a list attribute of this function."""
        value = self.attributes.get(g.values[0].id) if isinstance(g.values[0], sx.Name) and not g.several else None
        if isinstance(value, tuple):
            return replace(g, values=tuple(sx.Number(v, g.span) for v in value), several=True)
        return replace(g, values=tuple(self.rewrite(v, None) for v in g.values))

    def param(self, p: sx.Param) -> sx.Param:
        return p if p.dims is None else replace(p, dims=self.slots(tuple(
            d.a if isinstance(d, sx.Pack) and d.single else d for d in p.dims)))

    def statement(self, s: sx.Statement) -> sx.Statement:
        clauses = tuple(c for clause in s.clauses for c in self.clause(clause))
        components = tuple(self.rewrite(e, None) for e in s.components)
        return replace(s, subscripts=self.slots(s.subscripts), value=self.rewrite(s.value, None), clauses=clauses,
                       components=components)

    def clause(self, c: sx.Clause) -> Iterator[sx.Clause]:
        if isinstance(c, sx.RangeClause) and c.pack:
            for k, name in enumerate(self.axes.get(c.index, ())):
                low, high, *step = (self.axis(e, k) for e in clause_expressions(c))
                yield replace(c, index=name, lower=low, upper=high, step=step[0] if step else None, pack=False)
        elif isinstance(c, sx.RangeClause):
            low, high, *step = (self.rewrite(e, None) for e in clause_expressions(c))
            yield replace(c, lower=low, upper=high, step=step[0] if step else None)
        else:
            yield replace(c, value=self.rewrite(c.value, None))

    def slots(self, dims: tuple[sx.Expr, ...]) -> tuple[sx.Expr, ...]:
        out: list[sx.Expr] = []
        for d in dims:
            if isinstance(d, sx.Pack):
                ranks = [len(self.axes[n]) for n in names(d.a) if n in self.axes]
                ranks += [len(v) for n in names(d.a) if isinstance(v := self.attributes.get(n), tuple)]
                if not ranks:
                    self.report.add("E110", "no pack and no list attribute in `*( )`", d.span)
                out += [self.rewrite(d.a, k) for k in range(ranks[0] if ranks else 0)]
            else:
                out.append(self.rewrite(d, None))
        return tuple(out)

    def axis(self, e: sx.Expr, k: int) -> sx.Expr:
        return self.rewrite(e.a if isinstance(e, sx.Pack) else e, k)

    def rewrite(self, e: sx.Expr, axis: int | None) -> sx.Expr:
        """`e` with attributes as numbers and packs as their index of `axis`."""
        match e:
            case sx.Name():
                return self.name(e, axis)
            case sx.Access():
                return self.access(e)
            case sx.Pack():
                self.report.add("E110", "a pack stands alone outside of a subscript", e.span)
                return e
            case _:
                return sx.rebuild(e, tuple(self.rewrite(a, axis) for a in sx.operands(e)))

    def name(self, e: sx.Name, axis: int | None) -> sx.Expr:
        value = self.attributes.get(e.id)
        if isinstance(value, tuple):
            if axis is None:
                self.report.add("E110", f"`{e.id}` has one value for each axis of a pack", e.span,
                                "use it inside `*( )`, or one of its values: `" + e.id + "[0]`")
                return e
            return sx.Number(value[axis], e.span)
        if value is not None:
            return sx.Number(value, e.span)
        if e.id in self.axes:
            if axis is None:
                self.report.add("E110", f"`{e.id}` is a pack", e.span, f"write `*{e.id}`")
                return e
            return self._index(self.axes[e.id][axis], e.span)
        return self._index(e.id, e.span)

    def _index(self, name: str, span: Span) -> sx.Expr:
        return sx.Number(0, span) if name in self.ones else sx.Name(name, span)

    def access(self, e: sx.Access) -> sx.Expr:
        value = self.attributes.get(e.tensor)
        if isinstance(value, tuple):
            k = e.subscripts[0] if len(e.subscripts) == 1 else None
            if not isinstance(k, sx.Number) or not isinstance(k.value, int) or k.value >= len(value):
                self.report.add("E107", f"`{e.tensor}` is a list of {len(value)} numbers: one literal subscript picks one",
                                e.span)
                return e
            return sx.Number(value[k.value], e.span)
        subscripts = self.slots(e.subscripts)
        axes, shape = self.headers.get(e.tensor), self.shapes.get(e.tensor)
        if axes is None or shape is None or not any(a.optional for a in axes) or len(axes) != len(subscripts):
            return replace(e, subscripts=subscripts)
        kept = subscripts[len(axes) - len(shape):]
        return replace(e, subscripts=tuple(
            sx.Number(0, e.span) if axis.optional and extent == 1 else sub
            for (axis, extent), sub in zip(self._actual(e.tensor), kept, strict=True)))
