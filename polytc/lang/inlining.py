"""Calls of definitions are put in place of themselves, one after another, with the shapes and types that they get there.

    def norm(f32[N] X) -> (Y) { S += X[i]*X[i]; Y[i] = X[i] / sqrt(S) }

    B = norm(A)      ->      norm_S += A[i]*A[i]; B[i] = A[i] / sqrt(norm_S)

A definition means in a call what it means as a program of its own on arrays: its tensors start at 0 wherever the caller's do,
and it is checked by itself for the arguments. Sizes, scalars and attributes have become numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

from polytc import errors
from polytc.errors import CompileError, Span
from polytc.lang import splice
from polytc.lang.definitions import calls, signatures
from polytc.lang.definitions.defaults import count
from polytc.lang.parsing import syntax as sx
from polytc.lang.report import Report, closest
from polytc.lang.soundness.proof import Prover
from polytc.lang.splice import Instance
from polytc.lang.typing.declare import Declarations
from polytc.lang.typing.lower import number_of
from polytc.lang.typing.lowered import Scope
from polytc.lang.typing.ranges import Hull
from polytc.program.scalars import DType

errors.register(E122="assumption that is not about sizes and scalars", E123="argument that grows in a loop",
                E220="assumption that does not hold")

T = TypeVar("T")


@dataclass(frozen=True)
class Arguments:
    """What a function is given; see `build.build`."""

    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, DType | str]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    packs: Mapping[str, int] = field(default_factory=dict)
    scalars: Mapping[str, complex] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(tuple((n, repr(v)) for n, v in sorted(part.items())) for part in (
            self.shapes, self.dtypes, self.attrs, self.packs, self.scalars))


@dataclass
class Definitions:
    """The definitions that calls may mean, and what has been made of them.

    prepare: a function for arguments, its declarations matched with them; finish: the rest of its analysis. Both report, and
    raise CompileError; between them lies whose fault it is, the call's or the definition's. prover, presume: see
    `building.build`.
    """

    functions: Mapping[str, sx.Function]
    source: str
    prepare: Callable[[sx.Function, Arguments, Report], tuple[sx.Function, Declarations]]
    finish: Callable[[sx.Function, Declarations, Definitions, Report], Instance]
    prover: Prover | None = None
    presume: bool = False
    made: dict[tuple[str, tuple[Any, ...]], Instance] = field(default_factory=dict)


Known = Callable[[sx.Function], tuple[Mapping[str, Hull], Mapping[str, DType]]]
"""Bounds and types of all tensors behind the statements of a function; it may raise CompileError."""


@dataclass(frozen=True)
class Given:
    """What an argument of a call in a `for` was taken for."""

    name: str
    hull: Hull
    dtype: DType
    span: Span


@dataclass(frozen=True)
class Inlined:
    """A function without calls. given: the arguments of those in loops; results: type in its definition of what a call gives
    to a tensor of the function."""

    function: sx.Function
    given: tuple[Given, ...]
    results: tuple[tuple[str, DType], ...]


def inline(f: sx.Function, d: Declarations, known: Known, definitions: Definitions, report: Report,
           apart: Set[str] = frozenset()) -> Inlined:
    """`f` without calls. Ranks of what the calls write are added to `d`. apart: tensors that have another type than the results
    that they get."""
    given: list[Given] = []
    results: list[tuple[str, DType]] = []
    while (place := next((k for k, s in enumerate(f.body) if isinstance(s, sx.CallStatement)), None)) is not None:
        call = f.body[place]
        assert isinstance(call, sx.CallStatement)
        hulls, types = known(replace(f, body=_around(f, place, d), outputs=()))
        given += [Given(a.id, hulls[a.id], types[a.id], a.span) for a, _ in call.tensors if call.loops and a.id in hulls]
        instance = _instance(call, d, hulls, types, definitions, report)
        report.stop()
        assert instance is not None
        outputs = instance.function.outputs or ()
        results += [(t, instance.types[p.name]) for (t, _), p in zip(call.targets, outputs, strict=False)]
        body = splice.splice(call, instance, f, d, hulls, apart)
        for s in body:
            d.ranks.setdefault(s.target, len(s.subscripts))
        f = replace(f, body=(*f.body[:place], *body, *f.body[place + 1:]), precise=f.precise or instance.function.precise)
    return Inlined(f, tuple(given), tuple(results))


def check_given(given: Iterable[Given], hulls: Mapping[str, Hull], types: Mapping[str, DType], report: Report) -> None:
    """Calls in loops got what the whole loop makes of their arguments (E123)."""
    for g in given:
        if g.name in hulls and (hulls[g.name] != g.hull or types[g.name] != g.dtype):
            found, taken = (f"{t} {', '.join(f'{low}:{high + 1}' for low, high in h)}".strip() for t, h in (
                (types[g.name], hulls[g.name]), (g.dtype, g.hull)))
            report.add("E123", f"a later iteration gives this call more of `{g.name}` than the first", g.span,
                       f"it is {taken} in the first, and {found} in the end", f"write all of `{g.name}` before the `for`")


def _around(f: sx.Function, place: int, d: Declarations) -> tuple[sx.Item, ...]:
    """The statements that make what a call reads: those before it, and in a loop also those behind it in the same loop, as far
    as they do not need what this call or a later one makes."""
    call = f.body[place]
    if not isinstance(call, sx.CallStatement) or not call.loops:
        return f.body[:place]
    label = call.loops[0].label
    inside = [s for s in f.body if isinstance(s, sx.Statement) and s.loops and s.loops[0].label == label]
    before = [s for s in f.body[:place] if isinstance(s, sx.Statement) and s not in inside]
    outside = {s.target for s in before} | set(d.inputs)
    own = signatures.written(f).keys()
    while True:
        made = outside | {s.target for s in inside}
        kept = [s for s in inside if all(n in made or n not in own for n in signatures.read(s))]
        if len(kept) == len(inside):
            return (*before, *inside)
        inside = kept


def check_assumptions(f: sx.Function, d: Declarations, report: Report) -> None:
    """Each `assume` of the function holds for these sizes and scalars (E220 with their values)."""
    scope = Scope(d.numbers, d.ranks, d.shapes, d.dtypes)
    for s in f.body:
        if not isinstance(s, sx.Assumption):
            continue
        before = len(report.found)
        value = number_of(s.value, scope, report)
        written = report.source[s.value.span.start:s.value.span.end]
        if len(report.found) > before:
            continue
        if not isinstance(value, bool):
            report.add("E122", f"`{written}` is no condition on sizes and scalars", s.span,
                       "`assume` takes comparisons of sizes, of `A.shape[0]` and of scalar arguments that are integers")
        elif not value:
            report.add("E220", f"`{written}` does not hold", s.span, _values(s.value, d))


def _values(e: sx.Expr, d: Declarations) -> str:
    """`with M=3, A.shape[0]=4` for what an expression is made of."""
    found: dict[str, None] = {}
    rest = [e]
    while rest:
        first = rest.pop(0)
        rest = [*sx.operands(first), *rest]
        if isinstance(first, sx.Name) and first.id in d.numbers:
            found[f"{first.id}={d.numbers[first.id]}"] = None
        elif isinstance(first, sx.Extent):
            found[f"{first.tensor}.shape[{first.axis}]={d.shapes[first.tensor][first.axis]}"] = None
    return f"with {', '.join(found)}" if found else ""


# ---- one call

def _instance(s: sx.CallStatement, d: Declarations, hulls: Mapping[str, Hull], types: Mapping[str, DType],
              definitions: Definitions, report: Report) -> Instance | None:
    """The definition that a call means, for its arguments; None after a report."""
    callee = calls.definition(s.call.fn, definitions.functions)
    own = callee.name in definitions.functions
    if not own:
        callee = _placed_at(callee, s.call.span)
    line = definitions.source.splitlines()[callee.span.line - 1].partition("{")[0].strip() if own else ""
    where = f"`{callee.name}` is defined in line {callee.span.line}: {line}" if own else \
        f"`{callee.name}` comes from the prelude: {_heading(callee)}"
    given = _arguments(s, callee, d, hulls, types, where, report)
    if given is None:
        return None
    key = (callee.name, given.key)
    if key not in definitions.made:
        trial = Report(definitions.source)
        try:
            prepared = definitions.prepare(callee, given, trial)
        except CompileError as e:
            for x in e.diagnostics:
                report.add(x.code, x.message, _argument_span(s, callee, x.span), *x.notes, where)
            return None
        try:
            definitions.made[key] = definitions.finish(*prepared, definitions, trial)
        except CompileError as e:
            for x in e.diagnostics:
                report.add(x.code, x.message, x.span if own else s.call.span, *x.notes, f"in the call in line {s.span.line}"
                           if own else where)
            return None
    return definitions.made[key]


def _arguments(s: sx.CallStatement, callee: sx.Function, d: Declarations, hulls: Mapping[str, Hull], types: Mapping[str, DType],
               where: str, report: Report) -> Arguments | None:
    before = len(report.found)
    args, outputs = s.call.args, callee.outputs or ()
    if len(args) != len(callee.params):
        report.add("E103", f"`{callee.name}` takes {count(callee.params)}, {len(args)} given", s.call.span, where)
        return None
    if len(s.targets) != len(outputs) and (s.targets or not s.written):
        report.add("E103", f"`{callee.name}` gives {len(outputs)} tensor{'s' * (len(outputs) != 1)}, {len(s.targets)} "
                   f"target{'s' * (len(s.targets) != 1)} given", s.targets[-1][1] if s.targets else s.call.span, where,
                   "" if outputs else f"write the call alone: `{callee.name}(...)`")
    scope = Scope(d.numbers, d.ranks, {n: tuple(high - low + 1 for low, high in h) for n, h in hulls.items()}, types)
    shapes: dict[str, tuple[int, ...]] = {}
    numbers: dict[str, complex] = {}
    for p, a, (number, _) in zip(callee.params, args, s.parameters, strict=True):
        if isinstance(a, sx.Name) and a.id in hulls and not (number and hulls[a.id]):
            shapes[p.name] = scope.shapes[a.id]
        elif not number:
            assert isinstance(a, sx.Name)
            report.add("E101", f"the tensor `{a.id}` is not known", a.span,
                       closest(a.id, hulls) or "nothing before this call writes it, and it is no argument")
        else:
            value = number_of(a, scope, report)
            if value is None:
                report.add("E121", f"`{p.name}` of `{callee.name}` is a number, known when the program is compiled", a.span,
                           "give a literal, a size, a scalar argument, or arithmetic of these", where)
            else:
                numbers[p.name] = value
    attrs = {g.name: v for g in s.call.attributes if (v := _attribute(g, scope, report)) is not None}
    if len(report.found) > before:
        return None
    dtypes = {p.name: types[a.id] for p, a in zip(callee.params, args, strict=True)
              if p.name in shapes and isinstance(a, sx.Name)}
    return Arguments(shapes, dtypes, attrs, {}, numbers)


def _attribute(g: sx.Given, scope: Scope, report: Report) -> Any:
    values = tuple(number_of(v, scope, report) for v in g.values)
    if None in values:
        report.add("E107", f"the attribute `{g.name}` is a number, known when the program is compiled", g.span)
        return None
    return values if g.several else values[0]


def _argument_span(s: sx.CallStatement, callee: sx.Function, span: Span | None) -> Span:
    """The argument of the call for the parameter that lies at `span` in the definition; else the whole call."""
    if span == s.call.span:  # a definition of the prelude lies there as a whole
        return s.call.span
    for p, a in zip(callee.params, s.call.args, strict=True):
        start = min((e.span.start for e in p.dims or ()), default=p.span.start)
        if span is not None and min(start, p.span.start) <= span.start and span.end <= max(
                [p.span.end, *(e.span.end for e in p.dims or ())]):
            return a.span
    return s.call.span


def _heading(f: sx.Function) -> str:
    """`op leaky_relu<alpha>(X)` for a definition of the prelude."""
    attributes = ", ".join(a.name for a in f.attributes)
    return f"{f.kind} {f.name}{f'<{attributes}>' if attributes else ''}({', '.join(p.name for p in f.params)})"


def _placed_at(node: T, span: Span) -> T:
    """A syntax tree from elsewhere, all of it at one place of this text."""
    if isinstance(node, Span):
        return span  # type: ignore[return-value]
    if isinstance(node, tuple):
        return tuple(_placed_at(x, span) for x in node)  # type: ignore[return-value]
    if is_dataclass(node) and not isinstance(node, type):
        return replace(node, **{f.name: _placed_at(getattr(node, f.name), span) for f in fields(node)})
    return node
