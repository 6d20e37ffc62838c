"""Heaps as LLVM IR, for native functions of the runtime: the element on top comes before no other.

A module that takes the text defines `i1 @before(ELEMENT, ELEMENT, ptr)`: does the first come nearer to the top? Its pointer is
the last argument of each function here:

    @heap.order(heap, count, context)          elements in any order become a heap
    @heap.place(heap, count, element, context) in place of the top
    @heap.take(heap, count, context)           the top, which goes; count - 1 are left
"""

from __future__ import annotations

_TEXT = """\
define internal void @heap.sift(ptr %heap, i64 %count, i64 %first, {E} %moved, ptr %context) {{
entry:
  br label %level
level:
  %at = phi i64 [ %first, %entry ], [ %child, %down ]
  %at.p = getelementptr {E}, ptr %heap, i64 %at
  %twice = mul i64 %at, 2
  %l = add i64 %twice, 1
  %r = add i64 %twice, 2
  %has.l = icmp slt i64 %l, %count
  br i1 %has.l, label %left, label %done
left:
  %l.p = getelementptr {E}, ptr %heap, i64 %l
  %lv = load {E}, ptr %l.p
  %has.r = icmp slt i64 %r, %count
  br i1 %has.r, label %both, label %pick
both:
  %r.p = getelementptr {E}, ptr %heap, i64 %r
  %rv = load {E}, ptr %r.p
  %right = call i1 @before({E} %rv, {E} %lv, ptr %context)
  %b.child = select i1 %right, i64 %r, i64 %l
  %b.value = select i1 %right, {E} %rv, {E} %lv
  br label %pick
pick:
  %child = phi i64 [ %l, %left ], [ %b.child, %both ]
  %value = phi {E} [ %lv, %left ], [ %b.value, %both ]
  %up = call i1 @before({E} %value, {E} %moved, ptr %context)
  br i1 %up, label %down, label %done
down:
  store {E} %value, ptr %at.p
  br label %level
done:
  store {E} %moved, ptr %at.p
  ret void
}}
define internal void @heap.order(ptr %heap, i64 %count, ptr %context) {{
entry:
  %half = sdiv i64 %count, 2
  br label %next
next:
  %at = phi i64 [ %half, %entry ], [ %at1, %sink ]
  %more = icmp sgt i64 %at, 0
  br i1 %more, label %sink, label %done
sink:
  %at1 = sub i64 %at, 1
  %p = getelementptr {E}, ptr %heap, i64 %at1
  %moved = load {E}, ptr %p
  call void @heap.sift(ptr %heap, i64 %count, i64 %at1, {E} %moved, ptr %context)
  br label %next
done:
  ret void
}}
define internal void @heap.place(ptr %heap, i64 %count, {E} %element, ptr %context) alwaysinline {{
  call void @heap.sift(ptr %heap, i64 %count, i64 0, {E} %element, ptr %context)
  ret void
}}
define internal {E} @heap.take(ptr %heap, i64 %count, ptr %context) alwaysinline {{
  %top = load {E}, ptr %heap
  %left = sub i64 %count, 1
  %p = getelementptr {E}, ptr %heap, i64 %left
  %last = load {E}, ptr %p
  call void @heap.sift(ptr %heap, i64 %left, i64 0, {E} %last, ptr %context)
  ret {E} %top
}}
"""


def text(element: str) -> str:
    """The functions for elements of a type of LLVM, e.g. 'i64'."""
    return _TEXT.format(E=element)
