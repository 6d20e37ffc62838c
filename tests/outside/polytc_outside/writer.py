"""Loop AST to Python, one function a kernel. Scalars are numpy's, so that numpy's arithmetic is that of the language."""

from __future__ import annotations

import keyword
import math
from typing import Any

import numpy as np

from polytc.codegen import loops
from polytc.codegen.emitter import Emitter, Names
from polytc.codegen.size_binding import UNKNOWN
from polytc.functions.numbers import FUNCTIONS
from polytc.program import scalars


def function(name: str, kernel: loops.Kernel) -> str:
    """`def name(buffers): ...`, the buffers in the kernel's order."""
    writer = _Writer()
    writer.line(f"def {name}({', '.join(map(writer.names.buffer, kernel.args))}):")
    with writer.deeper():
        writer.emit(kernel.body)
        writer.line("pass")
    return "\n".join(writer.lines) + "\n"


class _Writer(Emitter):
    def __init__(self) -> None:
        super().__init__()
        self.names = Names(frozenset({*keyword.kwlist, *NAMES}))

    width = 10**6  # a line of Python that goes on deeper would be a block

    # ---- statements

    def emit_for(self, s: loops.For) -> None:
        self.line(f"for {self.names.variable(s.var)} in range({self.of(s.lower)}, {self.of(s.upper)}, {s.step}):")
        self.body(s.body)

    def emit_if(self, s: loops.If) -> None:
        self.line(f"if {self.of(s.cond)}:")
        self.body(s.then)
        if s.orelse is not None:
            self.line("else:")
            self.body(s.orelse)

    def body(self, s: loops.Stmt) -> None:
        """A block of Python."""
        with self.deeper():
            self.emit(s)
            self.line("pass")

    def emit_store(self, s: loops.Store) -> None:
        self.line(f"{self.element(s.buffer, s.indices)} = {self.of(s.value)}")

    def emit_alloc(self, s: loops.Alloc) -> None:
        self.line(f"{self.names.buffer(s.buffer)} = np.empty({s.buffer.shape}, {_type(s.buffer)})")
        self.emit(s.body)

    def emit_barrier(self) -> None:
        raise AssertionError("a machine without work-groups has none")

    # ---- expressions

    def element(self, buffer: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        """An element of a buffer; of one without dimensions the element there is."""
        return f"{self.names.buffer(buffer)}[{', '.join(map(self.of, indices)) or '()'}]"

    def of(self, e: loops.Expr) -> str:
        """A numpy scalar of the type of `e`."""
        match e:
            case loops.Var():
                return f"i64({self.names.variable(e.name)})"
            case loops.Const():
                return f"{e.dtype}({_number(e.value)})"
            case loops.Unary():
                return f"({'not ' if e.op == '!' else e.op}{self.of(e.a)})"
            case loops.Binary():
                return self.binary(e.op, self.of(e.a), self.of(e.b))
            case loops.Call():
                return f"cast({e.fn}({', '.join(map(self.of, e.args))}), {e.dtype})"
            case loops.Cast():
                return f"cast({self.of(e.a)}, {e.dtype})"
            case loops.Select():
                return f"({self.of(e.a)} if {self.of(e.cond)} else {self.of(e.b)})"
            case loops.Load():
                return self.element(e.buffer, e.indices)
            case _:
                raise AssertionError(f"a machine without vectors has no {type(e).__name__}")

    @staticmethod
    def binary(op: str, a: str, b: str) -> str:
        """A row of scalars.ARITHMETIC, COMPARISONS or LOGICAL."""
        if op in ("/", "<<", ">>"):
            return f"{ {'/': 'quotient', '<<': 'left', '>>': 'right'}[op]}({a}, {b})"
        return f"({a} { {'&&': 'and', '||': 'or'}.get(op, op)} {b})"


def _type(buffer: loops.Buffer) -> str:
    return str(buffer.dtype)


def _number(value: int | float | bool) -> str:
    return repr(value) if math.isfinite(value) else f"'{value}'"


def shaped(array: np.ndarray, shape: tuple[Any, ...]) -> np.ndarray:
    """The array in the shape that the loops know."""
    return array.reshape(-1 if shape == (UNKNOWN,) else shape)


# ---- what the code calls

def cast(value: Any, to: type) -> Any:
    """Conversion as numpy's astype does it."""
    return np.asarray(value).astype(to)[()]


def quotient(a: Any, b: Any) -> Any:
    """`/`: of integers towards 0, and 0 where the divisor is."""
    if isinstance(a, np.floating):
        return a / b
    if not b:
        return type(a)(0)
    exact = abs(int(a)) // abs(int(b))
    return cast(exact if (a < 0) == (b < 0) else -exact, type(a))


def left(a: Any, b: Any) -> Any:
    """`<<`; by the width or more everything is shifted out."""
    return cast(int(a) << int(b), type(a)) if 0 <= b < 8 * a.itemsize else type(a)(0)


def right(a: Any, b: Any) -> Any:
    """`>>`, which keeps the sign."""
    return type(a)(int(a) >> min(int(b), 63)) if b >= 0 else type(a)(-1 if a < 0 else 0)


def power(a: Any, b: Any) -> Any:
    """`pow`; a negative power of an integer is 0, except of 1 and -1."""
    if isinstance(a, np.integer) and b < 0:
        return type(a)(0 if abs(a) != 1 else 1 if b % 2 == 0 else a)
    return np.power(a, b)


def fma(a: Any, b: Any, c: Any) -> Any:
    """a*b + c, which may be rounded twice in f64."""
    return np.float64(a) * np.float64(b) + np.float64(c)


_REFERENCES = {"np": np, "power": power, "erf": math.erf, **FUNCTIONS}
NAMES: dict[str, Any] = {
    **{t.name: t.numpy.type for t in scalars.DTYPES.values()},
    **{row.name: eval(f"lambda {', '.join('abc'[:row.arity])}: {row.reference}", _REFERENCES)
       for row in scalars.INTRINSICS.values()},
    "np": np, "cast": cast, "quotient": quotient, "left": left, "right": right, "muladd": fma,
}
"""What the code finds: types, functions, and the operators that Python's are not."""
