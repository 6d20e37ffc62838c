"""Exact proofs that a program is sound, each refusal with a concrete witness: what `lang.soundness.check` says of programs that
run from top to bottom and are small enough to look at every point, for programs with `for` loops and of any size.

Every question is whether a set of instances is empty; a point of it is the witness. Sizes are numbers, which sets (unlike
schedules) do not mind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import islpy

from polytc.errors import Diagnostic
from polytc.lang.soundness.check import met_twice
from polytc.lang.soundness.proof import CHECKED, Places, apart, begun, scattered
from polytc.lang.typing.ranges import Hull
from polytc.poly import isl
from polytc.poly.dependences import earlier
from polytc.poly.scop import access
from polytc.program import program as pr
from polytc.program.affine import affine, indices, interval
from polytc.program.domain import Domain
from polytc.program.names import update_of
from polytc.program.scalars import I64


@dataclass(frozen=True)
class Proofs:
    """A lang.soundness.proof.Prover. operations: isl's budget for one question."""

    operations: int = isl.BUDGET

    def hull(self, subscripts: Sequence[pr.Expr], domain: Domain) -> Hull | None:
        """The smallest box that holds the elements with these subscripts; None if that takes too long."""
        ranges = tuple(pr.Range(i, low, high + 1) for i, (low, high) in domain.box.items())
        s = pr.Statement("S", "T", tuple(subscripts), None, pr.Const(0, I64), ranges, domain.conditions)
        if not subscripts or None in map(affine, subscripts):
            return None
        ctx = isl.new_context()
        program = pr.Program("", (pr.Tensor("T", I64, (0,) * len(subscripts), (0,) * len(subscripts)),), (s,), (), ())
        text = f"{{ {access(program, s, 'T', s.subscripts, guarded=False)} }}"

        def box() -> Hull:
            found = islpy.Set.read_from_str(ctx, f"{{ {isl.domain(s)} }}").apply(islpy.Map.read_from_str(ctx, text))
            return tuple((found.dim_min_val(d).to_python(), found.dim_max_val(d).to_python()) for d in range(len(subscripts)))
        try:
            return isl.bounded(ctx, self.operations, box)
        except isl.QuotaExceeded:
            return None

    def refusals(self, program: pr.Program, places: Places, sizes: Mapping[str, object],
                 presumed: frozenset[str] = frozenset()) -> list[Diagnostic]:
        """What is wrong with a program; see lang.soundness.proof.Prover."""
        proof = _Proof(program, places, sizes, presumed, self.operations)
        return list(dict.fromkeys(proof.run()))


@dataclass(frozen=True)
class _Proof:
    """The questions about one program."""

    program: pr.Program
    places: Places
    sizes: Mapping[str, object]
    presumed: frozenset[str]
    operations: int

    @cached_property
    def ctx(self) -> islpy.Context:
        return isl.new_context()

    @cached_property
    def domains(self) -> dict[str, islpy.Set]:
        return {s.name: islpy.Set.read_from_str(self.ctx, f"{{ {isl.domain(s)} }}") for s in self.program.statements}

    @cached_property
    def writes(self) -> dict[str, islpy.Map]:
        """Statement -> the elements that its instances write."""
        return {s.name: self.relation(s, s.target, s.subscripts) for s in self.program.statements}

    def relation(self, s: pr.Statement, tensor: str, subscripts: tuple[pr.Expr, ...], guarded: bool = False) -> islpy.Map:
        text = access(self.program, s, tensor, subscripts, guarded=guarded)
        return islpy.Map.read_from_str(self.ctx, f"{{ {text} }}").intersect_domain(self.domains[s.name])

    def run(self) -> Iterator[Diagnostic]:
        wrong = False
        for s in self.program.statements:
            for found in (*self.in_bounds(s), *self.written_once(s), *self.independent(s)):
                wrong = True
                yield found
        if not wrong:  # what reads out of bounds reads what nothing wrote, too
            for n, s in enumerate(self.program.statements):
                yield from self.written_before(n, s)
            yield from self.complete()

    def ask(self, s: pr.Statement | None, read: pr.Read | None, what: str, question: Callable[[], Diagnostic | None]
            ) -> Iterator[Diagnostic]:
        """The answer to a question, or that it takes too long (E204)."""
        try:
            found = isl.bounded(self.ctx, self.operations, question)
        except isl.QuotaExceeded as e:
            found = self.refusal("E204", s, read, f"{what} takes too long to prove", f"it needs {e}",
                                 "narrow the ranges with `where`, or write simpler subscripts")
        if found is not None:
            yield found

    def refusal(self, code: str, s: pr.Statement | None, read: pr.Read | None, message: str, *notes: str) -> Diagnostic:
        span = None if s is None else self.places.get((update_of(s.name) or s.name, read), s.span)
        return Diagnostic(code, message, span, tuple(n for n in notes if n))

    # ---- bounds

    def in_bounds(self, s: pr.Statement) -> Iterator[Diagnostic]:
        """Every unguarded read, and every write to an array of the caller, stays inside."""
        accesses: list[tuple[str, tuple[pr.Expr, ...], pr.Read | None]] = [
            (r.tensor, r.subscripts, r) for r in pr.reads(s) if r.default is None]
        accesses += [(s.target, s.subscripts, None)] if s.target in self.program.inputs else []
        box = s.box
        for tensor, subscripts, read in accesses:
            t = self.program.tensor(tensor)
            for axis, (sub, low, extent) in enumerate(zip(subscripts, t.lower, t.shape, strict=True)):
                form = affine(sub)
                if form is not None and not (low <= interval(form, box)[0] and interval(form, box)[1] < low + extent):
                    yield from self.ask(s, read, f"that dimension {axis} of `{tensor}` is in bounds",
                                        lambda: self.outside(s, t, axis, sub, read))  # noqa: B023

    def outside(self, s: pr.Statement, t: pr.Tensor, axis: int, sub: pr.Expr, read: pr.Read | None) -> Diagnostic | None:
        low, high, cell = t.lower[axis], t.lower[axis] + t.shape[axis], isl.pieces(sub)
        outside = " or ".join(f"({test} and ({isl.expr(x)} < {low} or {isl.expr(x)} >= {high}))" for test, x in cell)
        text = f"{{ {isl.instance(s)} : {outside} }}"
        point = _point(self.domains[s.name].intersect(islpy.Set.read_from_str(self.ctx, text)), s)
        if point is None:
            return None
        place = ["_"] * len(t.shape)
        place[axis] = str(_value(sub, point))
        known = ", ".join(f"{n}={v}" for n, v in self.sizes.items())
        extent = f"extent {high}" if low == 0 else f"which has {low}:{high}"
        does, form = ("written", "writes") if read is None else ("read", "reads")
        used = {e.name for e in pr.walk(sub) if isinstance(e, pr.Index)}
        shown = _shown(s, {i: v for i, v in point.items() if i in used})
        return self.refusal(
            "E203", s, read, f"dimension {axis} of `{t.name}` is {does} out of bounds",
            f"{f'with {known}: ' if known else ''}{shown or 'every instance'} "
            f"{form} {_element(t.name, place)}, {extent}",
            "narrow the range with `where`" + (f", or guard the read: `({t.name}[...] else 0)`" if read is not None else ""))

    # ---- one iteration of all loops

    def pairs(self, s: pr.Statement, first: islpy.Map, second: islpy.Map) -> islpy.Map:
        """Different instances in one iteration of all loops whose accesses meet."""
        same = earlier(self.ctx, s, s, s.depth, False, True)
        return first.apply_range(second.reverse()).intersect(same).subtract(islpy.Map.identity(first.domain().get_space(
            ).map_from_set()))

    def written_once(self, s: pr.Statement) -> Iterator[Diagnostic]:
        """`=` writes each element at most once in an iteration; what memory decides may do so: its last instance counts."""
        if s.op is None and not s.bounds and not _determined(s) and None not in map(affine, s.subscripts):
            yield from self.ask(s, None, f"that the left side writes each element of `{s.target}` once", lambda: self.twice(s))

    def twice(self, s: pr.Statement) -> Diagnostic | None:
        write = self.writes[s.name]
        found = _pair(self.pairs(s, write, write), s)
        if found is None:
            return None
        a, b = sorted(found, key=lambda p: list(p.values()))
        place = _element(s.target, [_value(e, a) for e in s.subscripts])
        message, cure = met_twice(s.target, update_of(s.name) is not None)
        return self.refusal("E210", s, None, message, f"{_shown(s, a)} and {_shown(s, b)} both write {place}", cure)

    def independent(self, s: pr.Statement) -> Iterator[Diagnostic]:
        """No instance reads what another one of the same iteration writes."""
        for r in (r for r in pr.reads(s) if r.tensor == s.target):
            if r.subscripts == s.subscripts and _determined(s):
                continue
            yield from self.ask(s, r, f"that no instance reads what another one writes to `{s.target}`",
                                lambda: self.clash(s, r))  # noqa: B023

    def clash(self, s: pr.Statement, r: pr.Read) -> Diagnostic | None:
        read = self.relation(s, r.tensor, r.subscripts, guarded=r.default is not None)
        found = _pair(self.pairs(s, read, self.writes[s.name]), s)
        if found is None:
            return None
        reader, writer = found
        place = [_value(e, writer) for e in s.subscripts]
        return self.refusal("E211", s, r, f"the statement reads what another of its instances writes to `{s.target}`",
                            f"instance {_shown(s, reader)} reads {_element(s.target, place)}, which {_shown(s, writer)} writes",
                            "instances of one statement are independent; write to another tensor, or order them with `for`",
                            apart(s))

    # ---- written before read

    @cached_property
    def makers(self) -> dict[str, list[tuple[int, pr.Statement]]]:
        """Tensor -> the assignments to it: updates only write what is written already. Those to unknown places do not count."""
        found: dict[str, list[tuple[int, pr.Statement]]] = {}
        for n, s in enumerate(self.program.statements):
            if s.op is None and not s.bounds and None not in map(affine, s.subscripts):
                found.setdefault(s.target, []).append((n, s))
        return found

    def written_before(self, n: int, s: pr.Statement) -> Iterator[Diagnostic]:
        """Every element that a statement reads has been written when it reads it."""
        reads: list[pr.Read | None] = [r for r in pr.reads(s) if r.tensor not in self.program.inputs]
        reads += [None] if s.op is not None and s.target not in self.program.inputs else []
        for r in reads:
            tensor = s.target if r is None else r.tensor
            before = [w for m, w in self.makers.get(tensor, ()) if m < n and not pr.common_loops(w, s)]
            if not any(_fills(w, self.program.tensor(tensor)) for w in before):
                yield from self.ask(s, r, f"that every element of `{tensor}` that is read has been written",
                                    lambda: self.unwritten(n, s, r, tensor))  # noqa: B023

    def unwritten(self, n: int, s: pr.Statement, r: pr.Read | None, tensor: str) -> Diagnostic | None:
        missing = self.writes[s.name] if r is None else self.relation(s, tensor, r.subscripts, guarded=r.default is not None)
        for m, w in self.makers.get(tensor, ()):
            if missing.is_empty():
                return None
            order = earlier(self.ctx, w, s, pr.common_loops(w, s), True, m < n).intersect_domain(self.domains[w.name])
            missing = missing.subtract(order.reverse().apply_range(self.writes[w.name]))
        found = _pair(missing, s)
        if found is None:
            return None
        subscripts = s.subscripts if r is None else r.subscripts
        place = ["_" if affine(e) is None else str(x) for e, x in zip(subscripts, found[1].values(), strict=True)]
        does = "reads" if r is not None else "updates"
        return self.refusal("E213", s, r, f"`{tensor}` is read where nothing wrote it before",
                            f"{_shown(s, found[0]) or 'it'} {does} {_element(tensor, place)}",
                            _changed_in_place(self.program.tensor(tensor)) if r is not None and tensor == s.target
                            and r.subscripts == s.subscripts and not any(m < n for m, _ in self.makers.get(tensor, ())) else
                            "write it first, or narrow the range with `where`",
                            "`else` is for what lies outside of the tensor" if r is not None and r.default is not None else "")

    def complete(self) -> Iterator[Diagnostic]:
        """Outputs have no holes."""
        known = {*self.program.inputs, *self.presumed}
        for name in (n for n in self.program.outputs if n not in known):
            t = self.program.tensor(name)
            if not any(_fills(w, t) for _, w in self.makers.get(name, ())):
                yield from self.ask(None, None, f"that every element of the output `{name}` is written",
                                    lambda: self.hole(t))  # noqa: B023

    def hole(self, t: pr.Tensor) -> Diagnostic | None:
        cells = [f"x{d}" for d in range(len(t.shape))]
        inside = " and ".join(f"{lo} <= {x} < {lo + n}" for x, lo, n in zip(cells, t.lower, t.shape, strict=True)) or "true"
        left = islpy.Set.read_from_str(self.ctx, f"{{ {isl.name(t.name)}[{', '.join(cells)}] : {inside} }}")
        for _, w in self.makers.get(t.name, ()):
            left = left.subtract(self.writes[w.name].range())
        point = _values(left)
        if point is None:
            return None
        last = next((s for s in reversed(self.program.statements) if s.target == t.name), None)
        return self.refusal("E214", last, None, f"nothing writes some elements of the output `{t.name}`",
                            f"one is {_element(t.name, point)}; its bounds are "
                            + ", ".join(f"{lo}:{lo + n}" for lo, n in zip(t.lower, t.shape, strict=True)),
                            begun(t.name, tuple((lo, lo + n - 1) for lo, n in zip(t.lower, t.shape, strict=True))),
                            CHECKED if t.name in scattered(self.program) else "")


def _changed_in_place(t: pr.Tensor) -> str:
    """What helps where nothing but the statement that reads an element writes it."""
    return "write it first; an array of the caller that is changed in place is declared in a `def`: " \
        f"`def f(inout f32[{','.join('MNKLPQRSTUVW'[:len(t.shape)])}] {t.name}) {{ ... }}`"


# ---- quick answers

def _determined(s: pr.Statement) -> bool:
    """Does every index that varies within an iteration of the loops stand alone in a subscript of the left side?"""
    plain = {f.index for f in map(affine, s.subscripts) if f is not None}
    return all(r.extent <= 1 or r.index in plain for r in s.ranges[s.depth:])


def _fills(w: pr.Statement, t: pr.Tensor) -> bool:
    """Does the statement write the whole tensor, in each iteration of its loops in which it runs at all?"""
    if w.where or any(r.extent < 1 for r in w.ranges):
        return False
    box = pr.box(w.ranges[w.depth:])
    names = [f.index if f is not None else None for f in map(affine, w.subscripts)]
    return len(set(names)) == len(names) and all(
        i is not None and i in box and box[i][0] <= lo and lo + n - 1 <= box[i][1]
        for i, lo, n in zip(names, t.lower, t.shape, strict=True))


# ---- witnesses

def _values(s: islpy.Set) -> list[int] | None:
    """One element of a set."""
    if s.is_empty():
        return None
    point = s.sample_point()
    return [point.get_coordinate_val(islpy.dim_type.set, d).to_python() for d in range(s.dim(islpy.dim_type.set))]


def _point(s: islpy.Set, of: pr.Statement) -> dict[str, int] | None:
    """One instance of a statement."""
    found = _values(s)
    return None if found is None else dict(zip(of.indices, found, strict=True))


def _pair(m: islpy.Map, of: pr.Statement) -> tuple[dict[str, int], dict[str, int]] | None:
    """One pair of a map from a statement's instances to others of it, or to elements (numbered)."""
    if m.is_empty():
        return None
    found = _values(m.wrap().flatten())
    assert found is not None
    count = len(of.indices)
    names = of.indices if len(found) == 2 * count and m.get_tuple_name(islpy.dim_type.out) == isl.name(of.name) else \
        tuple(str(d) for d in range(len(found) - count))
    return dict(zip(of.indices, found[:count], strict=True)), dict(zip(names, found[count:], strict=True))


def _value(e: pr.Expr, point: Mapping[str, int]) -> int | str:
    """A subscript at a point; '_' for a gather."""
    form = affine(e)
    box = {i: (v, v) for i, v in point.items()}
    return "_" if form is None or not indices(form) <= box.keys() else interval(form, box)[0]


def _shown(s: pr.Statement, point: Mapping[str, int]) -> str:
    """`i=1, j=0`; an index that counts down as it is called in the text."""
    down = s.downward
    return ", ".join(f"{down[i]}={-v}" if i in down else f"{i}={v}" for i, v in point.items())


def _element(tensor: str, coordinates: Sequence[object]) -> str:
    inner = ", ".join(map(str, coordinates))
    return f"{tensor}[{inner}]" if inner else tensor
