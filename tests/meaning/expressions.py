"""Values of expressions at many points at once."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polytc.lang.parsing import syntax as sx
from tests.meaning import complex_values, types, values
from tests.meaning import functions as intrinsics
from tests.meaning.values import Bound, Value


class Refused(Exception):
    """The language does not allow the program."""


CONSTANTS = {"true": True, "false": False, "inf": float("inf"), "nan": float("nan"), "pi": 3.141592653589793}

_NUMPY: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": np.mod,
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "<<": np.left_shift, ">>": np.right_shift,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "&&": np.logical_and, "||": np.logical_or}
_PYTHON: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "&&": lambda a, b: a and b, "||": lambda a, b: a or b}
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


Path = tuple[tuple[sx.Expr, bool], ...]
"""Conditions and what they are where something happens."""


@dataclass
class Stored:
    """A tensor. lower: its first coordinates; data: in the type in which it is updated, halves unrounded; error, slack: as in
    Value; halves: where its f16 and bf16 are rounded: of an 'output' where they are read, in a 'held' temporary nowhere,
    in another one that is left 'open'."""

    type: str
    lower: tuple[int, ...]
    data: np.ndarray
    error: Bound = None
    slack: Bound = None
    halves: str = "output"


def walk(e: sx.Expr) -> Iterator[sx.Expr]:
    """`e` and all below it, in the order of the text."""
    yield e
    for x in sx.operands(e):
        yield from walk(x)


def reads(e: sx.Expr, tensors: Mapping[str, Any]) -> bool:
    """Does memory decide the value?"""
    return any(isinstance(n, sx.Access) or isinstance(n, sx.Name) and n.id in tensors for n in walk(e))


def chained(e: sx.ChainedComparison) -> list[sx.Expr]:
    """`a < b <= c` as `a < b`, `b <= c`."""
    return [sx.Binary(op, a, b, e.span) for op, a, b in zip(e.ops, e.operands, e.operands[1:])]


def whole(e: sx.ChainedComparison) -> sx.Expr:
    """The same as one condition."""
    return functools.reduce(lambda a, b: sx.Binary("&&", a, b, e.span), chained(e))


def told(e: sx.Expr, wanted: bool) -> Path:
    """The parts of a condition that are known where it is true, or false."""
    if isinstance(e, sx.ChainedComparison):
        return told(whole(e), wanted)
    if isinstance(e, sx.Unary) and e.op == "!":
        return told(e.a, not wanted)
    if isinstance(e, sx.Binary) and e.op == ("&&" if wanted else "||"):
        return told(e.a, wanted) + told(e.b, wanted)
    return ((e, wanted),)


class Expressions:
    """The expressions of one statement. numbers: sizes and scalars; lets: what `where` defines; tensors: all that may be read;
    shapes: of the inputs, for `A.shape[0]`; at: index -> its values, one a point. floats: the type of weak floats. skips: for
    each `else identity`, the points that it leaves in. probing: only types are asked for, there are no points."""

    def __init__(self, numbers: Mapping[str, Value], lets: Mapping[str, sx.Expr], tensors: Mapping[str, Stored],
                 shapes: Mapping[str, tuple[int, ...]], at: Mapping[str, np.ndarray], *, precise: bool = False,
                 probing: bool = False) -> None:
        self.numbers, self.lets, self.tensors, self.shapes, self.at = numbers, lets, tensors, shapes, at
        self.precise, self.probing = precise, probing
        self.floats = "f64"
        self.skips: list[np.ndarray] = []
        self.live: np.ndarray = np.asarray(True)
        """The points at which what is computed matters: those of the branches around."""

    def behind(self, e: sx.Expr, condition: sx.Expr, wanted: bool) -> Value:
        """The value of what stands behind a condition: of its parts those count that are of quasi-affine forms."""
        before = self.live
        for c, its in told(condition, wanted) if not self.probing else ():
            if not reads(c, self.tensors) and not self.bent(c):
                self.live = self.live & (np.asarray(self.value(c).data, bool) == its)
        try:
            return self.value(e)
        finally:
            self.live = before

    def bent(self, e: sx.Expr) -> bool:
        """Is a condition none of quasi-affine forms?"""
        def indexed(x: sx.Expr) -> bool:
            return any(isinstance(n, sx.Name) and n.id not in self.numbers and n.id not in CONSTANTS for n in walk(x))
        for n in walk(e):
            if isinstance(n, sx.Name) and n.id in self.lets and self.bent(self.lets[n.id]):
                return True
            if isinstance(n, sx.Binary) and (
                    n.op == "*" and indexed(n.a) and indexed(n.b) or n.op in ("//", "%") and indexed(n.b)
                    or n.op in ("/", "&", "|", "^", "<<", ">>") and indexed(n)):
                return True
            if isinstance(n, sx.Call) and n.fn not in ("min", "max", "abs", "clamp", "sign"):
                return True
            if isinstance(n, sx.Number) and isinstance(n.value, float):
                return True
        return False

    def value(self, e: sx.Expr) -> Value:
        match e:
            case sx.Number(value=v):
                return values.constant(v)
            case sx.Name(id=name):
                return self.name(name)
            case sx.Access():
                found = self.read(e.tensor, e.subscripts)
                return replace(found, weak=True) if e.literal else found
            case sx.Guarded(access=sx.Access() as access):
                found = self.guarded(access, e.default)
                return replace(found, weak=True) if access.literal else found
            case sx.Guarded(access=sx.Name(id=name)):
                return self.read(name, ())
            case sx.Extent(tensor=t, axis=axis):
                return values.constant(self.shapes[t][axis])
            case sx.Unary():
                return self.unary(e.op, self.value(e.a))
            case sx.Binary():
                return self.binary(e)
            case sx.ChainedComparison():
                return self.value(whole(e))
            case sx.Ternary():
                return self.ternary(e)
            case sx.Call():
                return self.call(e)
        raise Refused(f"{type(e).__name__} is no value")

    def name(self, name: str) -> Value:
        if name in self.lets:
            return self.value(self.lets[name])
        if name in self.numbers:
            return self.numbers[name]
        if name in self.tensors:
            return self.read(name, ())
        if name in CONSTANTS:
            return values.constant(CONSTANTS[name])
        if self.probing:
            return Value(np.zeros(0, np.int64), "i64", True)
        return Value(self.at[name], "i64", True)

    # ---- operators

    def adapted(self, e: sx.Expr | None, v: Value, to: str) -> Value:
        """The value in the type that it and another one have in common. e: weak floats are computed again in that type."""
        if v.type == to and not (v.number is not None and types.is_int(to)):
            return v
        if v.number is not None and v.weak or v.number is not None and types.is_float(to):
            if types.is_int(to) and not isinstance(v.number, float):
                info = np.iinfo(types.stored(to))
                if not info.min <= v.number <= info.max:
                    raise Refused(f"{v.number} does not fit into {to}")
            if not isinstance(v.number, float) or types.is_float(to):
                return Value(np.asarray(v.number).astype(types.computed(to)), to, number=v.number)
        if v.weak and e is not None and types.is_float(v.type) and types.is_float(to):
            before, self.floats = self.floats, types.part_of(to)
            try:
                again = self.value(e)
            finally:
                self.floats = before
            return replace(values.cast(again, to) if again.type != to else again, weak=False)
        return values.cast(v, to)

    def both(self, a: sx.Expr, x: Value, b: sx.Expr, y: Value, to: str) -> tuple[Value, Value]:
        return self.adapted(a, x, to), self.adapted(b, y, to)

    def binary(self, e: sx.Binary) -> Value:
        x = self.value(e.a)
        y = self.behind(e.b, e.a, e.op == "&&") if e.op in ("&&", "||") else self.value(e.b)
        if x.number is not None and y.number is not None and (x.weak and y.weak or x.type == y.type == "bool"):
            try:
                return values.constant(_PYTHON[e.op](x.number, y.number))
            except (ZeroDivisionError, ValueError, OverflowError, TypeError):
                pass
        if e.op in ("&&", "||"):
            sure = x.error is None and y.error is None
            return Value(_NUMPY[e.op](x.data, y.data), "bool", error=None if sure else values._unknown(x.error, y.error))
        to, weak = types.common(x.kind, y.kind)
        if e.loose and (x.type == "bool") != (y.type == "bool") and not types.is_float(to):
            raise Refused(f"`{e.op}` of a number and a comparison without parentheses")
        if e.op in COMPARISONS:
            return self.comparison(e, x, y, to)
        if e.op == "/" and not types.is_float(to) and to != types.UNKNOWN:
            to = "f64"
        if to == "bool" and e.op not in "&|^":
            raise Refused(f"`{e.op}` on bool")
        if e.op in ("&", "|", "^", "<<", ">>") and types.is_float(to):
            raise Refused(f"`{e.op}` on floats")
        if types.is_complex(to) and e.op not in ("+", "-", "*", "/"):
            raise Refused(f"`{e.op}` of complex numbers")
        if weak and types.is_float(to):
            to = types.as_precise(to, self.floats)
        a, b = self.both(e.a, x, e.b, y, to)
        if to == types.UNKNOWN:
            return Value(np.zeros(0), to, weak)
        if types.is_complex(to):
            return replace(complex_values.arithmetic(e.op, _NUMPY[e.op], a, b, to), weak=weak)
        made = values.arithmetic(e.op, _NUMPY[e.op], a, b, to, self.precise)
        both = x.number is not None and y.number is not None and types.is_float(to) and not weak and e.op in "+-*/"
        return replace(made, weak=weak, number=made.data.item() if both else None)

    def comparison(self, e: sx.Binary, x: Value, y: Value, to: str) -> Value:
        if types.is_complex(to) and e.op not in ("==", "!="):
            raise Refused(f"`{e.op}` of complex numbers")
        try:
            a, b = self.both(e.a, x, e.b, y, to)
        except Refused:  # a number that the other type does not hold
            a, b = self.both(e.a, x, e.b, y, "i64")
        if to == types.UNKNOWN:
            return Value(np.zeros(0, bool), "bool")
        made = values.compared(_NUMPY[e.op], a, b)
        both = x.number is not None and y.number is not None
        return replace(made, number=bool(made.data)) if both and made.data.ndim == 0 else made

    def unary(self, op: str, a: Value) -> Value:
        if op == "!":
            return replace(a, data=np.logical_not(a.data), number=None if a.number is None else not a.number)
        if a.number is not None and a.weak:
            return values.constant(-a.number if op == "-" else ~int(a.number))
        if a.type == "bool":
            raise Refused(f"`{op}` on bool")
        if a.type == types.UNKNOWN:
            return a
        return replace(a, data=np.negative(a.data) if op == "-" else np.invert(a.data),
                       number=None if a.number is None else -a.number)

    def ternary(self, e: sx.Ternary) -> Value:
        c = self.value(e.condition)
        if isinstance(c.number, bool):
            return self.value(e.a if c.number else e.b)
        x, y = self.behind(e.a, e.condition, True), self.behind(e.b, e.condition, False)
        to, weak = types.common(x.kind, y.kind)
        if weak and types.is_float(to):
            to = types.as_precise(to, self.floats)
        a, b = self.both(e.a, x, e.b, y, to)
        return replace(values.select(c, a, b, to), weak=weak)

    def call(self, e: sx.Call) -> Value:
        fn = intrinsics.C_NAMES.get(e.fn, e.fn)
        args = [self.value(a) for a in e.args]
        to = types.named(fn)
        if to is not None:
            a = args[0]
            if types.is_complex(a.type) and not types.is_complex(to):
                raise Refused("a complex number is made real by taking a part of it")
            if len(args) == 2:
                parts = [values.cast(values.cast(x, types.part_of(to)), to) for x in args]
                turned = replace(parts[1], data=parts[1].data * np.asarray(1j, types.computed(to)))
                return complex_values.arithmetic("+", np.add, parts[0], turned, to)
            if a.number is not None and a.weak and types.is_float(to):
                made = values.half(Value(np.asarray(a.number).astype(types.computed(to)), to))
                return replace(made, number=made.data.item())
            return values.cast(a, to)
        if fn in complex_values.NAMES or types.is_complex(args[0].type):
            return self.complex_call(fn, e.args, args)
        if fn not in intrinsics.NAMES:
            raise Refused(f"there is no function `{fn}`")
        kind = args[0].kind
        for a in args[1:] if fn != "ldexp" else ():
            kind = types.common(kind, a.kind)
        to, weak = kind
        if fn in intrinsics.NEEDS_FLOAT and not types.is_float(to) and to != types.UNKNOWN:
            to = "f64"
        if fn in ("floor", "ceil", "trunc", "round") and types.is_int(to):
            return replace(self.adapted(e.args[0], args[0], to), weak=weak)
        if weak and types.is_float(to):
            to = self.floats
        if (weak or to == "f64") and all(a.number is not None for a in args):
            made = intrinsics.folded(fn, [a.number for a in args if a.number is not None], to)
            if made is not None:
                return replace(made, weak=weak)
        if to == types.UNKNOWN:
            return Value(np.zeros(0), "bool" if fn in intrinsics.PREDICATES else to)
        made = intrinsics.applied(fn, [self.adapted(x, a, to) for x, a in zip(e.args, args, strict=True)], to)
        return replace(made, weak=weak and fn not in intrinsics.PREDICATES)

    def complex_call(self, fn: str, operands: tuple[sx.Expr, ...], args: list[Value]) -> Value:
        """A function of a complex number, or one that only these have."""
        a = args[0]
        if fn not in complex_values.FUNCTIONS or len(args) != 1:
            raise Refused(f"`{fn}` of complex numbers")
        if types.is_complex(a.type):
            to = types.as_precise(a.type, self.floats) if a.weak else a.type
            made = complex_values.applied(fn, self.adapted(operands[0], a, to), to)
            return replace(made, weak=a.weak and made.type != "bool")
        _, found = complex_values.of_real(fn, a)
        zero = sx.Number(0, operands[0].span)
        return found if found is not None else self.call(sx.Call("atan2", (zero, operands[0]), operands[0].span))

    # ---- tensors

    def places(self, subscripts: tuple[sx.Expr, ...]) -> tuple[list[np.ndarray], Bound, bool]:
        """Subscripts, the error of what memory decides of them, and whether it does."""
        found = [self.value(s) for s in subscripts]
        gather = any(reads(s, self.tensors) for s in subscripts)
        return [f.data.astype(np.int64) for f in found], values._unknown(*(f.error for f in found)), gather

    def read(self, tensor: str, subscripts: tuple[sx.Expr, ...]) -> Value:
        """What a tensor holds; a gather reads the nearest element."""
        t = self.tensors.get(tensor)
        if t is None or len(t.lower) != len(subscripts):
            raise Refused(f"`{tensor}` is not known with {len(subscripts)} dimensions")
        places, unsure, gather = self.places(subscripts)
        if not gather and not self.probing and not all(
                (~self.live | (p >= lo) & (p < lo + n)).all() for p, lo, n in zip(places, t.lower, t.data.shape)):
            raise Refused(f"`{tensor}` is read out of bounds")
        return self.at_places(t, places, unsure)

    def at_places(self, t: Stored, places: list[np.ndarray], unsure: Bound) -> Value:
        if self.probing:
            return Value(np.zeros(0 if places else (), t.data.dtype), t.type)
        index = tuple(np.clip(p - lo, 0, n - 1) for p, lo, n in zip(places, t.lower, t.data.shape))
        error = None if t.error is None else t.error[index]
        if unsure is not None:
            error = values.added(error, unsure)
        held = Value(t.data[index], t.type, error=None if error is None else values.some(error),
                     slack=None if t.slack is None else values.some(t.slack[index]))
        if t.type in types.HALVES and t.halves == "output":
            held = values.half(held)
        if t.data.dtype != types.computed(t.type) and t.type != types.UNKNOWN:  # an accumulator of another type
            held = values.settled(replace(held, type=types.of_array(t.data)), t.type, t.halves)
        return held

    def alternative(self, t: Stored, places: list[np.ndarray], inside: Value, default: sx.Expr, other: Value) -> Value:
        """What a tensor holds, elsewhere another value, of the type of both."""
        none = self.probing or t.data.size == 0
        held = Value(np.zeros(inside.data.shape, t.data.dtype), t.type) if none else self.at_places(t, places, None)
        to, weak = types.common(held.kind, other.kind)
        if weak and types.is_float(to):
            to = types.as_precise(to, self.floats)
        return replace(values.select(inside, self.adapted(None, held, to), self.adapted(default, other, to), to), weak=weak)

    def guarded(self, e: sx.Access, default: sx.Expr | None) -> Value:
        t = self.tensors[e.tensor]
        places, unsure, _ = self.places(e.subscripts)
        inside = np.asarray(True)
        for p, lo, n in zip(places, t.lower, t.data.shape):
            inside = inside & (p >= lo) & (p < lo + n)
        if default is None:
            self.skips.append(inside)
            other = values.constant(0)
        else:
            other = self.value(default)
        if t.type == types.UNKNOWN:
            return Value(np.zeros(0), t.type)
        if default is not None and (other.number is None or types.is_complex(other.type) and not types.is_complex(t.type)):
            return self.alternative(t, places, Value(inside, "bool", error=unsure), default, other)
        other = values.cast(other, "bool") if t.type == "bool" else self.adapted(default, other, t.type)
        if self.probing or t.data.size == 0:
            return Value(np.broadcast_to(other.data, inside.shape), t.type)
        return values.select(Value(inside, "bool", error=unsure), self.at_places(t, places, None), other, t.type)
