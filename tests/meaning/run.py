"""A second, independent meaning of the language: what docs/language.md says, in numpy, straight from the syntax tree.

It shares with polytc the parser and the nodes of the syntax tree, nothing else: no ranges, no types, no lowering. Each value
carries a bound of how far a licensed evaluation may be from it, 0 for most.

- `run` (here): a program on arrays;
- `program`: a definition and what it is called with: types, bounds of tensors;
- `plan`: one statement: what narrows it, its points; `ranges`: which values an index takes, found by trying them;
- `expressions`: values of expressions at many points; `functions`: the intrinsics; `updates`: what `op=` does to elements;
  `factors`: where a sum is made without some factors;
- `values`: numbers of a type with their bounds of error; `types`: promotion, weak numbers;
- `packs`: `op`s written out for the ranks at hand; `calls`: which definition a name means, and which one runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polytc.lang.parsing import syntax as sx
from tests.meaning import calls, factors, types, updates, values
from tests.meaning.calls import Invoke
from tests.meaning.expressions import Expressions, Refused, Stored, walk
from tests.meaning.plan import Plan, Points, Unsupported
from tests.meaning.program import Program
from tests.meaning.ranges import Hull
from tests.meaning.values import Bound, Number, Value

__all__ = ["Refused", "Unsupported", "meaning"]


def meaning(text: str, arrays: Mapping[str, np.ndarray], numbers: Mapping[str, Number] | None = None,
            attributes: Mapping[str, Any] | None = None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The outputs of a program by name: the values, and how far what is licensed may be from each.

    Raises Refused where the language does not allow the program, Unsupported where it is not interpreted here.
    """
    f, own = calls.entry(text)
    given = {n: _taken(a) for n, a in arrays.items()}
    with np.errstate(all="ignore"):
        program = Program(f, own, given, numbers or {}, attributes or {})
        found = Run(program, given).run()
        return {n: _given_back(found[n]) for n in program.outputs}


def _taken(a: np.ndarray) -> Stored:
    name = types.of_array(a)
    return Stored(name, (0,) * a.ndim, np.array(a, types.computed(name), order="C"))


def _given_back(t: Stored) -> tuple[np.ndarray, np.ndarray]:
    t = settled(t)
    if t.type in types.HALVES:
        v = values.half(Value(t.data, t.type, error=t.error))
        t = replace(t, data=v.data, error=v.error)
    return t.data.astype(types.stored(t.type)), np.zeros(t.data.shape) if t.error is None else t.error


def settled(t: Stored) -> Stored:
    """The tensor in its own type, not in that of its accumulator."""
    if t.data.dtype == types.computed(t.type):
        return t
    v = values.settled(Value(t.data, types.of_array(t.data), error=t.error), t.type, t.halves)
    return Stored(t.type, t.lower, v.data, v.error, halves=t.halves)


def part(t: Stored, hull: Hull) -> Stored:
    """The elements within bounds: what is passed is a tensor as far as the statements before wrote it."""
    own = tuple(slice(low - first, high + 1 - first) for (low, high), first in zip(hull, t.lower, strict=True))
    bounds = (None if b is None else values.some(np.broadcast_to(b, t.data.shape)[own]) for b in (t.error, t.slack))
    return Stored(t.type, tuple(low for low, _ in hull), t.data[own], *bounds, t.halves)


def opened(t: Stored, accumulator: str | None) -> Stored:
    """The tensor in the type of its accumulator."""
    return t if accumulator is None else replace(t, data=t.data.astype(types.computed(accumulator)))


class Run:
    """One run of a program. given: its inputs, which are written in place where they are `inout`."""

    def __init__(self, program: Program, given: Mapping[str, Stored]) -> None:
        self.program, self.given = program, given
        self.tensors = {n: opened(t, program.accumulators.get(n)) for n, t in given.items()}
        for x in program.items:
            for n in program.targets(x):
                if n not in self.tensors:
                    start = x.s.op if isinstance(x, Plan) and not x.s.reset and not x.s.components else None
                    t = updates.fresh(program.types[n], program.hulls[n], program.accumulators.get(n), start)
                    self.tensors[n] = t if n in program.outputs else replace(t, halves="held" if t.type == "f16" else "open")

    def run(self) -> dict[str, Stored]:
        """All tensors behind the last statement."""
        self.block(self.program.items, 0, {})
        for n in self.given.keys() & self.program.accumulators.keys():
            t, made = self.given[n], settled(self.tensors[n])
            t.data[...], t.error, t.slack = made.data, made.error, made.slack
            self.tensors[n] = t
        return self.tensors

    def block(self, items: Sequence[Plan | Invoke], depth: int, env: dict[str, int]) -> None:
        """Statements in order, those of one `for` at this depth together, in each of its iterations."""
        for label, group in itertools.groupby(items, lambda x: x.loops[depth].label if len(x.loops) > depth else None):
            inside = list(group)
            if label is None:
                for x in inside:
                    if isinstance(x, Invoke):
                        self.invoke(x)
                    else:
                        self.execute(x, env)
                continue
            clause = inside[0].clauses[depth]
            assert isinstance(clause, sx.RangeClause)
            at = self.program.expressions(self.tensors, {i: np.asarray(v) for i, v in env.items()})
            low, high = int(at.value(clause.lower).data), int(at.value(clause.upper).data)
            for value in range(low, high, 1 if clause.step is None else int(at.value(clause.step).data)):
                self.block(inside, depth + 1, env | {clause.index: value})

    # ---- calls

    def invoke(self, x: Invoke) -> None:
        """Runs a definition on copies of its arguments, from 0 each; what it declares `inout` is written in place."""
        held = {name: part(settled(self.tensors[name]), hull) for name, hull in self.program.passed[id(x)].items()}
        if any(p.inout and held[name].data.shape != self.tensors[name].data.shape for p, name in x.tensors):
            raise Unsupported("a call that writes a part of a tensor")
        callee = self.program.callee(x, held)
        if any(last - first > high for t, o in zip(x.targets, callee.outputs)
               for (first, last), (_, high) in zip(callee.hulls[o], self.program.hulls[t], strict=True)):
            raise Unsupported("a call on a tensor that is larger behind it")
        given = {p.name: Stored(t.type, (0,) * t.data.ndim, t.data if p.inout else t.data.copy(), t.error, t.slack, t.halves)
                 for p, t in ((p, held[name]) for p, name in x.tensors)}
        found = Run(callee, given).run()
        for p, name in x.tensors:
            if p.inout:
                self.tensors[name].error, self.tensors[name].slack = given[p.name].error, given[p.name].slack
        updated = {p.s.target for p in self.program.items if isinstance(p, Plan) and p.s.op is not None}
        for t, o in zip(x.targets, callee.outputs):
            self.whole(self.tensors[t], settled(found[o]), rounded=t not in updated and self.tensors[t].type == found[o].type)

    @staticmethod
    def whole(target: Stored, result: Stored, rounded: bool) -> None:
        """The result of a call. Of halves it is rounded, unless the tensor is wider, or updated, too (the last update is)."""
        places = [p.reshape(-1) for p in np.indices(result.data.shape)]
        v = Value(result.data.reshape(-1), result.type, error=_each(result.error, result.data.size),
                  slack=_each(result.slack, result.data.size))
        v = values.half(v) if rounded else v
        updates.assign(target, updates.flat(target, places, result.data.size), values.cast(v, target.type)
                       if target.type != result.type else v)

    # ---- statements

    def execute(self, x: Plan, env: Mapping[str, int]) -> None:
        """One iteration's instances of a statement."""
        def make(at: Points) -> Expressions:
            return self.program.expressions(self.tensors, at, x)
        if x.s.reset or x.s.components:
            self.restart(x, x.restarts(env, make), make)
        points, sure = x.points(env, make)
        target, kinds = self.tensors[x.s.target], self.program.types
        if any(x.scattered):
            if not target.data.size:
                return                                                # no place is inside: the statement has no instances
            points = inside(x, points, make, target)
        n = size(points)
        if n == 0 or self.skipped(x):
            return
        at = make(points)
        found = [at.value(e) if kinds[s.target] == "bool" else
                 at.adapted(e, _subtracted(s, e, at.value(e), kinds), kinds[s.target])
                 for e, s in zip(x.values, x.group, strict=True)]
        places = [at.value(e) for e in x.s.subscripts]
        where = updates.flat(target, [np.broadcast_to(p.data, n).astype(np.int64) for p in places], n)
        if x.s.op == "+" and not self.program.precise:
            found = [replace(v, error=values.added(v.error, factors.error(x, e, at, v, where, target.data.size),
                                                   factors.spread(x, e, at, v)))
                     for e, v in zip(x.values, found, strict=True)]
        keep = np.logical_and.reduce([np.broadcast_to(s, n) for s in at.skips]) if at.skips else np.ones(n, bool)
        found = [Value(np.broadcast_to(v.data, n)[keep], v.type, error=_each(v.error, n, keep), slack=_each(v.slack, n, keep))
                 for v in found]
        self.write(x, where[keep], found)
        if not sure or any(p.error is not None for p in places):
            for s in x.group:
                self.tensors[s.target].error = np.full(target.data.shape, np.inf)

    def skipped(self, x: Plan) -> bool:
        """Does `else identity` skip all that the statement says, as it reads a tensor without elements?"""
        guards = (n.access for e in x.values for n in walk(e) if isinstance(n, sx.Guarded) and n.default is None)
        return any(not self.tensors[a.tensor].data.size for a in guards if isinstance(a, sx.Access))

    def write(self, x: Plan, where: np.ndarray, found: list[Value]) -> None:
        target = self.tensors[x.s.target]
        if x.s.components:
            at, winners, sure = updates.chosen(where, found[0], x.s.op or "max", target.data.size)
            updates.update(target, where, found[0], x.s.op or "max", self.program.precise)
            for s, v in zip(x.group[1:], found[1:]):
                error = np.where(sure[at], 0.0 if v.error is None else v.error[winners], np.inf)
                member, best = self.tensors[s.target], Value(v.data[winners], v.type, error=values.some(error))
                updates.assign(member, updates.moved(at, target, member), best)
        elif x.s.op is None:
            updates.assign(target, where, found[0])
        else:
            updates.update(target, where, found[0], x.s.op, self.program.precise)

    def restart(self, x: Plan, points: Points, make: Callable[[Points], Expressions]) -> None:
        """The identity where `op=!` starts again; 0 in the other tensors of a tuple reduction."""
        if any(x.scattered):
            raise Unsupported("a scatter that starts again")
        at, n = make(points), size(points)
        places = [np.broadcast_to(at.value(e).data, n) for e in x.s.subscripts]
        for k, s in enumerate(x.group):
            t = self.tensors[s.target]
            first = types.identity(x.s.op or "max", types.of_array(t.data)) if k == 0 else 0
            updates.assign(t, updates.flat(t, places, n), Value(np.asarray(first).astype(t.data.dtype), t.type))


def size(points: Points) -> int:
    return max((a.size for a in points.values() if a.ndim), default=1)


def inside(x: Plan, points: Points, make: Callable[[Points], Expressions], target: Stored) -> Points:
    """The points at which a scatter stays in its tensor."""
    at, keep = make(points), np.ones(size(points), bool)
    for e, lo, extent in zip(x.s.subscripts, target.lower, target.data.shape):
        p = at.value(e).data.astype(np.int64)
        keep &= (p >= lo) & (p < lo + extent)
    return {i: a if a.ndim == 0 else a[keep] for i, a in points.items()}


def _each(bound: Bound, n: int, keep: Any = slice(None)) -> Bound:
    """A bound for each of n points, of those that are kept."""
    return None if bound is None else np.broadcast_to(bound if bound.ndim < 2 else bound.reshape(-1), n)[keep]


def _subtracted(s: sx.Statement, e: sx.Expr, v: Value, kinds: Mapping[str, str]) -> Value:
    """What `-= 3` adds to an unsigned tensor: sums wrap."""
    to = kinds[s.target]
    n = v.number
    if s.op != "+" or not (isinstance(e, sx.Unary) and e.op == "-") or not to.startswith("u") or not isinstance(n, int):
        return v
    most = int(np.iinfo(types.stored(to)).max)
    return values.constant(n + most + 1) if -most - 1 < n < 0 else v
