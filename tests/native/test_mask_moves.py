"""Masks whose bits leave for general registers: LLVM's pass must not make `vmovmsk*` of them (native/mask_moves.py)."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import compiler, stages
from polytc.machine import AVX512
from polytc.native import jit
from polytc.targets.llvm.target import LLVMTarget

TEXT = """
    def f(inout u16[9,5] X, i32[9,4,8] D) {
        for t in 0:4 {
            for u in 0:9 { X[i,j] = u16(D[u,t,i]) where i in 1:u, j in 0:5 }
            X[t+2,i] -= u16(D[t,t,j] % ((k & 3) + 1)) where i >= j, i in 0:5, j in 0:6, k in 0:5
        }
    }"""
"""The generator found it: the optimiser takes remainders in vectors, and the sign of each."""

FOLDED = re.compile(r"\tv(?:pmovmskb|movmskp[sd])\t.*")


def assembly(target: LLVMTarget) -> str:
    program = stages.build(TEXT, {"X": (9, 5), "D": (9, 4, 8)}, {"X": "u16", "D": "i32"})
    return target.assembly(compiler.lower_program(program, target, "program").source)


def test_remainders_of_which_the_optimiser_makes_vectors() -> None:
    op = polytc.compile(TEXT, target="cpu", schedule="program")
    x, d = np.zeros((9, 5), np.uint16), np.random.default_rng(0).integers(-9, 9, (9, 4, 8)).astype(np.int32)
    want = x.astype(int)
    for t in range(4):
        for u in range(9):
            want[1:u] = d[u, t, 1:u, None]
        for i in range(5):
            want[t + 2, i] -= sum(int(d[t, t, j]) % ((k & 3) + 1) for j in range(i + 1) for k in range(5))
    np.testing.assert_array_equal(op(X=x, D=d), (want % 65536).astype(np.uint16))


@pytest.mark.parametrize("features", ["", "+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512cd"])
def test_no_such_instruction_of_a_high_register(features: str) -> None:
    """They have no way to name it. features: those of the machine's level, or named."""
    for line in FOLDED.findall(assembly(LLVMTarget(replace(AVX512, features=features)))):
        assert not re.search(r"[xy]mm(1[6-9]|2\d|3[01])", line), line


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_what_llvm_does_with_them_rightly_stays(cpu: str) -> None:
    text = """
        define i8 @f(ptr %p) {
          %v = load <8 x i32>, ptr %p, align 4
          %s = icmp slt <8 x i32> %v, zeroinitializer
          %b = bitcast <8 x i1> %s to i8
          ret i8 %b
        }"""
    assert FOLDED.search(jit.assembly(text, cpu, "", jit.Tuning(), triple="x86_64-unknown-linux-gnu"))


def test_instructions_that_need_words_keep_them() -> None:
    """Without AVX512BW, LLVM ends the process at a conversion to bf16."""
    text = """
        define i8 @f(ptr %p, ptr %q) {
          %v = load <8 x i32>, ptr %p, align 4
          %s = icmp slt <8 x i32> %v, zeroinitializer
          %b = bitcast <8 x i1> %s to i8
          %x = load <16 x float>, ptr %q, align 4
          %h = call <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float> %x)
          store <16 x bfloat> %h, ptr %q, align 2
          ret i8 %b
        }
        declare <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float>)"""
    found = jit.assembly(text, "sapphirerapids", "", jit.Tuning(), triple="x86_64-unknown-linux-gnu")
    assert "vcvtneps2bf16" in found
    assert FOLDED.search(found)
