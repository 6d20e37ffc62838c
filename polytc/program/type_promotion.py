"""Typing of operators: numpy's promotion, with Python numbers, sizes and index values weak.

A weak value takes the type of the strong operand that it meets: `2 * A[i]` has A's type if A is an integer or a float tensor.
A weak integer meeting a float becomes that float; a weak float meeting an integer makes f64.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polytc import errors
from polytc.errors import Span
from polytc.program import complex_arithmetic, scalars
from polytc.program import program as pr
from polytc.program.node import frozen
from polytc.program.scalars import BOOL, C128, F32, F64, I64, U64, UNKNOWN, DType
from polytc.program.traces.traced import traced, whole

errors.register(E312="operation that complex numbers do not have")


class TypeProblem(Exception):
    """A type error without its place: code, message, notes. dtype: the type that the value has all the same, where one of its
    numbers alone is wrong."""

    def __init__(self, code: str, message: str, *notes: str, dtype: DType | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.notes, self.dtype = code, message, notes, dtype
        self.span: Span | None = None


@frozen
class Value:
    """A typed expression; weak_type: it came from Python numbers and indices alone (its type is then i64, f64 or c128)."""

    expr: pr.Expr
    weak_type: bool = False

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    @property
    def number(self) -> Any:
        """The number of a constant, an int, float, bool or complex, else None."""
        return self.expr.value if isinstance(self.expr, pr.Const) else None


_HUGE = 1 << 1023
"""Integers beyond this are no floats either."""


def number(value: complex) -> Value:
    """A literal: bool is strong, int, float and complex are weak."""
    if isinstance(value, complex):
        return Value(complex_arithmetic.constant(value, C128), weak_type=True)
    if isinstance(value, bool):
        return Value(pr.Const(value, BOOL))
    if isinstance(value, int) and abs(value) >= _HUGE:
        raise TypeProblem("E306", f"a number of {value.bit_length()} bits fits no type",
                          "integers have 64 bits, floats reach 1.8e308")
    return Value(pr.Const(value, I64 if isinstance(value, int) else F64), weak_type=True)


def common(a: Value, b: Value) -> DType:
    """The type that both operands take."""
    if UNKNOWN in (a.dtype, b.dtype):
        return b.dtype if a.dtype == UNKNOWN else a.dtype
    if a.weak_type == b.weak_type:
        return scalars.promote(a.dtype, b.dtype)
    weak, strong = (a, b) if a.weak_type else (b, a)
    if strong.dtype.kind == "b" or (weak.dtype.is_float and strong.dtype.is_int):
        return weak.dtype
    if weak.dtype.is_complex:
        return scalars.complex_of(strong.dtype)
    return strong.dtype


def joined(values: Sequence[Value]) -> Value:
    """A value of the type that all of these have together, numpy's result_type: those that are not weak at once, then those
    that are."""
    strong, weak = ([v.dtype for v in values if v.weak_type == w] for w in (False, True))
    a, b = (Value(pr.Const(0, scalars.promote(*types)), w) for types, w in ((strong, False), (weak, True)))
    return a if not weak else b if not strong else Value(pr.Const(0, common(a, b)))


def adapt(value: Value, dtype: DType) -> pr.Expr:
    """The expression in `dtype`. Weak floats are computed in `dtype` itself; integers are cast. A real number of a complex type
    is a cast of what is real, so that no part of it is computed that is 0."""
    e = value.expr
    if e.dtype == dtype and not (isinstance(e, pr.Const) and dtype.is_int):
        return e
    if isinstance(e, pr.Const):
        return _constant(e.value, dtype)
    if value.weak_type and e.dtype.is_float and dtype.is_float:
        made = _retype(e, dtype.part)
        return made if made.dtype == dtype else pr.Cast(made, dtype)
    return pr.Cast(e, dtype)


def _constant(value: complex, dtype: DType) -> pr.Expr:
    if isinstance(value, complex):
        return complex_arithmetic.constant(value, dtype)
    if dtype.is_float:
        return pr.Const(_real(value), dtype)
    if dtype.kind == "b" or isinstance(value, float):
        return pr.Cast(pr.Const(value, F64 if isinstance(value, float) else I64), dtype)
    if not holds(value, dtype):
        low, high = _ends(dtype)
        wide = next((w for w in (I64, U64) if holds(value, w)), F64)
        raise TypeProblem("E306", f"{value} does not fit into {dtype}", f"{dtype} holds {low} to {high}",
                          f"cast the other operand to a wider type, e.g. `{wide}(...)`", dtype=dtype)
    return pr.Const(whole(value), dtype)


def _real(value: float | bool) -> float:
    """A number as a float; what follows from traced sizes stays what it is, as sizes do."""
    return value if traced(value) else float(value)


def _ends(dtype: DType) -> tuple[int, int]:
    """The smallest and largest value of an integer type."""
    low = 0 if dtype.kind == "u" else -(1 << dtype.bits - 1)
    return low, low + (1 << dtype.bits) - 1


def holds(value: int, dtype: DType) -> bool:
    """Does the integer type have this value?"""
    low, high = _ends(dtype)
    return low <= value <= high


def _retype(e: pr.Expr, dtype: DType) -> pr.Expr:
    """A weak float expression, recomputed in another float type: complex numbers in the complex type whose parts that is. (What
    halves cannot have is computed in f32.) Elements of lists are rounded to it."""
    if dtype.is_half and any(x.dtype.is_complex for x in pr.walk(e)):
        return pr.Cast(_retype(e, F32), dtype)
    own = scalars.complex_of(dtype) if e.dtype.is_complex else dtype
    if isinstance(e, pr.Const):
        return _constant(e.value, own) if e.dtype.is_float or not own.is_complex else pr.Const(_real(e.value), own)
    if not e.dtype.is_float:
        return e
    if isinstance(e, pr.Read):
        return pr.Cast(e, own)
    if isinstance(e, pr.Cast):
        inner = _retype(e.a, dtype) if e.a.dtype.is_float and e.dtype.is_complex else e.a
        return pr.Cast(inner, own) if inner.dtype != own else inner
    operands = tuple(_retype(c, dtype) for c in pr.children(e))
    rebuilt = pr.rebuild(e, operands)
    assert isinstance(rebuilt, (pr.Unary, pr.Binary, pr.Call, pr.Select)), rebuilt
    return replace(rebuilt, dtype=own)


_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "&&": lambda a, b: a and b, "||": lambda a, b: a or b}


def _fold(op: str, a: Value, b: Value) -> Value | None:
    """The value of an operation on two weak numbers, or of one with a neutral element; None where nothing folds."""
    x, y = a.number, b.number
    if a.dtype.is_complex or b.dtype.is_complex:
        found = complex_arithmetic.folded(op, x, y) if a.weak_type and b.weak_type else None
        return number(found) if isinstance(found, bool | complex) else None
    if op == "<<" and x and isinstance(y, int) and y >= _HUGE.bit_length():
        raise TypeProblem("E306", f"a number shifted by {y} bits fits no type", "integers have 64 bits")
    if x is not None and y is not None and ((a.weak_type and b.weak_type) or a.dtype == b.dtype == BOOL):
        try:
            return number(_FOLD[op](x, y))
        except (ZeroDivisionError, ValueError, OverflowError, TypeError):
            return None
    if x is not None and y is not None and common(a, b) in (F32, F64):
        return _fold_floats(op, x, y, common(a, b))
    if a.dtype != I64 or b.dtype != I64 or not (a.weak_type and b.weak_type):
        return None
    if (y == 0 and op in ("+", "-")) or (y == 1 and op in ("*", "//")):
        return a
    if (x == 0 and op == "+") or (x == 1 and op == "*"):
        return b
    return number(0) if (op == "*" and 0 in (x, y)) or (op == "%" and y == 1) else None


def _fold_floats(op: str, x: int | float | bool, y: int | float | bool, dtype: DType) -> Value | None:
    """Arithmetic of two constants of a float type, in that type."""
    if op not in ("+", "-", "*", "/") and op not in scalars.COMPARISONS:
        return None
    with np.errstate(all="ignore"):
        found = _FOLD[op](dtype.numpy.type(x), dtype.numpy.type(y))
    return Value(pr.Const(bool(found), BOOL) if op in scalars.COMPARISONS else pr.Const(float(found), dtype))


def binary(op: str, a: Value, b: Value) -> Value:
    """`a op b`, typed."""
    folded = _fold(op, a, b)
    if folded is not None:
        return folded
    if op in scalars.LOGICAL:
        for v in (a, b):
            if v.dtype not in (BOOL, UNKNOWN):
                raise TypeProblem("E305", f"`{op}` needs conditions, not {v.dtype}", "compare with 0: `x != 0`")
        return Value(pr.Binary(op, a.expr, b.expr, BOOL))
    weak = a.weak_type and b.weak_type
    if (a.dtype.is_complex or b.dtype.is_complex) and op not in ("+", "-", "*", "/", "==", "!=", "&", "|", "^", "<<", ">>"):
        raise TypeProblem("E312", f"`{op}` of complex numbers", *complex_arithmetic.CURES[op in scalars.COMPARISONS])
    if op in scalars.COMPARISONS:
        return Value(pr.Binary(op, *_comparable(a, b), BOOL))
    dtype = common(a, b)
    if op in ("&", "|", "^", "<<", ">>"):
        if dtype.is_float or (dtype == BOOL and op in ("<<", ">>")):
            raise TypeProblem("E304", f"`{op}` needs integers, not {' and '.join(_strong(a, b))}", *_integer_cures(op, a, b))
    elif dtype == BOOL:
        raise TypeProblem("E303", f"`{op}` on bool", "cast first: `i64(x)`; for logic use `&&`, `||`, `!`")
    elif op == "/" and not dtype.is_float:
        dtype = F64
    elif op in ("//", "%") and dtype.is_int and b.number == 0:
        raise TypeProblem("E309", f"`{op}` by 0", "integers have no infinity: divide by another number, or cast to a float")
    return Value(pr.Binary(op, adapt(a, dtype), adapt(b, dtype), dtype), weak)


def _strong(a: Value, b: Value) -> list[str]:
    """The types of two operands; not that of a whole number, which takes any."""
    return [str(v.dtype) for v in (a, b) if not (v.weak_type and v.dtype.is_int)]


def _integer_cures(op: str, a: Value, b: Value) -> tuple[str, ...]:
    """What helps where an operator of integers meets other types."""
    if a.dtype.is_int and b.dtype.is_int:
        return (f"{a.dtype} and {b.dtype} have no integer type in common",
                f"cast one of them: `{a.dtype}(...)` or `{b.dtype}(...)`")
    return (*["a power is written `pow(a, b)`"] * (op == "^" and BOOL not in (a.dtype, b.dtype)), "cast first, e.g. `i32(...)`")


def _comparable(a: Value, b: Value) -> tuple[pr.Expr, pr.Expr]:
    dtype = common(a, b)
    try:
        return adapt(a, dtype), adapt(b, dtype)
    except TypeProblem:
        return adapt(a, I64), adapt(b, I64)


def unary(op: str, a: Value) -> Value:
    """`op a`, typed."""
    if op == "!":
        if a.dtype not in (BOOL, UNKNOWN):
            raise TypeProblem("E305", f"`!` needs a condition, not {a.dtype}",
                              "compare with 0: `x == 0`; `!` comes before comparisons: `!(x > 0)`")
        return number(not a.number) if a.number is not None else Value(pr.Unary("!", a.expr, BOOL))
    if a.dtype == BOOL:
        raise TypeProblem("E303", f"`{op}` on bool", "cast first: `i64(x)`; the opposite of a condition is `!x`")
    if op == "~" and not a.dtype.is_int and a.dtype != UNKNOWN:
        raise TypeProblem("E304", f"`~` needs an integer, not {a.dtype}", "cast first, e.g. `i32(...)`")
    if a.number is not None and a.weak_type and a.dtype.is_complex:
        return Value(complex_arithmetic.constant(-a.number, a.dtype), weak_type=True)
    if a.number is not None and a.weak_type:
        return number(-a.number if op == "-" else ~int(a.number))
    return Value(pr.Unary(op, a.expr, a.dtype), a.weak_type)


def select(condition: Value, a: Value, b: Value) -> Value:
    """`condition ? a : b`; a constant condition chooses here."""
    if condition.dtype not in (BOOL, UNKNOWN):
        raise TypeProblem("E305", f"the condition of `? :` is {condition.dtype}, not bool", "compare with 0: `x != 0`")
    if condition.number is not None:
        return a if condition.number else b
    dtype = common(a, b)
    return Value(pr.Select(condition.expr, adapt(a, dtype), adapt(b, dtype), dtype), a.weak_type and b.weak_type)


def cast(a: Value, dtype: DType) -> Value:
    """`dtype(a)`. To a half it rounds: what is computed in its type has not been rounded, and integers become f32 first, as a
    cast of integers alone is that of an index or a byte that meets halves."""
    if a.dtype.is_complex and not dtype.is_complex:
        raise TypeProblem("E312", f"`{dtype}(...)` of a complex number",
                          f"take a part of it: `{dtype}(real(z))`, `{dtype}(imag(z))`, `{dtype}(abs(z))`")
    if a.number is not None and a.weak_type and dtype.is_float:
        own = traced(a.number) and not dtype.is_half  # it is rounded where it is used, as `X[i] / n` is
        return Value(_constant(a.number if own else scalars.rounded(a.number, dtype), dtype))
    if isinstance(a.number, int) and a.weak_type and dtype.is_int and holds(a.number, dtype):
        return Value(pr.Const(a.number, dtype))
    e = pr.Cast(a.expr, F32) if dtype.is_half and not a.dtype.is_float else a.expr
    return Value(e if e.dtype == dtype and not dtype.is_half else pr.Cast(e, dtype))


def call(fn: str, args: list[Value]) -> Value:
    """An intrinsic, its arguments promoted together. Integers become f64 where a float is needed."""
    if fn in scalars.COMPLEX and fn not in scalars.INTRINSICS or any(a.dtype.is_complex for a in args):
        return _complex_call(fn, args)
    row = scalars.INTRINSICS[fn]
    dtype = args[0].dtype
    weak = args[0].weak_type
    for i in range(1, row.deciding or len(args)):
        merged = Value(pr.Const(0, dtype), weak)
        dtype, weak = common(merged, args[i]), weak and args[i].weak_type
    if row.result in ("float", "bool") and not dtype.is_float:
        dtype = F64
    elif dtype == BOOL and fn not in ("min", "max"):
        raise TypeProblem("E303", f"`{fn}` on bool", "cast first: `i64(x)`")
    if row.result == "same" and fn in ("floor", "ceil", "trunc", "round") and dtype.is_int:
        return Value(adapt(args[0], dtype), weak)
    adapted = tuple(adapt(a, dtype) for a in args)
    if (weak or dtype == F64) and row.result != "bool" and all(isinstance(a, pr.Const) for a in adapted):
        folded = fold_call(fn, [a.value for a in adapted if isinstance(a, pr.Const)], dtype)
        if folded is not None:
            return replace(folded, weak_type=weak)
    return Value(pr.Call(fn, adapted, BOOL if row.result == "bool" else dtype), weak and row.result != "bool")


def _complex_call(fn: str, args: list[Value]) -> Value:
    """A function of a complex number; or one that only complex numbers have, of a real one, where it is nothing, 0 or pi."""
    row, a = scalars.COMPLEX.get(fn), args[0]
    if row is None:
        raise TypeProblem("E312", f"`{fn}` of a complex number", *complex_arithmetic.cures_of_call(fn))
    if a.dtype.is_complex:
        dtype = BOOL if row.result == "bool" else a.dtype.part if row.result == "part" else a.dtype
        return Value(pr.Call(fn, (a.expr,), dtype), a.weak_type and row.result != "bool")
    if a.dtype == BOOL:
        raise TypeProblem("E303", f"`{fn}` on bool", "cast first: `i64(x)`")
    if fn == "angle":
        return call("atan2", [Value(_constant(0, a.dtype) if a.dtype.is_float else pr.Const(0, I64), a.weak_type), a])
    zero = Value(pr.Const(0.0 if a.dtype.is_float else 0, a.dtype), a.weak_type)
    return zero if fn == "imag" and a.dtype != UNKNOWN else a


def pair(dtype: DType, real: Value, imag: Value) -> Value:
    """`c64(real, imag)`: real + imag*1j, neither of which touches the other."""
    for a in (real, imag):
        if a.dtype.is_complex:
            raise TypeProblem("E312", f"a part of `{dtype}(...)` that is complex itself",
                              "parts are real: `real(z)`, `imag(z)`")
    unit = Value(complex_arithmetic.constant(1j, dtype))
    return binary("+", cast(cast(real, dtype.part), dtype), binary("*", cast(cast(imag, dtype.part), dtype), unit))


_PYTHON: dict[str, Callable[..., int | float]] = {
    "exp": math.exp, "log": math.log, "log2": math.log2, "sqrt": math.sqrt, "rsqrt": lambda a: 1 / math.sqrt(a), "min": min,
    "max": max, "abs": abs, "floor": lambda a: float(math.floor(a)), "ceil": lambda a: float(math.ceil(a)), "tanh": math.tanh,
    "pow": lambda a, b: a ** b, "clamp": lambda a, low, high: min(max(a, low), high)}


def fold_call(fn: str, args: list[int | float | bool], dtype: DType) -> Value | None:
    """An intrinsic of weak numbers as a number; None where it is left to run time."""
    if fn not in _PYTHON or any(a != a for a in args):
        return None
    if fn == "pow" and dtype.is_int and args[1] >= _HUGE.bit_length() and abs(args[0]) > 1:
        raise TypeProblem("E306", f"a number to the power of {args[1]} fits no type",
                          "integers have 64 bits, floats reach 1.8e308")
    try:
        result = _PYTHON[fn](*args)
    except (ArithmeticError, ValueError):
        return None
    if isinstance(result, complex) or (dtype.is_int and not isinstance(result, int)):
        return None
    return number(_real(result) if dtype.is_float else whole(result))


def fold(e: pr.Expr) -> pr.Expr:
    """The expression with its arithmetic on constants carried out: `0*64 + m` is `m`."""
    return pr.map_expr(e, fold_one)


def fold_one(e: pr.Expr) -> pr.Expr:
    """The arithmetic of one node carried out, where its operands are constants."""
    match e:
        case pr.Binary() if e.a.dtype == e.b.dtype:
            try:
                folded = _fold(e.op, Value(e.a, weak_type=e.a.dtype == I64), Value(e.b, weak_type=e.b.dtype == I64))
            except TypeProblem:
                return e
            return e if folded is None or folded.dtype != e.dtype else folded.expr
        case pr.Unary(op="-", a=pr.Const(value=value, dtype=scalars.I64)):
            return pr.Const(-value, I64)
        case pr.Cast(a=pr.Const(value=value, dtype=scalars.I64)) if e.dtype.is_float:
            return pr.Const(_real(value), e.dtype)
        case pr.Cast(a=pr.Const(value=int(value), dtype=scalars.I64)) if e.dtype.is_int and holds(value, e.dtype):
            return pr.Const(value, e.dtype)
        case pr.Cast(a=pr.Const(value=float(value), dtype=half), dtype=scalars.F32) if half.is_half:
            return pr.Const(value, F32) if float(half.numpy.type(value)) == value else e
        case pr.Select(cond=pr.Const(value=value)):
            return e.a if value else e.b
        case _:
            return e
