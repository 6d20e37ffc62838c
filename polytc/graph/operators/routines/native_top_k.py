"""The first elements of rows in order: a native function over all rows.

    for each row: a heap of the k best so far, the worst of them on top; equal ones count by their place, the first is the best
        for each further element, many at a time: if it is better than the top, it takes its place
        the top, again and again, is the last of what remains

Elements become integers of their width in the same order: a NaN is larger than every number, -0 equals 0. What lies in the heap
is twice as wide: the integer, then the place, from the last to the first.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from polytc.graph.operators.routines import native_heap
from polytc.native.linking import Code, scalar_code

LANES = 16
"""Elements that are looked at together."""

_TYPES = {np.dtype(np.float32): ("float", "i32"), np.dtype(np.float64): ("double", "i64"),
          np.dtype(np.int32): ("i32", "i32"), np.dtype(np.int64): ("i64", "i64")}
"""Type of the elements, and of the integers."""

_FLOAT_KEY = """\
define internal {I} @key{name}({T} %x, {I} %flip) alwaysinline {{
  %number = fadd {T} %x, {zero}
  %bits = bitcast {T} %number to {I}
  %sign = ashr {I} %bits, {shift}
  %low = and {I} %sign, {largest}
  %ordered = xor {I} %bits, %low
  %nan = fcmp uno {T} %x, %x
  %key = select {B} %nan, {I} {largest}, {I} %ordered
  %r = xor {I} %key, %flip
  ret {I} %r
}}
"""
_INTEGER_KEY = """\
define internal {I} @key{name}({T} %x, {I} %flip) alwaysinline {{
  %r = xor {I} %x, %flip
  ret {I} %r
}}
"""

_TEXT = """\
declare i{L} @llvm.cttz.i{L}(i{L}, i1)
define internal {C} @entry({I} %key, i64 %place) alwaysinline {{
  %later = xor i64 %place, -1
  %low.bits = {narrow} i64 %later to {I}
  %low = zext {I} %low.bits to {C}
  %high.bits = sext {I} %key to {C}
  %high = shl {C} %high.bits, {bits}
  %r = or {C} %high, %low
  ret {C} %r
}}
define internal i1 @before({C} %a, {C} %b, ptr %context) alwaysinline {{
  %r = icmp slt {C} %a, %b
  ret i1 %r
}}
define void @select(ptr %all, i64 %rows, i64 %n, i64 %k, i64 %turn, ptr %heap, ptr %found, ptr %values) {{
entry:
  %flip = {narrow} i64 %turn to {I}
  %flip.one = insertelement <{L} x {I}> poison, {I} %flip, i32 0
  %flips = shufflevector <{L} x {I}> %flip.one, <{L} x {I}> poison, <{L} x i32> zeroinitializer
  br label %row
row:
  %row.k = phi i64 [ 0, %entry ], [ %row.next, %finished ]
  %row.more = icmp slt i64 %row.k, %rows
  br i1 %row.more, label %begin, label %end
begin:
  %skip = mul i64 %row.k, %n
  %x = getelementptr {T}, ptr %all, i64 %skip
  %skip.out = mul i64 %row.k, %k
  %places = getelementptr i64, ptr %found, i64 %skip.out
  %out = getelementptr {T}, ptr %values, i64 %skip.out
  br label %fill
fill:
  %f = phi i64 [ 0, %begin ], [ %f1, %put ]
  %f.more = icmp slt i64 %f, %k
  br i1 %f.more, label %put, label %order
put:
  %f.p = getelementptr {T}, ptr %x, i64 %f
  %f.x = load {T}, ptr %f.p
  %f.key = call {I} @key({T} %f.x, {I} %flip)
  %f.entry = call {C} @entry({I} %f.key, i64 %f)
  %f.to = getelementptr {C}, ptr %heap, i64 %f
  store {C} %f.entry, ptr %f.to
  %f1 = add i64 %f, 1
  br label %fill
order:
  call void @heap.order(ptr %heap, i64 %k, ptr null)
  br label %scan
scan:
  %i = phi i64 [ %k, %order ], [ %block.end, %block ], [ %stop, %one ]
  %block.end = add i64 %i, {L}
  %fits = icmp sle i64 %block.end, %n
  br i1 %fits, label %block, label %tail
block:
  %b.p = getelementptr {T}, ptr %x, i64 %i
  %b.x = load <{L} x {T}>, ptr %b.p, align {align}
  %b.keys = call <{L} x {I}> @keys(<{L} x {T}> %b.x, <{L} x {I}> %flips)
  %top.entry = load {C}, ptr %heap
  %top.high = ashr {C} %top.entry, {bits}
  %top = trunc {C} %top.high to {I}
  %top.one = insertelement <{L} x {I}> poison, {I} %top, i32 0
  %tops = shufflevector <{L} x {I}> %top.one, <{L} x {I}> poison, <{L} x i32> zeroinitializer
  %beyond = icmp sgt <{L} x {I}> %b.keys, %tops
  %b.mask = bitcast <{L} x i1> %beyond to i{L}
  %none = icmp eq i{L} %b.mask, 0
  br i1 %none, label %scan, label %one
tail:
  %rest = sub i64 %n, %i
  %some = icmp sgt i64 %rest, 0
  %rest.bits = trunc i64 %rest to i{L}
  %beyond.bits = shl i{L} -1, %rest.bits
  %t.mask = xor i{L} %beyond.bits, -1
  br i1 %some, label %one, label %best
one:
  %stop = phi i64 [ %block.end, %block ], [ %n, %tail ], [ %stop, %next ]
  %from = phi i64 [ %i, %block ], [ %i, %tail ], [ %from, %next ]
  %mask = phi i{L} [ %b.mask, %block ], [ %t.mask, %tail ], [ %mask1, %next ]
  %over = icmp eq i{L} %mask, 0
  br i1 %over, label %scan, label %look
look:
  %bit = call i{L} @llvm.cttz.i{L}(i{L} %mask, i1 true)
  %lane = zext i{L} %bit to i64
  %j = add i64 %from, %lane
  %j.p = getelementptr {T}, ptr %x, i64 %j
  %j.x = load {T}, ptr %j.p
  %j.key = call {I} @key({T} %j.x, {I} %flip)
  %j.entry = call {C} @entry({I} %j.key, i64 %j)
  %worst = load {C}, ptr %heap
  %better = icmp sgt {C} %j.entry, %worst
  br i1 %better, label %replace, label %next
replace:
  call void @heap.place(ptr %heap, i64 %k, {C} %j.entry, ptr null)
  br label %next
next:
  %mask.less = sub i{L} %mask, 1
  %mask1 = and i{L} %mask, %mask.less
  br label %one
best:
  %m = phi i64 [ %k, %tail ], [ %m1, %take ]
  %m.more = icmp sgt i64 %m, 0
  br i1 %m.more, label %take, label %finished
take:
  %worst.last = call {C} @heap.take(ptr %heap, i64 %m, ptr null)
  %m1 = sub i64 %m, 1
  %m.low = trunc {C} %worst.last to {I}
  %m.earlier = xor {I} %m.low, -1
  %m.place = {widen} {I} %m.earlier to i64
  %m.at = getelementptr i64, ptr %places, i64 %m1
  store i64 %m.place, ptr %m.at
  %m.p = getelementptr {T}, ptr %x, i64 %m.place
  %m.x = load {T}, ptr %m.p
  %m.to = getelementptr {T}, ptr %out, i64 %m1
  store {T} %m.x, ptr %m.to
  br label %best
finished:
  %row.next = add i64 %row.k, 1
  br label %row
end:
  ret void
}}
"""


def _key(name: str, element: str, integer: str, lanes: int) -> str:
    """The function that makes integers of elements, of one or of `lanes`."""
    bits = int(integer[1:])

    def spelled(value: int) -> str:
        return f"<{', '.join([f'{integer} {value}'] * lanes)}>" if lanes > 1 else str(value)
    wide = f"<{lanes} x {{}}>" if lanes > 1 else "{}"
    return (_INTEGER_KEY if element == integer else _FLOAT_KEY).format(
        name=name, T=wide.format(element), I=wide.format(integer), B=wide.format("i1"), shift=spelled(bits - 1),
        largest=spelled((1 << bits - 1) - 1), zero="zeroinitializer" if lanes > 1 else "0.0")


@functools.cache
def _function(dtype: np.dtype) -> tuple[Code, Callable[..., None]]:
    element, integer = _TYPES[dtype]
    bits = int(integer[1:])
    text = native_heap.text(f"i{2 * bits}") + _key("", element, integer, 1) + _key("s", element, integer, LANES) + _TEXT.format(
        T=element, I=integer, L=LANES, C=f"i{2 * bits}", bits=bits, align=bits // 8,
        narrow="trunc" if bits == 32 else "bitcast", widen="zext" if bits == 32 else "bitcast")
    code = scalar_code(text)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 3)
    return code, kind(code.address("select"))


def has(dtype: np.dtype) -> bool:
    """Is there a function for elements of this type?"""
    return dtype in _TYPES


def select(rows: np.ndarray, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """The k largest or smallest elements of each row, in order, and their places (i64); the first place among equals.

    rows: [count, n], n below 2**31, C-contiguous, of a type that there is a function for; k: from 1 to n.
    """
    count, n = rows.shape
    values, places = np.empty((count, k), rows.dtype), np.empty((count, k), np.int64)
    heap = np.empty(k, f"V{2 * rows.itemsize}")
    _, run = _function(rows.dtype)
    run(rows.ctypes.data, count, n, k, 0 if largest else -1, heap.ctypes.data, places.ctypes.data, values.ctypes.data)
    return values, places
