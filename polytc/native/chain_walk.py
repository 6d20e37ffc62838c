"""The LLVM IR of a walk over the steps of a chain: what `runtime.call_chains` lays out in memory, native code calls one by
one."""

from __future__ import annotations

import time

from polytc.native import parallel_regions, subnormals

FIELDS = 4
"""Words of a step: the entry, its table of arrays, its arena, its number of threads. Of a Skip: 0, a table with the condition,
what it must be, and how many steps follow that want it so."""
_CLOCK = getattr(time, "CLOCK_MONOTONIC", 1)
"""The clock of time.monotonic_ns."""


def text(architecture: str = "", flushing: bool = True) -> str:
    """walk(steps, count, launch, pool, stamps): run the steps. stamps: null, or gets times before the first and after each.

    architecture: as in parallel_regions. flushing: no result is subnormal, see subnormals.py.
    """
    there = (architecture or parallel_regions.here()) if flushing else ""
    return _WALK_TEXT.format(declarations=subnormals.declarations(there),
                             flush=subnormals.flush(there), restore=subnormals.restore(there),
                             begins=parallel_regions.occupied("%pool", 1), ends=parallel_regions.occupied("%pool", -1, "end."),
                             clock=_CLOCK, fields=FIELDS)


_WALK_TEXT = """\
{declarations}\
%time = type {{ i64, i64 }}
declare i32 @clock_gettime(i32, ptr)
define internal void @stamp(ptr %stamps, i64 %k) {{
  %now = alloca %time
  %r = call i32 @clock_gettime(i32 {clock}, ptr %now)
  %s.p = getelementptr %time, ptr %now, i64 0, i32 0
  %n.p = getelementptr %time, ptr %now, i64 0, i32 1
  %s = load i64, ptr %s.p
  %n = load i64, ptr %n.p
  %m = mul i64 %s, 1000000000
  %t = add i64 %m, %n
  %place = getelementptr i64, ptr %stamps, i64 %k
  store i64 %t, ptr %place
  ret void
}}
define void @walk(ptr %steps, i64 %count, ptr %launch, ptr %pool, ptr %stamps) {{
{flush}\
  %several = icmp ne ptr %pool, null
  br i1 %several, label %begin, label %begun
begin:
{begins}\
  br label %begun
begun:
  %timed = icmp ne ptr %stamps, null
  br i1 %timed, label %first, label %next
first:
  call void @stamp(ptr %stamps, i64 0)
  br label %next
next:
  %k = phi i64 [ 0, %begun ], [ 0, %first ], [ %k1, %after ], [ %beyond, %test ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %step, label %done
step:
  %at = mul i64 %k, {fields}
  %entry.p = getelementptr i64, ptr %steps, i64 %at
  %table.p = getelementptr i64, ptr %entry.p, i64 1
  %arena.p = getelementptr i64, ptr %entry.p, i64 2
  %threads.p = getelementptr i64, ptr %entry.p, i64 3
  %entry = load ptr, ptr %entry.p
  %table = load ptr, ptr %table.p
  %arena = load ptr, ptr %arena.p
  %threads = load i64, ptr %threads.p
  %is.skip = icmp eq ptr %entry, null
  br i1 %is.skip, label %test, label %call
test:
  %condition = load ptr, ptr %table
  %byte = load i8, ptr %condition
  %holds = icmp ne i8 %byte, 0
  %wants = icmp ne ptr %arena, null
  %other = xor i1 %holds, %wants
  %passed = select i1 %other, i64 %threads, i64 0
  %following = add i64 %k, 1
  %beyond = add i64 %following, %passed
  br label %next
call:
  %alone = icmp sle i64 %threads, 1
  %l = select i1 %alone, ptr null, ptr %launch
  %p = select i1 %alone, ptr null, ptr %pool
  call void %entry(ptr %table, ptr %arena, ptr %l, ptr %p, i64 %threads)
  %k1 = add i64 %k, 1
  br i1 %timed, label %clock, label %after
clock:
  call void @stamp(ptr %stamps, i64 %k1)
  br label %after
after:
  br label %next
done:
  br i1 %several, label %end, label %ended
end:
{ends}\
  br label %ended
ended:
{restore}\
  ret void
}}
"""
