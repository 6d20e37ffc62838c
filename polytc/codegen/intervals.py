"""Intervals of index expressions: what is provably non-negative, fits 32 bits, or is a multiple of something."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from polytc.codegen import loops, traverse
from polytc.program.node import frozen
from polytc.program.scalars import I64, DType


@frozen
class Interval:
    """All values lie in low..high, both included; infinities where nothing is known."""

    low: float
    high: float

    @property
    def fits32(self) -> bool:
        return self.low >= -(2**31) and self.high < 2**31

    @property
    def is_natural(self) -> bool:
        return self.low >= 0


ANYTHING = Interval(-math.inf, math.inf)
Env: TypeAlias = Mapping[str, Interval]


def interval(e: loops.Expr, env: Env) -> Interval:
    """The interval of an integer expression of any type; of every lane, for a vector. env: intervals of the loop variables.
    Operand by operand, as targets compute it: an intermediate result that wraps has all values of its type. (The one of
    codegen.passes.simplify knows indices only, and what their sums are.)"""
    match e:
        case loops.Const():
            return Interval(int(e.value), int(e.value)) if e.dtype.kind != "f" else ANYTHING
        case loops.Var():
            ends = -math.inf if e.least is None else e.least, math.inf if e.most is None else e.most
            return env.get(e.name) or Interval(*ends)
        case loops.Ramp():
            base, last = interval(e.base, env), e.stride * (e.reach - 1)
            return Interval(base.low + min(0, last), base.high + max(0, last))
        case loops.Broadcast():
            return interval(e.a, env)
        case loops.Unary(op="-"):
            a = interval(e.a, env)
            return Interval(-a.high, -a.low)
        case loops.Binary():
            exact, width = _binary(e.op, interval(e.a, env), interval(e.b, env)), _of_dtype(e.dtype)
            wraps = -math.inf < exact.low < width.low or width.high < exact.high < math.inf
            return width if wraps else exact
        case loops.Call(fn="min" | "max" | "clamp"):
            return _limits(e.fn, [interval(a, env) for a in e.args])
        case loops.Select():
            a, b = interval(e.a, env), interval(e.b, env)
            return Interval(min(a.low, b.low), max(a.high, b.high))
        case loops.Cast() if e.dtype.is_int and e.a.dtype.is_int:
            a, width = interval(e.a, env), _of_dtype(e.dtype)
            return a if a.low >= width.low and a.high <= width.high else width
        case _:
            return _of_dtype(e.dtype)


def _of_dtype(dtype: DType) -> Interval:
    match dtype.kind:
        case "i":
            return Interval(-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
        case "u":
            return Interval(0, 2**dtype.bits - 1)
        case "b":
            return Interval(0, 1)
        case _:
            return ANYTHING


def _limits(fn: str, args: list[Interval]) -> Interval:
    if fn == "clamp":
        return _limits("min", [_limits("max", args[:2]), args[2]])
    pick = min if fn == "min" else max
    return Interval(pick(a.low for a in args), pick(a.high for a in args))


def _binary(op: str, a: Interval, b: Interval) -> Interval:
    match op:
        case "+":
            return Interval(a.low + b.low, a.high + b.high)
        case "-":
            return Interval(a.low - b.high, a.high - b.low)
        case "*":
            ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
            return Interval(min(ends), max(ends))
        case "//" if b.low == b.high and 0 < b.low < math.inf:
            return Interval(_floordiv(a.low, b.low), _floordiv(a.high, b.low))
        case "%" if b.low == b.high and 0 < b.low < math.inf:
            turns = _floordiv(a.low, b.low)
            same = math.isfinite(turns) and turns == _floordiv(a.high, b.low)
            return Interval(a.low - turns * b.low, a.high - turns * b.low) if same else Interval(0, b.low - 1)
        case "==" | "!=" | "<" | "<=" | ">" | ">=" | "&&" | "||":
            return Interval(0, 1)
        case _:
            return ANYTHING


def _times(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y


def _floordiv(x: float, y: float) -> float:
    return x if math.isinf(x) else x // y


def multiple(e: loops.Expr) -> int:
    """The largest known m such that the expression is a multiple of m; 0 if it is always 0."""
    match e:
        case loops.Const() if e.dtype.kind in "iu":
            return abs(int(e.value))
        case loops.Binary(op="+" | "-"):
            return math.gcd(multiple(e.a), multiple(e.b))
        case loops.Binary(op="*"):
            return multiple(e.a) * multiple(e.b)
        case loops.Var():
            return 1
        case _:
            return 1


def of_loop(s: loops.For, env: Env) -> Interval:
    """The values that the variable of a loop takes in its body (an empty loop gives a one-point interval)."""
    low, high = interval(s.lower, env).low, interval(s.upper, env).high - 1
    return Interval(low, max(low, high))


def trips(s: loops.For) -> int | None:
    """The iterations of a loop whose ends are numbers; None for others."""
    if not isinstance(s.lower, loops.Const) or not isinstance(s.upper, loops.Const):
        return None
    return max(0, -((int(s.lower.value) - int(s.upper.value)) // s.step))


def always_runs(s: loops.For) -> bool:
    """Has a loop an iteration, whatever the variables around it are?"""
    return interval(s.upper, {}).low > interval(s.lower, {}).high


_AFFINE = frozenset(("+", "-", "*", "//", "%"))
_COMPARE = frozenset(("==", "!=", "<", "<=", ">", ">=", "&&", "||"))


def is_index(e: loops.Expr) -> bool:
    """Whether `e` is arithmetic (or a condition) on loop variables and integer constants only, so that it cannot overflow."""
    match e:
        case loops.Var():
            return e.dtype == I64
        case loops.Const():
            return e.dtype == I64 and abs(int(e.value)) < 1 << 31
        case loops.Ramp() | loops.Broadcast() | loops.Unary(op="-"):
            return e.dtype == I64 and all(map(is_index, traverse.operands(e)))
        case loops.Binary():
            known = e.dtype == I64 if e.op in _AFFINE else e.op in _COMPARE
            return known and is_index(e.a) and is_index(e.b)
        case loops.Call():
            return e.fn in ("min", "max") and all(map(is_index, e.args))
        case _:
            return False
