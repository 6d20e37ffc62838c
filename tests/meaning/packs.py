"""An `op` for the ranks at hand: packs become indices, attributes numbers, axes that broadcast 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from polytc.lang.parsing import syntax as sx
from tests.meaning.expressions import Refused, walk


def expressions(f: sx.Function) -> Iterator[sx.Expr]:
    """All that a function says, its header first."""
    for p in (*f.params, *(f.outputs or ())):
        yield from p.dims or ()
    for s in f.body:
        yield from spoken(s)


def spoken(s: sx.Item) -> Iterator[sx.Expr]:
    """The expressions of a statement."""
    if isinstance(s, sx.Assumption):
        yield s.value
    elif isinstance(s, sx.Statement):
        yield from (*s.subscripts, *(s.components or (s.value,)))
        for c in s.clauses:
            if isinstance(c, sx.RangeClause):
                yield from (c.lower, c.upper, *([] if c.step is None else [c.step]))
            else:
                yield c.value


class Packs:
    """lists: attributes with a value for each axis; ranks: of packs, by name."""

    def __init__(self, f: sx.Function, shapes: Mapping[str, tuple[int, ...]], attributes: Mapping[str, Any]) -> None:
        self.f, self.shapes = f, shapes
        given = {a.name: attributes.get(a.name, a.default) for a in f.attributes}
        self.lists = {n: tuple(v) for n, v in given.items() if isinstance(v, tuple | list)}
        self.numbers = {n: v for n, v in given.items() if n not in self.lists}
        if None in self.numbers.values() or set(attributes) - set(given):
            raise Refused(f"the attributes of `{f.name}` are {list(given)}")
        self.ranks = {n: len(v) for n, v in self.lists.items()}
        self.solve()
        self.headers = {p.name: list(self.header(p)) for p in f.params}
        extents = {n for p in f.params for n, optional, extent in self.actual(p.name) if n and not (optional and extent == 1)}
        ranged = {c.index for s in f.body if isinstance(s, sx.Statement) for c in s.clauses if isinstance(c, sx.RangeClause)}
        self.ones = {n for axes in self.headers.values() for n, optional in axes
                     if optional and n and n not in extents and n.rstrip("0123456789") not in ranged}

    def solve(self) -> None:
        """Ranks from shapes, and from packs that stand in one `*( )`; of those that only broadcast, the widest one's."""
        headers = {p.name: p.dims for p in self.f.params if p.dims is not None}
        relaxed = {n for n, dims in headers.items() if any(isinstance(d, sx.Pack) and d.optional for d in dims)}
        accesses = [(n.tensor, n.subscripts) for e in expressions(self.f) for n in walk(e) if isinstance(n, sx.Access)]
        for last in (False, False, False, True, False, False, False):
            for together in self.groups():
                found = [self.ranks[n] for n in together if n in self.ranks]
                self.ranks |= dict.fromkeys(together, found[0]) if found else {}
            for name, dims in (*headers.items(), *accesses):
                if name in self.shapes and name not in relaxed:
                    self.rest(len(self.shapes[name]), dims)
            if last and relaxed:
                plain = {n: sum(not isinstance(d, sx.Pack) or d.single for d in headers[n]) for n in relaxed}
                widest = max(len(self.shapes[n]) - plain[n] for n in relaxed if n in self.shapes)
                names = {d.a.id for n in relaxed for d in headers[n] if isinstance(d, sx.Pack) and not d.single}
                self.ranks |= dict.fromkeys(names - self.ranks.keys(), max(widest, 0))

    def groups(self) -> Iterator[set[str]]:
        """Packs and list attributes that have one rank."""
        def names(e: sx.Expr) -> set[str]:
            return {n.id for n in walk(e) if isinstance(n, sx.Name)} - self.numbers.keys()
        for e in expressions(self.f):
            yield from (names(n.a) for n in walk(e) if isinstance(n, sx.Pack) and not n.single)
        for c in (c for s in self.f.body if isinstance(s, sx.Statement) for c in s.clauses):
            if isinstance(c, sx.RangeClause) and c.pack:
                yield {c.index}.union(*(names(e.a) for e in (c.lower, c.upper) if isinstance(e, sx.Pack)))

    def rest(self, rank: int, dims: tuple[sx.Expr, ...]) -> None:
        """The one pack whose rank is open has what the others leave."""
        packs = [d for d in dims if isinstance(d, sx.Pack) and not d.single]
        sizes = [self.size(p) for p in packs]
        if sizes.count(None) == 1:
            e = packs[sizes.index(None)].a
            left = rank - (len(dims) - len(packs)) - sum(s for s in sizes if s is not None)
            names = [n.id for n in walk(e) if isinstance(n, sx.Name) and n.id not in self.numbers]
            self.ranks |= dict.fromkeys(names, left)

    def size(self, pack: sx.Pack) -> int | None:
        return next((self.ranks[n.id] for n in walk(pack.a) if isinstance(n, sx.Name) and n.id in self.ranks), None)

    def header(self, p: sx.Param) -> Iterator[tuple[str | None, bool]]:
        """(index, does it broadcast?) of each dimension of a parameter."""
        for d in p.dims or ():
            if isinstance(d, sx.Pack) and not d.single:
                for k in range(self.ranks[d.a.id] if isinstance(d.a, sx.Name) else 0):
                    yield f"{d.a.id}{k}", d.optional
            else:
                inner = d.a if isinstance(d, sx.Pack) else d
                yield inner.id if isinstance(inner, sx.Name) else None, isinstance(d, sx.Pack)

    def actual(self, name: str) -> Iterator[tuple[str | None, bool, int]]:
        """The axes that the array has, aligned right."""
        shape, axes = self.shapes.get(name, ()), self.headers[name]
        for (index, optional), extent in zip(axes[len(axes) - len(shape):], shape, strict=True):
            yield index, optional, extent

    # ---- the body

    def run(self) -> sx.Function:
        return replace(self.f, body=tuple(map(self.item, self.f.body)))

    def item(self, s: sx.Item) -> sx.Item:
        if isinstance(s, sx.Statement):
            clauses = tuple(c for x in s.clauses for c in self.clause(x))
            return replace(s, subscripts=self.slots(s.subscripts), value=self.at(s.value),
                           components=tuple(map(self.at, s.components)), clauses=clauses)
        return replace(s, value=self.at(s.value)) if isinstance(s, sx.Assumption) else s

    def clause(self, c: sx.Clause) -> Iterator[sx.Clause]:
        if not isinstance(c, sx.RangeClause):
            yield replace(c, value=self.at(c.value))
        elif not c.pack:
            yield replace(c, lower=self.at(c.lower), upper=self.at(c.upper), step=None if c.step is None else self.at(c.step))
        else:
            for k in range(self.ranks[c.index]):
                low, high = (self.at(e.a if isinstance(e, sx.Pack) else e, k) for e in (c.lower, c.upper))
                yield replace(c, index=f"{c.index}{k}", lower=low, upper=high, pack=False,
                              step=None if c.step is None else self.at(c.step, k))

    def slots(self, dims: tuple[sx.Expr, ...]) -> tuple[sx.Expr, ...]:
        found: list[sx.Expr] = []
        for d in dims:
            if isinstance(d, sx.Pack) and not d.single:
                found += [self.at(d.a, k) for k in range(self.size(d) or 0)]
            else:
                found.append(self.at(d))
        return tuple(found)

    def at(self, e: sx.Expr, k: int | None = None) -> sx.Expr:
        """The expression for axis k of the packs in it."""
        match e:
            case sx.Name(id=n) if n in self.lists and k is not None:
                return sx.Number(self.lists[n][k], e.span)
            case sx.Name(id=n):
                name = f"{n}{k}" if n in self.ranks and k is not None else n
                return sx.Number(0, e.span) if name in self.ones else sx.Number(self.numbers[n], e.span) \
                    if n in self.numbers else replace(e, id=name)
            case sx.Access(tensor=t) if t in self.lists:
                return sx.Number(self.lists[t][e.subscripts[0].value], e.span)  # type: ignore[union-attr]
            case sx.Access(tensor=t):
                return replace(e, subscripts=self.aligned(t, self.slots(e.subscripts)))
        return mapped(e, lambda x: self.at(x, k))

    def aligned(self, tensor: str, subscripts: tuple[sx.Expr, ...]) -> tuple[sx.Expr, ...]:
        """Without the axes that the array lacks; 0 where it repeats."""
        axes = self.headers.get(tensor)
        if axes is None or not any(optional for _, optional in axes) or len(axes) != len(subscripts):
            return subscripts
        kept = subscripts[len(axes) - len(self.shapes[tensor]):]
        return tuple(sx.Number(0, e.span) if optional and extent == 1 else e
                     for (_, optional, extent), e in zip(self.actual(tensor), kept, strict=True))


def mapped(e: sx.Expr, f: Callable[[sx.Expr], sx.Expr]) -> sx.Expr:
    """The expression with f of each operand."""
    return sx.rebuild(e, tuple(map(f, sx.operands(e))))
