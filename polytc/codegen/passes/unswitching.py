"""Loop unswitching: what a condition leaves out of an accumulation whole loops at a time is tested once, before the loop.

    for i in 0:9 { for j in 0:640 { s[i] = s[i] * select(K[i] > 0, A[i,j], 1) } }       with s[9], K[9], A[9,640] on cpu
    ->  for i in 0:9 { if K[i] > 0 { for j in 0:640 { s[i] = s[i] * A[i,j] } } }

A `where` that asks memory is a choice between a value and the identity of the operator, made for every element. Where it is the
same for all elements of a loop, the loop does not run at all if it fails, and needs no choice if it holds. (Allen & Cocke, A
Catalogue of Optimizing Transformations, 1972.) A branch that is foretold wrongly costs what some dozens of operations do, so
that less than that keeps its choices. Guarantees: the same stores, but for those that would store what is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from polytc.codegen import loops, traverse
from polytc.codegen.lower import conjunction, conjuncts
from polytc.codegen.passes.analyses import work_estimate
from polytc.machine import Machine
from polytc.program.scalars import REDUCTIONS, identity


def unswitch_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel with conditions in front of loops. On GPUs items have a value each, and a branch of one is one of all."""
    if machine.kind != "cpu":
        return kernel
    costs = machine.costs.arithmetic
    least = 2 * costs.mispredicted / costs.vector
    return replace(kernel, body=_Unswitching(least, _from_zero(kernel)).closed(kernel.body))


@dataclass(frozen=True)
class _Part:
    """tested: a statement as it was, or with tests inside; plain: what it is where all conditions hold, which are the same
    wherever it computes something. No condition: both are the same."""

    tested: loops.Stmt
    plain: loops.Stmt
    conditions: tuple[loops.Expr, ...] = ()


@dataclass(frozen=True)
class _Unswitching:
    """least: operations that a test in front of them is worth. from_zero: buffers of sums that are never -0.0."""

    least: float
    from_zero: frozenset[str]

    def closed(self, s: loops.Stmt) -> loops.Stmt:
        """The statement with all tests inside of it."""
        return self._with_test(self._part(s))

    def _with_test(self, part: _Part) -> loops.Stmt:
        if not part.conditions or work_estimate.operations(part.plain, {}) < self.least:
            return part.tested
        return loops.If(conjunction(part.conditions), part.plain)

    def _part(self, s: loops.Stmt) -> _Part:
        match s:
            case loops.Store():
                return _store(s, self.from_zero)
            case loops.Block():
                return self._sequence(s)
            case loops.For():
                inside = self._part(s.body)
                moves = s.kind in ("sequential", "unroll", "rolled") and _invariant(inside, s.var)
                return _around(inside, lambda x: replace(s, body=x)) if moves else _alone(
                    replace(s, body=self._with_test(inside)))
            case loops.Alloc():
                return _alone(replace(s, body=self.closed(s.body)))
            case loops.If():
                return _alone(loops.If(s.cond, self.closed(s.then), self.closed(s.orelse) if s.orelse is not None else None))
            case _:
                return _alone(s)

    def _sequence(self, s: loops.Block) -> _Part:
        """Neighbours under the same conditions share a test."""
        groups: list[_Part] = []
        for x in s.stmts:
            part = self._part(x)
            last = groups[-1] if groups else None
            if last is not None and last.conditions and last.conditions == part.conditions:
                groups[-1] = _Part(loops.block(last.tested, part.tested), loops.block(last.plain, part.plain), part.conditions)
            else:
                groups.append(part)
        groups = [p if _invariant(p, None) else _alone(p.tested) for p in groups]
        return groups[0] if len(groups) == 1 else _alone(loops.block(*map(self._with_test, groups)))


def _alone(s: loops.Stmt) -> _Part:
    return _Part(s, s)


def _around(inside: _Part, build: Callable[[loops.Stmt], loops.Stmt]) -> _Part:
    return _Part(build(inside.tested), build(inside.plain), inside.conditions)


def _from_zero(kernel: loops.Kernel) -> frozenset[str]:
    """What a kernel allocates, fills with 0.0 and only adds to: to add 0.0 once more changes nothing there, where -0.0 would
    become 0.0."""
    found = {s.buffer.name for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Alloc)}
    for s in traverse.walk_stmt(kernel.body):
        if isinstance(s, loops.Store):
            none = traverse.repeated(s.value)
            zero = isinstance(none, loops.Const) and str(none.value) == "0.0"
            adds = isinstance(s.value, loops.Binary) and s.value.op == "+" and _before(s.value.a, s)
            found -= set() if zero or adds else {s.buffer.name}
    return frozenset(found)


def _before(e: loops.Expr, s: loops.Store) -> bool:
    """Is it what lies where the statement stores?"""
    return isinstance(e, loops.Load) and e.buffer == s.buffer and e.indices == s.indices


def _store(s: loops.Store, from_zero: frozenset[str]) -> _Part:
    """`a[i] = a[i] op (cond ? v : identity)`: the conditions that all its lanes share."""
    combined = _combined(s)
    if combined is None:
        return _alone(s)
    op, before, choice = combined
    if op == "+" and s.value.dtype.is_float and s.buffer.name not in from_zero:
        return _alone(s)
    shared, own = list[loops.Expr](), list[loops.Expr]()
    for c in conjuncts(choice.cond):
        scalar = traverse.repeated(c)
        (shared if scalar.lanes == 1 else own).append(c)
    if not shared:
        return _alone(s)
    value = replace(choice, cond=conjunction(own)) if own else choice.a
    operands = (before, value)
    plain = replace(s, value=traverse.with_operands(s.value, operands))
    return _Part(s, plain, tuple(map(traverse.repeated, shared)))


def _combined(s: loops.Store) -> tuple[str, loops.Expr, loops.Select] | None:
    """(operator, what is there before, the choice that is combined with it), if that is all the store does."""
    match s.value:
        case loops.Binary(op=op, a=loops.Load() as before, b=loops.Select() as choice):
            pass
        case loops.Call(fn=op, args=(loops.Load() as before, loops.Select() as choice)):
            pass
        case _:
            return None
    if op not in REDUCTIONS or not _before(before, s):
        return None
    none = traverse.repeated(choice.b)
    return (op, before, choice) if isinstance(none, loops.Const) and none.value == identity(op, none.dtype) else None


def _invariant(part: _Part, var: str | None) -> bool:
    """Are the conditions the same in all iterations of a loop over `var`, and whatever the statement has stored?"""
    stored = {x.buffer.name for x in traverse.walk_stmt(part.plain) if isinstance(x, loops.Store)}
    return not any(var in traverse.variables(c) or any(load.buffer.name in stored for load, _ in traverse.loads(c))
                   for c in part.conditions)
