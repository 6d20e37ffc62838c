"""The best boxes of each class that do not overlap better ones: a native function over all rows of scores.

    for each row: a heap of its candidates, the best score on top, of equal ones the first box
        take the best; keep it unless a kept one overlaps it by more than the limit; until enough are kept
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from polytc.graph.operators.routines import native_heap
from polytc.native.linking import Code, scalar_code

_TYPES = {"float32": ("float", "f32", ctypes.c_float), "float64": ("double", "f64", ctypes.c_double)}

_TEXT = """\
declare {T} @llvm.minimum.{S}({T}, {T})
declare {T} @llvm.maximum.{S}({T}, {T})
define internal i1 @before(i64 %a, i64 %b, ptr %scores) alwaysinline {{
  %p = getelementptr {T}, ptr %scores, i64 %a
  %q = getelementptr {T}, ptr %scores, i64 %b
  %x = load {T}, ptr %p
  %y = load {T}, ptr %q
  %higher = fcmp ogt {T} %x, %y
  %equal = fcmp oeq {T} %x, %y
  %first = icmp slt i64 %a, %b
  %tie = and i1 %equal, %first
  %r = or i1 %higher, %tie
  ret i1 %r
}}
define internal {T} @side(ptr %boxes, i64 %a, i64 %b, i64 %axis) {{
  %a4 = mul i64 %a, 4
  %b4 = mul i64 %b, 4
  %a.at = add i64 %a4, %axis
  %b.at = add i64 %b4, %axis
  %al.p = getelementptr {T}, ptr %boxes, i64 %a.at
  %bl.p = getelementptr {T}, ptr %boxes, i64 %b.at
  %ah.p = getelementptr {T}, ptr %al.p, i64 2
  %bh.p = getelementptr {T}, ptr %bl.p, i64 2
  %al = load {T}, ptr %al.p
  %bl = load {T}, ptr %bl.p
  %ah = load {T}, ptr %ah.p
  %bh = load {T}, ptr %bh.p
  %low = call {T} @llvm.maximum.{S}({T} %al, {T} %bl)
  %high = call {T} @llvm.minimum.{S}({T} %ah, {T} %bh)
  %length = fsub {T} %high, %low
  %r = call {T} @llvm.maximum.{S}({T} %length, {T} 0.0)
  ret {T} %r
}}
define internal {T} @area(ptr %boxes, i64 %a) {{
  %y = call {T} @side(ptr %boxes, i64 %a, i64 %a, i64 0)
  %x = call {T} @side(ptr %boxes, i64 %a, i64 %a, i64 1)
  %r = fmul {T} %y, %x
  ret {T} %r
}}
define internal {T} @share(ptr %boxes, i64 %a, i64 %b) {{
  %y = call {T} @side(ptr %boxes, i64 %a, i64 %b, i64 0)
  %x = call {T} @side(ptr %boxes, i64 %a, i64 %b, i64 1)
  %common = fmul {T} %y, %x
  %first = call {T} @area(ptr %boxes, i64 %a)
  %second = call {T} @area(ptr %boxes, i64 %b)
  %sum = fadd {T} %first, %second
  %union = fsub {T} %sum, %common
  %ratio = fdiv {T} %common, %union
  %some.a = fcmp ogt {T} %first, 0.0
  %some.b = fcmp ogt {T} %second, 0.0
  %both = and i1 %some.a, %some.b
  %r = select i1 %both, {T} %ratio, {T} 0.0
  ret {T} %r
}}
define i64 @suppress(ptr %boxes, ptr %scores, i64 %rows, i64 %classes, i64 %n, i64 %limit, {T} %overlap, {T} %threshold,
                     i64 %bounded, ptr %heap, ptr %out) {{
entry:
  %free = icmp eq i64 %bounded, 0
  br label %row
row:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %total = phi i64 [ 0, %entry ], [ %sum, %next ]
  %more = icmp slt i64 %k, %rows
  br i1 %more, label %begin, label %end
begin:
  %batch = sdiv i64 %k, %classes
  %class = srem i64 %k, %classes
  %skip = mul i64 %k, %n
  %s = getelementptr {T}, ptr %scores, i64 %skip
  %own = mul i64 %batch, %n
  %own4 = mul i64 %own, 4
  %box = getelementptr {T}, ptr %boxes, i64 %own4
  br label %candidate
candidate:
  %c = phi i64 [ 0, %begin ], [ %c1, %look ]
  %count = phi i64 [ 0, %begin ], [ %count1, %look ]
  %c.more = icmp slt i64 %c, %n
  br i1 %c.more, label %look, label %order
look:
  %score.p = getelementptr {T}, ptr %s, i64 %c
  %score = load {T}, ptr %score.p
  %above = fcmp ogt {T} %score, %threshold
  %takes = or i1 %above, %free
  %place = getelementptr i64, ptr %heap, i64 %count
  store i64 %c, ptr %place
  %one = zext i1 %takes to i64
  %count1 = add i64 %count, %one
  %c1 = add i64 %c, 1
  br label %candidate
order:
  call void @heap.order(ptr %heap, i64 %count, ptr %s)
  br label %best
best:
  %left = phi i64 [ %count, %order ], [ %left1, %kept.one ], [ %left1, %hidden ]
  %kept = phi i64 [ 0, %order ], [ %kept1, %kept.one ], [ %kept, %hidden ]
  %some = icmp sgt i64 %left, 0
  %wants = icmp slt i64 %kept, %limit
  %on = and i1 %some, %wants
  br i1 %on, label %take, label %next
take:
  %top = call i64 @heap.take(ptr %heap, i64 %left, ptr %s)
  %left1 = sub i64 %left, 1
  br label %compare
compare:
  %j = phi i64 [ 0, %take ], [ %j1, %other ]
  %j.more = icmp slt i64 %j, %kept
  br i1 %j.more, label %other, label %kept.one
other:
  %j.row = add i64 %total, %j
  %j.at = mul i64 %j.row, 3
  %j.word = add i64 %j.at, 2
  %j.p = getelementptr i64, ptr %out, i64 %j.word
  %better = load i64, ptr %j.p
  %share = call {T} @share(ptr %box, i64 %better, i64 %top)
  %hides = fcmp ogt {T} %share, %overlap
  %j1 = add i64 %j, 1
  br i1 %hides, label %hidden, label %compare
hidden:
  br label %best
kept.one:
  %row.at = add i64 %total, %kept
  %word = mul i64 %row.at, 3
  %batch.p = getelementptr i64, ptr %out, i64 %word
  %class.p = getelementptr i64, ptr %batch.p, i64 1
  %box.p = getelementptr i64, ptr %batch.p, i64 2
  store i64 %batch, ptr %batch.p
  store i64 %class, ptr %class.p
  store i64 %top, ptr %box.p
  %kept1 = add i64 %kept, 1
  br label %best
next:
  %sum = add i64 %total, %kept
  %k1 = add i64 %k, 1
  br label %row
end:
  ret i64 %total
}}
"""


@functools.cache
def _function(dtype: str) -> tuple[Code, Callable[..., int]]:
    name, short, scalar = _TYPES[dtype]
    code = scalar_code(native_heap.text("i64") + _TEXT.format(T=name, S=short))
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 4, scalar, scalar, ctypes.c_int64,
                            *[ctypes.c_void_p] * 2)
    return code, kind(code.address("suppress"))


def suppress(corners: np.ndarray, scores: np.ndarray, limit: int, overlap: float, threshold: float | None) -> np.ndarray:
    """Rows (batch, class, box) of i64, the better boxes first.

    corners: [batch, box, 4], the lower corner, then the upper one; scores: [batch, class, box], no NaN where there is no
    threshold; both C-contiguous f32, or f64. limit: of boxes of a class; overlap: intersection over union beyond which the
    worse of two boxes goes; threshold: of scores that count, None for all.
    """
    batches, classes, n = scores.shape
    most = min(max(limit, 0), n)
    out = np.empty((batches * classes * most, 3), np.int64)
    if not out.size:
        return out
    heap = np.empty(n, np.int64)
    _, run = _function(scores.dtype.name)
    count = run(corners.ctypes.data, scores.ctypes.data, batches * classes, classes, n, most, overlap,
                0.0 if threshold is None else threshold, threshold is not None, heap.ctypes.data, out.ctypes.data)
    return out[:count].copy()
