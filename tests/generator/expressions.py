"""Expressions of the three kinds (floats 'f', integers 'i', conditions 'b'), typed so that nothing is to be refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.generator import subscripts
from tests.generator.state import Space, State


@dataclass
class Context:
    """Where an expression stands. space: the indices; own: makes a read of the statement's own target, of kind `kind`; there is
    none in some statements; target: that tensor; bounded: see subscripts.read_new."""

    state: State
    space: Space
    target: str | None = None
    kind: str = ""
    own: Callable[[], str | None] | None = None
    bounded: set[tuple[str, str]] = field(default_factory=set)


def expression(x: Context, kind: str, depth: int) -> str:
    """An expression of a kind; depth 0 is a leaf."""
    if depth <= 0 or x.state.c.likely(25):
        return leaf(x, kind)
    return {"f": _float, "i": _integer, "b": _condition}[kind](x, depth - 1)


def leaf(x: Context, kind: str) -> str:
    c = x.state.c
    match c.of(["read", "read", "read", "new", "read", "number", "index", "own", "own", "scalar", "other"]):
        case "new":
            return subscripts.read_new(x.state, kind, x.space, [], x.bounded)
        case "number":
            return number(x, kind)
        case "index" if kind == "i" and x.space:
            return c.of(list(x.space))
        case "own" if x.own is not None and kind == x.kind:
            found = x.own()
            if found is not None:
                return found
        case "scalar" if kind != "b":
            return scalar(x.state, kind)
        case "other":
            return convert(x, kind)
    known = [t for t in x.state.readable(kind) if t.name != x.target]
    if not known or c.likely(20):
        return subscripts.read_new(x.state, kind, x.space, [], x.bounded)
    t = c.of(known)
    text = subscripts.read(x.state, t, x.space)
    return f"i64({text})" if t.dtype == "u64" else text  # u64 with a signed type is f64


def number(x: Context, kind: str) -> str:
    c = x.state.c
    if kind == "b":
        return c.of(["true", "false"])
    if kind == "f" and x.state.smooth:
        return c.of(["0.5", "1.5", "0.25", "2", "0.1", "1"])
    return c.of(["1", "2", "3", "0"]) if kind == "i" else c.of(["1", "2", "3", "0", "2.0"])


def scalar(state: State, kind: str) -> str:
    name = {"f": "alpha", "i": "n"}[kind]
    if name not in state.scalars:
        state.scalars[name] = 2 if kind == "i" else 0.75 if state.smooth else 2.0
    return name


def convert(x: Context, kind: str) -> str:
    """A value of another kind, made one of this kind."""
    c, exact = x.state.c, not x.state.smooth
    if kind == "f":
        return c.of(["f32({})", "f64({})", "f16({})", "{} * 1.0"]).format(expression(x, "i", 0)) if exact or c.likely(50) else \
            f"f32({expression(x, 'b', 0)})"
    if kind == "i":
        if exact and not x.state.special and c.likely(40):
            return f"i32(clamp({expression(x, 'f', 0)}, -100, 100))"
        return c.of(["i64({})", "({} ? 1 : 2)", "i32({})"]).format(expression(x, "b", 0))
    return f"({expression(x, 'i', 0)} {c.of(['<', '==', '>=', '!='])} {expression(x, 'i', 0)})"


_EXACT = ["min({a}, {b})", "abs({a})", "sign({a})", "floor({a})", "ceil({a})", "round({a})", "trunc({a})", "clamp({a}, -3, 4)",
          "fmod({a}, 3)", "{a} % 3", "{a} // 2", "pow({a}, 2)"]
_SMOOTH = ["tanh({a})", "sin({a})", "cos({a})", "sigmoid({a})", "atan({a})", "erf({a})", "exp(clamp({a}, -3, 2))",
           "sqrt(abs({a}) + 1)", "log(abs({a}) + 1)", "rsqrt({a} * {a} + 1)", "{a} / (abs({b}) + 1)", "{a} / 4",
           "log1p(abs({a}))", "expm1(clamp({a}, -2, 2))", "asinh({a})", "cbrt(abs({a}) + 1)", "exp2(clamp({a}, -3, 3))",
           "log2(abs({a}) + 2)", "sqrt({a} * {a} + 0.5)",
           "atan2({a}, abs({b}) + 1)", "sinh(clamp({a}, -2, 2))", "cosh(clamp({a}, -2, 2))",
           "log10(abs({a}) + 1)", "tan(clamp({a}, -1, 1))", "asin(clamp({a}, -0.9, 0.9))",
           "acos(clamp({a}, -0.9, 0.9))", "acosh(abs({a}) + 1.5)", "atanh(clamp({a}, -0.9, 0.9))", "min({a}, {b})", "abs({a})"]


def _float(x: Context, depth: int) -> str:
    c = x.state.c
    a, b = expression(x, "f", depth), expression(x, "f", depth) if c.likely(60) else number(x, "f")
    match c.of(["+", "+", "*", "*", "-", "max", "?", "function", "function", "neg", "cast"]):
        case "max":
            return f"max({a}, {b})"
        case "?":
            return f"({expression(x, 'b', min(depth, 1))} ? {a} : {b})"
        case "function":
            return f"({c.of(_SMOOTH if x.state.smooth else _EXACT).format(a=a, b=b)})"
        case "neg":
            return f"(-{a})"
        case "cast":
            return f"{c.of(['f32', 'f64', 'f16'])}({a})"
        case op:
            return f"({a} {op} {b})"


def _integer(x: Context, depth: int) -> str:
    c = x.state.c
    a, b = expression(x, "i", depth), expression(x, "i", depth) if c.likely(60) else number(x, "i")
    match c.of(["+", "+", "*", "-", "max", "min", "?", "%", "//", "&", "|", "^", "<<", ">>", "~", "abs", "clamp", "cast",
                "neg", "%%"]):
        case "max" | "min" as fn:
            return f"{fn}({a}, {b})"
        case "?":
            return f"({expression(x, 'b', min(depth, 1))} ? {a} : {b})"
        case "%" | "//" as op:
            return f"({a} {op} {c.of(['3', '2', '5', '7'])})"
        case "%%":
            return f"({a} % (({b} & 3) + 1))"
        case "<<" | ">>" as op:
            return f"({a} {op} {c.of(['1', '2', '3'])})"
        case "~":
            return f"(~{a})" if not a.isdigit() else a
        case "abs":
            return f"abs({a})"
        case "neg":
            return f"(-{a})"
        case "clamp":
            return f"clamp({a}, 0, 5)"
        case "cast":
            return f"{c.of(['i32', 'i64', 'i8', 'u8', 'i16', 'u32'])}({a})"
        case op:
            return f"({a} {op} {b})"


def _condition(x: Context, depth: int) -> str:
    c = x.state.c
    match c.of(["i", "f", "index", "&&", "||", "!", "i", "chain"]):
        case "chain":
            low, op = c.of(["0", "1", "-1"]), c.of(["<", "!=", "<="])
            return f"({low} <= {expression(x, 'i', depth)} {op} {expression(x, 'i', 0)})"
        case "f" if not x.state.smooth:
            return f"({expression(x, 'f', depth)} {c.of(['<', '>', '<=', '==', '!='])} {expression(x, 'f', 0)})"
        case "index" if x.state.special:
            return f"{c.of(['isnan', 'isinf', '!isnan'])}({expression(x, 'f', 0)})"
        case "index" if x.space:
            return f"({c.of(list(x.space))} {c.of(['<', '>', '<=', '=='])} {c.below(6)})"
        case "&&" | "||" as op:
            return f"({expression(x, 'b', depth)} {op} {expression(x, 'b', depth)})"
        case "!":
            return f"(!{expression(x, 'b', depth)})"
    return f"({expression(x, 'i', depth)} {c.of(['<', '>', '<=', '>=', '==', '!='])} {expression(x, 'i', 0)})"
