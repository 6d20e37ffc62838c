"""How a thread's processor treats subnormal results, as lines of LLVM IR.

x86 takes subnormal numbers apart in microcode, some hundred cycles each: a softmax of attention with a mask of -100 makes
thousands of them, and everything that reads it is six times slower. A model's kernels therefore store 0 for a result below the
smallest normal number (1.2e-38 in f32), unless POLYTC_SUBNORMALS=keep; operands that are subnormal, of the user's own arrays
say, count as they are. On other processors than x86 they cost nothing and stay.
"""

from __future__ import annotations

import os

_FLUSH = 1 << 15
"""MXCSR's bit `flush to zero` (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, 10.2.3)."""
_DECLARED = "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)\n"


def flushing() -> bool:
    """Do models drop subnormal results in this process?"""
    return os.environ.get("POLYTC_SUBNORMALS", "") != "keep"


def declarations(architecture: str) -> str:
    """What the other lines call."""
    return _DECLARED if architecture == "x86_64" else ""


def read(architecture: str, at: str) -> str:
    """Store this thread's mode at the pointer `at`, an i32."""
    return f"  call void @llvm.x86.sse.stmxcsr(ptr {at})\n" if architecture == "x86_64" else ""


def write(architecture: str, at: str) -> str:
    """From here on this thread works in the mode that was read into `at`."""
    return f"  call void @llvm.x86.sse.ldmxcsr(ptr {at})\n" if architecture == "x86_64" else ""


def flush(architecture: str) -> str:
    """From here on results are never subnormal; the old mode is in %mode.old."""
    if architecture != "x86_64":
        return ""
    return (f"  %mode.old = alloca i32\n  %mode.new = alloca i32\n{read(architecture, '%mode.old')}"
            f"  %mode.was = load i32, ptr %mode.old\n  %mode.is = or i32 %mode.was, {_FLUSH}\n"
            f"  store i32 %mode.is, ptr %mode.new\n{write(architecture, '%mode.new')}")


def restore(architecture: str) -> str:
    """Back to the mode before `flush`."""
    return write(architecture, "%mode.old")
