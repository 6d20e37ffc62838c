"""Loops outside of work-groups: the host runs them, and launches the kernels inside in each iteration.

    for t in 0:9 { block0 for i in 0:40 { A[i] = B[i] };  block0 for i in 0:40 { B[i] = A[i] * 2 } }    with A[40], B[40] on gpu
    ->  host for wave in 0:9 { block0 for i in 0:40 { A[i] = B[i] } }
        host for wave in 0:9 { block0 for i in 0:40 { B[i] = A[i] * 2 } }

which is how all work-groups wait for each other. `split` takes a kernel apart so, `merge` puts such kernels together again.
Kernels in a row whose `host` begins with a loop of the same variable share it; no two loops of a module have one name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from polytc.codegen import intervals, loops, size_limits, traverse
from polytc.codegen.lower import conjunction, rebuilt
from polytc.codegen.passes import simplify
from polytc.codegen.vector_lanes import has_load
from polytc.program.scalars import BOOL

GRID = ("block",)
"""Kinds of loops that a launch runs on GPUs."""
ANY = ("block", "parallel")
"""Kinds of loops that a launch may run."""


def split(module: loops.Module, kinds: Sequence[str]) -> loops.Module:
    """The module with a kernel for each nest of loops of these kinds, and for what lies between such nests."""
    within = (x for k in module.kernels for x in traverse.walk_stmt(k.body) if isinstance(x, loops.For))
    taken = Counter([*module.sizes, *(b.name for b in (*module.args, *module.scratch)), *(x.var for x in within),
                     *(x.var for k in module.kernels for x in k.host)])
    return replace(module, kernels=tuple(part for k in module.kernels for part in _parts(k, kinds, taken)))


def merge(module: loops.Module) -> loops.Module:
    """The module whose kernels hold the loops around them again."""
    found: list[loops.Kernel] = []
    names = {k.name for k in module.kernels}
    for name, run in groupby(module.kernels, key=lambda k: k.host[0].var if k.host else ""):
        together = tuple(run)
        if not name:
            found += together
            continue
        body = loops.block(*_nested([(k.host, k.body) for k in together]))
        whole = together[0].name.removesuffix("_0")
        title = whole if whole not in names else together[0].name
        found.append(rebuilt(replace(together[0], name=title, host=()), body))
    return replace(module, kernels=tuple(found))


def _nested(parts: Sequence[tuple[tuple[loops.For, ...], loops.Stmt]]) -> Iterator[loops.Stmt]:
    for name, run in groupby(parts, key=lambda x: x[0][0].var if x[0] else ""):
        together = tuple(run)
        if not name:
            yield from (body for _, body in together)
            continue
        around = together[0][0][0]
        inside = loops.block(*_nested([(host[1:], body) for host, body in together]))
        yield replace(around, body=traverse.substitute(inside, {name: loops.Var(name)}))


def _parts(kernel: loops.Kernel, kinds: Sequence[str], taken: Counter[str]) -> Iterator[loops.Kernel]:
    """taken: how many variables have a name."""
    walk = _Walk(tuple(kinds), taken)
    found = list(walk.pieces(kernel.body, kernel.host, ()))
    if len(found) == 1:
        (host, body), = found
        yield kernel if host == kernel.host else replace(kernel, host=host, body=body)
        return
    for n, (host, body) in enumerate(found):
        made = rebuilt(replace(kernel, name=f"{kernel.name}_{n}", host=host), body)
        args = tuple(b for b in kernel.args if b in made.args)
        yield replace(made, args=args, writes=tuple(w for w in kernel.writes if w in made.writes))


@dataclass
class _Walk:
    """kinds: of the loops that a launch runs; taken: how many variables have a name; env: what those of the host's loops lie
    between."""

    kinds: tuple[str, ...]
    taken: Counter[str]
    env: dict[str, intervals.Interval] = field(default_factory=dict)

    def pieces(self, s: loops.Stmt, host: tuple[loops.For, ...], tests: tuple[loops.Expr, ...]
               ) -> Iterator[tuple[tuple[loops.For, ...], loops.Stmt]]:
        """What is launched, with the loops around. tests: what must hold."""
        match s:
            case loops.Block() if self.has_nest(s):
                for nests, run in groupby(s.stmts, key=self.has_nest):
                    if nests:
                        for x in run:
                            yield from self.pieces(x, host, tests)
                    else:
                        yield host, _guarded(loops.block(*run), tests)
            case loops.If() if self.has_nest(s) and not has_load(s.cond):
                yield from self.pieces(s.then, host, (*tests, s.cond))
                if s.orelse is not None:
                    yield from self.pieces(s.orelse, host, (*tests, loops.Unary("!", s.cond, BOOL)))
            case loops.For(kind="sequential") if self.has_nest(s) and self.counts(s):
                inside = self.within(s)
                lower, upper = self.ends(s, inside)
                exact = tuple(loops.binary(op, inside, end) for op, end, kept in ((">=", s.lower, lower), ("<", s.upper, upper))
                              if simplify.expr(end, {}) != kept)
                around = loops.For(inside.name, lower, upper, s.step, loops.Block(()), title=s.title)
                yield from self.pieces(traverse.substitute(s.body, {s.var: inside}), (*host, around), (*tests, *exact))
            case _:
                yield host, _guarded(s, tests)

    def has_nest(self, s: loops.Stmt) -> bool:
        """Are there loops that a launch runs?"""
        return any(isinstance(x, loops.For) and x.kind in self.kinds for x in traverse.walk_stmt(s))

    def counts(self, s: loops.For) -> bool:
        """Can the host run the loop: its bounds are arithmetic, whose numbers a kernel takes?"""
        known = intervals.of_loop(s, self.env)
        finite = [abs(end) < 1 << 31 for end in (known.low, known.high)]
        exact = [size_limits.formula(e) is not None for e in (s.lower, s.upper)]
        lower, upper = (f or e for f, e in zip(finite, exact, strict=True))
        return lower and upper and (exact[0] or s.step == 1) and intervals.is_index(s.lower) and intervals.is_index(s.upper)

    def within(self, s: loops.For) -> loops.Var:
        """The variable of a loop of the host, with the ends that it has."""
        name = self.fresh(s)
        known = self.env[name] = intervals.of_loop(s, self.env)
        ends = [None if abs(end) == float("inf") else int(end) for end in (known.low, known.high)]
        return loops.Var(name, least=ends[0], most=ends[1])

    def ends(self, s: loops.For, inside: loops.Var) -> tuple[loops.Expr, loops.Expr]:
        """The bounds of a loop where the host can compute them, else numbers below and above them."""
        lower, upper = simplify.expr(s.lower, {}), simplify.expr(s.upper, {})
        if size_limits.formula(lower) is None and inside.least is not None and s.step == 1:
            lower = loops.const(inside.least)
        if size_limits.formula(upper) is None and inside.most is not None:
            upper = loops.const(inside.most + 1)
        return lower, upper

    def fresh(self, s: loops.For) -> str:
        """A name for a loop that no other variable has; one over nothing that an index is made of counts waves of tiles."""
        self.taken[s.var] -= 1
        title = s.title or "wave"
        name, number = title, 1
        while self.taken[name] > 0:
            number += 1
            name = f"{title}_{number}"
        self.taken[name] += 1
        return name


def _guarded(s: loops.Stmt, tests: tuple[loops.Expr, ...]) -> loops.Stmt:
    """The statement under conditions, which stand inside of the loops over work-groups and items around it."""
    if not tests:
        return s
    if isinstance(s, loops.For) and s.kind in ("block", "thread", "parallel"):
        return replace(s, body=_guarded(s.body, tests))
    return loops.If(conjunction(tests), s)
