"""The code of the thread pool, as LLVM IR: how regions are opened, divided, served and closed.

Note [Regions]. The caller writes the region's fields, then `open`; a worker counts itself into `active`, then looks at `open`.
When no chunk is left the caller clears `open` and waits for `active` to be 0: with sequentially consistent accesses either the
worker sees the region closed or the caller sees the worker active, so that no worker reads fields that are being rewritten.

Note [Hands]. The iterations of a region are dealt to the threads, the same part to the same thread in every region of as many:
neighbouring kernels find what they read in the caches of the one that wrote it, and threads do not write into each other's
cache lines. Each hand has a counter of its own; whoever is through with his takes what is left of the others'.

Workers take over the caller's floating-point mode, see subnormals.py.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence

from polytc.native import subnormals

SPINS = 10000
"""Pauses of a worker before it sleeps: some hundred microseconds, longer than Python takes between the calls of a loop."""

LONG = 50 * SPINS
"""Pauses of a worker before it sleeps while a chain of steps is under way, some of which may need no other threads."""

PARTS = 4
"""A chunk is this part of what is left of a hand."""

HANDS = 64
"""Hands at most; more threads than that share."""

LINE = 64
"""Bytes of a cache line: what several threads write lies on lines of its own."""

_FIELDS = ("lock", "signal", "open", "active", "sleepers", "stop", "busy", "taken",
           "body", "context", "count", "hands", "threads", "arena", "arena_bytes", "mode")
OFFSET = {name: i * LINE for i, name in enumerate(_FIELDS[:7])} | {
    name: 7 * LINE + i * 8 for i, name in enumerate(_FIELDS[8:])} | {"taken": 8 * LINE}
"""Of each field; `busy` is the number of chains that are under way, `taken` a line for each hand."""
BYTES = OFFSET["taken"] + HANDS * LINE
"""Of the pool's state."""


def text(architecture: str = "") -> str:
    """The module: `launch` and `nudge` for callers, `worker` for the pool's threads. architecture: 'x86_64' or 'aarch64', for
    Linux; '' is this system."""
    there = architecture or here()
    linux = bool(architecture) or sys.platform.startswith("linux")
    declared = _pause_declaration(there) + subnormals.declarations(there)
    return declared + _sleep_and_wake(there, linux) + _nudge() + _chunks() + _launch(there) + _worker(there)


def _at(name: str, stem: str) -> str:
    return f"  %{stem} = getelementptr inbounds i8, ptr %pool, i64 {OFFSET[name]}\n"


def _fields(*names: str) -> str:
    return "".join(_at(n, f"p.{n}") for n in names)


def here() -> str:
    """This system's architecture, by the names of `text`."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())


_PAUSE = {"x86_64": ("llvm.x86.sse2.pause()", "()"), "aarch64": ("llvm.aarch64.hint(i32 1)", "(i32)")}
"""Architecture -> the call that tells the processor that we spin, and its parameters."""


def pause(architecture: str) -> str:
    """The line that tells the processor that we spin; none where there is no such instruction."""
    call = _PAUSE.get(architecture)
    return f"  call void @{call[0]}\n" if call else ""


def declare_pause(declare: Callable[[str, str, Sequence[str]], None], architecture: str) -> None:
    """Make known what `pause` calls. declare: takes a name, a result and parameters."""
    call = _PAUSE.get(architecture)
    if call:
        declare(call[0].partition("(")[0], "void", [p for p in (call[1][1:-1],) if p])


def _pause_declaration(architecture: str) -> str:
    lines: list[str] = []
    declare_pause(lambda name, result, params: lines.append(f"declare {result} @{name}({', '.join(params)})\n"),
                  architecture)
    return "".join(lines)


_WAIT_BITSET, _WAKE_BITSET = 128 | 9, 128 | 10
"""Linux's futex operations, private to the process."""


def _sleep_and_wake(architecture: str, linux: bool) -> str:
    """@sleep(pool, seen, bits) sleeps while `signal` is `seen`; @wake(pool, bits) wakes the sleepers that share a bit with it.

    The bit of a worker is that of its slot, of all from 31 on the last one.
    """
    number = {"x86_64": 202, "aarch64": 98}.get(architecture)
    if not linux or number is None:
        return ("declare i32 @usleep(i32)\ndefine internal void @sleep(ptr %pool, i32 %seen, i32 %bits) {\n"
                "  %r = call i32 @usleep(i32 50)\n  ret void\n}\n"
                "define internal void @wake(ptr %pool, i32 %bits) {\n  ret void\n}\n")
    call = f"call i64 (i64, ...) @syscall(i64 {number}, ptr %p.signal, i32"
    return f"""\
declare i64 @syscall(i64, ...)
define internal void @sleep(ptr %pool, i32 %seen, i32 %bits) {{
{_at("signal", "p.signal")}  %r = {call} {_WAIT_BITSET}, i32 %seen, ptr null, ptr null, i32 %bits)
  ret void
}}
define internal void @wake(ptr %pool, i32 %bits) {{
{_at("signal", "p.signal")}  %r = {call} {_WAKE_BITSET}, i32 2147483647, ptr null, ptr null, i32 %bits)
  ret void
}}
"""


def occupied(pool: str, by: int, prefix: str = "") -> str:
    """Lines that say that a chain begins (by = 1) or ends (-1). pool: the pointer to the state; prefix: of the names made."""
    return (f"  %{prefix}busy.p = getelementptr inbounds i8, ptr {pool}, i64 {OFFSET['busy']}\n"
            f"  %{prefix}busy = atomicrmw add ptr %{prefix}busy.p, i32 {by} monotonic\n")


def _nudge() -> str:
    """nudge(pool): make every worker look at the pool again."""
    return f"""\
define void @nudge(ptr %pool) {{
{_at("signal", "p.signal")}\
  %old = atomicrmw add ptr %p.signal, i32 1 seq_cst
  call void @wake(ptr %pool, i32 -1)
  ret void
}}
"""


def _chunks() -> str:
    """@chunks(pool, slot): run chunks of the open region until none is left, those of the slot's own hand first."""
    return f"""\
define internal void @chunks(ptr %pool, i64 %slot) {{
{_fields("taken", "body", "context", "count", "hands", "arena", "arena_bytes")}\
  %body = load ptr, ptr %p.body
  %context = load ptr, ptr %p.context
  %count = load i64, ptr %p.count
  %hands = load i64, ptr %p.hands
  %base = load ptr, ptr %p.arena
  %bytes = load i64, ptr %p.arena_bytes
  %skip = mul i64 %slot, %bytes
  %arena = getelementptr i8, ptr %base, i64 %skip
  %up = sub i64 %hands, 1
  br label %hand
hand:
  %k = phi i64 [ 0, %0 ], [ %k1, %next ]
  %turn = add i64 %slot, %k
  %h = urem i64 %turn, %hands
  %h1 = add i64 %h, 1
  %low = mul i64 %count, %h
  %high = mul i64 %count, %h1
  %low.up = add i64 %low, %up
  %high.up = add i64 %high, %up
  %first = sdiv i64 %low.up, %hands
  %past = sdiv i64 %high.up, %hands
  %size = sub i64 %past, %first
  %line = mul i64 %h, {LINE}
  %taken.p = getelementptr i8, ptr %p.taken, i64 %line
  br label %take
take:
  %taken = load atomic i64, ptr %taken.p monotonic, align 8
  %left = sub i64 %size, %taken
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %try, label %next
try:
  %share = sdiv i64 %left, {PARTS}
  %chunk = call i64 @llvm.smax.i64(i64 %share, i64 1)
  %begin = atomicrmw add ptr %taken.p, i64 %chunk seq_cst
  %more = icmp slt i64 %begin, %size
  br i1 %more, label %work, label %next
work:
  %after = add i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %after, i64 %size)
  %from = add i64 %first, %begin
  %to = add i64 %first, %end
  call void %body(i64 %from, i64 %to, ptr %context, ptr %arena)
  br label %take
next:
  %k1 = add i64 %k, 1
  %again = icmp slt i64 %k1, %hands
  br i1 %again, label %hand, label %done
done:
  ret void
}}
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""


def _launch(architecture: str) -> str:
    """launch(pool, body, context, count, threads, arena, arena_bytes): run body on 0..count, return when all is done."""
    return f"""\
define void @launch(ptr %pool, ptr %body, ptr %context, i64 %count, i64 %threads, ptr %arena, i64 %arena_bytes) {{
{_fields(*_FIELDS)}\
  %won = cmpxchg ptr %p.lock, i32 0, i32 1 seq_cst seq_cst
  %mine = extractvalue {{ i32, i1 }} %won, 1
  br i1 %mine, label %region, label %serial
serial:
  call void %body(i64 0, i64 %count, ptr %context, ptr %arena)
  ret void
region:
  %hands = call i64 @llvm.smin.i64(i64 %threads, i64 {HANDS})
  store ptr %body, ptr %p.body
  store ptr %context, ptr %p.context
  store i64 %count, ptr %p.count
  store i64 %hands, ptr %p.hands
  store i64 %threads, ptr %p.threads
  store ptr %arena, ptr %p.arena
  store i64 %arena_bytes, ptr %p.arena_bytes
{subnormals.read(architecture, "%p.mode")}\
  br label %deal
deal:
  %h = phi i64 [ 0, %region ], [ %h1, %deal ]
  %line = mul i64 %h, {LINE}
  %taken.p = getelementptr i8, ptr %p.taken, i64 %line
  store atomic i64 0, ptr %taken.p monotonic, align 8
  %h1 = add i64 %h, 1
  %dealt = icmp slt i64 %h1, %hands
  br i1 %dealt, label %deal, label %opened
opened:
  store atomic i32 1, ptr %p.open seq_cst, align 4
  %old = atomicrmw add ptr %p.signal, i32 1 seq_cst
  %asleep = load atomic i32, ptr %p.sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %work
wake:
  %wide = icmp sgt i64 %threads, 31
  %known = select i1 %wide, i64 0, i64 %threads
  %past = shl i64 1, %known
  %members = sub i64 %past, 1
  %narrow = trunc i64 %members to i32
  %bits = select i1 %wide, i32 -1, i32 %narrow
  call void @wake(ptr %pool, i32 %bits)
  br label %work
work:
  call void @chunks(ptr %pool, i64 0)
  store atomic i32 0, ptr %p.open seq_cst, align 4
  br label %wait
wait:
  %n = phi i32 [ 0, %work ], [ %n1, %pause ]
  %busy = load atomic i32, ptr %p.active seq_cst, align 4
  %quiet = icmp eq i32 %busy, 0
  br i1 %quiet, label %end, label %again
again:
  %n1 = add i32 %n, 1
  %often = and i32 %n1, 1023
  %tired = icmp eq i32 %often, 0
  br i1 %tired, label %yield, label %pause
yield:
  %y = call i32 @sched_yield()
  br label %pause
pause:
{pause(architecture)}  br label %wait
end:
  store atomic i32 0, ptr %p.lock seq_cst, align 4
  ret void
}}
declare i32 @sched_yield()
"""


def _worker(architecture: str) -> str:
    """worker(pool, slot): serve regions until `stop`. A region with too few threads for this slot is left alone, asleep."""
    return f"""\
define void @worker(ptr %pool, i64 %slot) {{
{_fields("signal", "open", "active", "sleepers", "stop", "threads", "busy", "mode")}\
  %place = call i64 @llvm.smin.i64(i64 %slot, i64 31)
  %narrow = trunc i64 %place to i32
  %bits = shl i32 1, %narrow
  br label %fresh
fresh:
  %seen = load atomic i32, ptr %p.signal seq_cst, align 4
  %halt = load atomic i32, ptr %p.stop seq_cst, align 4
  %halted = icmp ne i32 %halt, 0
  br i1 %halted, label %leave, label %join
join:
  %a = atomicrmw add ptr %p.active, i32 1 seq_cst
  %is = load atomic i32, ptr %p.open seq_cst, align 4
  %opened = icmp ne i32 %is, 0
  br i1 %opened, label %check, label %part
check:
  %limit = load i64, ptr %p.threads
  %member = icmp slt i64 %slot, %limit
  br i1 %member, label %work, label %pass
pass:
  %p = atomicrmw sub ptr %p.active, i32 1 seq_cst
  br label %sleep
work:
{subnormals.write(architecture, "%p.mode")}\
  call void @chunks(ptr %pool, i64 %slot)
  br label %part
part:
  %b = atomicrmw sub ptr %p.active, i32 1 seq_cst
  br label %spin
spin:
  %n = phi i32 [ 0, %part ], [ %n1, %idle ], [ %n1, %late ]
  %now = load atomic i32, ptr %p.signal seq_cst, align 4
  %changed = icmp ne i32 %now, %seen
  br i1 %changed, label %fresh, label %idle
idle:
{pause(architecture)}  %n1 = add i32 %n, 1
  %tired = icmp sgt i32 %n1, {SPINS}
  br i1 %tired, label %late, label %spin
late:
  %chains = load atomic i32, ptr %p.busy monotonic, align 4
  %between = icmp ne i32 %chains, 0
  %early = icmp slt i32 %n1, {LONG}
  %stay = and i1 %between, %early
  br i1 %stay, label %spin, label %sleep
sleep:
  %c = atomicrmw add ptr %p.sleepers, i32 1 seq_cst
  call void @sleep(ptr %pool, i32 %seen, i32 %bits)
  %d = atomicrmw sub ptr %p.sleepers, i32 1 seq_cst
  br label %again
again:
  %later = load atomic i32, ptr %p.signal seq_cst, align 4
  %same = icmp eq i32 %later, %seen
  br i1 %same, label %sleep, label %fresh
leave:
  ret void
}}
"""
