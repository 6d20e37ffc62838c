"""What LLVM needs to make code is given back: a process may compile for days."""

from __future__ import annotations

import gc
import sys

import pytest

from polytc.native import jit

IR = """
define void @f(ptr %x, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p
  %w = fmul float %v, 0x3FF%x00000000
  store float %w, ptr %p
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}
"""
WARM, TRIALS = 30, 100
GROWTH = 6e3
"""Bytes a compilation, at most. They were 11,000 to 70,000 with pass managers that did not end, and constants that stay."""


def resident() -> int:
    """Bytes of this process that lie in memory."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as f:
        return 4096 * int(f.read().split()[1])


@pytest.mark.part(3)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("tuning", [jit.Tuning(slp=False, vectorize=False, level=1),
                                    jit.Tuning(slp=False, vectorize=False, few=True), jit.Tuning()])
def test_memory_of_compilations_does_not_add_up(tuning: jit.Tuning) -> None:
    def build(n: int) -> None:
        jit.build(IR.replace("%x00000000", f"{n:05x}00000000").replace("@f", f"@f{n}"), *jit.host(), tuning)
    for n in range(WARM):
        build(n)
    before = resident()
    for n in range(WARM, WARM + TRIALS):
        build(n)
    assert resident() - before < GROWTH * TRIALS
