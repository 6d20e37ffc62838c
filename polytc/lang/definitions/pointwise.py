"""Functions of numbers in expressions: a `def` whose parameters and result have no dimensions is written out where it stands.

    def sq(x) -> (y) { y = x*x }
    Y[i] = sq(A[i] + 1)                ->   Y[i] = (A[i] + 1)*(A[i] + 1)

A parameter, or a result, with a type is cast to it. All that such a body has are statements `y = e`, of the parameters and of
what the statements before it define. What uses a precise one is precise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice

from polytc import errors
from polytc.errors import CompileError
from polytc.lang.definitions import defaults
from polytc.lang.definitions.expand import names, nodes
from polytc.lang.parsing import syntax as sx
from polytc.program.typenames import CONSTANTS

LARGEST = 10_000
"""Operations of a call, all that it calls written out."""


def is_pointwise(f: sx.Function) -> bool:
    """Is a definition a function of numbers?"""
    if f.kind != "def" or f.temporaries or f.outputs is None or len(f.outputs) != 1 or not f.params or not f.body:
        return False
    known = {p.name for p in f.params}
    if any(p.inout or p.dims is not None for p in (*f.params, *f.outputs)):
        return False
    for s in f.body:
        if not isinstance(s, sx.Statement) or s.target in known or s.op is not None:
            return False
        if s.subscripts or s.clauses or s.components or s.accumulator:
            return False
        if any(isinstance(n, sx.Access | sx.Guarded | sx.Extent | sx.Pack) for n in nodes(s.value)):
            return False
        if not set(names(s.value)) <= known | CONSTANTS.keys():
            return False
        known.add(s.target)
    last = f.body[-1]
    return isinstance(last, sx.Statement) and last.target == f.outputs[0].name


def expand(functions: tuple[sx.Function, ...], text: str) -> tuple[sx.Function, ...]:
    """The functions without calls of functions of numbers inside of expressions, and without those that were called so. Raises
    CompileError (E103, E120, E311)."""
    own = {f.name: f for f in functions if is_pointwise(f)}
    if not own:
        return functions
    writer = _Writer(own, text)
    found = [writer.function(f) for f in functions]
    return tuple(f for f in found if f.name not in writer.used or f.kind == "bare")


class _Writer:
    """own: the functions of numbers; used: those that were called; precise: is one of these precise?"""

    def __init__(self, own: Mapping[str, sx.Function], text: str) -> None:
        self.own, self.text = own, text
        self.used: set[str] = set()
        self.open: list[str] = []
        self.precise = False

    def function(self, f: sx.Function) -> sx.Function:
        self.precise = False
        targets = {s.target for s in f.body if isinstance(s, sx.Statement)}
        if (targets | {p.name for p in f.params}) & self.own.keys():  # hidden
            return f
        body = tuple(self.statement(s) if isinstance(s, sx.Statement) and not self.whole(s, targets) else s for s in f.body)
        return replace(f, body=body, precise=f.precise or self.precise, fast=f.fast and not self.precise)

    def whole(self, s: sx.Statement, targets: set[str]) -> bool:
        """Is a statement the call of a definition with known numbers, `s = f(2, N)`, which gives a whole tensor?"""
        if s.subscripts or s.op is not None or not isinstance(s.value, sx.Call) or s.value.fn not in self.own:
            return False
        given = [n for a in s.value.args for n in nodes(a)]
        return not any(isinstance(n, sx.Access) or (isinstance(n, sx.Name) and n.id in targets) for n in given)

    def statement(self, s: sx.Statement) -> sx.Statement:
        return replace(s, value=self.rewrite(s.value), subscripts=tuple(map(self.rewrite, s.subscripts)),
                       components=tuple(map(self.rewrite, s.components)), clauses=tuple(map(self.clause, s.clauses)))

    def clause(self, c: sx.Clause) -> sx.Clause:
        if isinstance(c, sx.RangeClause):
            return replace(c, lower=self.rewrite(c.lower), upper=self.rewrite(c.upper))
        return replace(c, value=self.rewrite(c.value))

    def rewrite(self, e: sx.Expr) -> sx.Expr:
        e = sx.rebuild(e, tuple(map(self.rewrite, sx.operands(e))))
        return self.written_out(e) if isinstance(e, sx.Call) and e.fn in self.own and not e.attributes else e

    def written_out(self, e: sx.Call) -> sx.Expr:
        """The value of a call, whose arguments have been written out."""
        f = self.own[e.fn]
        args = defaults.completed(e, f)
        if len(args) != len(f.params):
            raise self.fail("E103", f"`{f.name}` takes {defaults.count(f.params)}, {len(e.args)} given", e,
                            f"it is defined as `{f.name}({', '.join(p.name for p in f.params)})`")
        if f.name in self.open:
            raise self.fail("E120", f"`{f.name}` calls itself: {' -> '.join((*self.open, f.name))}", e,
                            "calls are put in place of themselves, which would not end: use a `for` block")
        self.used.add(f.name)
        self.precise |= f.precise
        self.open.append(f.name)
        known = {p.name: _cast(a, p.dtype) for p, a in zip(f.params, args, strict=True)}
        for s in f.body:
            assert isinstance(s, sx.Statement)
            known[s.target] = _substituted(self.rewrite(s.value), known.get)
        self.open.pop()
        assert f.outputs is not None
        found = _cast(known[f.outputs[0].name], f.outputs[0].dtype)
        if sum(1 for _ in islice(nodes(found), LARGEST + 1)) > LARGEST:
            raise self.fail("E311", f"`{f.name}`, written out, has more than {LARGEST} operations", e,
                            "compute a part of it in a statement of its own, and read that")
        return found

    def fail(self, code: str, message: str, e: sx.Call, note: str) -> CompileError:
        return errors.fail(code, message, e.span, [note], source=self.text)


def _cast(e: sx.Expr, dtype: str | None) -> sx.Expr:
    return e if dtype is None else sx.Call(dtype, (e,), e.span)


def _substituted(e: sx.Expr, value: Callable[[str], sx.Expr | None]) -> sx.Expr:
    if isinstance(e, sx.Name):
        return value(e.id) or e
    return sx.rebuild(e, tuple(_substituted(x, value) for x in sx.operands(e)))
