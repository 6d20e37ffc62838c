"""Names and types: plain statements of the syntax tree to typed expressions of the Program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from polytc import errors
from polytc.errors import Span
from polytc.lang import program as pr
from polytc.lang import scalars, weak
from polytc.lang import syntax as sx
from polytc.lang.affine import affine
from polytc.lang.report import Report, closest
from polytc.lang.scalars import BOOL, DTYPES, I64, DType
from polytc.lang.weak import TypeProblem, Value

errors.register(
    E101="unknown name", E102="unknown function", E103="wrong number of arguments",
    E105="wrong number of subscripts", E111="subscript or bound that is not quasi-affine", E113="misplaced `else`",
    E114="misplaced `where` clause", E212="read before it is written", E303="arithmetic on bool",
    E304="operator needs integers", E305="condition that is not bool", E306="number does not fit its type", E307="unknown type",
    E308="subscript that is not an integer", E309="integer division by zero")

ALIASES = {
    "float": "f32", "double": "f64", "half": "f16", "int": "i32", "float16": "f16", "bfloat16": "bf16", "float32": "f32",
    "float64": "f64"} | {
    f"{'u' * u}int{b}": f"{'iu'[u]}{b}" for u in (0, 1) for b in (8, 16, 32, 64)}
"""Other spellings of types: Tensor Comprehensions' and numpy's."""

CONSTANTS: dict[str, int | float | bool] = {
    "true": True, "false": False, "inf": float("inf"), "nan": float("nan"), "pi": 3.141592653589793}


def dtype_of(name: str) -> DType | None:
    """The scalar type of a name as written, aliases included."""
    return DTYPES.get(ALIASES.get(name, name))


@dataclass(frozen=True)
class Scope:
    """What names mean. numbers: sizes, scalars and attributes; ranks: of every tensor; shapes: of the inputs; dtypes: those
    known so far; functions: names of the definitions in the text; broken: tensors whose writers have been refused; typed: types
    of the scalars that are declared with a float type."""

    numbers: Mapping[str, int | float | bool]
    ranks: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, DType]
    functions: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    typed: Mapping[str, DType] = field(default_factory=dict)


@dataclass(frozen=True)
class Bound:
    """`index in lower:upper:step`, as written; expressions over other indices."""

    index: str
    lower: pr.Expr
    upper: pr.Expr
    step: int
    span: Span


@dataclass(frozen=True)
class Lowered:
    """A statement with typed expressions, before its ranges are known.

    indices: of the `for` loops, then those of the left side, then the others, in order of appearance; left: how many of them
    are of loops or occur on the left.
    skipped: reads `else identity` inside a larger value; also: what else the instances of a tuple reduction compute, so that
    its ranges suit all of it; spans: the place of every read. limits: ranges that memory decides; masks: conditions with reads.
    """

    name: str
    source: sx.Statement
    target: str
    subscripts: tuple[pr.Expr, ...]
    value: Value
    bounds: tuple[Bound, ...]
    conditions: tuple[tuple[pr.Expr, Span], ...]
    indices: tuple[str, ...]
    left: int
    skipped: tuple[pr.Read, ...]
    also: tuple[pr.Expr, ...] = ()
    limits: tuple[pr.Bound, ...] = ()
    masks: tuple[pr.Expr, ...] = ()
    spans: Mapping[pr.Read, Span] = field(default_factory=dict, compare=False)

    @property
    def loops(self) -> tuple[str, ...]:
        """Labels of the loops around it."""
        return tuple(x.label for x in self.source.loops)

    @property
    def op(self) -> str | None:
        return self.source.op

    @property
    def expressions(self) -> tuple[pr.Expr, ...]:
        """All that the instances compute: every read of the statement is in one of these."""
        ends = (e for b in self.limits for e in (b.lower, b.upper))
        return (self.value.expr, *self.subscripts, *self.also, *self.masks, *ends)

    @property
    def subscripted(self) -> frozenset[str]:
        """The indices that occur in a subscript."""
        dims = [*self.subscripts, *(d for n in pr.walk(self.value.expr) if isinstance(n, pr.Read) for d in n.subscripts)]
        return frozenset(n.name for d in dims for n in pr.walk(d) if isinstance(n, pr.Index))

    def span(self, read: pr.Read) -> Span:
        return self.spans.get(read, self.source.span)


class _Failed(Exception):
    """This expression has been reported."""


def lower_statement(name: str, s: sx.Statement, scope: Scope, report: Report) -> Lowered | None:
    """The statement with names and types resolved; None when something was reported."""
    before = len(report.found)
    walker = _Lowering(s, scope, report)
    try:
        lowered = walker.run(name)
    except _Failed:
        return None
    return lowered if len(report.found) == before else None


def number_of(e: sx.Expr, scope: Scope, report: Report) -> int | float | bool | None:
    """The value of an expression over sizes, scalars and literals; None where it has another name in it, or after a report."""
    nothing = sx.Statement("", (), None, False, e, (), False, e.span, e.span)
    try:
        return _Lowering(nothing, scope, report).value(e).number
    except _Failed:
        return None


class _Lowering:
    def __init__(self, s: sx.Statement, scope: Scope, report: Report) -> None:
        self.s, self.scope, self.report = s, scope, report
        self.lets: dict[str, sx.Expr] = {c.name: c.value for c in s.clauses if isinstance(c, sx.LetClause)}
        self.open_lets: set[str] = set()
        self.spans: dict[pr.Read, Span] = {}
        self.skipped: list[pr.Read] = []
        self.limits: list[pr.Bound] = []
        self.masks: list[pr.Expr] = []
        self.order: dict[str, None] = {}
        self.down: dict[str, str] = {}

    def run(self, name: str) -> Lowered:
        s = self.s
        around = self.loops()
        subscripts = self.left_side()
        left = len(self.order)
        values = self.both(*s.components) if s.components else (self.value(s.value, whole=True),)
        value = values[s.member]
        also = tuple(v.expr for v in values[1:]) if s.member == 0 else ()
        bounds, conditions = self.clauses()
        bounds = (*around, *bounds)
        for index in self.order:
            if index in self.scope.ranks:
                rank = self.scope.ranks[index]
                raise self.fail("E105", f"`{index}` is a tensor with {rank} dimensions, not an index", s.span)
        return Lowered(name, s, s.target, subscripts, value, bounds, conditions, tuple(self.order), left, tuple(self.skipped),
                       also, tuple(self.limits), tuple(self.masks), self.spans)

    def fail(self, code: str, message: str, span: Span, *notes: str) -> _Failed:
        self.report.add(code, message, span, *notes)
        return _Failed()

    def left_side(self) -> tuple[pr.Expr, ...]:
        s = self.s
        rank = self.scope.ranks.get(s.target, len(s.subscripts))
        if rank != len(s.subscripts):
            raise self.fail("E105", f"`{s.target}` has {rank} dimensions and {len(s.subscripts)} subscripts here",
                            s.target_span)
        return tuple(self.subscript(e) for e in s.subscripts)

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
                                "it may use sizes, numbers and the indices of the loops around it")
            step = self.step(c)
            if _reading(low) or _reading(high):
                if step != 1:
                    raise self.fail("E114", "a `for` over a range in memory goes up by 1", c.span, "narrow it with `where`")
                self.order.setdefault(loop.index)
                self.limits.append(pr.Bound(loop.index, low, high))
                continue
            index = loop.index if step > 0 else f"minus_{loop.index}"
            if step < 0:
                self.down[loop.index] = index
                low, high = _negative(low), _negative(high)
            self.order.setdefault(index)
            found.append(Bound(index, low, high, abs(step), c.span))
        return tuple(found)

    def step(self, c: sx.RangeClause) -> int:
        """The step of a range."""
        step = self.value(c.step) if c.step is not None else weak.number(1)
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
            except _Failed:
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
        if not _reading(low) and not _reading(high):
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
        """A condition as a list of comparisons of quasi-affine forms; those that read tensors are noted as masks."""
        value = self.value(e)
        if value.dtype != BOOL:
            raise self.fail("E114", "a `where` clause must be a range, a comparison or a definition", e.span)
        tests = _conjuncts(value.expr)
        self.masks += [t for t in tests if _reading(t)]
        tests = [t for t in tests if not _reading(t)]
        for node in (n for t in tests for n in pr.walk(t)):
            if isinstance(node, pr.Binary) and node.op in scalars.COMPARISONS and None in (affine(node.a), affine(node.b)):
                raise self.fail("E111", "this condition is not affine in the indices", e.span)
        return tests

    # ---- expressions

    def value(self, e: sx.Expr, whole: bool = False) -> Value:
        try:
            return self._value(e, whole)
        except TypeProblem as problem:
            raise self.fail(problem.code, problem.message, e.span, *problem.notes) from None

    def _value(self, e: sx.Expr, whole: bool = False) -> Value:
        match e:
            case sx.Number():
                return weak.number(e.value)
            case sx.Name():
                return self.name(e)
            case sx.Access():
                return self.access(e.tensor, e.subscripts, e.span)
            case sx.Guarded():
                return self.guarded(e, whole)
            case sx.Extent():
                return self.extent(e)
            case sx.Unary():
                return weak.unary(e.op, self.value(e.a))
            case sx.Binary():
                a, b = self.both(e.a, e.b)
                return weak.binary(e.op, a, b)
            case sx.Ternary():
                condition = self.value(e.condition)
                if isinstance(condition.number, bool):
                    return self.value(e.a if condition.number else e.b)
                return weak.select(condition, *self.both(e.a, e.b))
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
            except _Failed:
                failed = True
        if failed:
            raise _Failed
        return tuple(found)

    def name(self, e: sx.Name) -> Value:
        scope = self.scope
        if e.id in self.lets:
            if e.id in self.open_lets:
                raise self.fail("E114", f"`{e.id}` is defined by itself", e.span)
            self.open_lets.add(e.id)
            try:
                return self.value(self.lets[e.id])
            finally:
                self.open_lets.discard(e.id)
        if e.id in scope.numbers:
            value = weak.number(scope.numbers[e.id])
            return weak.cast(value, scope.typed[e.id]) if e.id in scope.typed else value
        if e.id in scope.ranks:
            return self.access(e.id, (), e.span)
        if e.id in CONSTANTS:
            return weak.number(CONSTANTS[e.id])
        if e.id in self.down:
            return Value(_negative(pr.Index(self.down[e.id])), weak=True)
        self.order.setdefault(e.id)
        return Value(pr.Index(e.id), weak=True)

    def access(self, tensor: str, dims: Iterable[sx.Expr], span: Span) -> Value:
        scope = self.scope
        subscripts = self._subscripts(tuple(dims))
        if tensor not in scope.ranks:
            hint = closest(tensor, scope.ranks) or "it is no argument and nothing writes it"
            raise self.fail("E101", f"the tensor `{tensor}` is not known", span, hint)
        if scope.ranks[tensor] != len(subscripts):
            rank = scope.ranks[tensor]
            raise self.fail("E105", f"`{tensor}` has {rank} dimensions and {len(subscripts)} subscripts here", span)
        dtype = scope.dtypes.get(tensor)
        if tensor in scope.broken:
            raise _Failed
        if dtype is None:
            raise self.fail("E212", f"`{tensor}` is read before anything writes it", span)
        read = pr.Read(tensor, subscripts, dtype)
        self.spans.setdefault(read, span)
        return Value(read)

    def _subscripts(self, dims: tuple[sx.Expr, ...]) -> tuple[pr.Expr, ...]:
        return tuple(self.subscript(e) for e in dims)

    def subscript(self, e: sx.Expr) -> pr.Expr:
        """An integer expression: quasi-affine, or with a tensor read in it (a gather)."""
        value = self.value(e)
        if not value.dtype.is_int:
            raise self.fail("E308", f"this subscript is {value.dtype}, not an integer", e.span,
                            "cast it: `i64(...)`" if value.dtype.is_float else "")
        if not _reading(value.expr) and affine(value.expr) is None:
            raise self.fail("E111", "this is not affine", e.span,
                            "indices may be added, multiplied by numbers, and divided (`//`, `%`) by positive numbers")
        try:
            return weak.adapt(value, I64)
        except TypeProblem as problem:
            raise self.fail(problem.code, problem.message, e.span, "subscripts and ranges are i64") from None

    def guarded(self, e: sx.Guarded, whole: bool) -> Value:
        read = self.value(e.access)
        if not isinstance(read.expr, pr.Read):
            raise self.fail("E113", "`else` guards a read of a tensor", e.access.span, "write `(A[i-1] else 0)`")
        if e.default is None:
            return self.identity_guard(read.expr, e, whole)
        default = self.value(e.default)
        if default.number is None:
            raise self.fail("E113", "the value after `else` must be a number or `identity`", e.default.span,
                            "use a condition for anything else: `i > 0 ? ... : ...`")
        if default.dtype.is_float and not read.dtype.is_float:
            raise self.fail("E302", f"the value after `else` is a float, `{read.expr.tensor}` is {read.dtype}", e.default.span)
        constant = weak.adapt(default, read.dtype)
        if not isinstance(constant, pr.Const):
            constant = pr.Const(bool(default.number), BOOL)
        return self._guard(read.expr, constant, e.span)

    def identity_guard(self, read: pr.Read, e: sx.Guarded, whole: bool) -> Value:
        op = self.s.op
        if op is None:
            raise self.fail("E113", "`else identity` needs an update such as `+=`", e.span)
        if whole and read.dtype.is_float:
            return self._guard(read, pr.Const(scalars.identity(op, read.dtype), read.dtype), e.span)
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
        return weak.number(shape[e.axis])

    def call(self, e: sx.Call) -> Value:
        if e.fn in self.scope.ranks and (self.s.call_style or e.fn not in scalars.INTRINSICS):
            return self.access(e.fn, e.args, e.span)
        dtype = dtype_of(e.fn)
        expected = 1 if dtype else scalars.INTRINSICS[e.fn].arity if e.fn in scalars.INTRINSICS else None
        if expected is None:
            raise self.unknown_call(e)
        if len(e.args) != expected:
            raise self.fail("E103", f"`{e.fn}` takes {expected} argument{'s' * (expected > 1)}, {len(e.args)} given", e.span)
        args = list(self.both(*e.args))
        return weak.cast(args[0], dtype) if dtype else weak.call(e.fn, args)

    def unknown_call(self, e: sx.Call) -> _Failed:
        known = [*scalars.INTRINSICS, *DTYPES, *self.scope.ranks, *self.scope.functions]
        return self.fail("E102", f"there is no function `{e.fn}`", e.span, closest(e.fn, known))


def _negative(e: pr.Expr) -> pr.Expr:
    """-e for an integer."""
    return pr.Const(-e.value, I64) if isinstance(e, pr.Const) else pr.Unary("-", e, I64)


def _reading(e: pr.Expr) -> bool:
    return any(isinstance(n, pr.Read) for n in pr.walk(e))


def _conjuncts(e: pr.Expr) -> list[pr.Expr]:
    if isinstance(e, pr.Binary) and e.op == "&&":
        return _conjuncts(e.a) + _conjuncts(e.b)
    return [e]
