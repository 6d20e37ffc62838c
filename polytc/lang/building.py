"""Text to Program: the stages of the language in order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from polytc import errors
from polytc.errors import Span
from polytc.lang import assemble, constant_types, halves
from polytc.lang.definitions.calls import resolve
from polytc.lang.definitions.expand import expand
from polytc.lang.definitions.signatures import choose, targets, writers
from polytc.lang.inlining import Arguments, Definitions, Given, Known, check_assumptions, check_given, inline
from polytc.lang.parsing import syntax as sx
from polytc.lang.report import Report, closest
from polytc.lang.soundness import check
from polytc.lang.soundness.place import Placing
from polytc.lang.soundness.proof import Prover, scattered
from polytc.lang.soundness.straight import check_straight
from polytc.lang.splice import Instance
from polytc.lang.typing import cures, ranges
from polytc.lang.typing.agreement import check_extents
from polytc.lang.typing.declare import Declarations, check_outputs, declare
from polytc.lang.typing.inference import infer
from polytc.lang.typing.lower import lower_statement
from polytc.lang.typing.lowered import Lowered, Scope
from polytc.program import program as pr
from polytc.program import scalars, type_promotion
from polytc.program.complex_arithmetic import UPDATE_CURES
from polytc.program.names import claim
from polytc.program.scalars import DType
from polytc.program.type_promotion import Value
from polytc.program.typenames import dtype_of

errors.register(E112="reduced index under `=`", E209="tensor does not fit into memory", E216="scatter of unknown extent",
                E302="value does not fit its tensor's type", E310="accumulator that does not fit")

ADDRESSES = 1 << 47
"""Bytes that a process can address on today's 64-bit machines."""


def build(text: str, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, DType | str] | None = None, *,
          attrs: Mapping[str, Any] | None = None, packs: Mapping[str, int] | None = None,
          scalars: Mapping[str, complex] | None = None, name: str | None = None, entry: str | None = None,
          prover: Prover | None = None, unrounded: frozenset[str] = frozenset(), presume: bool = False, proved: bool = False
          ) -> pr.Program:
    """The checked program of `text` for arrays of these shapes.

    shapes: of every input; dtypes: of the inputs, f32 where nothing is given or declared; attrs: attributes of an `op`;
    packs: ranks of packs that the shapes leave open; scalars: values of scalar arguments; entry: which definition of the
    text; name: of the program; prover: what proves programs with `for` loops or `inout` sound, which are taken on trust without
    one, and the others where they are too large to look at every point; unrounded: inputs and outputs that are temporaries of
    something larger, see `halves.widen`; presume: a scatter reaches every element that is needed, which a run looks at (see
    `rewrite.unwritten_elements`); proved: it is known to be sound, as a rewrite's own text is, and not looked
    at. Raises CompileError with all diagnostics.
    """
    try:
        return _build(text, shapes, dtypes or {}, attrs or {}, packs or {}, scalars or {}, name, entry, prover, unrounded,
                      presume, proved)
    except RecursionError:
        raise errors.fail("E006", "an expression is nested too deeply", None, ["put a part of it into a temporary"],
                          source=text) from None


def _build(text: str, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, DType | str], attrs: Mapping[str, Any],
           packs: Mapping[str, int], scalars: Mapping[str, complex], name: str | None, entry: str | None,
           prover: Prover | None, unrounded: frozenset[str], presume: bool, proved: bool) -> pr.Program:
    f = choose(text, entry)
    report = Report(text)
    definitions = Definitions({g.name: g for g in resolve(text) if g.kind != "bare"}, text, _prepare, _instance, prover,
                              presume)
    f, d = _prepare(f, Arguments(shapes, dtypes, attrs, packs, scalars), report)
    made, placed, open_ = _analyse(f, d, definitions, report, proved)
    try:
        program = assemble.assemble(name or f.name, placed, made.hulls, made.types, made.declarations,
                                    drop=f.kind == "op", of=made.function)
    except type_promotion.TypeProblem as problem:
        raise errors.fail(problem.code, problem.message, problem.span, problem.notes, source=text) from None
    if open_ and prover is not None:
        report.found += prover.refusals(program, _places(placed), made.declarations.sizes,
                                        scattered(program) if presume else frozenset())
        report.stop()
    program = replace(program, statements=tuple(s for s in program.statements if program.tensor(s.target).size))
    program = constant_types.narrow(program, made.declarations.temporaries)
    program = halves.widen(program, assemble.accumulators(placed, made.types),
                           made.declarations.results | {*made.declarations.temporaries}, unrounded)
    return replace(program, statements=_named(program.statements), direct=f.direct)


def _named(statements: tuple[pr.Statement, ...]) -> tuple[pr.Statement, ...]:
    """The statements with a name for each: labels may be the names that others would have had."""
    taken: set[str] = set()
    return tuple(s if (name := claim(s.name, taken)) == s.name else replace(s, name=name) for s in statements)


def _prepare(f: sx.Function, given: Arguments, report: Report) -> tuple[sx.Function, Declarations]:
    """The function without packs and attributes, and its declarations matched with the arguments. Raises CompileError."""
    if given.attrs and f.kind != "op":
        report.add("E107", f"only an `op` has attributes, not a {'def' if f.kind == 'def' else 'bare program'}", f.span)
    if f.kind == "op":
        f = expand(f, given.shapes, given.attrs, given.packs, report)
        report.stop()
    d = declare(f, given.shapes, given.dtypes, given.scalars, report)
    report.stop()
    check_assumptions(f, d, report)
    report.stop()
    return f, d


def _analyse(f: sx.Function, d: Declarations, definitions: Definitions, report: Report, proved: bool = False
             ) -> tuple[Instance, list[check.Placed], bool]:
    """The prepared function without calls, checked unless that was proved before; is something left for the prover? Raises
    CompileError."""
    functions = frozenset(definitions.functions)

    def known(start: sx.Function) -> tuple[dict[str, ranges.Hull], dict[str, DType]]:
        lowered, types = _lower(start, d, functions, report)
        found = Placing(lowered, d, definitions.prover).run(report)
        report.stop()
        return found.hulls, types

    given: tuple[Given, ...] = ()
    if any(isinstance(s, sx.CallStatement) for s in f.body):
        f, given = _without_calls(f, d, known, definitions, report)
        check_outputs(f, d, report)
        report.stop()
    lowered, types = _lower(f, d, functions, report)
    found = Placing(lowered, d, definitions.prover).run(report)
    check_given(given, found.hulls, types, report)
    _check_sizes(found.hulls, d, types, report)
    open_ = not proved and _check(found, d, definitions.prover, definitions.presume, report)
    report.stop()
    made = Instance(f, d, tuple(s for s in lowered if s is not None), found.hulls, types)
    placed = [s for s in found.placed if s is not None]
    assert len(placed) == len(lowered), "a statement was lost without a diagnostic"
    return made, placed, open_


def _without_calls(f: sx.Function, d: Declarations, known: Known, definitions: Definitions, report: Report
                   ) -> tuple[sx.Function, tuple[Given, ...]]:
    """The function with its calls written out, and what those in loops are given. Results are computed in the type that their
    definition gives them: where other writers make the tensor wider, in a temporary. (Those of halves are held in f32.)"""
    before = replace(d, declared=dict(d.declared), ranks=dict(d.ranks), results=set(d.results))
    made = inline(f, d, known, definitions, report)
    written = Counter(t for s in writers(f) for t, _ in targets(s))
    if all(written[t] == 1 and t not in d.dtypes for t, _ in made.results):
        return made.function, made.given
    body = [s for s in made.function.body if isinstance(s, sx.Statement)]
    found = infer(body, d, frozenset(definitions.functions))
    apart = frozenset(t for t, dtype in made.results if found[t] != dtype and not dtype.is_half)
    if apart:
        d.declared, d.ranks, d.results = before.declared, before.ranks, before.results
        made = inline(f, d, known, definitions, report, apart)
    return made.function, made.given


def _instance(f: sx.Function, d: Declarations, definitions: Definitions, report: Report) -> Instance:
    made, placed, _ = _analyse(f, d, definitions, report)
    if definitions.prover is not None and any(p.inout for p in f.params):  # what it may write is what it was given
        program = assemble.assemble(f.name, placed, made.hulls, made.types, made.declarations, drop=False, of=f)
        report.found += definitions.prover.refusals(program, _places(placed), made.declarations.sizes)
        report.stop()
    return made


# ---- names and types

def _lower(f: sx.Function, d: Declarations, functions: frozenset[str], report: Report
           ) -> tuple[list[Lowered | None], dict[str, DType]]:
    """All statements typed."""
    body = [s for s in f.body if isinstance(s, sx.Statement)]
    alone = len({s.target for s in body}) == len(body) and not any(s.loops for s in body)
    known = {} if alone else infer(body, d, functions)  # where each tensor has one writer, before its readers, that tells it
    lowered, found = _lower_all(body, d, functions, known, report)
    types = d.dtypes | found
    check_extents(lowered, d, report)
    for x in lowered:
        if x is not None and x.op in ("&", "|", "^") and types[x.target].is_float and not x.value.dtype.is_float:
            report.add("E304", f"`{x.op}=` needs integers, `{x.target}` is {types[x.target]}", x.source.span,
                       "its type follows from the values of all of its writers: cast them, e.g. `i32(...)`")
    if not report.found:
        _check_settled(lowered, found, known, report)
    return lowered, types


def _check_settled(lowered: list[Lowered | None], found: Mapping[str, DType], known: Mapping[str, DType], report: Report
                   ) -> None:
    """With a tensor's type its values have this one (E302)."""
    for x in lowered:
        if x is not None and found[x.target] != known.get(x.target, found[x.target]):
            report.add("E302", f"`{x.target}` cannot be {known[x.target]}: its values would be {found[x.target]}",
                       x.source.span,
                       "its type follows from the values of all of its writers: cast them, e.g. `i32(...)`")
            return


def _lower_all(body: list[sx.Statement], d: Declarations, functions: frozenset[str], known: Mapping[str, DType], report: Report
               ) -> tuple[list[Lowered | None], dict[str, DType]]:
    """All statements, and the types of what they write. known: types that are known before."""
    current = {n: d.dtypes[n] for n in d.inputs}
    values: dict[str, list[Value]] = {}
    broken: set[str] = set()
    out: list[Lowered | None] = []
    for k, s in enumerate(body, 1):
        around = {t.target for t in body if s.loops and t.loops[:1] == s.loops[:1]}
        visible = current | {n: d.dtypes.get(n) or known[n] for n in around}
        scope = Scope(d.numbers, d.ranks, d.shapes, visible, functions, frozenset(broken), d.typed)
        lowered = lower_statement(s.label.name if s.label else f"S{k}", s, scope, report)
        if s.components and not _one_tuple(s, lowered, body[:k - 1], out, report):
            lowered = None
        if lowered is not None and not _typed(lowered, d.dtypes.get(s.target), d.numbers, report):
            lowered = None
        if lowered is None:
            broken.add(s.target)
        else:
            values.setdefault(s.target, []).append(lowered.value)
            current[s.target] = d.dtypes.get(s.target) or known.get(s.target) or lowered.value.dtype
        out.append(lowered)
    return out, {n: d.dtypes.get(n) or type_promotion.joined(v).dtype for n, v in values.items()}


def _one_tuple(s: sx.Statement, lowered: Lowered | None, before: list[sx.Statement], out: list[Lowered | None], report: Report
               ) -> bool:
    """The targets of a tuple reduction are fresh, and have the subscripts of its first one."""
    if any(other.target == s.target for other in before):
        report.add("E115", f"`{s.target}` is written before: a tuple reduction starts afresh", s.target_span,
                   "write to other tensors, and combine these")
        return False
    around = lowered.indices[:len(s.loops)] if lowered is not None else ()
    if lowered is not None and not s.member and not s.reset and not {pr.Index(i) for i in around} <= set(lowered.subscripts):
        report.add("E115", f"`arg{s.op}=` does not go on from one iteration of a `for` to the next", s.span,
                   f"write `arg{s.op}=!`, which starts afresh in each, or write each iteration's result to elements of its own")
        return False
    leader = out[-s.member] if s.member else None
    if leader is not None and lowered is not None and leader.subscripts != lowered.subscripts:
        report.add("E115", f"`{s.target}` has other subscripts than `{leader.target}`", s.target_span,
                   "the targets of a tuple reduction are written at one place")
        return False
    return True


def _typed(s: Lowered, declared: DType | None, sizes: Iterable[str], report: Report) -> bool:
    """The update operator and the declared type suit the value; `=` reduces nothing. sizes: names of numbers."""
    before = len(report.found)
    span, value = s.source.span, s.value
    used = {n.name for b in s.limits for e in (b.lower, b.upper) for n in pr.walk(e) if isinstance(n, pr.Index)}
    extra = [i for i in s.indices if i not in used | s.left]
    if s.op is None and extra:
        loose = set(extra) - s.subscripted
        unknown = f"if {', '.join(sorted(loose))} is to be a number, give it with scalars={{...}}" if loose else ""
        names = ", ".join(f"`{i}`" for i in extra)
        near = [closest(i, sizes) for i in sorted(loose)]
        near += [f"the sizes and numbers here are: {', '.join(sizes)}"] if loose and sizes and not any(near) else []
        report.add("E112", f"`{s.source.in_place or ''}=` does not reduce, and {names} is not on the left side",
                   cures.use(s.source, extra[0]) if loose == set(extra) else span, *near,
                   *cures.of_free_index(s.source, extra, report.source, value.dtype == scalars.BOOL) * (loose != set(extra)),
                   unknown)
    dtype = declared or value.dtype
    if s.op in ("+", "*") and dtype.kind == "b":
        text = report.source[s.source.value.span.start:s.source.value.span.end]
        report.add("E303", f"`{s.op}=` on bool", span, f"cast the value, `i64({text})`, to count; for logic use `|=` and `&=`")
    if s.op in UPDATE_CURES and dtype.is_complex and s.source.member == 0:
        report.add("E312", f"`{'arg' * bool(s.source.components)}{s.op}=` of complex numbers", span, *UPDATE_CURES[s.op])
    if s.op in ("&", "|", "^") and dtype.is_float:
        report.add("E304", f"`{s.op}=` needs integers, the value is {dtype}", span, "cast the value, e.g. `i32(...)`")
    if s.source.accumulator is not None:
        _check_accumulator(s, dtype, report)
    if declared is not None and not _fits(value, declared):
        narrower = value.dtype.is_complex and not declared.is_complex
        report.add("E302", f"the value is {value.dtype}, `{s.target}` is declared {declared}", span,
                   "take a part of it: `real(...)`, `imag(...)` or `abs(...)`" if narrower else
                   "whole numbers are divided by `//=`, which rounds down" if s.source.in_place == "/" and declared.is_int else
                   f"cast what stands on the right: `{s.source.in_place}= {declared}(...)`" if s.source.in_place else
                   f"cast it: `{declared}(...)`")
    return len(report.found) == before


def _check_accumulator(s: Lowered, dtype: DType, report: Report) -> None:
    """`acc(type)` stands before an update, and its type holds what is combined (E310)."""
    name, span = s.source.accumulator or "", s.source.span
    wide = dtype_of(name)
    if wide is None:
        report.add("E307", f"there is no type `{name}`", span, closest(name, scalars.DTYPES))
    elif s.op is None:
        report.add("E310", f"`acc({name})` before `=`, which combines nothing", span, "it belongs to an update such as `+=`")
    elif scalars.promote(dtype, wide) != wide:
        report.add("E310", f"`acc({name})` is narrower than what is combined, {dtype}", span,
                   f"the values of {dtype} fit into {scalars.promote(dtype, wide)}")


def _fits(value: Value, declared: DType) -> bool:
    if value.dtype.is_complex and not declared.is_complex:
        return False
    if value.weak_type:
        return declared.is_float or (declared.is_int and not value.dtype.is_float)
    return scalars.promote(value.dtype, declared) == declared


# ---- soundness

def _check_sizes(hulls: Mapping[str, ranges.Hull], d: Declarations, types: Mapping[str, DType], report: Report) -> None:
    """Every tensor has an address for each of its elements (E209)."""
    large = False
    for name, hull in hulls.items():
        shape = tuple(high - low + 1 for low, high in hull)
        if math.prod(shape) * types[name].bytes > ADDRESSES:
            report.add("E209", f"`{name}` has shape {shape}: {math.prod(shape) * types[name].bytes} bytes of {types[name]}",
                       d.spans.get(name), f"a process can address {ADDRESSES} bytes",
                       "narrow the ranges with `where`, or compute it in parts")
            large = True
    if large:  # the proofs would walk through it
        report.stop()


def _check(found: Placing, d: Declarations, prover: Prover | None, presume: bool, report: Report) -> bool:
    """The proofs that look at points, for programs that run from top to bottom. Is there something left for the prover?"""
    _check_declared(found.hulls, d, report)
    _check_winners(found, report)
    _check_components(found, d, report)
    if any(s is not None and s.lowered.loops for s in found.placed):
        return True
    trial = Report(report.source)
    check_straight(found, d, presume, trial)
    open_ = prover is not None and {x.code for x in trial.found} == {"E204"}
    report.found += [] if open_ else [x for x in trial.found if x not in report.found]
    return open_ or found.open or any(n in d.inputs for n in d.outputs)


def _places(placed: list[check.Placed]) -> dict[tuple[str, pr.Read | None], Span]:
    """Where accesses stand in the text."""
    found: dict[tuple[str, pr.Read | None], Span] = {}
    for s in placed:
        found[s.lowered.name, None] = s.lowered.source.target_span
        found |= {(s.lowered.name, read): span for read, span in s.lowered.spans.items()}
    return found


def _check_components(found: Placing, d: Declarations, report: Report) -> None:
    """What a component of a tuple reduction reads in a loop is in bounds for all terms (E203). The prover, which sees it at the
    winner's indices alone, takes it for what memory tells."""
    for s in found.placed:
        if s is not None and s.lowered.source.member and s.lowered.loops:
            check.check_bounds(s, found.hulls, d.sizes, report)


def _check_winners(found: Placing, report: Report) -> None:
    """A tuple reduction that writes elements has something to choose from (E202)."""
    for s in found.placed:
        if s is None or not s.lowered.source.components or s.lowered.source.member or not check.idle(s, found.hulls):
            continue
        iterations = set(s.lowered.indices[:len(s.lowered.loops)])
        if not s.vacant & iterations and not check.without_elements(found.hulls[s.lowered.target]):
            names = ", ".join(f"`{i}`" for i in s.domain.box if i in s.vacant)
            report.add("E202", f"`arg{s.lowered.op}=` over nothing: {f'{names} has no values' if names else 'nothing is read'}",
                       s.lowered.source.span, "there is no winner: call it with arrays that have elements, or take the "
                       f"extremum alone, `{s.lowered.op}=`, which gives its identity")


def _check_declared(hulls: Mapping[str, ranges.Hull], d: Declarations, report: Report) -> None:
    """Outputs and temporaries have the shapes that they declare (E205)."""
    for n in (n for n in (*d.outputs, *d.temporaries) if n in hulls):
        for axis, (ends, (low, high)) in enumerate(zip(d.declared.get(n, ()), hulls[n], strict=False)):
            if ends is not None and (low, high) != ends:
                stated = f"{ends[0]}:{ends[1] + 1}" if ends[0] else ends[1] + 1
                report.add("E205", f"dimension {axis} of `{n}` is declared {stated}, the statements write {low}:{high + 1}",
                           d.spans.get(n), "state the ranges with `where`")

