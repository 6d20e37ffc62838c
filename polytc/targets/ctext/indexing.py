"""Index arithmetic in a dialect of C: loop variables and constants, in `int` where nothing can leave 32 bits, else in 64."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from polytc import errors
from polytc.codegen import intervals, loops, vector_lanes
from polytc.program.scalars import I32, I64
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.ctext.text import PREFIX, add, bare, factor, operand

errors.register(E513="an operation that OpenCL C does not have")


class Indexing:
    """Writes index arithmetic of one kernel; `value` of the subclass writes what else an index may hold (a gather).

    spell: the C name of a loop variable. itype: 'int', or the type of 64 bits. env: intervals of the loop variables in
    scope, kept by the statement writer, as are the names of index expressions that have been computed already (`known`).
    """

    def __init__(self, preamble: Preamble, spell: Callable[[str], str], itype: str) -> None:
        self.preamble, self.c = preamble, preamble.c
        self.spell = spell
        self.itype = itype
        self.env: Mapping[str, intervals.Interval] = {}
        self.known: dict[loops.Expr, str] = {}

    def value(self, e: loops.Expr) -> str:
        raise NotImplementedError

    def index(self, e: loops.Expr) -> str:
        """An integer of the kernel's index type (a vector of them for a vector)."""
        if e in self.known:
            return self.known[e]
        if not intervals.is_index(e):
            if (narrow := self._narrow(e)) is not None:
                return narrow
            return f"({self.itype}){self.value(e)}" if e.lanes == 1 else \
                self.c.vectors.convert(self._type(e.lanes), self.value(e))
        match e:
            case loops.Var():
                return self.spell(e.name)
            case loops.Const():
                text = str(int(e.value)) if e.value >= 0 else f"({int(e.value)})"
                return text if e.lanes == 1 else self.c.vectors.made(self._type(e.lanes), [text])
            case loops.Ramp() | loops.Broadcast():
                parts = [bare(self.index(vector_lanes.lane(e, k))) for k in range(e.lanes)]
                return self.c.vectors.made(self._type(e.lanes), parts if isinstance(e, loops.Ramp) else parts[:1])
            case loops.Unary():
                return f"(-{self.index(e.a)})"
            case loops.Call():
                first, *others = (self._exact(bare(self.index(a)), e.lanes) for a in e.args)
                name = e.fn if self.c.limits else self.preamble.index_helper(e.fn, self.itype)
                return functools.reduce(lambda a, b: f"{name}({a}, {b})", others, first)
            case loops.Binary(op="//" | "%") if e.lanes == 1:
                return self._floor_index(e)
            case loops.Binary(op="//" | "%"):
                parts = [bare(self.index(vector_lanes.lane(e, k))) for k in range(e.lanes)]
                return self.c.vectors.made(self._type(e.lanes), parts)
            case loops.Binary(op="+") if (taken := _negated(e.b)) is not None:
                return add("-", self.index(e.a), self.index(taken))
            case loops.Binary(op="+") if (taken := _negated(e.a)) is not None:
                return add("-", self.index(e.b), self.index(taken))
            case loops.Binary():
                return add(e.op, self.index(e.a), self.index(e.b))
            case _:
                raise AssertionError(e)

    def _narrow(self, e: loops.Expr) -> str | None:
        """A number that is in memory, or an end of it, in `int` where it fits: nothing is widened on the way."""
        if self.itype != "int" or e.lanes > 1 or not intervals.interval(e, self.env).fits32:
            return None
        match e:
            case loops.Cast(a=a) if e.dtype == I64 and a.dtype.is_int and a.dtype.bits <= 32:
                text = self.value(a)
                return text if self.c.scalar(a.dtype) == self.itype else f"({self.itype}){text}"
            case loops.Call(fn="min" | "max") if e.dtype == I64:
                parts = [self.index(a) if intervals.is_index(a) else self._narrow(a) for a in e.args]
                if any(p is None for p in parts):
                    return None
                name = e.fn if self.c.limits else self.preamble.index_helper(e.fn, self.itype)
                return functools.reduce(lambda a, b: f"{name}({a}, {b})", [bare(p) for p in parts if p is not None])
        return None

    def _type(self, lanes: int) -> str:
        return self.c.vector(I32 if self.itype == "int" else I64, lanes)

    def _exact(self, text: str, width: int) -> str:
        """min and max are overloaded: a literal must have the index type."""
        return f"(long)({text})" if self.itype == "long" and width == 1 else text

    def _floor_index(self, e: loops.Binary) -> str:
        a, b = self.index(e.a), self.index(e.b)
        divisor = intervals.interval(e.b, self.env)
        if divisor.low <= 0:
            raise errors.fail("E513", f"index arithmetic divides by '{loops.format_expr(e.b)}', which may be zero or negative",
                              kind=errors.TargetError)
        if intervals.interval(e.a, self.env).is_natural:
            return f"({operand(a, PREFIX)} {'/' if e.op == '//' else '%'} {b})"
        name = "floordiv" if e.op == "//" else "mod"
        return f"{self.preamble.index_helper(name, self.itype)}({bare(a)}, {bare(b)})"

    def flat(self, buffer: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        """The offset of buffer[indices] in elements: `(i * 64 + j) * 3 + k`, with the extents of the buffer."""
        text, number = "", 0                                         # of the dimensions so far, the number last
        for e, extent in zip(indices, buffer.shape, strict=True):
            if extent != 1:
                text = f"{factor(self._and_number(text, number))} * {self._literal(extent)}" if text else ""
                number = 0 if text else number * extent
            if isinstance(e, loops.Const):
                number += int(e.value)
            else:
                text = f"{text} + {bare(self.index(e), '+')}" if text else bare(self.index(e), "+")
        return self._and_number(text, number)

    def _and_number(self, text: str, number: int) -> str:
        if not text:
            return self._literal(number)
        return f"{text} {'+' if number > 0 else '-'} {self._literal(abs(number))}" if number else text

    def _literal(self, number: int) -> str:
        return str(number) if self.itype == "int" else f"{number}L"


def _negated(e: loops.Expr) -> loops.Expr | None:
    """-e where that has no negative number: of `x * -4` and -4."""
    match e:
        case loops.Binary(op="*", b=loops.Const() as b) if b.value < 0 and e.lanes == 1:
            return e.a if b.value == -1 else loops.binary("*", e.a, loops.const(-int(b.value)))
        case loops.Unary(op="-") if e.lanes == 1:
            return e.a
    return None
