"""Which definition a name means, and which one of a text runs."""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from polytc.lang.parsing import syntax as sx
from polytc.lang.parsing.parser import parse
from tests.meaning import functions, types
from tests.meaning.expressions import Refused, walk
from tests.meaning.packs import mapped, spoken


@dataclass(frozen=True)
class Invoke:
    """`A, B = f(X, 3)`: args are names of tensors and numbers. loops, clauses: as of a statement."""

    targets: tuple[str, ...]
    f: sx.Function
    args: tuple[sx.Expr, ...]
    attributes: tuple[sx.Given, ...]
    loops: tuple[sx.Loop, ...]
    clauses: tuple[sx.Clause, ...]

    @property
    def tensors(self) -> list[tuple[sx.Param, str]]:
        """The parameters that are tensors, with what is passed for them."""
        pairs = zip(self.f.params, self.args, strict=True)
        return [(p, a.id) for p, a in pairs if isinstance(a, sx.Name) and not is_number(self.f, p)]

    @property
    def numbers(self) -> list[tuple[sx.Param, sx.Expr]]:
        return [(p, a) for p, a in zip(self.f.params, self.args, strict=True) if is_number(self.f, p)]


@functools.cache
def prelude() -> Mapping[str, sx.Function]:
    """The definitions that need not be defined: texts, like the user's."""
    folder = importlib.resources.files("polytc.lang.definitions.prelude")
    texts = [f.read_text(encoding="utf-8") for f in folder.iterdir() if f.name.endswith(".ein")]
    return {f.name: f for t in texts for f in parse(t)}


def of_numbers(f: sx.Function) -> bool:
    """Is a definition a function of numbers, to be called in expressions?"""
    if f.kind != "def" or f.outputs is None or len(f.outputs) != 1 or any(p.inout or p.dims is not None for p in f.params):
        return False
    return all(isinstance(s, sx.Statement) and s.op is None and not s.subscripts and not s.clauses and not s.components
               and not any(isinstance(n, sx.Access) for n in walk(s.value)) for s in f.body)


def given(f: sx.Function, call: sx.Call) -> tuple[sx.Expr, ...]:
    """The arguments of a call; those that it leaves out are numbers of the definition's own."""
    rest = [p.default for p in f.params[len(call.args):]]
    return call.args + tuple(sx.Number(n, call.span) for n in rest if n is not None)


def written_out(parsed: tuple[sx.Function, ...]) -> tuple[sx.Function, ...]:
    """The functions with their calls of functions of numbers written out, and without those that were."""
    own = {f.name: f for f in parsed if of_numbers(f)}
    called: set[str] = set()

    def put(e: sx.Expr, known: Mapping[str, sx.Expr]) -> sx.Expr:
        if isinstance(e, sx.Name):
            return known.get(e.id, e)
        e = mapped(e, lambda x: put(x, known))
        if not isinstance(e, sx.Call) or e.fn not in own:
            return e
        f = own[e.fn]
        called.add(e.fn)
        pairs = zip(f.params, given(f, e), strict=True)
        inside = {p.name: a if p.dtype is None else sx.Call(p.dtype, (a,), e.span) for p, a in pairs}
        for s in f.body:
            inside[s.target] = put(s.value, inside)
        (result,) = f.outputs
        return inside[result.name] if result.dtype is None else sx.Call(result.dtype, (inside[result.name],), e.span)

    def statement(s: sx.Item) -> sx.Item:
        if not isinstance(s, sx.Statement):
            return s
        if isinstance(s.value, sx.Call) and s.value.fn in own and not s.subscripts and s.op is None and not any(
                isinstance(n, sx.Access) for n in walk(s.value)):
            return s
        clauses = tuple(replace(c, lower=put(c.lower, {}), upper=put(c.upper, {})) if isinstance(c, sx.RangeClause)
                        else replace(c, value=put(c.value, {})) for c in s.clauses)
        return replace(s, value=put(s.value, {}), subscripts=tuple(put(e, {}) for e in s.subscripts), clauses=clauses,
                       components=tuple(put(e, {}) for e in s.components))

    found = [replace(f, body=tuple(map(statement, f.body))) for f in parsed]
    return tuple(f for f in found if f.name not in called)


def entry(text: str) -> tuple[sx.Function, Mapping[str, sx.Function]]:
    """What runs: the bare statements, or the definition that no other one calls; and all definitions."""
    parsed = written_out(parse(text))
    own = {f.name: f for f in parsed if f.kind != "bare"}
    if parsed[-1].kind == "bare":
        return parsed[-1], own
    said = [e for f in parsed for s in f.body for e in ([s.call] if isinstance(s, sx.CallStatement) else spoken(s))]
    called = {n.fn for e in said for n in walk(e) if isinstance(n, sx.Call)}
    roots = [f for f in parsed if f.name not in called]
    if len(roots) != 1:
        raise Refused("several definitions")
    return roots[0], own


def is_number(f: sx.Function, p: sx.Param) -> bool:
    """A parameter without dimensions is a number, unless it has no type and is subscripted."""
    if p.dims is not None or f.kind == "op":
        return False
    used = {n.tensor if isinstance(n, sx.Access | sx.Extent) else n.fn for s in f.body for e in spoken(s) for n in walk(e)
            if isinstance(n, sx.Access | sx.Extent | sx.Call)}
    return p.dtype is not None or p.name not in used


class Body:
    """The statements of a function with its calls told apart, and Tensor Comprehensions' reads as ours."""

    def __init__(self, f: sx.Function, own: Mapping[str, sx.Function]) -> None:
        self.f, self.own = f, own
        self.tensors = {p.name for p in f.params} | {s.target for s in f.body if isinstance(s, sx.Statement)}
        self.tensors |= {t for s in f.body if isinstance(s, sx.CallStatement) for t, _ in s.targets}
        self.made = 0

    def items(self) -> Iterator[sx.Statement | Invoke]:
        for s in self.f.body:
            if isinstance(s, sx.CallStatement):
                yield from self.invoke(tuple(t for t, _ in s.targets), s.call, s.loops, s.clauses)
            elif isinstance(s, sx.Statement):
                plain = not s.subscripts and s.op is None and len(s.clauses) == len(s.loops) and not s.call_style
                if plain and isinstance(s.value, sx.Call) and self.defined(s.value.fn):
                    yield from self.invoke((s.target,), s.value, s.loops, s.clauses)
                else:
                    yield self.plain(s)

    def defined(self, fn: str) -> bool:
        known = fn in functions.NAMES or types.named(fn) is not None or fn in self.tensors
        return fn in self.own or not known and fn in prelude()

    def definition(self, fn: str) -> sx.Function:
        return self.own[fn] if fn in self.own else prelude()[fn]

    def invoke(self, targets: tuple[str, ...], call: sx.Call, loops: tuple[sx.Loop, ...], clauses: tuple[sx.Clause, ...]
               ) -> Iterator[Invoke]:
        """The call, behind those that its arguments make."""
        args: list[sx.Expr] = []
        callee = self.definition(call.fn)
        for p, a in zip(callee.params, given(callee, call), strict=True):
            if isinstance(a, sx.Call) and self.defined(a.fn) and not is_number(callee, p):
                self.made += 1
                name = f"{a.fn} {self.made}"
                yield from self.invoke((name,), a, loops, clauses)
                a = sx.Name(name, a.span)
            args.append(a)
        yield Invoke(targets, callee, tuple(args), call.attributes, loops, clauses)

    def plain(self, s: sx.Statement) -> sx.Statement:
        def read(e: sx.Expr) -> sx.Expr:
            e = mapped(e, read)
            if not isinstance(e, sx.Call) or e.fn in functions.C_NAMES:
                return e
            known = e.fn in functions.NAMES or types.named(e.fn) is not None
            own = e.fn in self.tensors and (s.call_style or e.fn not in functions.NAMES) or s.call_style and not known
            return sx.Access(e.fn, e.args, e.span) if own else e

        def clause(c: sx.Clause) -> sx.Clause:
            if not isinstance(c, sx.RangeClause):
                return replace(c, value=read(c.value))
            return replace(c, lower=read(c.lower), upper=read(c.upper), step=None if c.step is None else read(c.step))
        return replace(s, subscripts=tuple(map(read, s.subscripts)), value=read(s.value),
                       components=tuple(map(read, s.components)), clauses=tuple(map(clause, s.clauses)))
