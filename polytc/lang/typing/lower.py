"""Plain statements of the syntax tree to statements with typed expressions: left sides, loops, `where` clauses."""

from __future__ import annotations

from polytc import errors
from polytc.errors import Span
from polytc.lang.parsing import syntax as sx
from polytc.lang.report import Report, closest
from polytc.lang.typing import cures
from polytc.lang.typing.expressions import Expressions, Failed, negative, reading
from polytc.lang.typing.lowered import Bound, Lowered, Scope
from polytc.program import program as pr
from polytc.program import type_promotion
from polytc.program.affine import decidable
from polytc.program.domain import separated
from polytc.program.scalars import BOOL, I64

errors.register(E114="misplaced `where` clause")


def lower_statement(name: str, s: sx.Statement, scope: Scope, report: Report) -> Lowered | None:
    """The statement with names and types resolved; None when something was reported."""
    before = len(report.found)
    walker = _Lowering(s, scope, report)
    try:
        lowered = walker.run(name)
    except Failed:
        return None
    except RecursionError:
        report.add("E006", "this is nested too deeply", s.span, "put a part of it into a temporary")
        return None
    return lowered if len(report.found) == before else None


def number_of(e: sx.Expr, scope: Scope, report: Report) -> int | float | bool | None:
    """The value of an expression over sizes, scalars and literals; None where it has another name in it, or after a report."""
    nothing = sx.Statement("", (), None, False, e, (), False, e.span, e.span)
    try:
        return Expressions(nothing, scope, report).value(e).number
    except Failed:
        return None


class _Lowering(Expressions):
    """A whole statement."""

    def run(self, name: str) -> Lowered:
        s = self.s
        around = self.loops()
        subscripts = self.left_side()
        left = frozenset(self.order)
        values = self.both(*s.components) if s.components else (self.value(s.value, whole=True),)
        value = values[s.member]
        also = tuple(v.expr for v in values[1:]) if s.member == 0 else ()
        bounds, conditions = self.clauses()
        bounds = (*around, *bounds)
        self.all_shallow((*(v.expr for v in values), *subscripts), conditions)
        for index in self.order:
            if index in self.scope.ranks:
                rank = self.scope.ranks[index]
                raise self.fail("E105", f"`{index}` is a tensor with {rank} dimensions, not an index", s.span)
        return Lowered(name, s, s.target, subscripts, value, bounds, conditions, self.listed(), left, tuple(self.skipped), also,
                       tuple(self.limits), tuple(self.masks), self.spans)

    def all_shallow(self, expressions: tuple[pr.Expr, ...], conditions: tuple[tuple[pr.Expr, Span], ...]) -> None:
        """Refuses what is nested too deeply anywhere in the statement."""
        what = "this, its definitions written out," if self.lets else "this"
        for e in (*expressions, *self.masks, *(e for limit in self.limits for e in (limit.lower, limit.upper))):
            self.shallow(e, what, self.s.span)
        for e, span in conditions:
            self.shallow(e, what, span)

    def listed(self) -> tuple[str, ...]:
        """The indices in the order that the label lists, or else in that of their appearance."""
        label = self.s.label
        if label is None or not label.indices:
            return tuple(self.order)
        found = tuple(self.down.get(i, i) for i in label.indices)
        depth = len(self.s.loops)
        if sorted(found) != sorted(self.order) or found[:depth] != tuple(self.order)[:depth]:
            raise self.fail("E116", "the label does not list the indices of the statement", label.span,
                            f"they are {', '.join(self.order)}, those of loops first")
        return found

    def left_side(self) -> tuple[pr.Expr, ...]:
        s = self.s
        rank = self.scope.ranks.get(s.target, len(s.subscripts))
        if rank != len(s.subscripts):
            raise self.fail("E105", f"`{s.target}` has {rank} dimensions and {len(s.subscripts)} subscripts here",
                            s.target_span, cures.of_rank(s.target, self.scope.shapes.get(s.target), rank))
        return self._subscripts(s.subscripts)

    # ---- loops and clauses

    def loops(self) -> tuple[Bound, ...]:
        """The ranges of the loops around the statement, outermost first. An index that counts down is the negative of one that
        counts up:  for i in 7:-1:-1  ->  for minus_i in -7:1,  i = -minus_i."""
        found: list[Bound] = []
        for loop, c in zip(self.s.loops, self.s.clauses, strict=False):
            assert isinstance(c, sx.RangeClause)
            if loop.index in (*self.order, *self.down, *self.scope.numbers, *self.scope.ranks):
                raise self.fail("E114", f"`{loop.index}` already has a meaning here", loop.span, "choose another name")
            outer = set(self.order)
            low, high = self.subscript(c.lower), self.subscript(c.upper)
            unknown = next((i for i in self.order if i not in outer), None)
            if unknown is not None:
                raise self.fail("E101", f"`{unknown}` is not known in the range of a `for`", c.span,
                                closest(unknown, self.scope.numbers),
                                f"if it is a number, give it: `{unknown}=...` in the call, or scalars={{\"{unknown}\": ...}}",
                                "a range may use sizes, numbers and the indices of the loops around it")
            step = self.step(c)
            if reading(low) or reading(high):
                if step != 1:
                    raise self.fail("E114", "a `for` over a range in memory goes up by 1", c.span, "narrow it with `where`")
                self.order.setdefault(loop.index)
                self.limits.append(pr.Bound(loop.index, low, high))
                continue
            index = loop.index if step > 0 else f"minus_{loop.index}"
            if step < 0:
                self.down[loop.index] = index
                low, high = negative(low), negative(high)
            self.order.setdefault(index)
            found.append(Bound(index, low, high, abs(step), c.span))
        return tuple(found)

    def step(self, c: sx.RangeClause) -> int:
        """The step of a range."""
        step = self.value(c.step) if c.step is not None else type_promotion.number(1)
        if not isinstance(step.number, int) or step.number == 0:
            raise self.fail("E114", "the step of a range must be a number other than 0", c.span)
        if abs(step.number) >= 1 << 62:
            raise self.fail("E306", "the step of a range must be below 2**62", c.span, "indices are i64")
        return step.number

    def clauses(self) -> tuple[tuple[Bound, ...], tuple[tuple[pr.Expr, Span], ...]]:
        bounds: list[Bound] = []
        conditions: list[tuple[pr.Expr, Span]] = []
        for c in self.s.clauses[len(self.s.loops):]:
            try:
                if isinstance(c, sx.RangeClause):
                    bound = self.bound(c)
                    if bound is not None:
                        bounds.append(bound)
                elif isinstance(c, sx.Condition):
                    conditions += [(e, c.span) for e in self.condition(c.value)]
                elif c.name in self.order or c.name in self.scope.numbers or c.name in self.scope.ranks:
                    self.report.add("E114", f"`{c.name}` already has a meaning here", c.span, "choose another name")
            except Failed:
                continue
        return tuple(bounds), tuple(conditions)

    def bound(self, c: sx.RangeClause) -> Bound | None:
        """A range of affine ends; None for one that reads tensors, which is noted as a limit."""
        if c.index in self.scope.numbers or c.index in self.scope.ranks or c.index in self.lets:
            raise self.fail("E114", f"`{c.index}` is not an index", c.span, "a range narrows an index of the statement")
        step = self.step(c)
        if step < 1:
            raise self.fail("E114", "the step of a `where` range must be positive", c.span, "only a `for` counts down")
        if c.index in self.down:
            raise self.fail("E114", f"`{c.index}` counts down in a `for`: its range cannot be narrowed so", c.span,
                            f"write a condition: `{c.index} >= ...`")
        self.order.setdefault(c.index)
        low, high = self.subscript(c.lower), self.subscript(c.upper)
        if not reading(low) and not reading(high):
            return Bound(c.index, low, high, step, c.span)
        limit = pr.Bound(c.index, low, high)
        if c.index in (x.index for x in self.s.loops):  # a loop's range stays as it is
            self.masks += pr.within((limit,))
        else:
            self.limits.append(limit)
        if step > 1:
            offset = pr.Binary("-", pr.Index(c.index), low, I64)
            rest = pr.Binary("%", offset, pr.Const(step, I64), I64)
            self.masks.append(pr.Binary("==", rest, pr.Const(0, I64), BOOL))
        return None

    def condition(self, e: sx.Expr) -> list[pr.Expr]:
        """A condition as comparisons of quasi-affine forms. Those that read tensors or are not quasi-affine are noted as
        masks: they narrow no range, and are asked at each instance."""
        value = self.value(e)
        if value.dtype != BOOL:
            raise self.fail("E114", "a `where` clause must be a range, a comparison or a definition", e.span)
        tests = _conjuncts(value.expr)
        self.masks += [t for t in tests if not decidable(t)]
        return [x for t in tests if decidable(t) for x in separated(t)]


def _conjuncts(e: pr.Expr) -> list[pr.Expr]:
    if isinstance(e, pr.Binary) and e.op == "&&":
        return _conjuncts(e.a) + _conjuncts(e.b)
    return [e]
