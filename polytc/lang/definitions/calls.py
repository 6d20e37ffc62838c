"""Which names of a text mean a definition, what runs when nothing is chosen, and that no definition calls itself.

    Y = relu(norm(X))   ->   norm1 = norm(X); Y = relu(norm1)

A definition of the text hides an intrinsic of its name in a statement of this form, and one of the prelude everywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace

from polytc import errors
from polytc.errors import CompileError, Span
from polytc.lang.definitions import defaults, pointwise, prelude
from polytc.lang.definitions.expand import clause_expressions, names, nodes
from polytc.lang.elsewhere import CURES
from polytc.lang.parsing import syntax as sx
from polytc.lang.parsing.parser import parse
from polytc.lang.report import closest
from polytc.program import scalars
from polytc.program.scalars import FUNCTIONS
from polytc.program.typenames import dtype_of

errors.register(E005="definitions and bare statements mixed", E120="definition that calls itself",
                E121="call that is no statement of its own")

_FORM = ("a call is a statement of its own: `S = f(P)`, or `(A, B) = f(X, n)`; read what you need of S in another one; "
         "a `def` of numbers alone, `def f(x) -> (y) { y = x*x }`, may be called in any expression")


@functools.lru_cache(maxsize=1024)
def resolve(text: str) -> tuple[sx.Function, ...]:
    """The functions of `text` with their calls told apart from reads and intrinsics. Raises CompileError (E0xx, E12x)."""
    names = set[str]()
    for f in parse(text):
        if f.kind != "bare" and f.name in names:
            raise errors.fail("E104", f"`{f.name}` is defined twice", f.span, ["call one of them otherwise"], source=text)
        names.add(f.name)
        check_defaults(f, text)
    parsed = pointwise.expand(parse(text), text)
    own = {f.name: f for f in parsed if f.kind != "bare"}
    found = tuple(_Resolver(f, own, text).run() for f in parsed)
    _check_recursion(found, text)
    if found[-1].kind == "bare":
        idle = sorted(own.keys() - _reached(found[-1], {f.name: f for f in found}))
        for e in _strange(found[-1]) if idle else ():
            if near := closest(e.fn, own):
                raise errors.fail("E102", f"there is no definition `{e.fn}`", e.span, [near], source=text)
        if idle:
            raise errors.fail("E005", f"a statement outside of a definition, which does not use `{idle[0]}`", found[-1].span,
                              ["put it into a `def` or `op`, or leave the definitions out"], source=text)
    return found


def _strange(f: sx.Function) -> Iterator[sx.Call]:
    """Calls in the statements of a function that no function is meant by."""
    return (e for s in f.body if isinstance(s, sx.Statement) for e in nodes(s.value)
            if isinstance(e, sx.Call) and e.fn not in FUNCTIONS and dtype_of(e.fn) is None)


def definition(name: str, functions: Mapping[str, sx.Function]) -> sx.Function:
    """What `name` means in a call: a definition of the text, else one of the prelude."""
    return functions[name] if name in functions else prelude.definitions()[name]


def roots(functions: tuple[sx.Function, ...]) -> tuple[sx.Function, ...]:
    """The functions that no other one calls."""
    called = {c.call.fn for f in functions for c in calls(f)}
    return tuple(f for f in functions if f.name not in called)


def calls(f: sx.Function) -> tuple[sx.CallStatement, ...]:
    """The calls of definitions in a function."""
    return tuple(s for s in f.body if isinstance(s, sx.CallStatement))


def is_number(f: sx.Function, p: sx.Param) -> bool:
    """A parameter without dimensions is a number, unless it has no type either and is used as a tensor."""
    if p.dims is not None or f.kind == "op":
        return False
    return p.dtype is not None or not any(n == p.name for s in f.body for n in _used_tensors(s))


def _used_tensors(s: sx.Item) -> Iterator[str]:
    if isinstance(s, sx.CallStatement):
        yield from (a.id for a, _ in s.tensors)
    if isinstance(s, sx.Statement):
        for e in (*s.subscripts, s.value, *(x for c in s.clauses for x in clause_expressions(c))):
            for n in nodes(e):
                if isinstance(n, sx.Access):
                    yield n.tensor
                elif isinstance(n, sx.Call) and s.call_style:
                    yield n.fn


def check_defaults(f: sx.Function, text: str) -> None:
    """Numbers alone have defaults, and all behind the first that has one (E116)."""
    before = None
    for p in (*f.params, *(f.outputs or ()), *f.temporaries):
        if p.default is not None and (p not in f.params or p.inout or not is_number(f, p)):
            raise errors.fail("E116", f"`{p.name}` is no number that a call gives, and has no default", p.span,
                              ["a parameter without dimensions may have one: `f32 a = 0.5`"], source=text)
        if p in f.params and before is not None and p.default is None:
            raise errors.fail("E116", f"`{p.name}` has no default, and stands behind `{before}`, which has one", p.span,
                              ["parameters with defaults are the last ones"], source=text)
        before = p.name if p.default is not None else before


def rank(p: sx.Param) -> int | None:
    """Dimensions of a parameter; None where packs, or nothing written, leave them open."""
    if p.dims is None or any(isinstance(d, sx.Pack) and not d.single for d in p.dims):
        return None
    return len(p.dims)


class _Resolver:
    """One function's calls."""

    def __init__(self, f: sx.Function, own: Mapping[str, sx.Function], text: str) -> None:
        self.f, self.own, self.text = f, own, text
        written = [s.target for s in f.body if isinstance(s, sx.Statement)]
        written += [t for s in f.body if isinstance(s, sx.CallStatement) for t, _ in s.targets]
        self.tensors = {*written, *(p.name for p in f.params)}
        self.taken = self.tensors | {n for s in f.body if isinstance(s, sx.Statement) for n in (
            *names(s.value), *(x.tensor for x in nodes(s.value) if isinstance(x, sx.Access)))}

    def run(self) -> sx.Function:
        return replace(self.f, body=tuple(x for s in self.f.body for x in self.item(s)))

    def item(self, s: sx.Item) -> Iterator[sx.Item]:
        if isinstance(s, sx.CallStatement):
            if not self.means_definition(s.call):
                raise self.unknown(s.call)
            yield from self.call(s)
        elif isinstance(s, sx.Statement) and isinstance(s.value, sx.Call) and self.is_call(s, s.value):
            yield from self.call(sx.CallStatement(((s.target, s.target_span),), s.value, (), s.span, s.loops, s.clauses))
        else:
            self.refuse_inner(s)
            yield s

    def is_call(self, s: sx.Statement, value: sx.Call) -> bool:
        alone = not s.subscripts and s.op is None and len(s.clauses) == len(s.loops) and not s.call_style
        return alone and self.means_definition(value)

    def means_definition(self, e: sx.Call) -> bool:
        """Does this call, as a whole statement, mean a definition?"""
        if e.fn in self.own:
            return True
        known = e.fn in scalars.FUNCTIONS or dtype_of(e.fn) is not None or e.fn in self.tensors
        return not known and e.fn in prelude.NAMES

    def refuse_inner(self, s: sx.Item) -> None:
        """A call of a definition inside of a larger expression (E121)."""
        if not isinstance(s, sx.Statement):
            return
        for e in (*s.subscripts, s.value, *(x for c in s.clauses for x in clause_expressions(c))):
            for n in nodes(e):
                if isinstance(n, sx.Call) and n.attributes and not self.means_definition(n):
                    raise self.unknown(n)
                inner = n.fn not in scalars.FUNCTIONS and n.fn not in self.tensors if isinstance(n, sx.Call) else False
                if isinstance(n, sx.Call) and (inner or n.attributes) and self.means_definition(n):
                    raise self.fail("E121", f"the call of `{n.fn}` stands inside of a statement", n.span, _whole(s, n), _FORM)

    def call(self, s: sx.CallStatement) -> Iterator[sx.CallStatement]:
        """The call, after those that its arguments make."""
        callee = definition(s.call.fn, self.own)
        if len({t for t, _ in s.targets}) < len(s.targets):
            raise self.fail("E104", "one tensor gets two results", s.span, "give each a tensor of its own")
        args: list[sx.Expr] = []
        for k, a in enumerate(defaults.completed(s.call, callee)):
            number = k < len(callee.params) and is_number(callee, callee.params[k])
            if isinstance(a, sx.Call) and not number and self.means_definition(a):
                name = self.fresh(a.fn)
                yield from self.call(sx.CallStatement(((name, a.span),), a, (), a.span, s.loops, s.clauses))
                a = sx.Name(name, a.span)
            if not number and not isinstance(a, sx.Name) and k < len(callee.params):
                raise self.fail("E121", f"`{callee.name}` takes a whole tensor here: its name, or a call that gives it",
                                a.span, f"write `{a.tensor}`, without subscripts" if _is_plain(a) and isinstance(a, sx.Access)
                                else "put an expression into a tensor first: `T[i] = ...`")
            args.append(a)
        parameters = tuple((is_number(callee, p), rank(p)) for p in callee.params)
        yield replace(s, call=replace(s.call, args=tuple(args)), parameters=parameters, written=self.in_place(callee, args))

    def in_place(self, callee: sx.Function, args: list[sx.Expr]) -> tuple[tuple[str, Span], ...]:
        """The arguments that the call writes, none of which may be a second argument (E104)."""
        pairs = [(p, a) for p, a in zip(callee.params, args, strict=False) if isinstance(a, sx.Name)]
        found = tuple((a.id, a.span) for p, a in pairs if p.inout)
        for name, span in found:
            if sum(a.id == name and not is_number(callee, p) for p, a in pairs) > 1:
                raise self.fail("E104", f"`{name}` is written in place by `{callee.name}`, and given twice", span,
                                "give it a copy: `T[i] = A[i]`")
        return found

    def fresh(self, name: str) -> str:
        k = 1
        while f"{name}{k}" in self.taken:
            k += 1
        self.taken.add(f"{name}{k}")
        return f"{name}{k}"

    def unknown(self, e: sx.Call) -> CompileError:
        return self.fail("E102", f"there is no definition `{e.fn}`", e.span,
                         closest(e.fn, [*self.own, *prelude.NAMES]) or CURES.get(e.fn.lower(), ""))

    def fail(self, code: str, message: str, span: Span, *notes: str) -> CompileError:
        return errors.fail(code, message, span, [n for n in notes if n], source=self.text)


def _is_plain(e: sx.Expr) -> bool:
    """Is an expression an element of a tensor at indices alone?"""
    return isinstance(e, sx.Access) and all(isinstance(d, sx.Name) for d in e.subscripts)


def _whole(s: sx.Statement, e: sx.Call) -> str:
    """The statement that gives all of what one element is asked of, `Y[i] = relu(X[i])`; '' where it is none."""
    names = [a.tensor if isinstance(a, sx.Access) else a.id for a in e.args if isinstance(a, sx.Access | sx.Name)]
    if s.value is not e or s.op is not None or len(names) < len(e.args):
        return ""
    return f"`{s.target} = {e.fn}({', '.join(names)})` gives all of `{s.target}`"


def _check_recursion(functions: tuple[sx.Function, ...], text: str) -> None:
    """No function reaches itself through calls (E120 with the cycle)."""
    known = {f.name: f for f in functions}
    for f in functions:
        cycle = _path_back(f, f.name, known, ())
        if cycle is not None:
            way = " -> ".join([f.name, *(c.call.fn for c in cycle)])
            notes = [f"line {c.span.line} calls `{c.call.fn}`" for c in cycle]
            raise errors.fail("E120", f"`{f.name}` calls itself: {way}", cycle[0].call.span, [*notes,
                              "calls are put in place of themselves, which would not end: use a `for` block"], source=text)


def _path_back(f: sx.Function, goal: str, known: Mapping[str, sx.Function], seen: tuple[str, ...]
               ) -> tuple[sx.CallStatement, ...] | None:
    for c in calls(f):
        if c.call.fn == goal and f.kind != "bare":
            return (c,)
        if c.call.fn in known and c.call.fn not in seen:
            rest = _path_back(known[c.call.fn], goal, known, (*seen, c.call.fn))
            if rest is not None:
                return (c, *rest)
    return None


def _reached(f: sx.Function, known: Mapping[str, sx.Function]) -> set[str]:
    """Names of the definitions that run when `f` does."""
    found: set[str] = set()
    rest = [f]
    while rest:
        fresh = {c.call.fn for c in calls(rest.pop())} & known.keys() - found
        found |= fresh
        rest += [known[n] for n in sorted(fresh)]
    return found
