"""Masks of AVX-512 on their way to general registers, which LLVM 22 gets wrong.

Its pass x86-compress-evex makes one instruction, `vmovmskps` and the like, of two, `vpmovd2m` (the signs of a vector as a mask)
and `kmov`. The one instruction cannot name the registers 16 to 31: where the vector lies in one of them it reads another vector
(llvm-project issue 191304); and the mask that the first of the two left may still be read (198197). The pass has no switch.
What can be done is to take from a module the instructions that the pass begins with: AVX512DQ has those of words of 32 and 64
bits, AVX512BW that of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

_LEAVES = re.compile(r"(?:extractelement|bitcast|freeze) <\d+ x i1>|@llvm\.vector\.reduce\.\w+\.v\d+i1\(")
"""In LLVM IR: a lane of a mask, or all of them, as a number."""
_FOLDED = re.compile(r"\tv(?:pmovmskb|movmskp[sd])\b")
"""In assembly: what the pass makes. LLVM has other uses for them, which are right."""
_FEATURES = re.compile(r'("target-features"="[^"]*)"')
_FEWER = ("", ",-avx512dq", ",-avx512dq,-avx512bw")
_BUILT_ON_WORDS = "@llvm.x86.avx512bf16."
"""In LLVM IR: instructions that AVX512BW is part of. Without it LLVM ends the process, so that masks of bytes beside them stay
as they are."""


def suspected(text: str, triple: str, features: str) -> bool:
    """Whether the pass may change what becomes of an optimised module. features: of the processor, as LLVM has them; with none,
    those that its name stands for."""
    avx512 = triple.startswith("x86_64") and ("+avx512" in features or not features)
    return llvm.llvm_version_info[0] >= 22 and avx512 and bool(_LEAVES.search(text))


def avoided(text: str, machine: Callable[[str], Any]) -> tuple[Any, Any]:
    """(module, target machine) with as many features as the pass allows: as many `vmovmsk*` are made of them as of the
    least, where the pass has nothing to begin with. machine: makes the target machine, given what to add to its features."""
    candidates = _FEWER[:-1] if _BUILT_ON_WORDS in text else _FEWER
    made = _folded(*_with(text, machine, ""))
    least = _folded(*_with(text, machine, candidates[-1])) if made else 0
    fewer = next(f for f in candidates if (made if not f else _folded(*_with(text, machine, f))) <= least)
    return _with(text, machine, fewer)


def _with(text: str, machine: Callable[[str], Any], fewer: str) -> tuple[Any, Any]:
    return llvm.parse_assembly(_FEATURES.sub(rf'\1{fewer}"', text), llvm.create_context()), machine(fewer)


def _folded(module: Any, machine: Any) -> int:
    return len(_FOLDED.findall(machine.emit_assembly(module)))
