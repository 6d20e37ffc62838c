"""Expressions as written to typed expressions of the Program: names, reads, calls, subscripts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial, reduce
from itertools import islice, pairwise

import numpy as np

from polytc import errors
from polytc.errors import Span
from polytc.lang.definitions.expand import names
from polytc.lang.parsing import syntax as sx
from polytc.lang.report import Report, closest
from polytc.lang.typing import cures
from polytc.lang.typing.lowered import INSIDE, Scope
from polytc.program import evaluator, scalars, type_promotion
from polytc.program import program as pr
from polytc.program.affine import CHOICES, affine, choices
from polytc.program.linear import expression, linear
from polytc.program.scalars import BOOL, DTYPES, I64, UNKNOWN
from polytc.program.terms import DEEPEST
from polytc.program.type_promotion import TypeProblem, Value
from polytc.program.typenames import CONSTANTS, dtype_of

errors.register(
    E101="unknown name", E102="unknown function", E103="wrong number of arguments",
    E105="wrong number of subscripts", E111="subscript or bound that is not quasi-affine", E113="misplaced `else`",
    E212="read before it is written", E303="arithmetic on bool", E304="operator needs integers",
    E305="condition that is not bool", E306="number does not fit its type", E307="unknown type",
    E308="subscript that is not an integer", E309="integer division by zero", E311="definition that is too large")

LONG = 32
"""Operations from which the definition of a sum of indices is kept as the sum that it is."""

DEEP = 16
"""Definitions inside of each other from which on those below are computed first, so that no stack limits them."""

LARGEST = 10_000
"""Operations of what a `where` clause defines, all that it uses written out."""


class Failed(Exception):
    """This expression has been reported."""


class Expressions:
    """The expressions of one statement. order: its indices as they appear; down: those that count down, with the index that
    counts up in their place; skipped, limits, masks, spans: as in Lowered. typing: only types are asked for, and
    a number that does not fit is reported elsewhere. Failed is raised behind a report."""

    def __init__(self, s: sx.Statement, scope: Scope, report: Report, typing: bool = False) -> None:
        self.s, self.scope, self.report, self.typing = s, scope, report, typing
        self.lets: dict[str, sx.Expr] = {c.name: c.value for c in s.clauses if isinstance(c, sx.LetClause)}
        self.let_values: dict[str, Value | None] = {}  # None: being computed, or refused
        self.open_lets: set[str] = set()
        self.spans: dict[pr.Read, Span] = {}
        self.skipped: list[pr.Read] = []
        self.limits: list[pr.Bound] = []
        self.masks: list[pr.Expr] = []
        self.order: dict[str, None] = {}
        self.down: dict[str, str] = {}

    def fail(self, code: str, message: str, span: Span, *notes: str) -> Failed:
        self.report.add(code, message, span, *notes)
        return Failed()

    def value(self, e: sx.Expr, whole: bool = False) -> Value:
        try:
            return self._value(e, whole)
        except TypeProblem as problem:
            if self.typing and problem.dtype is not None:
                return Value(pr.Const(0, problem.dtype))
            raise self.fail(problem.code, problem.message, e.span, *problem.notes) from None

    def _value(self, e: sx.Expr, whole: bool = False) -> Value:
        match e:
            case sx.Number():
                return type_promotion.number(e.value)
            case sx.Name():
                return self.name(e)
            case sx.Access():
                read = self.access(e.tensor, e.subscripts, e.span)
                return replace(read, weak_type=True) if e.literal else read
            case sx.Guarded():
                found = self.guarded(e, whole)
                return replace(found, weak_type=True) if isinstance(e.access, sx.Access) and e.access.literal else found
            case sx.Extent():
                return self.extent(e)
            case sx.Unary():
                return type_promotion.unary(e.op, self.value(e.a))
            case sx.Binary():
                a, b = self.both(e.a, e.b)
                if e.loose and BOOL in (a.dtype, b.dtype) and (a.dtype.is_int or b.dtype.is_int):
                    raise self.fail("E303", f"`{e.op}` of {a.dtype} and {b.dtype}: comparisons bind closer", e.span,
                                    cures.of_loose_comparison(e, self.report.source))
                return type_promotion.binary(e.op, a, b)
            case sx.ChainedComparison():
                values = self.both(*e.operands)
                links = [type_promotion.binary(op, *pair) for op, pair in zip(e.ops, pairwise(values), strict=True)]
                return reduce(partial(type_promotion.binary, "&&"), links)
            case sx.Ternary():
                condition = self.value(e.condition)
                known = decided(condition)
                if known is not None:
                    return self.value(e.a if known else e.b)
                return type_promotion.select(condition, *self.both(e.a, e.b))
            case sx.Call():
                return self.call(e)
            case _:
                raise self.fail("E110", "a pack belongs into the subscripts of an `op`", e.span)

    def both(self, *operands: sx.Expr) -> tuple[Value, ...]:
        """The values of all operands; all of them are looked at even if one fails."""
        found: list[Value] = []
        failed = False
        for e in operands:
            try:
                found.append(self.value(e))
            except Failed:
                failed = True
        if failed:
            raise Failed
        return tuple(found)

    def name(self, e: sx.Name) -> Value:
        scope = self.scope
        if e.id in self.lets:
            for name in self.below(e.id) if len(self.open_lets) > DEEP else ():
                self.let(sx.Name(name, e.span))
            return self.let(e)
        if e.id in scope.numbers:
            value = type_promotion.number(scope.numbers[e.id])
            return type_promotion.cast(value, scope.typed[e.id]) if e.id in scope.typed else value
        if e.id in scope.ranks:
            return self.access(e.id, (), e.span)
        if e.id in CONSTANTS:
            return type_promotion.number(CONSTANTS[e.id])
        if e.id in self.down:
            return Value(negative(pr.Index(self.down[e.id])), weak_type=True)
        self.order.setdefault(e.id)
        return Value(pr.Index(e.id), weak_type=True)

    def let(self, e: sx.Name) -> Value:
        """The value of what `where` defines, computed once, and reported once."""
        if e.id not in self.let_values:
            self.open_lets.add(e.id)
            self.let_values[e.id] = None
            try:
                self.let_values[e.id] = self.short(self.value(self.lets[e.id]), e)
            finally:
                self.open_lets.discard(e.id)
        found = self.let_values[e.id]
        if found is None:
            raise self.fail("E114", f"`{e.id}` is defined by itself", e.span) if e.id in self.open_lets else Failed
        return found

    def below(self, name: str) -> list[str]:
        """The definitions that one is made of, each behind those that it is made of itself."""
        found: list[str] = []
        rest = [(name, False)]
        seen = set(self.open_lets)
        while rest:
            last, done = rest.pop()
            if done:
                found.append(last)
            elif last not in seen and last not in self.let_values:
                seen.add(last)
                rest += [(last, True), *((n, False) for n in names(self.lets[last]) if n in self.lets)]
        return found

    def short(self, value: Value, e: sx.Name) -> Value:
        """The value of a definition, which others may use again and again: a long sum of indices as the sum that it is."""
        size = sum(1 for _ in islice(pr.walk(value.expr), LARGEST + 1))
        form = linear(value.expr) if LONG < size <= LARGEST and value.dtype == I64 and value.weak_type else None
        if form is not None:
            if max(map(abs, (form.constant, *(c for _, c in form.terms)))) >= 1 << 62:
                raise self.fail("E306", f"`{e.id}` has a coefficient beyond 2**62", e.span, "indices are i64")
            return Value(expression(form), weak_type=True)
        if size > LARGEST:
            raise self.fail("E311", f"`{e.id}`, written out, has more than {LARGEST} operations", e.span,
                            "compute a part of it in a statement of its own, and read that")
        self.shallow(value.expr, f"`{e.id}`, written out,", e.span)
        return value

    def shallow(self, e: pr.Expr, what: str, span: Span) -> None:
        """Refuses an expression of more levels than all targets take."""
        if pr.levels(e) > DEEPEST:
            raise self.fail("E006", f"{what} is nested too deeply", span,
                            f"it has more than {DEEPEST} levels, or terms: put a part of it into a temporary")

    def access(self, tensor: str, dims: Iterable[sx.Expr], span: Span) -> Value:
        scope = self.scope
        dims = tuple(dims)
        subscripts = (pr.Const(0, I64),) * len(dims) if self.typing else self._subscripts(dims)  # no type depends on them
        if tensor not in scope.ranks:
            hint = closest(tensor, scope.ranks) or "it is no argument and nothing writes it"
            raise self.fail("E101", f"the tensor `{tensor}` is not known", span, hint)
        if scope.ranks[tensor] != len(subscripts):
            rank = scope.ranks[tensor]
            raise self.fail("E105", f"`{tensor}` has {rank} dimensions and {len(subscripts)} subscripts here", span,
                            cures.of_rank(tensor, scope.shapes.get(tensor), rank))
        dtype = scope.dtypes.get(tensor)
        if tensor in scope.broken:
            raise Failed
        if dtype is None:
            raise self.fail("E212", f"`{tensor}` is read before anything writes it", span,
                            *cures.of_early_read(sx.Access(tensor, dims, span), self.s, self.report.source))
        read = pr.Read(tensor, subscripts, dtype)
        self.spans.setdefault(read, span)
        return Value(read, weak_type=dtype == UNKNOWN)

    def _subscripts(self, dims: tuple[sx.Expr, ...]) -> tuple[pr.Expr, ...]:
        found = tuple(self.subscript(e) for e in dims)
        if sum(choices(e) for e in found if not reading(e)) > CHOICES:
            raise self.fail("E111", f"there are more than {CHOICES} choices in the subscripts of one access", dims[0].span,
                            "compute some of them into an integer tensor, and read through that: `A[T[i]]`")
        return found

    def subscript(self, e: sx.Expr) -> pr.Expr:
        """An integer expression: quasi-affine, or with a tensor read in it (a gather)."""
        value = self.value(e)
        if not value.dtype.is_int and value.dtype != UNKNOWN:
            raise self.fail("E308", f"this subscript is {value.dtype}, not an integer", e.span,
                            cures.of_float_subscript(e, self.s, self.scope.numbers) if value.dtype.is_float else "")
        if not reading(value.expr) and affine(value.expr) is None:
            raise self.fail("E111", "this is not affine", e.span, *cures.of_affine(e, self.s),
                            "indices may be added, multiplied by numbers, divided (`//`, `%`) by positive numbers, and go "
                            "through `min max clamp abs sign` and up to six choices `c ? a : b`",
                            "anything else may be computed into an integer tensor, and read through that: `A[T[i]]`")
        try:
            return type_promotion.adapt(value, I64)
        except TypeProblem as problem:
            raise self.fail(problem.code, problem.message, e.span, "subscripts and ranges are i64") from None

    def guarded(self, e: sx.Guarded, whole: bool) -> Value:
        read = self.value(e.access)
        if not isinstance(read.expr, pr.Read):
            raise self.fail("E113", "`else` guards a read of a tensor", e.access.span,
                            "guard each read by itself: `(A[i-1] else 0) + (A[i+1] else 0)`")
        if e.default is None:
            return self.identity_guard(read.expr, e, whole)
        default = self.value(e.default)
        if read.dtype == UNKNOWN:  # all that is known is what stands in its place
            return Value(pr.Cast(read.expr, default.dtype), weak_type=True)
        if default.number is None or default.dtype.is_complex and not read.dtype.is_complex:
            return self.alternative(read.expr, default, e.span)
        if default.dtype.is_float and not read.dtype.is_float:
            raise self.fail("E302", f"the value after `else` is a float, `{read.expr.tensor}` is {read.dtype}", e.default.span,
                            f"give an integer, or read a tensor of floats: `T[i] = f64({read.expr.tensor}[i])`")
        constant = type_promotion.adapt(default, read.dtype)
        if not isinstance(constant, pr.Const):
            constant = pr.Const(bool(default.number), BOOL)
        return self._guard(read.expr, constant, e.span)

    def alternative(self, read: pr.Read, other: Value, span: Span) -> Value:
        """The read where it is in bounds, elsewhere another value: a choice by INSIDE, which is spelled out once bounds are
        known."""
        zero = pr.Const(scalars.zero(read.dtype), read.dtype)
        guarded = self._guard(read, zero, span)
        return type_promotion.select(Value(pr.Call(INSIDE, (guarded.expr,), BOOL)), guarded, other)

    def identity_guard(self, read: pr.Read, e: sx.Guarded, whole: bool) -> Value:
        op = self.s.op
        if op is None:
            raise self.fail("E113", "`else identity` needs an update such as `+=`", e.span)
        if whole and read.dtype.is_float and not read.dtype.is_complex:
            return self._guard(read, pr.Const(scalars.identity(op, read.dtype), read.dtype), e.span)
        if read.dtype == UNKNOWN:
            return Value(read, weak_type=True)
        zero = pr.Const(scalars.identity("+", read.dtype), read.dtype)
        guarded = self._guard(read, zero, e.span)
        assert isinstance(guarded.expr, pr.Read)
        self.skipped.append(guarded.expr)
        return guarded

    def _guard(self, read: pr.Read, default: pr.Const, span: Span) -> Value:
        guarded = pr.Read(read.tensor, read.subscripts, read.dtype, default)
        self.spans.setdefault(guarded, span)
        return Value(guarded)

    def extent(self, e: sx.Extent) -> Value:
        shape = self.scope.shapes.get(e.tensor)
        if shape is None:
            raise self.fail("E101", f"`{e.tensor}` is not an input", e.span, closest(e.tensor, self.scope.shapes))
        if not -len(shape) <= e.axis < len(shape):
            raise self.fail("E105", f"`{e.tensor}` has {len(shape)} dimensions, no axis {e.axis}", e.span)
        return type_promotion.number(shape[e.axis])

    def call(self, e: sx.Call) -> Value:
        if e.fn in self.scope.ranks and (self.s.call_style or e.fn not in scalars.FUNCTIONS):
            return self.access(e.fn, e.args, e.span)
        dtype = dtype_of(e.fn)
        expected = 1 if dtype else scalars.FUNCTIONS[e.fn].arity if e.fn in scalars.FUNCTIONS else None
        if expected is None:
            raise self.unknown_call(e)
        if dtype is not None and dtype.is_complex and len(e.args) == 2:
            return type_promotion.pair(dtype, *self.both(*e.args))
        if len(e.args) != expected:
            raise self.fail("E103", f"`{e.fn}` takes {expected} argument{'s' * (expected > 1)}, {len(e.args)} given", e.span,
                            cures.of_count(e.fn, len(e.args)))
        args = list(self.both(*e.args))
        return type_promotion.cast(args[0], dtype) if dtype else type_promotion.call(e.fn, args)

    def unknown_call(self, e: sx.Call) -> Failed:
        known = [*scalars.FUNCTIONS, *DTYPES, *self.scope.ranks, *self.scope.functions]
        return self.fail("E102", f"there is no function `{e.fn}`", e.span, cures.of_call(e.fn, known, e.args))


def negative(e: pr.Expr) -> pr.Expr:
    """-e for an integer."""
    return pr.Const(-e.value, I64) if isinstance(e, pr.Const) else pr.Unary("-", e, I64)


def reading(e: pr.Expr) -> bool:
    """Does it read a tensor?"""
    return any(isinstance(n, pr.Read) for n in pr.walk(e))


def decided(condition: Value) -> bool | None:
    """What a condition of numbers alone is, functions of them included; None if an index or memory decides."""
    e = condition.expr
    if e.dtype != BOOL or any(isinstance(n, pr.Index | pr.Read) for n in pr.walk(e)):
        return None
    with np.errstate(all="ignore"):
        return bool(evaluator.compute(e, {}, {}, {}))
