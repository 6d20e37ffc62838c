"""A program as text that is the same for all programs that differ in names only.

    Y[i] = 2*X[i]   and   B[k] = 2*A[k]   ->   t1[i0] = 2*t0[i0]

Tensors are numbered in order of inputs, outputs, first writes; indices in order of first use in their statement; loops too.
Everything else shows: the type of every tensor and of every part of an expression, and any field that these classes may get.
The text is not one of the language: it is what code is looked up by.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from polytc.program import program as pr
from polytc.program.scalars import DType
from polytc.program.sizes import Size
from polytc.program.traces.traced import formula_text, traced

_TENSOR, _INDEX, _LOOP, _NOTHING = "tensor", "index", "loop", "nothing"

_NAMES: dict[type, dict[str, str]] = {
    pr.Program: {"name": _NOTHING, "inputs": _TENSOR, "outputs": _TENSOR, "constants": _TENSOR},
    pr.Statement: {"name": _NOTHING, "span": _NOTHING, "target": _TENSOR, "loops": _LOOP},
    pr.Bound: {"index": _INDEX},
    pr.Tensor: {"name": _TENSOR},
    pr.Range: {"index": _INDEX},
    pr.Read: {"tensor": _TENSOR},
    pr.Index: {"name": _INDEX},
}
"""The fields that hold names, and of what; those of nothing are left out."""


def canonical(program: pr.Program, names: bool = False) -> str:
    """The text by which equal programs are found. names: keep the program's own, for what refers to them."""
    order = dict.fromkeys((*program.inputs, *program.outputs, *(s.target for s in program.statements),
                           *(t.name for t in program.tensors)))
    number = {name: k for k, name in enumerate(order)}
    tensors = sorted(program.tensors, key=lambda t: number[t.name])
    writer = _Writer({n: n for n in order} if names else {n: f"t{k}" for n, k in number.items()}, names)
    parts = [writer.text(t) for t in tensors]
    parts += [f"{name} {writer.field(getattr(program, name), kind)}" for name, kind in _layout(pr.Program)
              if name not in ("tensors", "statements")]
    return "\n".join([*parts, *(writer.statement(s) for s in program.statements)])


@cache
def _layout(kind: type) -> tuple[tuple[str, str], ...]:
    """The fields of a class, each with what it names ('' for none), without those that say nothing or are not compared."""
    known = _NAMES.get(kind, {})
    return tuple((f.name, known.get(f.name, "")) for f in fields(kind) if f.compare and known.get(f.name) != _NOTHING)


_PLAIN = frozenset((type(None), bool, int, float, complex, str))


@dataclass
class _Writer:
    """tensors: how each is called; keep: whether indices (and statements) are called by their names."""

    tensors: dict[str, str]
    keep: bool

    def __post_init__(self) -> None:
        self.indices: dict[str, str] = {}
        self.loops: dict[str, str] = {}

    def statement(self, s: pr.Statement) -> str:
        self.indices = {}
        return f"{s.name}: {self.text(s)}" if self.keep else self.text(s)

    def field(self, value: Any, kind: str) -> str:
        if not kind:
            return self.text(value)
        if isinstance(value, tuple):
            return ",".join([self.field(v, kind) for v in value])
        if kind == _TENSOR:
            return self.tensors[value]
        if self.keep:
            return str(value)
        return self.loops.setdefault(value, f"l{len(self.loops)}") if kind == _LOOP else \
            self.indices.setdefault(value, f"i{len(self.indices)}")

    def text(self, value: Any) -> str:
        kind: type = type(value)
        if kind in _PLAIN:  # the most, before what needs a look at classes above
            return repr(value)
        if isinstance(value, DType):
            return value.name
        if isinstance(value, tuple):
            return f"[{','.join([self.text(v) for v in value])}]"
        if isinstance(value, Size):  # the representative decides how fast code is for which sizes
            return f"{value}~{int(value)}"
        if isinstance(value, int) and traced(value):
            return formula_text(value)
        if value is None or isinstance(value, (bool, int, float, complex, str)):
            return repr(value)
        return f"{kind.__name__}({' '.join([self.field(getattr(value, n), k) for n, k in _layout(kind)])})"
