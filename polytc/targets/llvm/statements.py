"""Statements and kernels of the Loop AST as LLVM functions.

A kernel is a function of its buffers, then `arena` (scratch of this thread), `launch`, `pool` and `threads`, if it is more
than parallel loops. These become functions `body(begin, end, context, arena)` over iteration numbers; `launch(pool, body,
context, n, threads, arena, arena_bytes)` of native/threads.py divides the numbers among threads. With threads == 1 the body
is called directly. Where sequential loops lie around parallel ones, the threads run them together, see thread_teams.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from polytc.codegen import intervals, loops, prefetch, traverse
from polytc.codegen.passes import unrolling
from polytc.codegen.passes.analyses import alias_analysis, work_estimate
from polytc.machine import Machine
from polytc.targets.llvm import bodies, expressions, ir, prefetches, straight_arrays, thread_teams, walks
from polytc.targets.llvm.amx import products as amx
from polytc.targets.llvm.function_state import Body

STACK_BYTES = 16 << 10
"""Local buffers larger than this live in the arena instead of the stack."""
UNROLL_LINES = 40
"""A loop over vectors with more instructions than this is not unrolled further: it costs time to compile and gains nothing."""
ALIGN = 64
RUNTIME = ("ptr %arena", "ptr %launch", "ptr %pool", "i64 %threads")


@dataclass
class Emission:
    """What the functions of a kernel share. straight: arrays that are no memory; walks: loops count the places that they walk
    over; arena_bytes: of a thread, when all is done."""

    text: ir.Text
    machine: Machine
    kernel: loops.Kernel
    flags: str
    pairs: frozenset[str] = frozenset()
    straight: frozenset[str] = frozenset()
    walks: bool = False
    arena_bytes: int = 0
    bodies: int = 0


def emit_kernel(emission: Emission) -> ir.Function:
    """The function of a kernel."""
    k = emission.kernel
    # A parallel loop's context captures the pointers.
    captured = any(isinstance(s, loops.For) and s.kind == "parallel" for s in traverse.walk_stmt(k.body))
    params = [bodies.parameter(b, b.name in k.writes, captured) for b in k.args]
    fn = ir.Function(emission.text, entry_of(k), [*params, *RUNTIME])
    fn.extra = "noinline "
    write(emission, fn, {b.name: ir.Value("ptr", f"%p.{ir.symbol(b.name)}") for b in k.args})
    amx.release(fn)
    fn.do("ret void")
    return fn


def write(emission: Emission, fn: ir.Function, pointers: dict[str, ir.Value]) -> None:
    """The statements of a kernel at the end of a function. pointers: its buffers."""
    body = Body(fn, emission.machine, emission.flags, pairs=emission.pairs)
    body.pointers = pointers
    Writer(emission, body, 0, False).statement(emission.kernel.body)


def entry_of(k: loops.Kernel) -> str:
    """The name of a kernel's function; never that of a function of the C library."""
    return f"kernel.{ir.symbol(k.name)}"


@dataclass
class Writer:
    """Writes the statements of one function. used: bytes of the arena that enclosing allocations take; parallel: whether
    we are inside of a parallel loop already; team: whose function this is, if it is one; enclosing: the loops that we are
    in."""

    emission: Emission
    body: Body
    used: int
    parallel: bool
    team: thread_teams.Team | None = None
    enclosing: prefetch.EnclosingLoops = prefetch.OUTSIDE_LOOPS

    def statement(self, s: loops.Stmt) -> None:
        match s:
            case _ if self.team is not None and thread_teams.region(self, self.team, s):
                pass
            case loops.For(kind="parallel") if not self.parallel and not traverse.runs_once(s):
                self._parallel(s)
            case loops.For() if self._begins_team(s):
                self._team(s)
            case loops.For(kind="unroll"):
                self._copies(s)
            case loops.For(kind="rolled"):
                self._apart(s)
            case loops.For():
                self._loop(s)
            case loops.If():
                self._if(s)
            case loops.Store():
                expressions.store(self.body, s)
            case loops.Block():
                self._block(s)
            case loops.Alloc():
                self._alloc(s)
            case loops.Barrier():
                pass  # work-items run one after another, phase by phase

    def _scoped(self, s: loops.Stmt, ahead: tuple[prefetch.Prefetch, ...] = ()) -> None:
        self.body.scopes.append({})
        for a in ahead:
            prefetches.emit(self.body, a)
        self.statement(s)
        self.body.scopes.pop()

    def _block(self, s: loops.Block) -> None:
        zeros: list[loops.Store] = []
        outermost = not self.parallel and self.team is None
        for run in alias_analysis.independent_runs(s.stmts) if outermost else ((x,) for x in s.stmts):
            x = run[0]
            if rows := amx.zeros_of(x, self.emission.machine):
                zeros += rows
                continue
            if isinstance(x, loops.For) and x.kind == "sequential" and self._alone(x):
                self._loop(x, zeros)
            else:
                self._stores(zeros)
                self._together(run)
            zeros = []
        self._stores(zeros)

    def _alone(self, s: loops.For) -> bool:
        """Does one thread run the loop, as part of what it does?"""
        return self.team is None and (self.parallel or not thread_teams.is_team(s))

    def _copies(self, s: loops.For) -> None:
        """The body once for each value of the variable, see passes.unrolling."""
        for value in unrolling.values(s):
            self.body.numbers[s.var], self.body.values[s.var] = value, ir.constant(value, "i64")
            self.statement(s.body)
        del self.body.numbers[s.var], self.body.values[s.var]

    def _stores(self, stores: Sequence[loops.Store]) -> None:
        for x in stores:
            expressions.store(self.body, x)

    def _loop(self, s: loops.For, zeros: Sequence[loops.Store] = ()) -> None:
        """zeros: stores right before the loop, see amx.emit."""
        left = list(zeros)
        rest = amx.emit(self.body, s, left, self.enclosing.prefetches)
        self._stores(left)
        for x in (s,) if rest is None else rest:
            self._plain_loop(x)

    def _apart(self, s: loops.For) -> None:
        """The loop in a function of its own (see passes.rerolling): its constants would be loaded before the loops around, and
        stay in registers that the tile needs."""
        fn = self.body.fn
        buffers, names = bodies.needs(s, self.body)
        name = f"{self._name()}.apart"
        inner = ir.Function(self.emission.text, name, [*self._params(s, buffers, names), "ptr %arena"])
        inner.extra = "noinline "
        nest = traverse.map_stmt(s, lambda x: replace(x, kind="sequential") if isinstance(x, loops.For) else x, lambda e: e)
        Writer(self.emission, self._inside(inner, buffers, names), self.used, True).statement(nest)
        amx.release(inner)
        inner.do("ret void")
        fn.do(f"call void @{name}({''.join(f'{x}, ' for x in self._given(buffers, names))}ptr %arena)")

    def _plain_loop(self, s: loops.For) -> None:
        lower, upper = expressions.index(self.body, s.lower), expressions.index(self.body, s.upper)
        bounds = self.body.between(s.lower, s.upper)
        around = self.enclosing
        self.enclosing, ahead = around.into(s, self.emission.kernel, self.emission.machine)
        walk = None if walks.runs_once(s) else walks.Walk(s.var, lower, s.step)
        self._count(s.var, lower, upper, s.step, bounds, s.body, walk, ahead)
        self.enclosing = around

    def _count(self, var: str, lower: ir.Value, upper: ir.Value, step: int, bounds: intervals.Interval,
               inside: loops.Stmt, walk: walks.Walk | None, ahead: tuple[prefetch.Prefetch, ...] = ()) -> None:
        """for (var = lower; var < upper; var += step) inside. ahead: what to fetch in each iteration."""
        fn = self.body.fn
        head, begin, end = fn.fresh("head"), fn.fresh("body"), fn.fresh("exit")
        before, at, start = fn.block, f"%{ir.symbol(var)}.{fn.fresh('')}", len(fn.lines)
        fn.do(f"br label %{head}")
        fn.start(head)
        fn.do("")  # the phi, whose second source is known after the body
        phi, vectors, spared = len(fn.lines) - 1, fn.vectors, fn.spared
        more = fn.compare("icmp slt", ir.Value("i64", at), upper)
        fn.do(f"br {more}, label %{begin}, label %{end}")
        fn.start(begin)
        saved = self.body.values.get(var), self.body.bounds.get(var)
        self.body.values[var], self.body.bounds[var] = ir.Value("i64", at), bounds
        walk, around = walk if self.emission.walks else None, self.body.walks
        self.body.walks = {**around, var: walk} if walk is not None else around
        self._scoped(inside, ahead)
        self.body.walks = around
        del self.body.values[var], self.body.bounds[var]
        if saved[0] is not None and saved[1] is not None:
            self.body.values[var], self.body.bounds[var] = saved[0], saved[1]
        after = fn.binary("add nsw", ir.Value("i64", at), ir.constant(step, "i64"))
        first, heads = walk.count(fn, before) if walk is not None else ([], [])
        fn.lines[start] = "\n".join((*first, fn.lines[start]))
        fn.lines[phi] = "\n".join((f"  {at} = phi i64 [ {lower.ref}, %{before} ], [ {after.ref}, %{fn.block} ]", *heads))
        large = len(fn.lines) - phi + fn.spared - spared > UNROLL_LINES and fn.vectors > vectors
        fn.do(f"br label %{head}" + (f", {fn.text.loop_metadata('llvm.loop.unroll.disable')}" if large else ""))
        fn.start(end)
        amx.configure_before(fn, start)

    def _if(self, s: loops.If) -> None:
        fn = self.body.fn
        cond = expressions.emit(self.body, s.cond)
        yes, no, end = fn.fresh("then"), fn.fresh("else"), fn.fresh("endif")
        fn.do(f"br {cond}, label %{yes}, label %{no if s.orelse is not None else end}")
        fn.start(yes)
        self._scoped(s.then)
        fn.do(f"br label %{end}")
        if s.orelse is not None:
            fn.start(no)
            self._scoped(s.orelse)
            fn.do(f"br label %{end}")
        fn.start(end)

    def _alloc(self, s: loops.Alloc) -> None:
        b, fn = s.buffer, self.body.fn
        if b.name in self.emission.straight:
            self.body.rows[b.name] = straight_arrays.Rows()
            self.statement(s.body)
            return
        size = -(-b.size * b.dtype.bytes // ALIGN) * ALIGN
        outer, used = self.body.pointers.get(b.name), self.used
        if size <= STACK_BYTES:
            self.body.pointers[b.name] = fn.alloca(ir.memory_type(b.dtype), max(1, b.size), ALIGN)
        else:
            at = f"getelementptr inbounds i8, ptr %arena, i64 {used}"
            self.body.pointers[b.name] = fn.emit("ptr", at)
            self.used += size
            self.emission.arena_bytes = max(self.emission.arena_bytes, self.used)
        self.statement(s.body)
        self.used = used
        del self.body.pointers[b.name]
        if outer is not None:
            self.body.pointers[b.name] = outer

    # ---- parallel loops

    def _together(self, run: tuple[loops.Stmt, ...]) -> None:
        """A statement, or parallel loops that never meet as one region: the iterations of one follow those of another, and are
        divided by what they weigh."""
        members = [s for s in run if isinstance(s, loops.For)] if len(run) > 1 else []
        if len(members) < len(run):
            for s in run:
                self.statement(s)
            return
        fields, calls, total = list[ir.Value](), dict[str, int](), ir.constant(0, "i64")
        for s, weight in work_estimate.heaviest_first(members):
            call, own, count = self._prepared(s)
            fields += [self._context(own), count]
            total = self.body.fn.binary("add nsw", total, bodies.weighed(self.body.fn, count, weight))
            calls[call] = weight
        name = self._name()
        bodies.in_turn(self.emission.text, name, calls)
        self._launch(name, fields, total)

    def _parallel(self, s: loops.For) -> None:
        """Outline the loop, put what it needs into a context, and launch it."""
        self._launch(*self._prepared(s))

    def _prepared(self, s: loops.For) -> tuple[str, list[ir.Value], ir.Value]:
        """Outline the loop: the name of its function, what that needs in its context, and the number of iterations."""
        fn = self.body.fn
        lower, upper = expressions.index(self.body, s.lower), expressions.index(self.body, s.upper)
        buffers, names = bodies.needs(s, self.body)
        fields = [*self._given(buffers, names), lower, upper]
        name = self._name()
        self._outline(s, name, buffers, names)
        bodies.unpack(self.emission.text, name, len(buffers), len(names) + 2)
        span = fn.binary("sub nsw", upper, lower)
        rounded = fn.binary("add nsw", span, ir.constant(s.step - 1, "i64"))
        return name, fields, rounded if s.step == 1 else fn.binary("sdiv", rounded, ir.constant(s.step, "i64"))

    def _launch(self, name: str, fields: list[ir.Value], count: ir.Value) -> None:
        """Run the function `name` on 0..count with a context of these fields; without other threads if there are none, or no
        more than one iteration."""
        fn = self.body.fn
        one = ir.constant(1, "i64")
        single, few = fn.compare("icmp sle", ir.Value("i64", "%threads"), one), fn.compare("icmp sle", count, one)
        alone = fn.binary("or", single, few)
        context = self._context(fields)
        here, team, end = fn.fresh("alone"), fn.fresh("team"), fn.fresh("done")
        fn.do(f"br {alone}, label %{here}, label %{team}")
        fn.start(here)
        fn.do(f"call void @{name}(i64 0, {count}, {context}, ptr %arena)")
        fn.do(f"br label %{end}")
        fn.start(team)
        arena = fn.emit("i64", "load i64, ptr @arena.bytes")
        fn.do(f"call void %launch(ptr %pool, ptr @{name}, {context}, {count}, i64 %threads, ptr %arena, {arena})")
        fn.do(f"br label %{end}")
        fn.start(end)

    def _context(self, fields: list[ir.Value]) -> ir.Value:
        """Memory with these fields."""
        fn = self.body.fn
        context = fn.alloca("i64", len(fields), 8)
        for i, value in enumerate(fields):
            at = fn.emit("ptr", f"getelementptr inbounds i64, {context}, i64 {i}")
            fn.do(f"store {value}, {at}, align 8")
        return context

    def _name(self) -> str:
        """A name for the next function beside the kernel's."""
        self.emission.bodies += 1
        return f"{entry_of(self.emission.kernel)}.{self.emission.bodies - 1}"

    def _outline(self, s: loops.For, name: str, buffers: list[loops.Buffer], names: list[str]) -> None:
        """The function `name.loop`: the loop with its buffers as arguments that do not alias."""
        bounds = self.body.between(s.lower, s.upper)
        params = ["i64 %begin", "i64 %end", *self._params(s, buffers, names), "i64 %lower", "i64 %upper", "ptr %arena"]
        inner = ir.Function(self.emission.text, f"{name}.loop", params)
        inner.extra = "noinline "
        writer = Writer(self.emission, self._inside(inner, buffers, names), self.used, True)
        first, last = ir.Value("i64", "%begin"), ir.Value("i64", "%end")
        if s.step != 1:
            step = ir.constant(s.step, "i64")
            first, last = inner.binary("mul nsw", first, step), inner.binary("mul nsw", last, step)
        first = inner.binary("add nsw", ir.Value("i64", "%lower"), first)
        last = inner.binary("add nsw", ir.Value("i64", "%lower"), last)
        if s.step != 1:
            last = inner.call("llvm.smin.i64", "i64", (last, ir.Value("i64", "%upper")))
        writer._count(s.var, first, last, s.step, bounds, s.body, walks.Walk(s.var, first, s.step))
        amx.release(inner)
        inner.do("ret void")

    def _given(self, buffers: list[loops.Buffer], names: list[str]) -> list[ir.Value]:
        """The arguments for `_params`."""
        return [self.body.pointers[b.name] for b in buffers] + [self.body.values[n] for n in names]

    def _params(self, s: loops.For, buffers: list[loops.Buffer], names: list[str]) -> list[str]:
        written = set(self.emission.kernel.writes)
        written |= {x.buffer.name for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)}
        return [bodies.parameter(b, b.name in written, False) for b in buffers] + [f"i64 %in.{ir.symbol(n)}" for n in names]

    def _inside(self, fn: ir.Function, buffers: list[loops.Buffer], names: list[str]) -> Body:
        """The body of a function with the parameters of `_params`."""
        body = Body(fn, self.emission.machine, self.emission.flags, pairs=self.emission.pairs)
        body.pointers = {b.name: ir.Value("ptr", f"%p.{ir.symbol(b.name)}") for b in buffers}
        body.values = {n: ir.Value("i64", f"%in.{ir.symbol(n)}") for n in names}
        body.bounds = {n: self.body.bounds.get(n, intervals.ANYTHING) for n in names}
        return body

    # ---- parallel loops inside sequential ones

    def _begins_team(self, s: loops.For) -> bool:
        return not self.parallel and self.team is None and thread_teams.is_team(s) and not traverse.runs_once(s)

    def _team(self, s: loops.For) -> None:
        """Outline the sequential loop, and have all threads run it."""
        fn = self.body.fn
        thread_teams.define(self.emission.text, self.emission.machine.architecture)
        buffers, names = bodies.needs(s, self.body)
        threads = ir.Value("i64", "%threads")
        most = fn.call("llvm.smin.i64", "i64", (threads, ir.constant(thread_teams.HANDS, "i64")))
        hands = fn.call("llvm.smax.i64", "i64", (most, ir.constant(1, "i64")))
        fields = [*self._given(buffers, []), thread_teams.memory(fn), *self._given([], names), hands]
        name = self._name()
        inner = ir.Function(self.emission.text, f"{name}.loop",
                            ["i64 %begin", "i64 %end", *self._params(s, buffers, []), "ptr %team",
                             *(f"i64 %in.{ir.symbol(n)}" for n in names), "i64 %hands", "ptr %arena"])
        inner.extra = "noinline "
        counters = [inner.alloca("i64", 1, 8) for _ in range(2)]
        for place in counters:
            inner.do(f"store i64 0, {place}, align 8")
        team = thread_teams.Team(ir.Value("ptr", "%team"), ir.Value("i64", "%hands"), ir.Value("i64", "%begin"), *counters)
        Writer(self.emission, self._inside(inner, buffers, names), self.used, False, team).statement(s)
        amx.release(inner)
        inner.do("ret void")
        bodies.unpack(self.emission.text, name, len(buffers) + 1, len(names) + 1)
        self._launch(name, fields, hands)

    def outlined(self, s: loops.For) -> Callable[[ir.Value, ir.Value, ir.Value, ir.Value], None]:
        """A parallel loop of a team as a function; how to call it for iterations begin..end, given lower and upper."""
        buffers, names = bodies.needs(s, self.body)
        name = self._name()
        self._outline(s, name, buffers, names)
        args = self._given(buffers, names)

        def call(begin: ir.Value, end: ir.Value, lower: ir.Value, upper: ir.Value) -> None:
            every = ", ".join(map(str, (begin, end, *args, lower, upper, ir.Value("ptr", "%arena"))))
            self.body.fn.do(f"call void @{name}.loop({every})")
        return call

    def alone(self, s: loops.Stmt) -> None:
        """Write what one thread of a team does for all."""
        self.body.loaded.clear()
        self.team, team, self.parallel, parallel = None, self.team, True, self.parallel
        self._scoped(s)
        self.team, self.parallel = team, parallel
