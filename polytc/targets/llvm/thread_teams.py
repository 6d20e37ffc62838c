"""Parallel loops inside sequential ones: a team of threads runs the sequential loops together, and meets after each region.

    for t { parallel for i S(t, i) }
    ->  every thread: for t { while (c = take(a chunk of the region)) { for i in chunk c S(t, i) };  meet }

so that a region costs two messages between threads instead of waking and dismissing them. Each thread counts the regions as it
goes through them. The chunks of a region are dealt to the threads by number, the same ones in every region, so that data stay
in their caches; whoever has finished takes those of others. Nobody waits for a thread, only for chunks that are taken: one that
comes late finds regions done and skips them, one that never comes leaves its chunks to the others. What stands between regions
is a region of one chunk.

The team's memory: the number of chunks done since the start, then for each hand of chunks, on a line of its own, the region
and how many of its chunks are taken, as `region << 32 | taken`. A hand that speaks of an earlier region is a full one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polytc.codegen import loops, traverse
from polytc.native import parallel_regions
from polytc.targets.llvm import expressions, ir

if TYPE_CHECKING:
    from polytc.targets.llvm.statements import Writer

HANDS = 64
"""Hands of chunks at most; more threads than that share."""
PARTS = 4
"""Chunks of a hand."""
LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True)
class Team:
    """What the function of a team knows: its memory, the number of hands, its own hand, and where it counts regions and
    chunks (pointers to i64)."""

    memory: ir.Value
    hands: ir.Value
    own: ir.Value
    region: ir.Value
    chunks: ir.Value


def is_team(s: loops.For) -> bool:
    """Is this a sequential loop around parallel ones, such that every thread can run it without help?"""
    return s.kind == "sequential" and _holds(s) and _replicable(s)


def _holds(s: loops.Stmt) -> bool:
    """Is there a parallel loop below?"""
    return any(isinstance(x, loops.For) and x.kind == "parallel" for x in traverse.walk_stmt(s))


def _replicable(s: loops.Stmt) -> bool:
    """Does what lies around the regions neither read memory nor own any?"""
    match s:
        case loops.For() if s.kind != "parallel" and _holds(s):
            return not traverse.loads(s.lower) and not traverse.loads(s.upper) and _replicable(s.body)
        case loops.Block():
            return all(map(_replicable, s.stmts))
        case loops.If() if _holds(s):
            return not traverse.loads(s.cond) and _replicable(s.then) and (s.orelse is None or _replicable(s.orelse))
        case loops.Alloc():
            return not _holds(s)
        case _:
            return True


def region(writer: Writer, team: Team, s: loops.Stmt) -> bool:
    """Write a statement of the team's function as a region, if it is one: a parallel loop, or what has none inside."""
    match s:
        case loops.For(kind="parallel"):
            _region(writer, team, s)
            return True
        case loops.Block():
            return False
        case _ if _holds(s):
            return False
        case _:
            _single(writer, team, s)
            return True


def _region(writer: Writer, team: Team, s: loops.For) -> None:
    """A parallel loop: chunks until none is left."""
    fn = writer.body.fn
    lower, upper = expressions.index(writer.body, s.lower), expressions.index(writer.body, s.upper)
    call = writer.outlined(s)
    zero, one = ir.constant(0, "i64"), ir.constant(1, "i64")
    span = fn.binary("add nsw", fn.binary("sub nsw", upper, lower), ir.constant(s.step - 1, "i64"))
    span = span if s.step == 1 else fn.binary("sdiv", span, ir.constant(s.step, "i64"))
    count = fn.call("llvm.smax.i64", "i64", (span, zero))
    alone = fn.compare("icmp eq", team.hands, one)
    most = fn.choose(alone, one, fn.binary("mul nsw", team.hands, ir.constant(PARTS, "i64")))
    chunks = fn.call("llvm.smin.i64", "i64", (count, most))

    def work(chunk: ir.Value) -> None:
        begin = fn.binary("sdiv", fn.binary("mul nsw", count, chunk), chunks)
        end = fn.binary("sdiv", fn.binary("mul nsw", count, fn.binary("add nsw", chunk, one)), chunks)
        call(begin, end, lower, upper)

    _shared(writer, team, chunks, work)


def _single(writer: Writer, team: Team, s: loops.Stmt) -> None:
    """What one thread does for all."""
    def work(chunk: ir.Value) -> None:
        writer.alone(s)

    _shared(writer, team, ir.constant(1, "i64"), work)


def _shared(writer: Writer, team: Team, chunks: ir.Value, work: Callable[[ir.Value], None]) -> None:
    """A region of so many chunks: skip it if it is done, else take chunks, then wait for those that others have."""
    fn = writer.body.fn
    take, busy, settle, end = (fn.fresh(n) for n in ("take", "busy", "settle", "met"))
    number, total = _counted(fn, team.region, ir.constant(1, "i64")), _counted(fn, team.chunks, chunks)
    done = fn.emit("i64", f"load atomic i64, {team.memory} acquire, align 8")
    before = fn.block
    fn.do(f"br {fn.compare('icmp sge', done, total)}, label %{end}, label %{take}")
    fn.start(take)
    fn.do("")  # the phi, whose second source is known after the work
    phi, mine = len(fn.lines) - 1, ir.Value("i64", f"%{fn.fresh('mine')}")
    chunk = fn.emit("i64", f"call i64 @team.take({team.memory}, {team.own}, {number}, {chunks}, {team.hands})")
    fn.do(f"br {fn.compare('icmp slt', chunk, ir.constant(0, 'i64'))}, label %{settle}, label %{busy}")
    fn.start(busy)
    work(chunk)
    more = fn.binary("add nsw", mine, ir.constant(1, "i64"))
    fn.lines[phi] = f"  {mine.ref} = phi i64 [ 0, %{before} ], [ {more.ref}, %{fn.block} ]"
    fn.do(f"br label %{take}")
    fn.start(settle)
    fn.do(f"call void @team.meet({team.memory}, {mine}, {total})")
    fn.do(f"br label %{end}")
    fn.start(end)


def _counted(fn: ir.Function, place: ir.Value, by: ir.Value) -> ir.Value:
    """Add to a counter of this thread."""
    value = fn.binary("add nsw", fn.emit("i64", f"load i64, {place}, align 8"), by)
    fn.do(f"store {value}, {place}, align 8")
    return value


def memory(fn: ir.Function) -> ir.Value:
    """A team's memory, in the frame of the function that starts it."""
    place = fn.alloca("i8", LINE * (1 + HANDS), LINE)
    fn.do(f"call void @llvm.memset.p0.i64({place}, i8 0, i64 {LINE * (1 + HANDS)}, i1 false)")
    fn.text.declare("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"])
    return place


def define(text: ir.Text, architecture: str) -> None:
    """The functions `team.take` and `team.meet`, once a module. architecture: see regions."""
    if text.defines("team.take"):
        return
    take = ir.Function(text, "team.take", ["ptr %team", "i64 %own", "i64 %region", "i64 %chunks", "i64 %hands"], "i64")
    take.lines = _TAKE.splitlines()
    text.declare("llvm.smin.i64", "i64", ["i64", "i64"])
    text.declare("llvm.smax.i64", "i64", ["i64", "i64"])
    meet = ir.Function(text, "team.meet", ["ptr %team", "i64 %mine", "i64 %total"])
    yields = "  %y = call i32 @sched_yield()\n" if os.name == "posix" else ""
    meet.lines = _MEET.format(pause=parallel_regions.pause(architecture), yields=yields).splitlines()
    if yields:
        text.declare("sched_yield", "i32", [])
    parallel_regions.declare_pause(text.declare, architecture)


_TAKE = f"""\
  br label %hand
hand:
  %n = phi i64 [ 0, %entry ], [ %n1, %next ]
  %place = add i64 %own, %n
  %which = urem i64 %place, %hands
  %which1 = add i64 %which, 1
  %low = mul i64 %chunks, %which
  %high = mul i64 %chunks, %which1
  %first = udiv i64 %low, %hands
  %last = udiv i64 %high, %hands
  %width = sub i64 %last, %first
  %offset = mul i64 %which1, {LINE}
  %word = getelementptr i8, ptr %team, i64 %offset
  br label %look
look:
  %seen = load atomic i64, ptr %word acquire, align 8
  %of = lshr i64 %seen, 32
  %late = icmp ugt i64 %of, %region
  br i1 %late, label %none, label %current
current:
  %same = icmp eq i64 %of, %region
  %low32 = and i64 %seen, 4294967295
  %taken = select i1 %same, i64 %low32, i64 0
  %left = icmp ult i64 %taken, %width
  br i1 %left, label %try, label %next
try:
  %shifted = shl i64 %region, 32
  %after = add i64 %taken, 1
  %new = or i64 %shifted, %after
  %swap = cmpxchg ptr %word, i64 %seen, i64 %new acq_rel acquire
  %won = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %won, label %mine, label %look
mine:
  %chunk = add i64 %first, %taken
  ret i64 %chunk
next:
  %n1 = add i64 %n, 1
  %again = icmp ult i64 %n1, %hands
  br i1 %again, label %hand, label %none
none:
  ret i64 -1"""
"""take(team, own, region, chunks, hands): a chunk of the region that nobody has, own ones first; -1 if none is left."""

_MEET = """\
  %some = icmp ne i64 %mine, 0
  br i1 %some, label %add, label %wait
add:
  %old = atomicrmw add ptr %team, i64 %mine acq_rel
  br label %wait
wait:
  %n = phi i64 [ 0, %entry ], [ 0, %add ], [ %n1, %spin ]
  %done = load atomic i64, ptr %team acquire, align 8
  %all = icmp sge i64 %done, %total
  br i1 %all, label %end, label %again
again:
  %n1 = add i64 %n, 1
  %often = and i64 %n1, 1023
  %tired = icmp eq i64 %often, 0
  br i1 %tired, label %yield, label %spin
yield:
{yields}  br label %spin
spin:
{pause}  br label %wait
end:
  ret void"""
"""meet(team, mine, total): so many more chunks are done; return when there are `total`."""
