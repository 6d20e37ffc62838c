"""A chain that runs again and again on what it made itself, as one native call.

    for k in first : first + most {
        counter = k
        *slot = start + (k - first) * stride        for each advance: rows that are read or written one after another
        run the chain
        copy source -> target + (k - first) * stride    for each copy: rows of results, states that the next round reads
        if not going, stop
    }
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

from polytc.native import chain_walk, subnormals
from polytc.native import threads as pool
from polytc.native.linking import Code, scalar_code
from polytc.runtime.call_chains import Chain

_ROUNDS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                           *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)

TEXT = """\
define i64 @rounds(ptr %steps, i64 %count, ptr %launch, i64 %first, i64 %most, ptr %pool, ptr %counter, ptr %advances,
                   i64 %moved, ptr %copies, i64 %copied, ptr %going) {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %after ]
  %more = icmp slt i64 %k, %most
  br i1 %more, label %round, label %done
round:
  %number = add i64 %k, %first
  store i64 %number, ptr %counter
  br label %advance
advance:
  %a = phi i64 [ 0, %round ], [ %a1, %move ]
  %a.more = icmp slt i64 %a, %moved
  br i1 %a.more, label %move, label %run
move:
  %a.at = mul i64 %a, 3
  %slot.p = getelementptr i64, ptr %advances, i64 %a.at
  %start.p = getelementptr i64, ptr %slot.p, i64 1
  %stride.p = getelementptr i64, ptr %slot.p, i64 2
  %slot = load ptr, ptr %slot.p
  %start = load i64, ptr %start.p
  %stride = load i64, ptr %stride.p
  %offset = mul i64 %k, %stride
  %address = add i64 %start, %offset
  store i64 %address, ptr %slot
  %a1 = add i64 %a, 1
  br label %advance
run:
  call void @walk(ptr %steps, i64 %count, ptr %launch, ptr %pool, ptr null)
  br label %state
state:
  %s = phi i64 [ 0, %run ], [ %s1, %copy ]
  %s.more = icmp slt i64 %s, %copied
  br i1 %s.more, label %copy, label %after
copy:
  %s.at = mul i64 %s, 4
  %target.p = getelementptr i64, ptr %copies, i64 %s.at
  %source.p = getelementptr i64, ptr %target.p, i64 1
  %bytes.p = getelementptr i64, ptr %target.p, i64 2
  %step.p = getelementptr i64, ptr %target.p, i64 3
  %step = load i64, ptr %step.p
  %s.offset = mul i64 %k, %step
  %base = load ptr, ptr %target.p
  %target = getelementptr i8, ptr %base, i64 %s.offset
  %source = load ptr, ptr %source.p
  %bytes = load i64, ptr %bytes.p
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %s1 = add i64 %s, 1
  br label %state
after:
  %k1 = add i64 %k, 1
  %go = load i8, ptr %going
  %goes = icmp ne i8 %go, 0
  br i1 %goes, label %next, label %stopped
stopped:
  ret i64 %k1
done:
  ret i64 %k
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


@functools.cache
def _code(flushing: bool) -> tuple[Code, Callable[..., int]]:
    code = scalar_code(chain_walk.text(flushing=flushing) + TEXT)
    return code, _ROUNDS(code.address("rounds"))


Row: TypeAlias = tuple[int, int, int]
"""Address of a slot, address of what it points to in the first round, bytes from one round to the next."""
Copy: TypeAlias = tuple[int, int, int, int]
"""Addresses of target and source, bytes, bytes that the target moves on from one round to the next."""


def repeat_chain(chain: Chain, first: int, most: int, counter: int, going: int, advances: Sequence[Row],
                 copies: Sequence[Copy]) -> int:
    """Run a native chain at most so many rounds, the first with the number `first`; how many there were. Not beside other runs
    of the chain.

    counter: address of an i64 that gets the number of the round. going: address of a bool; where it is false after a round,
    that was the last. copies: made after each round, in order.
    """
    steps, count, team = chain.walked
    moves = (ctypes.c_int64 * max(1, 3 * len(advances)))(*itertools.chain.from_iterable(advances))
    copied = (ctypes.c_int64 * max(1, 4 * len(copies)))(*itertools.chain.from_iterable(copies))
    launch, state = pool.team(team)
    _, run = _code(subnormals.flushing())
    return run(steps, count, launch, first, most, state, counter, moves, len(advances), copied, len(copies), going)
