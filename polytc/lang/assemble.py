"""Checked statements to the Program: initialisations, casts to the tensor's type, skipped terms, dropped indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from polytc.lang import tuples
from polytc.lang.parsing import syntax as sx
from polytc.lang.soundness import check, resets
from polytc.lang.soundness.check import Placed
from polytc.lang.soundness.coverage import inside
from polytc.lang.typing.declare import Declarations
from polytc.lang.typing.lowered import INSIDE, Lowered
from polytc.lang.typing.ranges import Hull
from polytc.program import program as pr
from polytc.program import scalars, type_promotion
from polytc.program.affine import affine, indices, interval
from polytc.program.domain import Domain, condition_indices
from polytc.program.names import fresh, initialisation
from polytc.program.scalars import BOOL, I64, DType
from polytc.program.typenames import dtype_of


def assemble(name: str, placed: list[Placed], hulls: Mapping[str, Hull], types: Mapping[str, DType], d: Declarations, *,
             drop: bool, of: sx.Function) -> pr.Program:
    """The Program of a function. drop: indices of extent 1 are replaced by their value. What calls a precise one is precise,
    even if it is marked as fast."""
    statements: list[pr.Statement] = []
    made: list[pr.Tensor] = []
    written = set(d.inputs)
    for k, s in enumerate(placed):
        components, target = s.lowered.source.components, s.lowered.target
        nothing = check.idle(s, hulls)
        outside = target in d.inputs and not nothing and not s.scattered  # what it writes is not in its array: to be refused
        if check.without_elements(hulls[target]) and not outside or (components and nothing):
            written.add(target)
            continue
        if components and s.lowered.source.member == 0:
            members = [x.lowered.target for x in placed[k:k + len(components)]]
            found, places = tuples.statements(placed[k:k + len(components)], _lead(s, hulls, types), hulls, types)
            if not s.lowered.loops:
                statements += [_first(s, x, hulls[x], types[x]) for x in members
                               if x not in written and not inside(hulls[x], hulls[target])]
            if s.lowered.loops and resets.limits(s):
                own = [x for x in found if x.op is None and x.subscripts == found[-1].subscripts]
                at = _outside(statements, s)
                statements[at:at] = [_first(s, x.target, hulls[target], x.value.dtype) for x in own]
                found = [resets.within_limits(x, s) if x in own and x.target != target else x for x in found]
            statements += found
            made += places
        if components:
            written.add(target)
            continue
        dtype = types[target]
        if s.lowered.op is not None and s.lowered.source.reset and (s.lowered.loops or target in written):
            if resets.limits(s) and target not in written:
                statements.insert(_outside(statements, s), _first(s, target, hulls[target], dtype))
            statements += [_restart(s, dtype)] if not resets.restarted(s).vacant else []
        elif s.lowered.op is not None and target not in written:
            statements.insert(_outside(statements, s), _init(s, hulls[target], dtype))
        statements += [_statement(s, hulls, dtype)] if not nothing else []
        written.add(target)
    statements = [_without_reads(_chosen(s, hulls), hulls) for s in statements]
    if drop:
        statements = [_drop(s) for s in statements]
    read = (r.tensor for s in statements for r in pr.reads(s))  # what has no elements has no writer
    order = dict.fromkeys((*d.inputs, *(s.target for s in statements), *read, *d.outputs))
    tensors = tuple(pr.Tensor(n, types[n], tuple(high - low + 1 for low, high in hulls[n]), tuple(low for low, _ in hulls[n]))
                    for n in order if n in hulls) + tuple(made)
    return pr.Program(name, tensors, tuple(statements), tuple(d.inputs), tuple(d.outputs), of.precise,
                      fast=of.fast and not of.precise)


def accumulators(placed: list[Placed], types: Mapping[str, DType]) -> dict[str, DType]:
    """The types that `acc(...)` asks for, where they are wider than the tensors."""
    found: dict[str, DType] = {}
    for s in placed:
        target, asked = s.lowered.target, dtype_of(s.lowered.source.accumulator or "")
        if asked is not None:
            found[target] = scalars.promote(found.get(target, asked), asked)
    return {target: dtype for target, dtype in found.items() if dtype != types[target]}


def _outside(statements: list[pr.Statement], s: Placed) -> int:
    """Where a statement stands, or the outermost loop around it."""
    same = (n for n, x in enumerate(statements) if s.lowered.loops and x.loops[:1] == s.lowered.loops[:1])
    return next(same, len(statements))


def _restart(s: Placed, dtype: DType) -> pr.Statement:
    """What stands before an update with `!`: a box is initialised as such, in each iteration of the loops."""
    hull = resets.box(s)
    if hull is None:
        return resets.reset(s, dtype)
    depth = len(s.lowered.loops)
    own, init = resets.restarted(s), _init(s, hull, dtype)
    around = _ranges(own, s.lowered.indices[:depth])
    where = tuple(c for c in own.domain.conditions if condition_indices(c) <= {r.index for r in around})
    return replace(init, ranges=around + init.ranges, where=where, loops=s.lowered.loops)


def _first(s: Placed, target: str, hull: Hull, dtype: DType) -> pr.Statement:
    """The initialisation in front of all loops of what starts again in some of their iterations only."""
    init = replace(_init(s, hull, dtype), name=initialisation(f"{target}_first"), target=target)
    return init if target == s.lowered.target else replace(init, value=pr.Const(scalars.identity("+", dtype), dtype))


def _lead(s: Placed, hulls: Mapping[str, Hull], types: Mapping[str, DType]) -> tuples.Lead:
    """What the first component of a tuple reduction is by itself."""
    target = s.lowered.target
    init = _restart(s, types[target]) if s.lowered.loops else _init(s, hulls[target], types[target])
    return tuples.Lead(init, _statement(s, hulls, types[target]), _tests(s, hulls))


def _init(s: Placed, hull: Hull, dtype: DType) -> pr.Statement:
    """`target[...] = identity` over a box; indices are named as on the left side where it has plain ones."""
    op = s.lowered.op
    assert op is not None
    names: list[str] = []
    for k, f in enumerate(s.forms):
        moving = [i for i in indices(f) if s.domain.box[i][0] < s.domain.box[i][1]]
        plain = f.index or (moving[0] if len(moving) == 1 else "")
        names.append(plain if plain and plain not in names else fresh(f"d{k}", {*s.domain.box, *names}))
    value = pr.Const(scalars.identity(op, dtype), dtype)
    bounds = tuple(pr.Range(i, low, high + 1) for i, (low, high) in zip(names, hull, strict=True))
    return pr.Statement(initialisation(s.lowered.name), s.lowered.target, tuple(map(pr.Index, names)), None, value, bounds, (),
                        s.lowered.source.span)


def _statement(s: Placed, hulls: Mapping[str, Hull], dtype: DType) -> pr.Statement:
    lowered = s.lowered
    try:
        value, subscripts = _taken_away(lowered, dtype) or type_promotion.adapt(lowered.value, dtype), lowered.subscripts
    except type_promotion.TypeProblem as problem:  # the type that all statements of the target agree on came from another one
        problem.span = lowered.source.span
        raise
    tests = _tests(s, hulls)
    if tests and lowered.op is not None:
        test = pr.conjunction(tests)
        identity = pr.Const(scalars.identity(lowered.op, dtype), dtype)
        value = type_promotion.fold_one(pr.Select(test, shielded(value, test), identity, dtype, skips=True))
        subscripts = tuple(shielded(e, test) for e in subscripts)
    elif tests and s.scattered:
        test = pr.conjunction(tests)
        value, subscripts = shielded(value, test), _nowhere(s, test, hulls[lowered.target])
    elif tests:
        test = pr.conjunction(tests)
        before = pr.Read(lowered.target, subscripts, dtype)
        value = type_promotion.fold_one(pr.Select(test, shielded(value, test), before, dtype))
    ranges = _ranges(s, _order(lowered.indices, lowered.limits))
    return pr.Statement(lowered.name, lowered.target, subscripts, lowered.op, value, ranges, s.domain.conditions,
                        lowered.source.span, lowered.loops, lowered.limits)


def _taken_away(s: Lowered, dtype: DType) -> pr.Expr | None:
    """What `-= 3` adds to an unsigned tensor: sums wrap, so the number that makes 0 with 3."""
    negated = s.op == "+" and isinstance(s.source.value, sx.Unary) and s.source.value.op == "-"
    n = s.value.number
    if not negated or dtype.kind != "u" or isinstance(n, bool | float | None) or not -(1 << dtype.bits) < n < 0:
        return None
    return pr.Const(n + (1 << dtype.bits), dtype)


def _order(indices: tuple[str, ...], limits: tuple[pr.Bound, ...]) -> list[str]:
    """The indices in their order, but for those with ranges in memory, which come after the indices that their ranges use."""
    needs = {b.index: condition_indices(b.lower) | condition_indices(b.upper) for b in limits}
    left, found = list(indices), list[str]()
    while left:
        ready = (i for i in left if needs.get(i, frozenset()) & set(indices) <= {*found, i})
        found.append(next(ready, left[0]))
        left.remove(found[-1])
    return found


def _tests(s: Placed, hulls: Mapping[str, Hull]) -> tuple[pr.Expr, ...]:
    """The conditions under which an instance counts: its reads `else identity` are in bounds, and what `where` asks of memory,
    each condition computed as if those before it held."""
    found = list(dict.fromkeys(type_promotion.fold(c) for r in s.lowered.skipped
                               for c in _inside(r, hulls[r.tensor], s.domain)))
    if (never := pr.Const(False, BOOL)) in found:
        return (never,)
    for mask in s.lowered.masks:
        found.append(shielded(mask, pr.conjunction(tuple(found))) if found else mask)
    return tuple(found)


def _nowhere(s: Placed, test: pr.Expr, hull: Hull) -> tuple[pr.Expr, ...]:
    """The subscripts of a scatter, outside of its tensor where the test fails."""
    axis = next(d for d, e in enumerate(s.lowered.subscripts) if affine(e) is None)
    subscripts = list(s.lowered.subscripts)
    subscripts[axis] = pr.Select(test, shielded(subscripts[axis], test), pr.Const(hull[axis][0] - 1, I64), I64, skips=True)
    return tuple(subscripts)


def shielded(e: pr.Expr, test: pr.Expr) -> pr.Expr:
    """An expression that is computed even where the test fails, but does not matter there: it faults nowhere."""
    def shield(x: pr.Expr) -> pr.Expr:
        if isinstance(x, pr.Read) and x.default is None and None in map(affine, x.subscripts):
            return replace(x, default=pr.Const(scalars.identity("+", x.dtype), x.dtype), shielded=True)
        if isinstance(x, pr.Binary) and x.op in ("//", "%") and x.dtype.is_int and not isinstance(x.b, pr.Const):
            return replace(x, b=pr.Select(test, x.b, pr.Const(1, x.dtype), x.dtype))
        return x
    return pr.map_expr(e, shield)


def _ranges(s: Placed, names: Sequence[str]) -> tuple[pr.Range, ...]:
    """The box of these indices."""
    loops = {i: x.index for i, x in zip(s.lowered.indices, s.lowered.source.loops, strict=False) if i != x.index}
    return tuple(pr.Range(i, low, high + 1, down=loops.get(i, "")) for i in names for low, high in [s.domain.box[i]])


def _inside(read: pr.Read, hull: Hull, domain: Domain) -> list[pr.Expr]:
    """Conditions under which a read is in bounds; those that always hold are left out."""
    found: list[pr.Expr] = []
    for e, (low, high) in zip(read.subscripts, hull, strict=True):
        form = affine(e)
        first, last = interval(form, domain.box) if form is not None else (low - 1, high + 1)
        if first < low:
            found.append(pr.Binary(">=", e, pr.Const(low, I64), BOOL))
        if last > high:
            found.append(pr.Binary("<=", e, pr.Const(high, I64), BOOL))
    return found


def _chosen(s: pr.Statement, hulls: Mapping[str, Hull]) -> pr.Statement:
    """The statement with the conditions that INSIDE stands for."""
    def put(e: pr.Expr) -> pr.Expr:
        if isinstance(e, pr.Call) and e.fn == INSIDE:
            (read,) = e.args
            assert isinstance(read, pr.Read)
            return pr.conjunction(tuple(_inside(read, hulls[read.tensor], Domain(s.box))) or (pr.Const(True, BOOL),))
        return type_promotion.fold_one(e) if isinstance(e, pr.Select) else e

    return _mapped(s, put)


def _mapped(s: pr.Statement, put: Callable[[pr.Expr], pr.Expr]) -> pr.Statement:
    """The statement with its expressions rewritten from the leaves on."""
    if not any(isinstance(r, pr.Read) and r.default is not None for r in pr.reads(s)):
        return s
    value = pr.map_expr(s.value, put)
    return replace(s, value=s.value if value == s.value else type_promotion.fold(value),
                   subscripts=tuple(pr.map_expr(e, put) for e in s.subscripts),
                   bounds=tuple(replace(b, lower=pr.map_expr(b.lower, put), upper=pr.map_expr(b.upper, put)) for b in s.bounds))


def _without_reads(s: pr.Statement, hulls: Mapping[str, Hull]) -> pr.Statement:
    """The statement with their defaults for the guarded reads of tensors without elements."""
    def put(e: pr.Expr) -> pr.Expr:
        if isinstance(e, pr.Read) and e.default is not None and check.without_elements(hulls.get(e.tensor, ())):
            return e.default
        return e

    return _mapped(s, put)


def _drop(s: pr.Statement) -> pr.Statement:
    """The statement without its indices of extent 1, but for those of loops and of ranges in memory."""
    limited = {b.index for b in s.bounds}
    fixed: dict[str, pr.Expr] = {r.index: pr.Const(r.lower, I64) for r in s.ranges[s.depth:]
                                 if r.extent == 1 and r.index not in limited}
    if not fixed:
        return s

    def put(e: pr.Expr) -> pr.Expr:
        return type_promotion.fold(pr.substitute(e, fixed))

    where = tuple(put(c) for c in s.where)
    assert all(condition_indices(c) or c == pr.Const(True, BOOL) for c in where), where
    return replace(s, subscripts=tuple(map(put, s.subscripts)), value=put(s.value),
                   ranges=tuple(r for r in s.ranges if r.index not in fixed),
                   bounds=tuple(replace(b, lower=put(b.lower), upper=put(b.upper)) for b in s.bounds),
                   where=tuple(c for c in where if not isinstance(c, pr.Const)))
