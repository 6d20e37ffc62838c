"""A definition and what it is called with: its statements, types of tensors, and their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from polytc.lang.parsing import syntax as sx
from tests.meaning import types, values
from tests.meaning.calls import Body, Invoke
from tests.meaning.expressions import Expressions, Refused, Stored, walk
from tests.meaning.packs import Packs, spoken
from tests.meaning.plan import Plan, Points, Unsupported
from tests.meaning.ranges import Hull
from tests.meaning.values import Number

ROUNDS = 16

Found: TypeAlias = list[tuple[str, tuple[str, bool], Hull | None]]
"""Of each target of a statement: the type of its values, and what bounds follow."""


class Program:
    """given: what is passed for tensors, of which types and shapes matter here."""

    def __init__(self, f: sx.Function, own: Mapping[str, sx.Function], given: Mapping[str, Stored],
                 numbers: Mapping[str, Number], attributes: Mapping[str, Any]) -> None:
        self.own, self.precise = own, f.precise
        self.shapes = {n: t.data.shape for n, t in given.items()}
        self.f = f = Packs(f, self.shapes, attributes).run() if f.kind == "op" else f
        numbers = {p.name: p.default for p in f.params if p.default is not None} | dict(numbers)
        self.numbers = {n: values.constant(v) for n, v in numbers.items()}
        self.fixed = {n: t.type for n, t in given.items()}
        self.declare()
        body = list(Body(f, own).items())
        self.ranks = {n: len(s) for n, s in self.shapes.items()}
        self.ranks |= {s.target: len(s.subscripts) for s in body if isinstance(s, sx.Statement)}
        self.ranks |= {t: -1 for s in body if isinstance(s, Invoke) for t in s.targets if t not in self.ranks}
        self.items = [s if isinstance(s, Invoke) else Plan(self.group(s, body), self.ranks, self.numbers)
                      for s in body if isinstance(s, Invoke) or not s.member]
        self.outputs = self.named_outputs()
        self.accumulators = {x.s.target: types.named(x.s.accumulator) for x in self.items
                             if isinstance(x, Plan) and x.s.accumulator}
        self.types: dict[str, str] = {}
        self.hulls: dict[str, Hull] = {}
        self.guess: dict[str, str] = {}
        self.callees: dict[Any, Program] = {}
        self.passed: dict[int, dict[str, Hull]] = {}
        """id of an Invoke -> the bounds of what is passed: as far as the statements before wrote it."""
        self.analyse()

    @staticmethod
    def group(s: sx.Statement, body: list[sx.Statement | Invoke]) -> list[sx.Statement]:
        """A statement, or all of a tuple reduction."""
        return [x for x in body if isinstance(x, sx.Statement) and x.span == s.span] if s.components else [s]

    def declare(self) -> None:
        """Sizes of a `def`, the types of its scalars and outputs."""
        for p in self.f.params:
            dtype = types.named(p.dtype)
            if p.name in self.numbers and dtype is not None:
                n = self.numbers[p.name].number
                if types.is_float(dtype):
                    made = values.cast(values.constant(n), dtype)  # type: ignore[arg-type]
                    self.numbers[p.name] = replace(made, number=made.data.item())
                else:
                    self.numbers[p.name] = values.constant(bool(n) if dtype == "bool" else int(n or 0))
            elif dtype is not None and self.fixed.get(p.name, dtype) != dtype:
                raise Refused(f"`{p.name}` is {self.fixed[p.name]}, declared {dtype}")
            for e, n in zip(p.dims or (), self.shapes.get(p.name, ()), strict=False):
                if self.f.kind == "def" and isinstance(e, sx.Name):
                    if self.numbers.setdefault(e.id, values.constant(n)).number != n:
                        raise Refused(f"`{e.id}` has two values")
        if self.f.kind == "def":
            self.solve()
        self.declared: dict[str, Hull] = {}
        for p in (*(self.f.outputs or ()), *self.f.temporaries):
            if p.dtype is not None:
                self.fixed[p.name] = types.named(p.dtype) or ""
            if p.dims is not None and self.f.kind != "op":
                self.declared[p.name] = tuple(map(self.extent, p.dims))

    def solve(self) -> None:
        """Sizes that no dimension is, but that formulas tell, found by trying; all formulas must agree."""
        dims = [(e, n) for p in self.f.params for e, n in zip(p.dims or (), self.shapes.get(p.name, ()), strict=False)]
        for _ in dims:
            for e, n in dims:
                free = {x.id for x in walk(e) if isinstance(x, sx.Name)} - self.numbers.keys()
                if len(free) == 1:
                    self.guess(next(iter(free)), e, n)
        for e, n in dims:
            if {x.id for x in walk(e) if isinstance(x, sx.Name)} - self.numbers.keys() or self.extent(e)[1] + 1 != n:
                raise Refused("a dimension that is not as declared")

    def guess(self, name: str, e: sx.Expr, extent: int) -> None:
        """The one number that makes a dimension as long as it is; none where others do, too."""
        fits = []
        for n in range(2 * extent + 100):
            self.numbers[name] = values.constant(n)
            fits += [n] * (self.extent(e)[1] + 1 == extent)
        del self.numbers[name]
        if len(fits) == 1:
            self.numbers[name] = values.constant(fits[0])

    def extent(self, e: sx.Expr) -> tuple[int, int]:
        """The first and last coordinate of a declared dimension."""
        lower = self.expressions({}).value(e.lower).number if isinstance(e, sx.Interval) else 0
        upper = self.expressions({}).value(e.upper if isinstance(e, sx.Interval) else e).number
        return int(lower or 0), int(upper or 0) - 1

    def named_outputs(self) -> list[str]:
        """What the header names, or the tensors that no statement reads after they were last written."""
        inouts = [p.name for p in self.f.params if p.inout]
        if self.f.outputs is not None:
            found = [p.name for p in self.f.outputs]
            return found + [n for n in inouts if n not in found]
        if self.f.kind != "bare":
            return inouts
        last = {t: k for k, x in enumerate(self.items) for t in self.targets(x)}
        later = {n for k, x in enumerate(self.items) for n in self.read(x) - set(self.targets(x)) if k > last.get(n, k)}
        return [t for t in dict.fromkeys(t for x in self.items for t in self.targets(x)) if t not in later and " " not in t]

    @staticmethod
    def targets(x: Plan | Invoke) -> list[str]:
        if isinstance(x, Plan):
            return [s.target for s in x.group]
        return [*x.targets, *(name for p, name in x.tensors if p.inout)]

    @staticmethod
    def read(x: Plan | Invoke) -> set[str]:
        said = [n for e in (x.args if isinstance(x, Invoke) else spoken(x.s)) for n in walk(e)]
        return {n.tensor if isinstance(n, sx.Access) else n.id for n in said if isinstance(n, sx.Access | sx.Name)}

    def expressions(self, tensors: Mapping[str, Stored], at: Mapping[str, np.ndarray] | None = None, plan: Plan | None = None,
                    probing: bool = False) -> Expressions:
        return Expressions(self.numbers, plan.lets if plan else {}, tensors, self.shapes, at or {}, precise=self.precise,
                           probing=probing)

    # ---- types and bounds

    def analyse(self) -> None:
        """Rounds until types and bounds stay: what a `for` reads before it writes it has those of the round before."""
        seeded = False
        for _ in range(ROUNDS):
            before = self.types, self.hulls
            problem = self.round()
            if (self.types, self.hulls) != before:
                continue
            unknown = [n for n, t in self.types.items() if t == types.UNKNOWN]
            if problem is not None and (seeded or not unknown):
                raise problem
            if not unknown:
                return self.check()
            if seeded:
                raise Unsupported("a type that only its own values tell")
            self.types = self.types | {n: self.guess[n] for n in unknown}
            seeded = True
        if types.UNKNOWN in self.types.values():
            raise Unsupported("types that are known in every other round")
        raise Refused("types or bounds that do not settle")

    def round(self) -> Refused | None:
        """All statements once. What is refused may be so only because of types that are not known yet."""
        joined: dict[str, list[tuple[str, bool]]] = {}
        hulls: dict[str, Hull] = {n: tuple((0, k - 1) for k in s) for n, s in self.shapes.items()}
        problem: Refused | None = None
        for x in self.items:
            known = {n: self.fixed.get(n) or self.types.get(n) or types.UNKNOWN for n in self.ranks}
            before = {**self.hulls, **hulls} if x.loops else hulls
            try:
                found = self.called(x, known, before) if isinstance(x, Invoke) else self.planned(x, known, before)
            except Refused as refusal:
                problem = problem or refusal
                continue
            for name, kind, hull in found:
                if name not in self.shapes:
                    joined.setdefault(name, []).append(kind)
                    merged = union(hulls.get(name), hull)
                    hulls |= {} if merged is None else {name: merged}
        self.types = {n: self.fixed.get(n) or types.joined(kinds) for n, kinds in joined.items()} | {
            n: self.fixed[n] for n in self.shapes}
        self.guess = {n: types.promote(*(t for t, weak in kinds if weak)) for n, kinds in joined.items()}
        self.guess = {n: "i64" if t == types.UNKNOWN else t for n, t in self.guess.items()}
        self.hulls = hulls
        return problem

    def check(self) -> None:
        """Every tensor has bounds, and updates that its type knows."""
        for x in self.items:
            for n in self.targets(x):
                if n not in self.hulls:
                    raise Refused(f"no instance writes `{n}`")
            op = x.s.op if isinstance(x, Plan) else None
            if op is not None and op in "&|^" and types.is_float(self.types[x.s.target]):
                raise Refused(f"`{op}=` on floats")
            if op is not None and op in "+*" and self.types[x.s.target] == "bool":
                raise Refused(f"`{op}=` on bool")

    def planned(self, x: Plan, known: Mapping[str, str], hulls: Mapping[str, Hull]) -> Found:
        empty = {n: Stored(t, (0,) * max(self.ranks[n], 0), np.zeros((1,) * max(self.ranks[n], 0), types.computed(t)))
                 for n, t in known.items()}
        probe = self.expressions(empty, plan=x, probing=True)
        kinds = [probe.value(e).kind for e in x.values]

        def make(at: Points) -> Expressions:
            return self.expressions({}, at, x)
        target = self.declared.get(x.s.target, hulls.get(x.s.target))
        x.solve(hulls, target, make)
        found = x.hull(target, make, restarted=False)
        if x.s.reset or x.s.components:
            found = union(found, x.hull(target, make, restarted=True))
        none = {i for i, (low, high) in x.box.items() if low > high}
        if x.s.components and none and not none & set(x.counters) and found is not None and not nothing(found):
            raise Refused("nothing to choose from")
        return [(s.target, kind, found) for s, kind in zip(x.group, kinds, strict=True)]

    def called(self, x: Invoke, known: Mapping[str, str], hulls: Mapping[str, Hull]) -> Found:
        names = [name for _, name in x.tensors]
        if any(n not in hulls or known[n] == types.UNKNOWN for n in names):
            return [(t, (types.UNKNOWN, False), None) for t in x.targets]
        self.passed[id(x)] = {n: hulls[n] for n in names}
        callee = self.callee(x, {n: Stored(known[n], (), np.broadcast_to(
            np.zeros((), types.computed(known[n])), [h - low + 1 for low, h in hulls[n]])) for n in names})
        self.ranks |= {t: len(callee.hulls[o]) for t, o in zip(x.targets, callee.outputs)}
        return [(t, (callee.types[o], False), tuple((0, high - low) for low, high in callee.hulls[o]))
                for t, o in zip(x.targets, callee.outputs, strict=False)]

    def callee(self, x: Invoke, tensors: Mapping[str, Stored]) -> Program:
        """The definition that is called, for these types and shapes."""
        evaluate = self.expressions({})
        given = {p.name: tensors[name] for p, name in x.tensors}
        numbers = {p.name: evaluate.value(a).number for p, a in x.numbers}
        attributes: dict[str, Any] = {}
        for g in x.attributes:
            all_of = tuple(evaluate.value(v).number for v in g.values)
            attributes[g.name] = all_of if g.several else all_of[0]
        sorts = tuple((n, t.type, t.data.shape) for n, t in given.items())
        key = x.f.name, sorts, tuple(numbers.items()), tuple(attributes.items())
        if key not in self.callees:
            self.callees[key] = Program(x.f, self.own, given, numbers, attributes)  # type: ignore[arg-type]
        return self.callees[key]


def union(a: Hull | None, b: Hull | None) -> Hull | None:
    if a is None or b is None:
        return a or b if a != () and b != () else ()
    if nothing(a) != nothing(b):
        return b if nothing(a) else a
    return tuple((min(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True))


def nothing(hull: Hull) -> bool:
    """Is the extent of a dimension 0?"""
    return any(low > high for low, high in hull)
