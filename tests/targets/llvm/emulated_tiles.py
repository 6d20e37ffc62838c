"""Instructions that this processor may lack: x86's AMX in numpy, with a call of Python for each, and dot products of words."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from polytc.codegen.target import Source

I8, I64, PTR = ctypes.c_int8, ctypes.c_int64, ctypes.c_void_p


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
    """Eight tiles, each so many rows of bytes. used: products that were made; widths: bytes of the rows that were loaded;
    wrong: what the processor would refuse."""

    def __init__(self) -> None:
        self.tiles: list[np.ndarray | None] = [None] * 8
        self.used = 0
        self.widths: set[int] = set()
        self.wrong: list[str] = []
        calls = {"ldtilecfg": (self.configure, None, PTR), "tilerelease": (self.release, None),
                 "tilezero": (self.zero, None, I8),
                 "tileloadd64": (self.load, None, I8, PTR, I64), "tilestored64": (self.store, None, I8, PTR, I64)}
        calls |= {name: (self.product(name), None, I8, I8, I8) for name in PRODUCTS}
        self.functions = {name: ctypes.CFUNCTYPE(*types)(f) for name, (f, *types) in calls.items()}

    def source(self, made: Source) -> Source:
        """The source with calls of Python in the place of tile instructions, for the processor that we run on."""
        made = with_dots(made)
        text = made.text
        for name, f in self.functions.items():
            address = ctypes.cast(f, PTR).value
            text = re.sub(rf"declare void @llvm\.x86\.{name}\(.*\n", "", text)
            text = text.replace(f"@llvm.x86.{name}(", f"inttoptr (i64 {address} to ptr)(")
        return replace(made, text=text)

    def configure(self, at: int) -> None:
        """Palette, where to start after an interrupt, bytes in a row of each of 16 tiles, rows of each; 8 to 15 have none."""
        raw = ctypes.string_at(at, 64)
        wide, high = np.frombuffer(raw[16:48], np.uint16), np.frombuffer(raw[48:], np.uint8)
        if raw[0] != 1 or any(raw[1:16]) or any(wide[8:]) or any(high[8:]) or any(wide > 64) or any(high > 16) or any(wide % 4):
            self.wrong.append(f"configuration {raw!r}")
        self.tiles = [np.zeros((h, w), np.uint8) if h and w else None for h, w in zip(high[:8], wide, strict=False)]

    def release(self) -> None:
        self.tiles = [None] * 8

    def tile(self, number: int) -> np.ndarray:
        found = self.tiles[number]
        if found is None:
            self.wrong.append(f"tile {number} has no shape")
            return np.zeros((1, 4), np.uint8)
        return found

    def zero(self, number: int) -> None:
        self.tile(number)[:] = 0

    def load(self, number: int, at: int, stride: int) -> None:
        tile = self.tile(number)
        self.widths.add(tile.shape[1])
        for n, row in enumerate(tile):
            row[:] = np.frombuffer(ctypes.string_at(at + n * stride, tile.shape[1]), np.uint8)

    def store(self, number: int, at: int, stride: int) -> None:
        for n, row in enumerate(self.tile(number)):
            ctypes.memmove(at + n * stride, row.tobytes(), len(row))

    def product(self, name: str) -> Callable[[int, int, int], None]:
        dtype, left, right = PRODUCTS[name]

        def call(total: int, a: int, b: int) -> None:
            to, x, y = (self.tile(n) for n in (total, a, b))
            if (x.shape[0], y.shape[1]) != to.shape or x.shape[1] != 4 * y.shape[0] or len({total, a, b}) < 3:
                self.wrong.append(f"{name} of tiles {to.shape}, {x.shape}, {y.shape}")
                return
            with np.errstate(all="ignore"):
                more = np.einsum("ikw,kjw->ij", left(x), right(y))
                to[:] = (to.view(dtype) + more).astype(dtype).view(np.uint8)
            self.used += 1
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
