"""Has the processor the instructions that the code was made of? As LLVM IR, for x86-64; other code runs on all of its kind.

    i1 able()                       for one machine
    i64 level()                     the first of several that it has the instructions of

Bits of `cpuid` are those of Intel's manual (volume 2A, CPUID) and AMD's (volume 3, appendix E); whether the system keeps the
registers is in XCR0 (Intel, volume 1, 13.3). Those of the matrix unit Linux gives to processes that ask for them
(Documentation/arch/x86/xstate.rst in its sources), which this does.
"""

from __future__ import annotations

from collections.abc import Sequence

from polytc.machine import Machine
from polytc.processors import ARCH_PRCTL, REQUEST, TILE_DATA
from polytc.targets.llvm.target import features_of

_LEAVES = ((1, 0), (7, 0), (7, 1))
_BITS = {"sse4.2": (0, "c", 20), "movbe": (0, "c", 22), "popcnt": (0, "c", 23), "fma": (0, "c", 12), "avx": (0, "c", 28),
         "f16c": (0, "c", 29), "bmi": (1, "b", 3), "avx2": (1, "b", 5), "bmi2": (1, "b", 8), "avx512f": (1, "b", 16),
         "avx512dq": (1, "b", 17), "avx512ifma": (1, "b", 21), "avx512cd": (1, "b", 28), "avx512bw": (1, "b", 30),
         "avx512vl": (1, "b", 31), "avx512vbmi": (1, "c", 1), "avx512vbmi2": (1, "c", 6), "gfni": (1, "c", 8),
         "avx512vnni": (1, "c", 11), "avx512bitalg": (1, "c", 12), "avx512vpopcntdq": (1, "c", 14), "amx-bf16": (1, "d", 22),
         "avx512fp16": (1, "d", 23), "amx-tile": (1, "d", 24), "amx-int8": (1, "d", 25), "avxvnni": (2, "a", 4),
         "avx512bf16": (2, "a", 5)}
"""Feature as LLVM calls it -> number of the leaf, register, bit."""
_KEPT = {"avx": 0x6, "avx512f": 0xE6, "amx-tile": 0x60006}
"""Feature -> bits of XCR0 without which the system does not keep its registers."""


def level(machines: Sequence[Machine | None]) -> str:
    """i64 level(): the number of the first of these machines whose code the processor runs; -1 if there is none."""
    asked = "".join(f"""\
  %is.{k} = call i1 @able.{k}()
  br i1 %is.{k}, label %found.{k}, label %next.{k}
found.{k}:
  ret i64 {k}
next.{k}:
""" for k in range(len(machines)))
    able = "".join(text(m, f"able.{k}") for k, m in enumerate(machines))
    return f"{able}define internal i64 @level() {{\n{asked}  ret i64 -1\n}}\n"


def text(machine: Machine | None, name: str = "able") -> str:
    """The function. machine: that the code is made for; None if nothing is asked of the processor."""
    if machine is None or machine.architecture != "x86_64":
        return f"define internal i1 @{name}() {{\n  ret i1 true\n}}\n"
    asked = {"avx", *features_of(machine)} & set(_BITS)
    lines, answers = [], ["true"]
    for k, (leaf, part) in enumerate(_LEAVES):
        lines.append(f'  %leaf.{k} = call {{ i32, i32, i32, i32 }} asm "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}}"'
                     f"(i32 {leaf}, i32 {part})")
        for n, register in enumerate("abcd"):
            mask = sum(1 << bit for at, r, bit in map(_BITS.__getitem__, asked) if (at, r) == (k, register))
            if mask:
                lines += [f"  %{register}.{k} = extractvalue {{ i32, i32, i32, i32 }} %leaf.{k}, {n}",
                          *_all(f"{register}.{k}", mask)]
                answers.append(f"%{register}.{k}.all")
    kept = 0
    for f in asked:
        kept |= _KEPT.get(f, 0)
    body = "\n".join(lines) + "\n"
    for n, answer in enumerate(answers[1:]):
        body += f"  %able.{n} = and i1 {answer}, {f'%able.{n - 1}' if n else 'true'}\n"
    last = f"%able.{len(answers) - 2}" if len(answers) > 1 else "true"
    return f"define internal i1 @{name}() {{\n{body}{_system(last, kept)}}}\n"


def _system(able: str, kept: int) -> str:
    """XCR0 can be read only where AVX is there, and the system uses it (OSXSAVE)."""
    if not kept:
        return f"  ret i1 {able}\n"
    lines = _all("state", kept)
    return f"""\
  br i1 {able}, label %saves, label %no
saves:
  %osxsave.leaf = call {{ i32, i32, i32, i32 }} asm "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}}"(i32 1, i32 0)
  %osxsave.c = extractvalue {{ i32, i32, i32, i32 }} %osxsave.leaf, 2
  %osxsave = and i32 %osxsave.c, {1 << 27}
  %saved = icmp ne i32 %osxsave, 0
  br i1 %saved, label %look, label %no
look:
  %xcr0 = call {{ i32, i32 }} asm "xgetbv", "={{ax}},={{dx}},{{cx}}"(i32 0)
  %state = extractvalue {{ i32, i32 }} %xcr0, 0
{chr(10).join(lines)}
{_granted() if kept >> TILE_DATA & 1 else "  ret i1 %state.all"}
no:
  ret i1 false
"""


def _granted() -> str:
    """The end of the function where the process must ask."""
    return f"""\
  br i1 %state.all, label %ask, label %no
ask:
  %granted = call i64 asm sideeffect "syscall", "={{rax}},{{rax}},{{rdi}},{{rsi}},~{{rcx}},~{{r11}},~{{memory}}"\
(i64 {ARCH_PRCTL}, i64 {REQUEST}, i64 {TILE_DATA})
  %is.granted = icmp eq i64 %granted, 0
  ret i1 %is.granted"""


def _all(name: str, mask: int) -> list[str]:
    """Are all of these bits set?"""
    number = mask - (1 << 32) if mask >> 31 else mask
    return [f"  %{name}.some = and i32 %{name}, {number}", f"  %{name}.all = icmp eq i32 %{name}.some, {number}"]
