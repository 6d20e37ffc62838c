"""A pool of native threads for parallel loops.

The pool's code is LLVM IR made once per process. Workers are Python threads that stay inside of it, without the GIL, until the
interpreter exits. Whoever is free takes the next chunk of a region from an atomic counter, large chunks first and small ones
towards the end (Polychronopoulos & Kuck, Guided Self-Scheduling, IEEE ToC 1987), so that a core that others use too holds up
the rest for no longer than its last chunk. The caller takes part, so that a region completes even if no worker ever wakes up.
Workers spin for some microseconds after a region of theirs, then sleep on a futex (on other systems than Linux: yield);
regions of fewer threads leave the other workers asleep.

Note [Regions]. The caller writes the region's fields, then `open`; a worker counts itself into `active`, then looks at `open`.
When no chunk is left the caller clears `open` and waits for `active` to be 0: with sequentially consistent accesses either the
worker sees the region closed or the caller sees the worker active, so that no worker reads fields that are being rewritten.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import sys
import threading

from polytc.disk import cache
from polytc.errors import ArgumentError, fail
from polytc.runtime import forks, jit

SPINS = 2000
"""Pauses of a worker before it sleeps: some tens of microseconds."""

PARTS = 4
"""A chunk is this part of a thread's fair share of what is left."""

LINE = 64
_FIELDS = ("lock", "signal", "open", "active", "sleepers", "stop", "next",
           "body", "context", "count", "parts", "threads", "arena", "arena_bytes")
_OFFSET = {name: i * LINE for i, name in enumerate(_FIELDS[:7])} | {
    name: 7 * LINE + i * 8 for i, name in enumerate(_FIELDS[7:])}
_BYTES = 9 * LINE

_NUDGE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_WORKER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def default_threads(cores: int) -> int:
    """POLYTC_NUM_THREADS if it is set, else `cores`, or fewer if OMP_NUM_THREADS says so, as launchers of many processes do.

    Raises ArgumentError E410 if POLYTC_NUM_THREADS is no positive integer.
    """
    text = os.environ.get("POLYTC_NUM_THREADS", "").strip()
    if text and not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise fail("E410", f"POLYTC_NUM_THREADS is {text!r}, not a positive integer", kind=ArgumentError,
                   notes=["set it to a number such as 4, or unset it for all of the machine's threads"])
    if text:
        return int(text)
    outer = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # a list has a number for each level of nesting
    shared = outer.isascii() and outer.isdigit() and len(outer) < 10 and int(outer) > 0
    return max(1, min(cores, int(outer)) if shared else cores)


def available() -> bool:
    """Whether the pool works on this system: it calls functions of POSIX."""
    return os.name == "posix"


def _at(name: str, stem: str) -> str:
    return f"  %{stem} = getelementptr inbounds i8, ptr %pool, i64 {_OFFSET[name]}\n"


def _fields(*names: str) -> str:
    return "".join(_at(n, f"p.{n}") for n in names)


def _machine() -> str:
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())


_PAUSE = {"x86_64": ("llvm.x86.sse2.pause()", "()"), "aarch64": ("llvm.aarch64.hint(i32 1)", "(i32)")}
"""Architecture -> the call that tells the processor that we spin, and its parameters."""


def _pause() -> str:
    call = _PAUSE.get(_machine())
    return f"  call void @{call[0]}\n" if call else ""


def _pause_declaration() -> str:
    call = _PAUSE.get(_machine())
    return f"declare void @{call[0].partition('(')[0]}{call[1]}\n" if call else ""


_WAIT_BITSET, _WAKE_BITSET = 128 | 9, 128 | 10
"""Linux's futex operations, private to the process."""


def _sleep_and_wake() -> str:
    """@sleep(pool, seen, bits) sleeps while `signal` is `seen`; @wake(pool, bits) wakes the sleepers that share a bit with it.

    The bit of a worker is that of its slot, of all from 31 on the last one.
    """
    number = {"x86_64": 202, "aarch64": 98}.get(_machine())
    if not sys.platform.startswith("linux") or number is None:
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
    """@chunks(pool, slot): run chunks of the open region until none is left."""
    return f"""\
define internal void @chunks(ptr %pool, i64 %slot) {{
{_fields("next", "body", "context", "count", "parts", "arena", "arena_bytes")}\
  %body = load ptr, ptr %p.body
  %context = load ptr, ptr %p.context
  %count = load i64, ptr %p.count
  %parts = load i64, ptr %p.parts
  %base = load ptr, ptr %p.arena
  %bytes = load i64, ptr %p.arena_bytes
  %skip = mul i64 %slot, %bytes
  %arena = getelementptr i8, ptr %base, i64 %skip
  br label %take
take:
  %taken = load atomic i64, ptr %p.next monotonic, align 8
  %left = sub i64 %count, %taken
  %share = sdiv i64 %left, %parts
  %chunk = call i64 @llvm.smax.i64(i64 %share, i64 1)
  %begin = atomicrmw add ptr %p.next, i64 %chunk seq_cst
  %more = icmp slt i64 %begin, %count
  br i1 %more, label %work, label %done
work:
  %after = add i64 %begin, %chunk
  %end = call i64 @llvm.smin.i64(i64 %after, i64 %count)
  call void %body(i64 %begin, i64 %end, ptr %context, ptr %arena)
  br label %take
done:
  ret void
}}
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""


def _launch() -> str:
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
  %parts = mul i64 %threads, {PARTS}
  store ptr %body, ptr %p.body
  store ptr %context, ptr %p.context
  store i64 %count, ptr %p.count
  store i64 %parts, ptr %p.parts
  store i64 %threads, ptr %p.threads
  store ptr %arena, ptr %p.arena
  store i64 %arena_bytes, ptr %p.arena_bytes
  store atomic i64 0, ptr %p.next seq_cst, align 8
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
{_pause()}  br label %wait
end:
  store atomic i32 0, ptr %p.lock seq_cst, align 4
  ret void
}}
declare i32 @sched_yield()
"""


def _worker() -> str:
    """worker(pool, slot): serve regions until `stop`. A region with too few threads for this slot is left alone, asleep."""
    return f"""\
define void @worker(ptr %pool, i64 %slot) {{
{_fields("signal", "open", "active", "sleepers", "stop", "threads")}\
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
  call void @chunks(ptr %pool, i64 %slot)
  br label %part
part:
  %b = atomicrmw sub ptr %p.active, i32 1 seq_cst
  br label %spin
spin:
  %n = phi i32 [ 0, %part ], [ %n1, %idle ]
  %now = load atomic i32, ptr %p.signal seq_cst, align 4
  %changed = icmp ne i32 %now, %seen
  br i1 %changed, label %fresh, label %idle
idle:
{_pause()}  %n1 = add i32 %n, 1
  %tired = icmp sgt i32 %n1, {SPINS}
  br i1 %tired, label %sleep, label %spin
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


class _Pool:
    """The process's pool. Its memory and code live until the process ends: bound calls hold their addresses."""

    def __init__(self) -> None:
        text = _pause_declaration() + _sleep_and_wake() + _nudge() + _chunks() + _launch() + _worker()
        key = hashlib.sha256("\n".join((jit.VERSION, *jit.host(), text)).encode()).hexdigest()
        tuning = jit.Tuning(slp=False, vectorize=False, level=2)
        self.code = jit.Code(cache.fetch(key, lambda: jit.build(text, *jit.host(), tuning)))
        self.memory = (ctypes.c_char * (_BYTES + LINE))()
        self.address = -(-ctypes.addressof(self.memory) // LINE) * LINE
        self.launch = self.code.address("launch")
        self.nudge = _NUDGE(self.code.address("nudge"))
        self.worker = _WORKER(self.code.address("worker"))
        self.workers: list[threading.Thread] = []

    def grow(self, threads: int) -> None:
        """Have at least threads - 1 workers."""
        while len(self.workers) < threads - 1:
            slot = len(self.workers) + 1
            thread = threading.Thread(target=self.worker, args=(self.address, slot), name=f"polytc-{slot}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is on its way out: fewer workers do it too
                return
            self.workers.append(thread)

    def _word(self, name: str) -> ctypes.c_uint32:
        return ctypes.c_uint32.from_address(self.address + _OFFSET[name])

    def stop(self) -> None:
        """Let the workers return, so that none is inside of native code while the interpreter goes away."""
        self._word("stop").value = 1
        while any(t.is_alive() for t in self.workers):
            self.nudge(self.address)
            for t in self.workers:
                t.join(0.01)

    def forget_workers(self) -> None:
        """In the child of a fork no worker exists, and the memory may be in the middle of a region."""
        ctypes.memset(self.address, 0, _BYTES)
        self.workers = []


_LOCK = forks.Lock()
_POOL: _Pool | None = None


def team(threads: int) -> tuple[int, int]:
    """Addresses of `launch` and of the pool's state, with workers for `threads` threads; zeros for a single thread."""
    global _POOL
    if threads <= 1:
        return 0, 0
    found = _POOL
    if found is None or len(found.workers) < threads - 1:
        with _LOCK:
            found = _POOL = _POOL or _Pool()
            found.grow(threads)
    return found.launch, found.address


def workers() -> int:
    """How many worker threads there are now."""
    return len(_POOL.workers) if _POOL is not None else 0


def _after_fork() -> None:
    if _POOL is not None:
        _POOL.forget_workers()


@atexit.register
def _at_exit() -> None:
    if _POOL is not None:
        _POOL.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
