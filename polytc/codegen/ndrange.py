"""NDRange: how the block and thread loops of a kernel become work-groups and work-items.

Block loops are outermost: one around the other, with nothing but allocations and guards between them; several may share an
axis, whose group number they divide among themselves as digits. Thread loops lie anywhere inside, each axis meaning the same
work-item everywhere. Without any block or thread loop, up to three perfectly nested outermost 'parallel' loops of constant
extents become work-groups of one work-item; the rest of a kernel is sequential. Nests that stand in sequence, or in sequential
loops, are kernels of their own (see passes.host_loops), since groups cannot wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from polytc import errors
from polytc.codegen import intervals, loops, size_limits, traverse
from polytc.program.extents import Extent, times

errors.register(E510="the loops of a kernel do not fit an NDRange", E511="barrier under divergent control")


@dataclass(frozen=True)
class Digit:
    """The iteration of a block loop as a part of its axis' group number: number // divisor % count (without the remainder where
    it is the highest digit)."""

    divisor: Extent
    count: Extent
    highest: bool


@dataclass(frozen=True)
class NDRange:
    """groups: work-groups on axes 0, 1, 2, numbers or products of sizes; items: work-items of a group on each axis (both 1
    where an axis is unused).
    thread_axes: the axes that some thread loop uses. digits: block loop variable -> its part of the group number."""

    groups: tuple[Extent, ...]
    items: tuple[int, ...]
    thread_axes: tuple[int, ...]
    digits: Mapping[str, Digit]

    @property
    def rank(self) -> int:
        """Number of axes that a launch states: at least 1."""
        return max([a + 1 for a in range(3) if self.groups[a] != 1 or self.items[a] != 1], default=1)

    @property
    def local_size(self) -> tuple[int, ...]:
        return self.items[:self.rank]

    @property
    def global_size(self) -> tuple[Extent, ...]:
        return tuple(times(g, i) for g, i in zip(self.groups, self.items, strict=True))[:self.rank]


def prepare(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel to launch: its outermost 'parallel' loops are block loops where it has no block or thread loops of its own."""
    if any(isinstance(s, loops.For) and s.kind in ("block", "thread") for s in traverse.walk_stmt(kernel.body)):
        return kernel
    chain: list[loops.For] = []
    s: loops.Stmt = kernel.body
    while len(chain) < 3 and isinstance(s, loops.For) and s.kind == "parallel" and count(s, {}) is not None:
        chain.append(s)
        s = s.body
    for axis, loop in enumerate(reversed(chain)):
        s = replace(loop, kind="block", axis=axis, body=s)
    return replace(kernel, body=s) if chain else kernel


def trips(s: loops.For, env: intervals.Env) -> int | None:
    """Upper bound on the number of iterations; None if it is not known to be finite."""
    low, high = intervals.interval(s.lower, env).low, intervals.interval(s.upper, env).high
    count = max(0.0, -((low - high) // s.step)) if abs(low) + abs(high) != float("inf") else float("inf")
    return int(count) if count != float("inf") else None


def count(s: loops.For, env: intervals.Env) -> Extent | None:
    """The number of iterations, or an upper bound on it; a product of sizes where these are not fixed. None: it is neither."""
    number = trips(s, env)
    if number is not None or s.lower != loops.const(0) or s.step != 1:
        return number
    return size_limits.extent(s.upper)


def fills(s: loops.For, nd: NDRange, env: intervals.Env) -> bool:
    """Whether every work-item (or group) of the axis runs the body exactly once, so that no guard is needed."""
    lower, upper = intervals.interval(s.lower, env), intervals.interval(s.upper, env)
    if trips(s, env) is None:
        return True  # as many groups as the formula says
    size = nd.digits[s.var].count if s.kind == "block" else nd.items[s.axis]
    return lower.low == lower.high and upper.low == upper.high and trips(s, env) == size


def extract(kernel: loops.Kernel, known: intervals.Env | None = None, counted: bool = True) -> NDRange:
    """The NDRange of a prepared kernel. known: intervals of the variables of loops around it; counted: are the groups? Who
    walks them one after another needs no number, which sizes may decide.

    Raises TargetError E510 if a block or thread loop has no constant extent or stands in the wrong place, E511 for a barrier
    that some work-items of a group may not reach.
    """
    found = list(mapped_loops(kernel.body, env=known))
    items, axes = [1, 1, 1], set()
    counts: dict[str, tuple[int, Extent]] = {}
    for loop, around, env in found:
        number = trips(loop, env) if loop.kind == "thread" else count(loop, env) if counted else 1
        if number is None or isinstance(number, int) and int(number) >= 2**31 or loop.axis not in (0, 1, 2):
            raise _refuse(kernel, f"the {loop.kind} loop over '{loop.var}' has no constant extent on axis 0, 1 or 2")
        if loop.kind == "block":
            outermost = not any(isinstance(s, loops.For) and s.kind != "block" or isinstance(s, loops.Block) for s in around)
            if not outermost or loop.var in counts:
                raise _refuse(kernel, f"the block loop over '{loop.var}' is not outermost")
            counts[loop.var] = (loop.axis, 1 if number == 0 else number)
        else:
            assert isinstance(number, int)
            check_axis(kernel, loop, around)
            items[loop.axis] = max(items[loop.axis], 1, number)
            axes.add(loop.axis)
    groups, digits = _digits(counts)
    nd = NDRange(groups, tuple(items), tuple(sorted(axes)), digits)
    _check_barriers(kernel, kernel.body, nd, {}, frozenset(), None)
    return nd


def check_axis(kernel: loops.Kernel, loop: loops.For, around: Sequence[loops.Stmt]) -> None:
    """Raises TargetError E510 for a thread loop inside of another one of its axis. around: the statements around it."""
    for s in around:
        if isinstance(s, loops.For) and s.kind == loop.kind == "thread" and s.axis == loop.axis:
            inner, outer = (x.title or x.var for x in (loop, s))
            raise _refuse(kernel, f"the thread loop over '{inner}' lies in another one of axis {loop.axis}, over '{outer}'", [
                "bind one of them to another axis of `block`: loops share an axis only where one directly surrounds the other, "
                "around all else"])


def _digits(counts: dict[str, tuple[int, Extent]]) -> tuple[tuple[Extent, ...], dict[str, Digit]]:
    """Groups on each axis and each block loop's digit. counts: variable -> axis and extent, outermost first."""
    groups: list[Extent] = [1, 1, 1]
    digits: dict[str, Digit] = {}
    for var, (axis, number) in reversed(counts.items()):
        divisor, groups[axis] = groups[axis], times(groups[axis], number)
        digits[var] = Digit(divisor, number, highest=True)
    for var, (axis, _) in counts.items():
        d = digits[var]
        digits[var] = replace(d, highest=times(d.divisor, d.count) == groups[axis])
    return tuple(groups), digits


def mapped_loops(s: loops.Stmt, around: tuple[loops.Stmt, ...] = (), env: intervals.Env | None = None,
                 ) -> Iterator[tuple[loops.For, tuple[loops.Stmt, ...], intervals.Env]]:
    """Block and thread loops with the statements around each, outermost first, and the intervals of the variables there."""
    env = env or {}
    match s:
        case loops.For():
            if s.kind in ("block", "thread"):
                yield s, around, env
            yield from mapped_loops(s.body, (*around, s), {**env, s.var: intervals.of_loop(s, env)})
        case loops.Block():
            for part in s.stmts:
                yield from mapped_loops(part, (*around, s), env)
        case loops.If():
            yield from mapped_loops(s.then, (*around, s), env)
            if s.orelse is not None:
                yield from mapped_loops(s.orelse, (*around, s), env)
        case loops.Alloc():
            yield from mapped_loops(s.body, (*around, s), env)
        case _:
            pass


def _check_barriers(kernel: loops.Kernel, s: loops.Stmt, nd: NDRange, env: intervals.Env,
                    divergent: frozenset[str], reason: str | None) -> None:
    """reason: why not every work-item of a group reaches this place, None if all do. divergent: variables that differ among
    the work-items of a group."""
    match s:
        case loops.Barrier() if reason is not None:
            raise errors.fail("E511", f"kernel '{kernel.name}': a barrier stands under {reason}", kind=errors.TargetError,
                              notes=["every work-item of a group must reach every barrier"])
        case loops.For():
            varies = s.kind == "thread" or _varies(s.lower, divergent) or _varies(s.upper, divergent)
            if s.kind == "thread" and not fills(s, nd, env):
                reason = reason or f"the thread loop over '{s.var}', which does not use all work-items"
            elif s.kind != "thread" and varies:
                reason = reason or f"the loop over '{s.var}', whose bounds differ among work-items"
            inner = divergent | {s.var} if varies else divergent - {s.var}
            _check_barriers(kernel, s.body, nd, {**env, s.var: intervals.of_loop(s, env)}, inner, reason)
        case loops.If():
            if _varies(s.cond, divergent):
                reason = reason or "a condition that differs among work-items"
            for branch in (s.then, s.orelse):
                if branch is not None:
                    _check_barriers(kernel, branch, nd, env, divergent, reason)
        case loops.Block():
            for part in s.stmts:
                _check_barriers(kernel, part, nd, env, divergent, reason)
        case loops.Alloc():
            _check_barriers(kernel, s.body, nd, env, divergent, reason)
        case _:
            pass


def _varies(e: loops.Expr, divergent: frozenset[str]) -> bool:
    """Whether a value may differ among the work-items of a group: it has a divergent variable or reads memory."""
    return any(isinstance(x, loops.Load) or isinstance(x, loops.Var) and x.name in divergent for x in traverse.walk_expr(e))


def _refuse(kernel: loops.Kernel, why: str, notes: Sequence[str] = ()) -> errors.CompileError:
    return errors.fail("E510", f"kernel '{kernel.name}': {why}", kind=errors.TargetError, notes=notes or [
        "block loops must be outermost; block and thread loops must have constant extents"])
