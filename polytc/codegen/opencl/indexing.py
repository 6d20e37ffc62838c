"""Index arithmetic as OpenCL C: loop variables and constants, in `int` where nothing can leave 32 bits, else in `long`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from polytc import errors
from polytc.codegen import intervals, lanes, loops
from polytc.codegen.opencl.preamble import Preamble
from polytc.codegen.opencl.text import add, bare

errors.register(E513="an operation that OpenCL C does not have")


class Indexing:
    """Writes index arithmetic of one kernel; `value` of the subclass writes what else an index may hold (a gather).

    spell: the C name of a loop variable. itype: 'int' or 'long'. env: intervals of the loop variables in scope, kept by the
    statement writer.
    """

    def __init__(self, preamble: Preamble, spell: Callable[[str], str], itype: str) -> None:
        self.preamble = preamble
        self.spell = spell
        self.itype = itype
        self.env: Mapping[str, intervals.Interval] = {}

    def value(self, e: loops.Expr) -> str:
        raise NotImplementedError

    def index(self, e: loops.Expr) -> str:
        """An integer of the kernel's index type (a vector of them for a vector)."""
        if not intervals.is_index(e):
            return f"({self.itype}){self.value(e)}" if e.lanes == 1 else f"convert_{self.itype}{e.lanes}({self.value(e)})"
        match e:
            case loops.Var():
                return self.spell(e.name)
            case loops.Const():
                text = str(int(e.value)) if e.value >= 0 else f"({int(e.value)})"
                return text if e.lanes == 1 else f"({self.itype}{e.lanes})({text})"
            case loops.Ramp() | loops.Broadcast():
                parts = [bare(self.index(lanes.lane(e, k))) for k in range(e.lanes)]
                return f"({self.itype}{e.lanes})({', '.join(parts) if isinstance(e, loops.Ramp) else parts[0]})"
            case loops.Unary():
                return f"(-{self.index(e.a)})"
            case loops.Call():
                first, *others = (self._exact(bare(self.index(a)), e.lanes) for a in e.args)
                return functools.reduce(lambda a, b: f"{e.fn}({a}, {b})", others, first)
            case loops.Binary(op="//" | "%") if e.lanes == 1:
                return self._floor_index(e)
            case loops.Binary(op="//" | "%"):
                return f"({self.itype}{e.lanes})({', '.join(bare(self.index(lanes.lane(e, k))) for k in range(e.lanes))})"
            case loops.Binary():
                return add(e.op, self.index(e.a), self.index(e.b))
            case _:
                raise AssertionError(e)

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
            return f"({a} {'/' if e.op == '//' else '%'} {b})"
        name = "floordiv" if e.op == "//" else "mod"
        return f"{self.preamble.index_helper(name, self.itype)}({bare(a)}, {bare(b)})"

    def flat(self, buffer: loops.Buffer, indices: tuple[loops.Expr, ...]) -> str:
        """The offset of buffer[indices] in elements."""
        terms: list[str] = []
        constant = 0
        for e, stride in zip(indices, buffer.strides, strict=True):
            if isinstance(e, loops.Const):
                constant += int(e.value) * stride
                continue
            text = self.index(e)
            terms.append(bare(text, "+") if stride == 1 else f"{text} * {self._literal(stride)}")
        if constant or not terms:
            terms.append(self._literal(constant) if constant >= 0 else f"({self._literal(constant)})")
        return " + ".join(terms)

    def _literal(self, number: int) -> str:
        return str(number) if self.itype == "int" else f"{number}L"
