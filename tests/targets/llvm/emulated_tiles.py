"""Instructions that this processor may lack: x86's AMX in numpy, with a call of Python for each, and dot products of words."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from polytc.codegen.target import Source

I16, I64, PTR = ctypes.c_int16, ctypes.c_int64, ctypes.c_void_p


def _bytes(x: np.ndarray, dtype: type) -> np.ndarray:
    """Bytes, four of them a word, as numbers."""
    return x.view(dtype).astype(np.int32).reshape(len(x), -1, 4)


def _bfloats(x: np.ndarray) -> np.ndarray:
    """Halves of words as numbers."""
    return (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(len(x), -1, 2)


PRODUCTS: dict[str, tuple[type, Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "tdpbusd": (np.int32, lambda x: _bytes(x, np.uint8), lambda x: _bytes(x, np.int8)),
    "tdpbsud": (np.int32, lambda x: _bytes(x, np.int8), lambda x: _bytes(x, np.uint8)),
    "tdpbf16ps": (np.float32, _bfloats, _bfloats)}
"""Instruction -> the numbers of its sums, and how it reads its operands."""


class Unit:
    """The tiles that there are, by number: each holds rows of bytes. wrong: what the processor would refuse."""

    def __init__(self) -> None:
        self.tiles: list[np.ndarray] = []
        self.wrong: list[str] = []
        calls = {"tilezero": (self.zero, I64, I16, I16), "tileloadd64": (self.load, I64, I16, I16, PTR, I64),
                 "tilestored64": (self.store, None, I16, I16, PTR, I64, I64)}
        calls |= {name: (self.product(name), I64, I16, I16, I16, I64, I64, I64) for name in PRODUCTS}
        self.functions = {name: ctypes.CFUNCTYPE(*types)(f) for name, (f, *types) in calls.items()}

    def source(self, made: Source) -> Source:
        """The source with calls of Python in the place of tile instructions, for the processor that we run on."""
        made = with_dots(made)
        text = made.text.replace("x86_amx", "i64").replace("captures(none) ", "")
        text = re.sub(r"declare \S+ @llvm\.x86\.t\w+\.internal.*\n", "", text)
        for name, f in self.functions.items():
            address = ctypes.cast(f, PTR).value
            text = text.replace(f"@llvm.x86.{name}.internal(", f"inttoptr (i64 {address} to ptr)(")
        return replace(made, text=text)

    def new(self, tile: np.ndarray) -> int:
        rows, width = tile.shape
        if not (0 < rows <= 16 and 0 < width <= 64 and width % 4 == 0):
            self.wrong.append(f"a tile of {rows} rows of {width} bytes")
        self.tiles.append(tile)
        return len(self.tiles) - 1

    def zero(self, rows: int, width: int) -> int:
        return self.new(np.zeros((rows, width), np.uint8))

    def load(self, rows: int, width: int, at: int, stride: int) -> int:
        return self.new(np.stack([np.frombuffer(ctypes.string_at(at + n * stride, width), np.uint8) for n in range(rows)]))

    def store(self, rows: int, width: int, at: int, stride: int, number: int) -> None:
        if self.tiles[number].shape != (rows, width):
            self.wrong.append("a tile is stored with another shape")
        for n, row in enumerate(self.tiles[number]):
            ctypes.memmove(at + n * stride, row.tobytes(), width)

    def product(self, name: str) -> Callable[[int, int, int, int, int, int], int]:
        dtype, left, right = PRODUCTS[name]

        def call(rows: int, width: int, inner: int, total: int, a: int, b: int) -> int:
            shapes = [self.tiles[n].shape for n in (total, a, b)]
            if shapes != [(rows, width), (rows, inner), (inner // 4, width)]:
                self.wrong.append(f"{name} of tiles {shapes}")
                return total
            more = np.einsum("ikw,kjw->ij", left(self.tiles[a]), right(self.tiles[b]))
            return self.new((self.tiles[total].view(dtype) + more).astype(dtype).view(np.uint8))
        return call


_BYTES = ("i32", 4, "i8")
DOTS = {f"llvm.x86.avx512.vpdpbusd.{bits}": (bits // 32, *_BYTES, "zext", "sext", "mul", "add") for bits in (128, 256, 512)} | {
    f"llvm.x86.avx512bf16.dpbf16ps.{bits}": (bits // 32, "float", 2, "bfloat", "fpext", "fpext", "fmul", "fadd")
    for bits in (128, 256, 512)} | {
    f"llvm.aarch64.neon.{name}.v4i32.v16i8": (4, *_BYTES, first, second, "mul", "add")
    for name, first, second in (("usdot", "zext", "sext"), ("sdot", "sext", "sext"), ("udot", "zext", "zext"))}
"""Dot product of words -> its lanes, their numbers, and how many of which type are in a word, made numbers, multiplied and
added how."""


def with_dots(made: Source) -> Source:
    """The source, for the processor that we run on, with functions in the place of dot products of words."""
    text = re.sub(r'"target-(cpu|features)"="[^"]*"', "", made.text)
    for n, (name, row) in enumerate(DOTS.items()):
        if f"@{name}(" in text:
            text = re.sub(rf"declare .*@{re.escape(name)}\(.*\n", "", text).replace(f"@{name}(", f"@dot.{n}(")
            text += "\n".join(_dot(f"dot.{n}", *row))
    return replace(made, text=text)


def _dot(function: str, lanes: int, number: str, group: int, part: str, *ops: str) -> list[str]:
    first, second, times, plus = ops
    total, wide, narrow = f"<{lanes} x {number}>", f"<{lanes * group} x {number}>", f"<{lanes * group} x {part}>"
    lines = [f"define internal {total} @{function}({total} %t0, {narrow} %a, {narrow} %b) {{",
             f"  %x = {first} {narrow} %a to {wide}", f"  %y = {second} {narrow} %b to {wide}", f"  %p = {times} {wide} %x, %y"]
    for n in range(group):
        order = ", ".join(f"i32 {group * lane + n}" for lane in range(lanes))
        lines += [f"  %p{n} = shufflevector {wide} %p, {wide} poison, <{lanes} x i32> <{order}>",
                  f"  %t{n + 1} = {plus} {total} %t{n}, %p{n}"]
    return [*lines, f"  ret {total} %t{group}", "}", ""]
