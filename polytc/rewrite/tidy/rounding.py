"""Rounded numbers within the range of an integer type are cut off before they are rounded, and need not become integers.

    Y[i] = u8(clamp(round(X[i]) + 3, 0, 255))                   with X[9]
    ->  Y[i] = u8(i32(round(clamp(X[i], -3.0, 252.0))) + 3)

    Y[i] = f32(i32(u8(clamp(round(X[i]) + 3, 0, 255))) - 3)     with X[9]
    ->  Y[i] = round(clamp(X[i], -3.0, 252.0)) + 0.0

    Y[i] = f32(i32(u8(clamp(round(X[i]) + f32(z), 0, 255))) - i32(z))     with X[9], u8 z[]
    ->  Y[i] = round(clamp(X[i], 0.0 - f32(z), 255.0 - f32(z))) + 0.0

Quantised tensors between DequantizeLinear and QuantizeLinear are made of these. A target that knows that what it rounds is
small has a shorter way to do it. Values are the same, but for NaN, which no integer is: here it stays NaN.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.scalars import F32, I32, DType

LARGEST = 2**20
"""Of the constants; sums of two such are exact in f32."""


@dataclass(frozen=True)
class Offset:
    """A whole number: a constant, and bytes that are inputs without dimensions, each so many times."""

    constant: int
    zeros: tuple[tuple[pr.Read, int], ...] = ()

    def plus(self, other: Offset, sign: int = 1) -> Offset:
        """The sum, or the difference."""
        zeros = (*self.zeros, *((zero, sign * count) for zero, count in other.zeros))
        return Offset(self.constant + sign * other.constant, _collected(zeros))

    def expression(self, dtype: DType, before: pr.Expr | None = None) -> pr.Expr:
        """It as an expression of a type, added to another one."""
        constant = pr.Const(float(self.constant) if dtype.is_float else self.constant, dtype)
        e: pr.Expr = constant if before is None else \
            pr.Binary("+", before, constant, dtype) if self.constant or not self.zeros else before
        for zero, count in self.zeros:
            for _ in range(abs(count)):
                e = pr.Binary("+" if count > 0 else "-", e, pr.Cast(zero, dtype), dtype)
        return e

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest number that it may be."""
        low = high = self.constant
        for zero, count in self.zeros:
            least, most = _range(zero.dtype)
            low, high = low + min(count * least, count * most), high + max(count * least, count * most)
        return low, high

    @property
    def nothing(self) -> bool:
        """Is it 0?"""
        return not self.constant and not self.zeros


def _collected(zeros: Iterable[tuple[pr.Read, int]]) -> tuple[tuple[pr.Read, int], ...]:
    total: dict[pr.Read, int] = {}
    for zero, count in zeros:
        total[zero] = total.get(zero, 0) + count
    return tuple(sorted(((z, c) for z, c in total.items() if c), key=lambda row: row[0].tensor))


@dataclass(frozen=True)
class Whole:
    """round(clamp(x, low, high)), `rounded`, and a whole number to add."""

    rounded: pr.Call
    low: Offset
    high: Offset
    added: Offset


def cut_first(program: pr.Program) -> pr.Program:
    """The program with such expressions so rewritten; a precise one stays as it is."""
    if program.precise:
        return program
    return replace(program, statements=tuple(replace(s, value=pr.map_expr(s.value, _rewritten)) for s in program.statements))


def _rewritten(e: pr.Expr) -> pr.Expr:
    match e:
        case pr.Call(fn="clamp", dtype=dtype) if dtype == F32:
            found = _clamped(e)
            return e if found is None else found.rounded if found.added.nothing else found.added.expression(F32, found.rounded)
        case pr.Cast(dtype=dtype) if dtype == F32 and e.a.dtype.is_int:
            found = _whole(e.a)  # integers have no -0: it is 0 after 0 is added
            return e if found is None else found.added.expression(F32, found.rounded)
        case pr.Cast(dtype=dtype) if dtype.is_int and e.a.dtype == F32:
            found = _whole(e.a)
            if found is None or not _holds(e, found):
                return e
            rounded: pr.Expr = pr.Cast(found.rounded, I32)
            total = rounded if found.added.nothing else found.added.expression(I32, rounded)
            return total if dtype == I32 else pr.Cast(total, dtype)
        case _:
            return e


def _clamped(e: pr.Call) -> Whole | None:
    """clamp(round(x) + c, low, high) with whole numbers, cut off first."""
    value, *bounds = e.args
    low, high = map(_number, bounds)
    added = Offset(0)
    if isinstance(value, pr.Binary) and value.op == "+":
        known = [(_number(x), other) for x, other in ((value.b, value.a), (value.a, value.b))]
        added, value = next(((c, other) for c, other in known if c is not None), (added, value))
    if low is None or high is None or not isinstance(value, pr.Call) or value.fn != "round" or not _ordered(low, high):
        return None
    low, high = low.plus(added, -1), high.plus(added, -1)
    cut = pr.Call("clamp", (value.args[0], low.expression(F32), high.expression(F32)), F32)
    return Whole(replace(value, args=(cut,)), low, high, added)


def _ordered(low: Offset, high: Offset) -> bool:
    between = high.plus(low, -1)
    return not between.zeros and between.constant >= 0


def _whole(e: pr.Expr) -> Whole | None:
    """What an expression is, where no conversion on the way changes it."""
    match e:
        case pr.Call(fn="round", args=(pr.Call(fn="clamp", args=(_, low, high)),)) if e.dtype == F32:
            least, most = _number(low), _number(high)
            return Whole(e, least, most, Offset(0)) if least is not None and most is not None else None
        case pr.Binary(op="+" | "-", a=a, b=b) if e.dtype in (F32, I32):
            inside, number = _whole(a), _number(b)
            if inside is None or number is None:
                return None
            return replace(inside, added=inside.added.plus(number, 1 if e.op == "+" else -1))
        case pr.Cast(a=a, dtype=dtype) if dtype.is_int:
            inside = _whole(a)
            return inside if inside is not None and _holds(e, inside) else None
        case _:
            return None


def _holds(cast: pr.Cast, whole: Whole) -> bool:
    """Are all such numbers among those of the cast's type?"""
    low, high = whole.low.plus(whole.added).ends[0], whole.high.plus(whole.added).ends[1]
    least, most = _range(cast.dtype)
    return least <= low and high <= most


def _range(dtype: DType) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    return (-(2**(dtype.bits - 1)), 2**(dtype.bits - 1) - 1) if dtype.kind == "i" else (0, 2**dtype.bits - 1)


def _number(e: pr.Expr) -> Offset | None:
    """A whole number that is not too large: a constant, an input that is a byte, or one less the other."""
    match e:
        case pr.Cast(a=a, dtype=dtype):
            inside = _number(a)
            return inside if inside is not None and _keeps(dtype, inside) else None
        case pr.Const() if e.dtype.kind != "b" and abs(e.value) <= LARGEST and e.value == int(e.value):
            return Offset(int(e.value))
        case pr.Read(subscripts=()) if e.dtype.is_int and e.dtype.bits == 8:
            return Offset(0, ((e, 1),))
        case pr.Binary(op="+" | "-", a=a, b=b) if e.dtype == F32:
            left, right = _number(a), _number(b)
            return left.plus(right, 1 if e.op == "+" else -1) if left is not None and right is not None else None
        case _:
            return None


def _keeps(dtype: DType, number: Offset) -> bool:
    """Does a conversion to the type change no such number?"""
    if dtype.is_float:
        return dtype.bits >= 32
    (low, high), (least, most) = number.ends, _range(dtype)
    return least <= low and high <= most
