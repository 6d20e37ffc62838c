"""What statements of the Loop AST do, one store after another and lane by lane: the oracle of the tests of passes, which shares
the tree with them and nothing else. Arrays hold whole numbers, which are exact in any order; what is undefined is no number."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from polytc.codegen import loops as L

Number = int | float | bool
Event = tuple[str, tuple[int, ...], Number]
"""(buffer, place, value) of a store."""
_BINARY: dict[str, Callable[[Number, Number], Number]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "/": operator.truediv,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "&&": lambda a, b: bool(a) and bool(b), "||": lambda a, b: bool(a) or bool(b)}
_CALLS: dict[str, Callable[..., Number]] = {"min": min, "max": max, "abs": abs, "fma": lambda a, b, c: a * b + c}


@dataclass
class Run:
    """arrays: by buffer; loads outside of them, or of what was never stored, fail. stores: in their order."""

    arrays: dict[str, np.ndarray]
    stores: list[Event] = field(default_factory=list)

    def module(self, m: L.Module) -> Run:
        """Kernels in a row whose `host` begins with a loop of one variable share it."""
        self._hosted([(k.host, k.body) for k in m.kernels], {})
        return self

    def _hosted(self, parts: list[tuple[tuple[L.For, ...], L.Stmt]], env: dict[str, int]) -> None:
        for name, run in groupby(parts, key=lambda x: x[0][0].var if x[0] else ""):
            together = list(run)
            if not name:
                for _, body in together:
                    self.statement(body, env)
                continue
            around = together[0][0][0]
            for n in self._range(around, env):
                self._hosted([(host[1:], body) for host, body in together], {**env, name: n})

    def _range(self, s: L.For, env: dict[str, int]) -> range:
        return range(int(self.lane(s.lower, 0, env)), int(self.lane(s.upper, 0, env)), s.step)

    def statement(self, s: L.Stmt, env: dict[str, int]) -> Run:
        match s:
            case L.For():
                for n in self._range(s, env):
                    self.statement(s.body, {**env, s.var: n})
            case L.If():
                chosen = s.then if self.lane(s.cond, 0, env) else s.orelse
                if chosen is not None:
                    self.statement(chosen, env)
            case L.Block():
                for x in s.stmts:
                    self.statement(x, env)
            case L.Alloc():
                self.arrays[s.buffer.name] = np.full(s.buffer.shape, np.nan)
                self.statement(s.body, env)
            case L.Store():
                lanes = max([s.value.lanes, *(i.lanes for i in s.indices)])
                counting = [n for n in range(lanes) if self.counts(s.indices, n, env)]
                values = [(self.place(s.buffer, s.indices, n, env), self.lane(s.value, n, env)) for n in counting]
                for place, value in values:
                    self.arrays[s.buffer.name][place] = value
                    self.stores.append((s.buffer.name, place, value))
        return self

    def counts(self, indices: tuple[L.Expr, ...], n: int, env: dict[str, int]) -> bool:
        """Does an access touch anything in this lane?"""
        active = [i.active for i in indices if isinstance(i, L.Ramp) and i.active is not None]
        return all(n < a if isinstance(a, int) else self.lane(a, n, env) for a in active)

    def place(self, b: L.Buffer, indices: tuple[L.Expr, ...], n: int, env: dict[str, int]) -> tuple[int, ...]:
        place = tuple(int(self.lane(i, n, env)) for i in indices)
        assert len(place) == len(b.shape), (b, indices)
        assert all(0 <= x < extent for x, extent in zip(place, self.arrays[b.name].shape, strict=True)), \
            f"{b.name}[{', '.join(map(L.format_expr, indices))}] is at {place}, lane {n}, {env}"
        return place

    def lane(self, e: L.Expr, n: int, env: dict[str, int]) -> Number:
        """One lane of an expression; what a Select does not choose is not looked at."""
        n = n if e.lanes > 1 else 0
        match e:
            case L.Var():
                return env[e.name]
            case L.Const():
                return e.value
            case L.Ramp():
                return int(self.lane(e.base, 0, env)) + n * e.stride
            case L.Broadcast():
                return self.lane(e.a, 0, env)
            case L.Load():
                return self._load(e, n, env)
            case L.Select():
                return self.lane(e.a if self.lane(e.cond, n, env) else e.b, n, env)
            case L.Unary():
                a = self.lane(e.a, n, env)
                return (not a) if e.op == "!" else -a
            case L.Cast():
                return int(self.lane(e.a, n, env)) if e.dtype.is_int else self.lane(e.a, n, env)
            case L.Binary():
                assert {e.a.lanes, e.b.lanes} == {e.lanes}, L.format_expr(e)
                return _BINARY[e.op](self.lane(e.a, n, env), self.lane(e.b, n, env))
            case L.Call():
                return _CALLS[e.fn](*(self.lane(a, n, env) for a in e.args))
            case L.Reduce():
                parts = [self.lane(e.a, k, env) for k in range(e.a.lanes)]
                return sum(parts) if e.op == "+" else _CALLS[e.op](parts)
            case L.Shuffle():
                k = e.order[n]
                return self.lane(e.a, k, env) if k < e.a.lanes else self.lane(e.b, k - e.a.lanes, env)

    def _load(self, e: L.Load, n: int, env: dict[str, int]) -> Number:
        if not self.counts(e.indices, n, env):
            return float("nan")
        found = self.arrays[e.buffer.name][self.place(e.buffer, e.indices, n, env)]
        return int(found) if e.dtype.is_int else float(found)


def arrays_of(*buffers: L.Buffer, seed: int = 0) -> dict[str, np.ndarray]:
    """Whole numbers in each buffer."""
    rng = np.random.default_rng(seed)
    return {b.name: rng.integers(1, 99, b.shape).astype(np.int64 if b.dtype.is_int else np.float64) for b in buffers}


def stores(s: L.Stmt | L.Module, arrays: dict[str, np.ndarray]) -> list[Event]:
    """What it stores; the arrays stay."""
    run = Run({n: a.copy() for n, a in arrays.items()})
    return (run.module(s) if isinstance(s, L.Module) else run.statement(s, {})).stores


def results(s: L.Stmt | L.Module, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays as it leaves them."""
    run = Run({n: a.copy() for n, a in arrays.items()})
    done = run.module(s) if isinstance(s, L.Module) else run.statement(s, {})
    return {n: done.arrays[n] for n in arrays}
