"""The statements of a definition under the names of the caller: the renaming half of `inlining`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace

from polytc.errors import Span
from polytc.lang.definitions.expand import clause_expressions, names, nodes
from polytc.lang.parsing import syntax as sx
from polytc.lang.typing.declare import Declarations
from polytc.lang.typing.lowered import Lowered
from polytc.lang.typing.ranges import Hull
from polytc.program import scalars
from polytc.program.names import claim, fresh
from polytc.program.scalars import DType


@dataclass(frozen=True)
class Instance:
    """A definition for some arguments: plain statements, what they declare, the statements with their types, and the bounds
    and types of all tensors."""

    function: sx.Function
    declarations: Declarations
    lowered: tuple[Lowered, ...]
    hulls: Mapping[str, Hull]
    types: Mapping[str, DType]


@dataclass(frozen=True)
class _Place:
    """Where a tensor of the definition lies: the caller's tensor, and what is added to each subscript."""

    name: str
    shift: tuple[int, ...]


def splice(s: sx.CallStatement, made: Instance, f: sx.Function, d: Declarations, hulls: Mapping[str, Hull],
           apart: Set[str] = frozenset()) -> tuple[sx.Statement, ...]:
    """What stands for the call in `f`. hulls: of what the caller has written before, and of its inputs.

    A target that already has elements, is an argument too, or is `apart` gets them in the end from a temporary. What the
    definition writes in place is the argument itself. In a loop every tensor of the definition starts again in each iteration.
    """
    own, outputs = made.declarations, made.function.outputs or ()
    around = frozenset(x.index for x in s.loops)
    taken = _names(f) | set(hulls) | set(d.numbers) | around
    places = {p.name: _Place(a.id, tuple(low for low, _ in hulls[a.id])) for p, a in zip(
        made.function.params, s.call.args, strict=True) if p.name in own.inputs and isinstance(a, sx.Name)}
    copies: list[sx.Statement] = []
    for p, (target, span) in zip(outputs, s.targets, strict=bool(s.targets)):
        if p.name in own.inputs:
            copies += [_copy(places[p.name], target, made.hulls[p.name], around, span)] if target != places[p.name].name else []
            continue
        origin = tuple(-low for low, _ in made.hulls[p.name])
        busy = target in hulls or target in apart or any(target == place.name for place in places.values())
        name = claim(f"{target}_new", taken) if busy else target
        places[p.name] = _Place(name, origin)
        d.results.add(name)
        if p.name in own.declared:  # what bounds a scatter into it
            d.declared.setdefault(name, tuple(ends and (ends[0] + k, ends[1] + k) for ends, k in zip(
                own.declared[p.name], origin, strict=True)))
        if busy:
            copies.append(_copy(_Place(name, (0,) * len(origin)), target, made.hulls[p.name], around, span))
    for name in dict.fromkeys(x.target for x in _statements(made.function)):
        if name not in places:
            places[name] = _Place(claim(f"{made.function.name}_{name}", taken), (0,) * len(made.hulls[name]))
            if name in own.declared:
                d.declared.setdefault(places[name].name, own.declared[name])
    d.results |= {places[n].name for n in (*own.results, *own.temporaries)}
    renaming = _Renaming(places, own, taken | {place.name for place in places.values()}, s.span)
    casts = {p.name: own.dtypes[p.name] for p in (*outputs, *made.function.temporaries) if p.dtype is not None}
    body = [renaming.statement(x, casts.get(x.target), lowered) for x, lowered in zip(
        _statements(made.function), made.lowered, strict=True)]
    if s.loops:
        body = _restarting(body, {places[n].name: n for n in made.hulls if n in places and n not in own.inputs}, places, made,
                           around, s.span)
    return tuple(replace(x, loops=(*s.loops, *x.loops), clauses=(*s.clauses, *x.clauses)) for x in (*body, *copies))


def _restarting(body: list[sx.Statement], names: Mapping[str, str], places: Mapping[str, _Place], made: Instance,
                around: frozenset[str], span: Span) -> list[sx.Statement]:
    """The statements of a call in a loop: what a program does to its tensors before it starts, they do in each iteration.
    names: the definition's name of each tensor that it makes."""
    found: list[sx.Statement] = []
    begun: set[str] = set()
    for x in body:
        first = x.target in names and x.target not in begun
        begun.add(x.target)
        if x.components:
            x = replace(x, reset=True)
        elif first and x.op is not None:
            own = names[x.target]
            value = sx.Number(scalars.identity(x.op, made.types[own]), span)
            at = next((k for k, y in enumerate(found) if x.loops and y.loops[:1] == x.loops[:1]), len(found))
            found.insert(at, _filled(places[own], made.hulls[own], value, around, span))
            x = x if x.loops else replace(x, reset=False)
        found.append(x)
    return found


def _statements(f: sx.Function) -> tuple[sx.Statement, ...]:
    return tuple(s for s in f.body if isinstance(s, sx.Statement))


def _names(f: sx.Function) -> set[str]:
    """Every name of a function."""
    found = {p.name for p in (*f.params, *(f.outputs or ()))}
    for s in f.body:
        if isinstance(s, sx.CallStatement):
            found |= {t for t, _ in s.targets} | {n for a in s.call.args for n in names(a)}
        elif isinstance(s, sx.Statement):
            found.add(s.target)
            for e in _expressions(s):
                found |= {x.tensor for x in nodes(e) if isinstance(x, sx.Access | sx.Extent)} | set(names(e))
                found |= {x.fn for x in nodes(e) if isinstance(x, sx.Call)}
    return found


def _expressions(s: sx.Statement) -> Iterable[sx.Expr]:
    return (*s.subscripts, s.value, *s.components, *(e for c in s.clauses for e in clause_expressions(c)))


def _box(hull: Hull, taken: frozenset[str], span: Span) -> tuple[tuple[sx.Name, ...], tuple[sx.RangeClause, ...]]:
    """An index for each dimension of a tensor, and that it runs over all of it."""
    axes: list[sx.Name] = []
    for k in range(len(hull)):
        axes.append(sx.Name(fresh(f"d{k}", taken), span))
    ranges = tuple(sx.RangeClause(a.id, sx.Number(low, span), sx.Number(high + 1, span), None, False, span)
                   for a, (low, high) in zip(axes, hull, strict=True))
    return tuple(axes), ranges


def _copy(source: _Place, target: str, hull: Hull, taken: frozenset[str], span: Span) -> sx.Statement:
    """`target[d0, ...] = source[d0, ...]` on the bounds of a result, which start at 0 here."""
    axes, ranges = _box(tuple((0, high - low) for low, high in hull), taken, span)
    at = tuple(_plus(a, k) for a, k in zip(axes, source.shift, strict=True))
    return sx.Statement(target, axes, None, False, sx.Access(source.name, at, span), ranges, False, span, span)


def _filled(target: _Place, hull: Hull, value: sx.Expr, taken: frozenset[str], span: Span) -> sx.Statement:
    """`target[d0, ...] = value` on bounds of the definition."""
    axes, ranges = _box(hull, taken, span)
    at = tuple(_plus(a, k) for a, k in zip(axes, target.shift, strict=True))
    return sx.Statement(target.name, at, None, False, value, ranges, False, span, span)


class _Renaming:
    """Rewrites one definition's statements. taken: what is no index in the caller."""

    def __init__(self, places: Mapping[str, _Place], own: Declarations, taken: set[str], span: Span) -> None:
        self.places, self.own, self.taken, self.span = places, own, taken, span
        self.indices: dict[str, str] = {}
        self.loops: dict[str, sx.Loop] = {}

    def statement(self, s: sx.Statement, cast: DType | None, lowered: Lowered) -> sx.Statement:
        place = self.places[s.target]
        self.style = s.call_style
        self.indices = {}
        lets = {c.name for c in s.clauses if isinstance(c, sx.LetClause)}
        bound = lets | {c.index for c in s.clauses if isinstance(c, sx.RangeClause)}
        used = {n for e in _expressions(s) for n in names(e)} | bound
        taken = set(self.taken) | used
        loops = tuple(self.loop(x, taken) for x in s.loops)
        self.indices |= {old.index: new.index for old, new in zip(s.loops, loops, strict=True)}
        for n in sorted(used - self.indices.keys()):
            if n in self.taken and (n in lets or (n not in self.own.numbers and n not in self.places)):
                self.indices[n] = claim(n, taken)
        value = self.rewrite(s.value)
        if cast is not None and (lowered.value.weak_type or lowered.value.dtype != cast):
            value = sx.Call(str(cast), (value,), s.value.span)
        subscripts = tuple(_plus(self.rewrite(e), k) for e, k in zip(s.subscripts, place.shift, strict=True))
        components = tuple(value if k == s.member else self.rewrite(e) for k, e in enumerate(s.components))
        return replace(s, target=place.name, subscripts=subscripts, value=value, clauses=tuple(map(self.clause, s.clauses)),
                       call_style=False, components=components, loops=loops, label=None)

    def loop(self, x: sx.Loop, taken: set[str]) -> sx.Loop:
        """A loop of the definition in this call: a loop of its own, whose index has one name in all of its statements."""
        if x.label not in self.loops:
            index = claim(x.index, taken) if x.index in self.taken else x.index
            self.loops[x.label] = sx.Loop(f"{x.label}_{self.span.start}", index, x.span)
        return self.loops[x.label]

    def clause(self, c: sx.Clause) -> sx.Clause:
        match c:
            case sx.RangeClause():
                step = None if c.step is None else self.rewrite(c.step)
                return replace(c, index=self.indices.get(c.index, c.index), lower=self.rewrite(c.lower),
                               upper=self.rewrite(c.upper), step=step)
            case sx.LetClause():
                return replace(c, name=self.indices.get(c.name, c.name), value=self.rewrite(c.value))
            case _:
                return replace(c, value=self.rewrite(c.value))

    def rewrite(self, e: sx.Expr) -> sx.Expr:
        match e:
            case sx.Name():
                return self.name(e)
            case sx.Access():
                return self.access(e.tensor, e.subscripts, e.span, e.literal)
            case sx.Extent():
                return sx.Number(self.own.shapes[e.tensor][e.axis], e.span)
            case sx.Call() if e.fn in self.places and (self.style or e.fn not in scalars.FUNCTIONS):
                return self.access(e.fn, e.args, e.span)
            case _:
                return sx.rebuild(e, tuple(map(self.rewrite, sx.operands(e))))

    def name(self, e: sx.Name) -> sx.Expr:
        if e.id in self.indices:
            return replace(e, id=self.indices[e.id])
        if e.id in self.own.numbers:
            number = sx.Number(self.own.numbers[e.id], e.span)
            return sx.Call(str(self.own.typed[e.id]), (number,), e.span) if e.id in self.own.typed else number
        if e.id in self.places:
            return replace(e, id=self.places[e.id].name)
        return e

    def access(self, tensor: str, subscripts: tuple[sx.Expr, ...], span: Span, literal: bool = False) -> sx.Expr:
        place = self.places[tensor]
        moved = tuple(_plus(self.rewrite(e), k) for e, k in zip(subscripts, place.shift, strict=True))
        return sx.Access(place.name, moved, span, literal)


def _plus(e: sx.Expr, shift: int) -> sx.Expr:
    return e if shift == 0 else sx.Binary("+", e, sx.Number(shift, e.span), e.span)
