"""LLVM IR as text: typed values, functions under construction, and the module that collects them.

The text is written directly, not through llvmlite's builder: it is several times quicker and shows every flag and
attribute where it is decided.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polytc.program.scalars import BF16, DType

_SCALARS = {"f16": "half", "bf16": "i16", "f32": "float", "f64": "double", "bool": "i1"}
_FLOATS = ("float", "double", "half")


class Value(NamedTuple):
    """An operand: LLVM type and how it is written, e.g. ('<8 x float>', '%v12') or ('i64', '3'); number: of a constant, what is
    in each lane, an int or, of float types, a float."""

    type: str
    ref: str
    number: int | float | None = None

    def __str__(self) -> str:
        return f"{self.type} {self.ref}"


def register_type(dtype: DType, lanes: int = 1) -> str:
    """The LLVM type of a value; bool is i1, and bf16 its bits, on which there is no arithmetic."""
    scalar = _SCALARS.get(dtype.name, f"i{dtype.bits}")
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def memory_type(dtype: DType, lanes: int = 1) -> str:
    """The LLVM type of what lies in memory; bool is i8, 0 or 1."""
    return f"<{lanes} x i8>" if dtype.kind == "b" and lanes > 1 else "i8" if dtype.kind == "b" else register_type(dtype, lanes)


def is_vector(type_: str) -> bool:
    """Whether a type is one of vectors, e.g. '<8 x float>'; also one of a single lane, '<1 x i32>'."""
    return type_.startswith("<")


def element(type_: str) -> str:
    """The element type of a vector type, e.g. '<8 x float>' -> 'float'; a scalar type is its own element."""
    return type_[type_.index("x ") + 2:-1] if is_vector(type_) else type_


def lanes_of(type_: str) -> int:
    """How many lanes a type has, e.g. '<8 x float>' -> 8."""
    return int(type_[1:type_.index(" ")]) if is_vector(type_) else 1


def vector(type_: str, lanes: int) -> str:
    """The type with `lanes` lanes of a scalar type."""
    return type_ if lanes == 1 else f"<{lanes} x {type_}>"


def literal(value: int | float | bool, scalar: str) -> str:
    """A scalar constant as LLVM writes it: floats in hex, exactly."""
    if scalar in _FLOATS:
        with np.errstate(over="ignore"):
            rounded = {"float": np.float32, "double": np.float64, "half": np.float16}[scalar](value)
        if scalar == "half":
            return f"0xH{struct.unpack('<H', struct.pack('<e', rounded))[0]:04X}"
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    if scalar == "i1":
        return "true" if value else "false"
    return str(int(value))


def constant(value: int | float | bool, type_: str) -> Value:
    """A constant of a scalar type, or of a vector type with the same number in every lane."""
    scalar = element(type_)
    text = literal(value, scalar)
    known = float(value) if scalar in _FLOATS else int(value)
    return Value(type_, text if lanes_of(type_) == 1 else f"splat ({scalar} {text})", known)


def number(value: int | float | bool, dtype: DType, lanes: int = 1) -> Value:
    """A constant of a scalar type of ours, in every lane."""
    if dtype == BF16:
        return constant(bfloat_bits(float(value)), vector("i16", lanes))
    return constant(value, register_type(dtype, lanes))


def bfloat_bits(value: float) -> int:
    """The bits of the nearest bf16, ties to even, as a signed number."""
    with np.errstate(over="ignore"):
        bits = int(np.float32(value).view(np.uint32))
    if value != value:
        return 0x7FC0
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return bits - (bits >> 15 << 16)


def constants(values: Sequence[int], scalar: str) -> Value:
    """A constant vector of integers (or truth values, of i1)."""
    return Value(vector(scalar, len(values)), "<" + ", ".join(f"{scalar} {literal(v, scalar)}" for v in values) + ">")


def symbol(name: str) -> str:
    """A name as LLVM identifiers take it."""
    return "".join(c if c.isascii() and c.isalnum() or c in "_." else f"${ord(c):x}$" for c in name)


class Text:
    """A module under construction: its functions, and a declaration for each external function that they call."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.declarations: dict[str, str] = {}
        self.metadata: list[str] = []
        self.tables: list[bytes] = []

    def table(self, data: bytes) -> Value:
        """The address of constant bytes, at a multiple of 64."""
        if data not in self.tables:
            self.tables.append(data)
        return Value("ptr", f"@table.{self.tables.index(data)}")

    def loop_metadata(self, *properties: str) -> str:
        """A new loop's metadata, e.g. of 'llvm.loop.unroll.disable', as an operand of its branch."""
        number = len(self.metadata)
        facts = [f"!{number + 1 + i}" for i in range(len(properties))]
        self.metadata.append(f"!{number} = distinct !{{!{number}, {', '.join(facts)}}}")
        self.metadata += [f'{f} = !{{!"{p}"}}' for f, p in zip(facts, properties, strict=True)]
        return f"!llvm.loop !{number}"

    def declare(self, name: str, result: str, params: Sequence[str]) -> None:
        """Make an external function known."""
        self.declarations.setdefault(name, f"declare {result} @{name}({', '.join(params)})")

    def defines(self, name: str) -> bool:
        return any(f.name == name for f in self.functions)

    def render(self, header: Sequence[str], attributes: str) -> str:
        """The module's text. attributes: of every function defined here (group #0)."""
        tables = [f'@table.{n} = internal constant [{len(data)} x i8] c"{"".join(f"{chr(92)}{b:02X}" for b in data)}", align 64'
                  for n, data in enumerate(self.tables)]
        return "\n".join([*header, *tables, *(f.render() for f in self.functions), *self.declarations.values(),
                          f"attributes #0 = {{ {attributes} }}", *self.metadata, ""])


class Function:
    """A function under construction. Instructions go to the current block; allocas to the head of the entry block."""

    def __init__(self, text: Text, name: str, params: Sequence[str], result: str = "void", linkage: str = "internal ") -> None:
        self.text, self.name, self.params, self.result, self.linkage = text, name, params, result, linkage
        self.allocas: list[str] = []
        self.lines: list[str] = []
        self.block = "entry"
        self.extra = ""
        self.vectors = 0
        """Instructions so far that read or make a vector."""
        self.spared = 0
        """Instructions so far for which values stand that are not stored (see straight_arrays)."""
        self._count = 0
        self._splats: tuple[str, dict[tuple[str, int], Value]] = ("", {})
        text.functions.append(self)

    def fresh(self, stem: str = "v") -> str:
        """A name that is not used in this function."""
        self._count += 1
        return f"{stem}{self._count}"

    def emit(self, type_: str, instruction: str, *operands: Value) -> Value:
        """Append an instruction that yields a value of `type_`. operands: that may be vectors where the result is none."""
        ref = f"%{self.fresh()}"
        self.vectors += is_vector(type_) or any(is_vector(a.type) for a in operands)
        self.lines.append(f"  {ref} = {instruction}")
        return Value(type_, ref)

    def do(self, instruction: str, *operands: Value) -> None:
        """Append an instruction without a result. operands: those that may be vectors."""
        self.vectors += any(is_vector(a.type) for a in operands)
        self.lines.append(f"  {instruction}")

    def start(self, label: str) -> None:
        """Begin a block; the one before must have ended with a branch."""
        self.lines.append(f"{label}:")
        self.block = label

    def alloca(self, type_: str, count: int, align: int) -> Value:
        """Stack memory for the whole function."""
        ref = f"%{self.fresh('a')}"
        self.allocas.append(f"  {ref} = alloca [{count} x {type_}], align {align}")
        return Value("ptr", ref)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        """`op` of two values of one type, e.g. 'add nsw'."""
        return self.emit(a.type, f"{op} {a}, {b.ref}")

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """A comparison, e.g. 'icmp slt': bool in each lane."""
        return self.emit(vector("i1", lanes_of(a.type)), f"{op} {a}, {b.ref}")

    def choose(self, cond: Value, a: Value, b: Value) -> Value:
        """select."""
        return self.emit(a.type, f"select {cond}, {a}, {b}")

    def convert(self, op: str, a: Value, scalar: str) -> Value:
        """A conversion such as 'sext' to the type with the same lanes."""
        target = vector(scalar, lanes_of(a.type))
        return a if target == a.type else self.emit(target, f"{op} {a} to {target}")

    def bitcast(self, a: Value, type_: str) -> Value:
        """The same bits as another type, which may have other lanes."""
        return self.emit(type_, f"bitcast {a} to {type_}", a)

    def call(self, name: str, result: str, args: Sequence[Value], flags: str = "") -> Value:
        """A call of an external function, declared on the way."""
        self.text.declare(name, result, [a.type for a in args])
        return self.emit(result, f"call {flags}{result} @{name}({', '.join(map(str, args))})", *args)

    def call_void(self, name: str, args: Sequence[Value]) -> None:
        """A call of an external function without a result."""
        self.text.declare(name, "void", [a.type for a in args])
        self.do(f"call void @{name}({', '.join(map(str, args))})", *args)

    def intrinsic(self, name: str, args: Sequence[Value], flags: str = "") -> Value:
        """A call of an LLVM intrinsic overloaded on its first argument's type, with a result of that type."""
        return self.call(f"llvm.{name}.{mangle(args[0].type)}", args[0].type, args, flags)

    def splat(self, a: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if lanes == 1 or lanes_of(a.type) == lanes:
            return a
        if not a.ref.startswith("%"):
            return Value(vector(a.type, lanes), f"splat ({a})", a.number)
        block, known = self._splats
        if block != self.block:
            known = {}
            self._splats = self.block, known
        if (a.ref, lanes) not in known:
            known[a.ref, lanes] = self._splat(a, lanes)
        return known[a.ref, lanes]

    def _splat(self, a: Value, lanes: int) -> Value:
        target = vector(a.type, lanes)
        first = self.emit(target, f"insertelement {target} poison, {a}, i64 0")
        return self.emit(target, f"shufflevector {first}, {target} poison, <{lanes} x i32> zeroinitializer")

    def shuffle(self, a: Value, b: Value | None, order: Sequence[int]) -> Value:
        """Lanes of a and b in another order; -1 is a lane that does not matter."""
        second = f"{b}" if b is not None else f"{a.type} poison"
        return self.emit(vector(element(a.type), len(order)), f"shufflevector {a}, {second}, {_order(tuple(order))}")

    def extract(self, a: Value, lane: int) -> Value:
        """One lane."""
        return self.emit(element(a.type), f"extractelement {a}, i64 {lane}", a)

    def insert(self, a: Value, x: Value, lane: int) -> Value:
        """`a` with another value in one lane."""
        return self.emit(a.type, f"insertelement {a}, {x}, i64 {lane}")

    def render(self) -> str:
        head = f"define {self.linkage}{self.result} @{self.name}({', '.join(self.params)}) {self.extra}#0 {{"
        return "\n".join([head, "entry:", *self.allocas, *self.lines, "}"])


@functools.lru_cache(maxsize=256)  # copies of a shuffle ask the same
def _order(lanes: tuple[int, ...]) -> str:
    """The last operand of a shuffle."""
    return f"<{len(lanes)} x i32> <{', '.join('i32 poison' if i < 0 else f'i32 {i}' for i in lanes)}>"


def mangle(type_: str) -> str:
    """A type in an intrinsic's name, e.g. '<8 x float>' -> 'v8f32'."""
    scalar = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(element(type_), element(type_))
    lanes = lanes_of(type_)
    return scalar if lanes == 1 else f"v{lanes}{scalar}"
