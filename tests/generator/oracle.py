"""A second, independent reference: plain loops over the syntax tree with Python's numbers, which have no types and do not wrap.

It takes tensors' bounds and indices' boxes from the Program, and everything else from the text. Beside each value it carries a
magnitude: the sum of absolute values of what was added up on the way, which bounds what rounding and reassociation can change.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.lang import scalars
from polytc.lang import syntax as sx
from polytc.lang.calls import resolve
from polytc.lang.program import Program
from polytc.lang.typenames import dtype_of

NODES = 30_000
"""Nodes of expressions that are looked at before a program is given up."""

Number = int | float | bool
Term = tuple[Number, float]
"""A value and its magnitude."""
Place = tuple[int, ...]


@dataclass(frozen=True)
class Known:
    """magnitudes: the largest of each output. sure: the values count: no integer has wrapped, nothing was decided by a float
    that had been rounded. exact: no rounding happens in any order of the additions."""

    values: dict[str, np.ndarray]
    magnitudes: dict[str, float]
    sure: bool
    exact: bool


class _Skipped(Exception):
    """An `else identity`: the term is left out."""


class _OutsideOfDomain(Exception):
    """Python refuses what floats have an answer for: the remainder of an infinity, the floor of a NaN."""


class _GivenUp(Exception):
    """Too large, or a construct that is not interpreted here."""


def run(text: str, program: Program, inputs: Mapping[str, np.ndarray], numbers: Mapping[str, Number], fine: bool
        ) -> Known | None:
    """The outputs of a program; None where it is too large or calls definitions. fine: some floats are no integers."""
    functions = resolve(text)
    if len(functions) != 1 or any(not isinstance(s, sx.Statement) for s in functions[0].body):
        return None
    try:
        with np.errstate(all="ignore"):
            return _Interpreter(functions[0], program, inputs, numbers, fine).run()
    except _GivenUp:
        return None
    except (OverflowError, ZeroDivisionError, _OutsideOfDomain):
        return Known({}, dict.fromkeys(program.outputs, math.inf), False, False)


class _Interpreter:
    def __init__(self, f: sx.Function, program: Program, inputs: Mapping[str, np.ndarray], numbers: Mapping[str, Number],
                 fine: bool) -> None:
        self.program = program
        self.body = [s for s in f.body if isinstance(s, sx.Statement)]
        self.numbers: dict[str, Number] = dict(numbers) | {"true": True, "false": False}
        for p in f.params:
            for d, dim in enumerate(p.dims or ()):
                if isinstance(dim, sx.Name):
                    self.numbers[dim.id] = inputs[p.name].shape[d]
        self.boxes = {}
        for k, s in enumerate(self.body, 1):
            found = next((x for x in program.statements if x.name == f"S{k}"), None)
            if found is None or s.components or s.reset or s.accumulator:
                raise _GivenUp
            self.boxes[id(s)] = {r.index: (r.lower, r.upper) for r in found.ranges[len(s.loops):]}
        self.bounds = {t.name: [range(lo, lo + n) for lo, n in zip(t.lower, t.shape)] for t in program.tensors}
        self.memory: dict[str, dict[Place, Term]] = {t.name: {} for t in program.tensors}
        for name, a in inputs.items():
            if name in self.memory:
                self.memory[name] = {p: (v := a[p].item() if a.dtype.name != "bfloat16" else float(a[p]), abs(float(v)))
                                     for p in np.ndindex(a.shape)}
        self.started = set(inputs)
        self.left = NODES
        self.integers = [0, 0]
        self.floats = 0.0
        self.fine = fine
        self.rounded = False
        self.types = {t.dtype for t in program.tensors}

    def run(self) -> Known:
        self.block(self.body, 0, {})
        values, magnitudes = {}, {}
        for name in self.program.outputs:
            t = self.program.tensor(name)
            a, reached = np.zeros(t.shape, object), 0.0
            for p in np.ndindex(t.shape):
                a[p], m = self.memory[name][tuple(x + lo for x, lo in zip(p, t.lower))]
                reached = max(reached, m)
            magnitudes[name] = reached
            values[name] = a if t.dtype.is_float else a.astype(bool if t.dtype.kind == "b" else object)
        low, high = max(self.limits(d)[0] for d in self.types), min(self.limits(d)[1] for d in self.types)
        whole = self.floats < 2.0 ** 22 and not self.rounded and all(
            term[1] <= _whole(t.dtype) for t in self.program.tensors if t.dtype.is_half
            for term in self.memory[t.name].values() if math.isfinite(term[0]))
        fits = low <= self.integers[0] and self.integers[1] <= high
        return Known(values, magnitudes, fits and (whole or self.fine), whole and not self.fine)

    @staticmethod
    def limits(d: scalars.DType) -> tuple[int, int]:
        if not d.is_int:
            return -2 ** 62, 2 ** 62
        info = np.iinfo(d.numpy)
        return int(info.min), int(info.max)

    def block(self, body: list[sx.Statement], depth: int, env: dict[str, int]) -> None:
        """Statements in order, those with a common loop at this depth together."""
        for label, group in itertools.groupby(body, lambda s: s.loops[depth].label if len(s.loops) > depth else None):
            inside = list(group)
            if depth == 0:
                for s in inside:
                    if s.op is not None and s.target not in self.started:
                        self.start(s)
                    self.started.add(s.target)
            if label is None:
                for s in inside:
                    self.statement(s, env)
                continue
            clause = inside[0].clauses[depth]
            assert isinstance(clause, sx.RangeClause)
            ends = [self.value(e, inside[0], env)[0] if e is not None else 1 for e in (clause.lower, clause.upper, clause.step)]
            for value in range(*(int(e) for e in ends)):
                self.block(inside, depth + 1, env | {clause.index: value})

    def start(self, s: sx.Statement) -> None:
        d = self.program.tensor(s.target).dtype
        low, high = (-math.inf, math.inf) if d.is_float else (False, True) if d.kind == "b" else self.limits(d)
        first = {"+": 0, "*": 1, "|": 0, "^": 0, "&": -1 if d.kind == "i" else high, "min": high, "max": low}[s.op or "+"]
        value = bool(first) if d.kind == "b" else first
        for p in itertools.product(*self.bounds[s.target]):
            self.memory[s.target][p] = (value, 0.0 if s.op != "*" else 1.0)

    def points(self, s: sx.Statement, env: dict[str, int]) -> Iterator[dict[str, int]]:
        box = self.boxes[id(s)]
        for values in itertools.product(*(range(*b) for b in box.values())):
            point = env | dict(zip(box, values, strict=True))
            if all(self.holds(c, s, point) for c in s.clauses[len(s.loops):]):
                yield point

    def holds(self, c: sx.Clause, s: sx.Statement, point: dict[str, int]) -> bool:
        if isinstance(c, sx.RangeClause):
            low, high = self.value(c.lower, s, point)[0], self.value(c.upper, s, point)[0]
            step = self.value(c.step, s, point)[0] if c.step is not None else 1
            return low <= point[c.index] < high and (point[c.index] - int(low)) % int(step) == 0
        return isinstance(c, sx.LetClause) or bool(self.value(c.value, s, point)[0])

    def statement(self, s: sx.Statement, env: dict[str, int]) -> None:
        found = []
        for point in self.points(s, env):
            place = tuple(int(self.value(e, s, point)[0]) for e in s.subscripts)
            if all(x in axis for x, axis in zip(place, self.bounds[s.target])):
                try:
                    found.append((place, self.value(s.value, s, point)))
                except _Skipped:
                    continue
        floats = self.program.tensor(s.target).dtype.is_float
        memory = self.memory[s.target]
        for place, (v, m) in found:
            if floats:
                v = float(v)
            if s.op is not None:
                v, m = self.noted(*_combined(s.op, memory[place], (v, m)))
            memory[place] = v, m

    def noted(self, v: Number, m: float) -> Term:
        """Remembers how large numbers become."""
        if isinstance(v, float):
            self.floats = max(self.floats, m)
        elif not isinstance(v, bool):
            self.integers = [min(self.integers[0], v), max(self.integers[1], v)]
        return v, m

    def value(self, e: sx.Expr | None, s: sx.Statement, point: dict[str, int]) -> Term:
        self.left -= 1
        if self.left < 0:
            raise _GivenUp
        return self.noted(*self._value(e, s, point))

    def _value(self, e: sx.Expr | None, s: sx.Statement, point: dict[str, int]) -> Term:
        match e:
            case sx.Number(value=v):
                return v, abs(float(v))
            case sx.Name(id=name):
                if name in point:
                    return point[name], abs(float(point[name]))
                let = next((c.value for c in s.clauses if isinstance(c, sx.LetClause) and c.name == name), None)
                if let is not None:
                    return self.value(let, s, point)
                if name in self.numbers:
                    return self.numbers[name], abs(float(self.numbers[name]))
                return self.memory[name][()]
            case sx.Access(tensor=name, subscripts=subscripts):
                return self.memory[name][tuple(int(self.value(x, s, point)[0]) for x in subscripts)]
            case sx.Guarded(access=sx.Access(tensor=name, subscripts=subscripts), default=default):
                place = tuple(int(self.value(x, s, point)[0]) for x in subscripts)
                if all(x in axis for x, axis in zip(place, self.bounds[name])):
                    return self.memory[name][place]
                if default is None:
                    raise _Skipped
                v, m = self.value(default, s, point)
                return (float(v), m) if self.program.tensor(name).dtype.is_float else (v, m)
            case sx.Unary(op=op, a=a):
                v, m = self.value(a, s, point)
                return {"-": operator.neg, "!": operator.not_, "~": operator.invert}[op](v), m
            case sx.Binary(op=op, a=a, b=b):
                return self.binary(op, self.value(a, s, point), self.value(b, s, point))
            case sx.Ternary(condition=c, a=a, b=b) if self.constant(c, s, point):
                return self.value(a if self.value(c, s, point)[0] else b, s, point)
            case sx.Ternary(condition=c, a=a, b=b):
                x, y = self.value(a, s, point), self.value(b, s, point)
                chosen = x if self.value(c, s, point)[0] else y
                return (float(chosen[0]), chosen[1]) if isinstance(x[0], float) or isinstance(y[0], float) else chosen
            case sx.Call(fn=fn, args=args):
                return self.call(fn, [self.value(a, s, point) for a in args])
        raise _GivenUp

    def constant(self, e: sx.Expr, s: sx.Statement, point: Mapping[str, int]) -> bool:
        """Is it made of numbers and scalars alone? The branch that such a condition leaves out is as if it were not written."""
        match e:
            case sx.Number():
                return True
            case sx.Name(id=name):
                let = next((c.value for c in s.clauses if isinstance(c, sx.LetClause) and c.name == name), None)
                return name in self.numbers if let is None else self.constant(let, s, point)
            case sx.Unary(a=a):
                return self.constant(a, s, point)
            case sx.Binary(a=a, b=b):
                return self.constant(a, s, point) and self.constant(b, s, point)
            case sx.Call(args=args):
                return all(self.constant(a, s, point) for a in args)
        return False

    def binary(self, op: str, a: Term, b: Term) -> Term:
        (x, m), (y, n) = a, b
        match op:
            case "+" | "-":
                return _ARITHMETIC[op](x, y), m + n
            case "*":
                return x * y, m * n
            case "/":
                self.fine = True
                v = x / y
                return v, abs(v) + m / abs(y) + abs(v) * n / abs(y)
            case "//" | "%":
                return _ARITHMETIC[op](x, y), max(m, n)
            case "&&" | "||":
                return (x and y) if op == "&&" else (x or y), 0.0
            case _:
                v = _ARITHMETIC[op](x, y)
                return v, abs(float(v))

    def call(self, fn: str, args: list[Term]) -> Term:
        d = dtype_of(fn)
        v, m = args[0]
        if d is not None:
            self.types.add(d)
            if d.is_half and math.isfinite(v) and m > _whole(d):
                self.rounded = True
            return (float(v) if d.is_float else int(v) if d.is_int else bool(v)), m
        if fn in _SIMPLE:
            found = _inside(_SIMPLE[fn], [x for x, _ in args])
            if any(isinstance(x, float) for x, _ in args):
                found = float(found)
            return found, max([*(n for _, n in args), abs(found)]) if fn not in ("pow",) else max(abs(found), m * m)
        if fn not in _SMOOTH:
            raise _GivenUp
        self.fine = True
        f, slope = _SMOOTH[fn]
        values = [float(x) for x, _ in args]
        found = _inside(f, values)
        return found, abs(found) + slope(*values) * sum(n for _, n in args)


def _inside(f: Callable[..., Any], values: list[Any]) -> Any:
    """f of the values. Raises _OutsideOfDomain."""
    try:
        return f(*values)
    except ValueError:
        raise _OutsideOfDomain from None


def _combined(op: str, a: Term, b: Term) -> Term:
    (x, m), (y, n) = a, b
    match op:
        case "+":
            return x + y, m + n
        case "*":
            return x * y, m * n
        case "min":
            return min(x, y), max(m, n)
        case "max":
            return max(x, y), max(m, n)
        case _:
            v = _ARITHMETIC[op](x, y)
            return v, abs(float(v))


def _whole(d: scalars.DType) -> float:
    """Integers up to here are numbers of a half precision type."""
    return 2.0 ** 8 if d.name == "bf16" else 2.0 ** 11


def _one(*_: float) -> float:
    return 1.0


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

_SIMPLE: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "abs": abs, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round,
    "clamp": lambda x, a, b: min(max(x, a), b), "sign": lambda x: (x > 0) - (x < 0), "fmod": math.fmod, "pow": operator.pow}

_SMOOTH: dict[str, tuple[Callable[..., float], Callable[..., float]]] = {
    "tanh": (math.tanh, _one), "sin": (math.sin, _one), "cos": (math.cos, _one), "atan": (math.atan, _one),
    "erf": (math.erf, lambda x: 2.0),
    "sigmoid": (lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0, _one), "exp": (math.exp, math.exp),
    "exp2": (math.exp2, math.exp2),
    "expm1": (math.expm1, math.exp), "sqrt": (math.sqrt, _one), "rsqrt": (lambda x: 1 / math.sqrt(x), _one),
    "log": (math.log, _one), "log1p": (math.log1p, _one), "log2": (math.log2, _one),
    "log10": (math.log10, _one), "tan": (math.tan, lambda x: 4.0), "asin": (math.asin, lambda x: 3.0),
    "acos": (math.acos, lambda x: 3.0), "acosh": (math.acosh, _one), "atanh": (math.atanh, lambda x: 6.0),
    "cbrt": (math.cbrt, _one), "asinh": (math.asinh, _one),
    "atan2": (math.atan2, _one), "sinh": (math.sinh, math.cosh), "cosh": (math.cosh, math.cosh)}
"""name -> (function, a bound of its slope), for the arguments that the generator gives them."""
