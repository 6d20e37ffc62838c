"""What code that runs without Python checks of what it is given, as LLVM IR.

    i1 are_weights(file, got, bytes)     is what was read the file of these weights?
    i1 shared(given, count, records)     is one of the caller's arrays NULL, or does an output share memory with another?
"""

from __future__ import annotations

from collections.abc import Sequence

from polytc.codegen import weight_file
from polytc.targets.llvm.standalone.chain import Chain

_FUNCTIONS = """\
declare i32 @memcmp(ptr, ptr, i64)
; The file that was read, against the header and the sums of the weights.
define internal i1 @are_weights(ptr %file, i64 %got, i64 %bytes) {
  %whole = icmp eq i64 %got, %bytes
  br i1 %whole, label %compare, label %no
compare:
  %differs = call i32 @memcmp(ptr %file, ptr @header, i64 @HEADER_BYTES)
  %same = icmp eq i32 %differs, 0
  br i1 %same, label %begin, label %no
no:
  ret i1 false
begin:
  %words = udiv i64 %bytes, 8
  br label %next
next:
  %k = phi i64 [ @WORDS, %begin ], [ %k1, %add ]
  %total = phi i64 [ 0, %begin ], [ %total1, %add ]
  %sums = phi i64 [ 0, %begin ], [ %sums1, %add ]
  %more = icmp ult i64 %k, %words
  br i1 %more, label %add, label %judge
add:
  %word.p = getelementptr i64, ptr %file, i64 %k
  %word = load i64, ptr %word.p
  %total1 = add i64 %total, %word
  %sums1 = add i64 %sums, %total1
  %k1 = add i64 %k, 1
  br label %next
judge:
  %sum.p = getelementptr i64, ptr @header, i64 @SUM
  %sums.p = getelementptr i64, ptr @header, i64 @SUMS
  %sum = load i64, ptr %sum.p
  %wanted = load i64, ptr %sums.p
  %one = icmp eq i64 %total, %sum
  %other = icmp eq i64 %sums, %wanted
  %good = and i1 %one, %other
  ret i1 %good
}
; Is an array missing, or does an output share memory with another one?
define internal i1 @shared(ptr %given, i64 %count, ptr %records) {
  br label %outer
outer:
  %a = phi i64 [ 0, %0 ], [ %a1, %inner.end ]
  %some = icmp ult i64 %a, %count
  br i1 %some, label %one, label %apart
one:
  %a.p = getelementptr i64, ptr %given, i64 %a
  %a.first = load i64, ptr %a.p
  %a.bytes.p = getelementptr %array, ptr %records, i64 %a, i32 2
  %a.bytes = load i64, ptr %a.bytes.p
  %a.last = add i64 %a.first, %a.bytes
  %missing = icmp eq i64 %a.first, 0
  br i1 %missing, label %together, label %there
there:
  %written = icmp uge i64 %a, @INPUTS
  br i1 %written, label %inner, label %inner.end
inner:
  %b = phi i64 [ 0, %there ], [ %b1, %compare ]
  %before = icmp ult i64 %b, %a
  br i1 %before, label %compare, label %inner.end
compare:
  %b.p = getelementptr i64, ptr %given, i64 %b
  %b.first = load i64, ptr %b.p
  %b.bytes.p = getelementptr %array, ptr %records, i64 %b, i32 2
  %b.bytes = load i64, ptr %b.bytes.p
  %b.last = add i64 %b.first, %b.bytes
  %begins = icmp ult i64 %a.first, %b.last
  %ends = icmp ult i64 %b.first, %a.last
  %meet = and i1 %begins, %ends
  %b1 = add i64 %b, 1
  br i1 %meet, label %together, label %inner
inner.end:
  %a1 = add i64 %a, 1
  br label %outer
together:
  ret i1 true
apart:
  ret i1 false
}
"""


def text(chain: Chain) -> str:
    """The two functions, and the header that weights must have."""
    found = _FUNCTIONS.replace("@WORDS", str(weight_file.WORDS)).replace("@HEADER_BYTES", str(weight_file.BYTES))
    found = found.replace("@INPUTS", str(len(chain.inputs)))
    found = found.replace("@SUMS", str(weight_file.SUMS_WORD)).replace("@SUM", str(weight_file.SUM_WORD))
    return found + table("header", chain.header or [0] * weight_file.WORDS)


def table(name: str, values: Sequence[int]) -> str:
    """A constant table of 64-bit words."""
    return f"@{name} = internal constant [{len(values)} x i64] [{', '.join(f'i64 {v}' for v in values)}]\n"
