"""Work-groups with enough to do: on CPUs, where each is a call of the driver, several iterations of a parallel loop are one.

    parallel for i in 0:100000 { Y[i] = X[i] }          with X[100000], Y[100000] on cpu
    ->  parallel for i_group in 0:65 { for i in i_group * 1562 : min(i_group * 1562 + 1562, 100000) { Y[i] = X[i] } }
"""

from __future__ import annotations

from dataclasses import replace

from polytc.codegen import intervals, loops, traverse
from polytc.codegen.passes.analyses import work_estimate
from polytc.machine import Machine
from polytc.program.scalars import I64


def coarsen(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel whose outermost parallel loops, if their bounds are constant, have fewer iterations of more work each."""
    return replace(kernel, body=_top(kernel.body, machine)) if machine.kind == "cpu" else kernel


def _top(s: loops.Stmt, machine: Machine) -> loops.Stmt:
    match s:
        case loops.Block():
            return replace(s, stmts=tuple(_top(x, machine) for x in s.stmts))
        case loops.For(kind="parallel"):
            return _nest(s, 1, machine)
        case _:
            return s


def _nest(s: loops.For, around: int, machine: Machine) -> loops.For:
    """around: iterations of the parallel loops outside. The innermost of perfectly nested ones is cut."""
    count = _constant_trips(s)
    if count is None:
        return s
    if isinstance(s.body, loops.For) and s.body.kind == "parallel":
        return replace(s, body=_nest(s.body, around * count, machine))
    stored = max(1, _stored(s.body, {s.var: intervals.of_loop(s, {})}))
    size = min(-(-machine.costs.groups.coarse // stored), around * count // (machine.costs.groups.per_core * machine.cores))
    return _cut(s, count, size) if size > 1 else s


def _constant_trips(s: loops.For) -> int | None:
    """The iterations of a loop of constant bounds and step 1."""
    if isinstance(s.lower, loops.Const) and isinstance(s.upper, loops.Const) and s.step == 1:
        return max(0, int(s.upper.value - s.lower.value))
    return None


def _cut(s: loops.For, count: int, size: int) -> loops.For:
    """The loop over groups of `size` iterations around the loop over one group."""
    group = loops.Var(f"{s.var}_group")
    first = loops.binary("+", loops.binary("*", group, loops.const(size)), s.lower)
    last = loops.binary("+", first, loops.const(size))
    end = last if count % size == 0 else loops.Call("min", (last, s.upper), I64)
    inner = replace(s, lower=first, upper=end, kind="sequential")
    title = f"{s.title}_group" if s.title else ""
    return loops.For(group.name, loops.const(0), loops.const(-(-count // size)), 1, inner, "parallel", title=title)


def _stored(s: loops.Stmt, env: intervals.Env) -> int:
    """Elements that a statement stores, each time that it does, but for what it only moves in registers; a loop whose
    iterations are not known counts as one."""
    match s:
        case loops.Store(value=loops.Load() | loops.Shuffle()) if s.buffer.space == "private":
            return 0
        case loops.Store():
            return max([s.value.lanes, *(i.lanes for i in s.indices)])
        case loops.For():
            count = work_estimate.iterations(s, env)
            return (1 if count is None else count) * _stored(s.body, {**env, s.var: intervals.of_loop(s, env)})
        case _:
            return sum(_stored(x, env) for x in traverse.children(s))
