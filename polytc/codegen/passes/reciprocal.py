"""Divisions by what a loop does not change are multiplications by its reciprocal.

    for j in 0:64 { Y[j] = X[j] / s[] }                 with X[64], Y[64], s[], fast
    ->  alloc private f32 reciprocal[1];  reciprocal[0] = 1.0 / s[]
        if abs(s[]) >= 1.1754943508222875e-38 && abs(s[]) <= 8.507059173023462e+37 {
            for j in 0:64 { Y[j] = X[j] * reciprocal[0] }
        } else { for j in 0:64 { Y[j] = X[j] / s[] } }

A vector division takes about ten times as long as a multiplication. The product is off by one rounding more, which `fast`
kernels may be; outside of the range, where the reciprocal would overflow or lose digits, the division stays.
A loop without an iteration does not read the divisor, which may lie nowhere then.
Guarantees: the same values within 1.5 units in the last place; zero, infinite and NaN operands give what they gave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from polytc.codegen import intervals, loops, traverse
from polytc.codegen.passes import unrolling
from polytc.program.names import fresh
from polytc.program.scalars import DType

EXPONENTS = {32: 126, 64: 1022}
"""Bits of a float -> the e of the range in which a reciprocal is a normal number with all its digits."""


def use_reciprocals(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with the divisions in its innermost loops so rewritten, if it is `fast`."""
    if not kernel.fast:
        return kernel
    taken = traverse.buffer_names(kernel)

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        sequential = isinstance(s, loops.For) and s.kind == "sequential" and not _repeats(s.lower, s.upper)
        innermost = not any(isinstance(x, loops.For | loops.If) and not unrolling.is_copies(x) for c in traverse.children(s)
                            for x in traverse.walk_stmt(c))
        return _loop(s, taken) if isinstance(s, loops.For) and sequential and innermost else s

    return replace(kernel, body=traverse.map_stmt(kernel.body, on_stmt, lambda e: e))


def _repeats(lower: loops.Expr, upper: loops.Expr) -> bool:
    """Is the loop one of a single iteration, that only gives its variable a value?"""
    return loops.binary("+", lower, loops.const(1)) == upper


def _loop(s: loops.For, taken: set[str]) -> loops.Stmt:
    """The loop, in two variants if there is one divisor that it does not change."""
    divisors = dict.fromkeys(traverse.repeated(e.b) for x in traverse.walk_stmt(s.body) for top in traverse.expressions(x)
                             for e in traverse.walk_expr(top) if _divides(e) and _fixed(traverse.repeated(e.b), s))
    if len(divisors) != 1:
        return s
    d = next(iter(divisors))
    name = fresh("reciprocal", taken)
    taken.add(name)
    array = loops.Buffer(name, d.dtype, (1,), "private")
    value = loops.Load(array, (loops.const(0),), d.dtype)

    def on_expr(e: loops.Expr) -> loops.Expr:
        if not _divides(e) or traverse.repeated(e.b) != d:
            return e
        factor = value if e.b.lanes == 1 else loops.Broadcast(value, e.b.lanes, d.dtype)
        return loops.Binary("*", e.a, factor, e.dtype, e.lanes)

    quick = traverse.map_stmt(s, lambda x: x, lambda e: traverse.map_expr(e, on_expr))
    one = loops.Store(array, (loops.const(0),), loops.Binary("/", loops.Const(1.0, d.dtype), d, d.dtype))
    both = loops.Alloc(array, loops.block(one, loops.If(_normal(d), quick, s)))
    return both if intervals.always_runs(s) else loops.If(loops.binary("<", s.lower, s.upper), both)


def _divides(e: loops.Expr) -> TypeGuard[loops.Binary]:
    return isinstance(e, loops.Binary) and e.op == "/" and e.dtype.is_float and e.dtype.bits in EXPONENTS


def _fixed(d: loops.Expr, s: loops.For) -> bool:
    """Is a divisor one number for all iterations, and not known already?"""
    stored = {x.buffer for x in traverse.walk_stmt(s.body) if isinstance(x, loops.Store)}
    own = {x.buffer for x in traverse.walk_stmt(s.body) if isinstance(x, loops.Alloc)}
    moves = any((isinstance(e, loops.Var) and e.name == s.var) or (isinstance(e, loops.Load) and e.buffer in stored | own)
                for e in traverse.walk_expr(d))
    return d.lanes == 1 and isinstance(d, loops.Load) and not moves


def is_normal(divisor: float, dtype: DType) -> bool:
    """Has a number a reciprocal with all its digits?"""
    return dtype.bits in EXPONENTS and 2.0**-EXPONENTS[dtype.bits] <= abs(divisor) <= 2.0**EXPONENTS[dtype.bits]


def _normal(d: loops.Expr) -> loops.Expr:
    """Has the divisor a reciprocal with all its digits?"""
    size = loops.Call("abs", (d,), d.dtype)
    low, high = (_power(e, d.dtype) for e in (-EXPONENTS[d.dtype.bits], EXPONENTS[d.dtype.bits]))
    return loops.binary("&&", loops.binary(">=", size, low), loops.binary("<=", size, high))


def _power(exponent: int, dtype: DType) -> loops.Const:
    return loops.Const(2.0**exponent, dtype)
