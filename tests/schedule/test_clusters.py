"""Groups under common outer loops, and what must stay apart."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.codegen.llvm.target import LLVMTarget
from polytc.compiler import lower_program
from polytc.lang import build
from polytc.machine import AVX2
from polytc.schedule.clusters import clusters
from polytc.schedule.groups import partition

DEPTHWISE = "O[c,h,w] += (I[c,h+r-1,w+s-1] else 0)*W[c,r,s] where h in 0:28, w in 0:28"
ATTENTION = "S[h,i,j] += Q[h,i,d]*K[h,j,d]; O[h,i,e] += exp(S[h,i,j])*V[h,j,e]"
CHAIN = "T[i,j] += A[i,k]*B[k,j]; O[i,l] += exp(T[i,j])*C[j,l]"
SHAPES = {"depthwise": {"I": (64, 28, 28), "W": (64, 3, 3)}, "attention": dict.fromkeys("QKV", (12, 64, 32)),
          "chain": dict.fromkeys("ABC", (128, 128))}
TEXTS = {"depthwise": DEPTHWISE, "attention": ATTENTION, "chain": CHAIN}


def sizes(name: str) -> list[int]:
    """Groups of each cluster."""
    rewritten = lower_program(build(TEXTS[name], SHAPES[name]), LLVMTarget(AVX2)).rewritten
    return [len(c.groups) for c in clusters(rewritten, partition(rewritten), AVX2)]


def test_a_padded_copy_lives_inside_the_loop_over_channels() -> None:
    assert sizes("depthwise") == [2]
    module = lower_program(build(DEPTHWISE, SHAPES["depthwise"]), LLVMTarget(AVX2)).loops
    assert len(module.kernels) == 1
    assert not module.scratch, "only a slice is left, inside the kernel"


def test_stages_of_attention_share_the_heads() -> None:
    assert max(sizes("attention")) > 1


def test_a_chain_of_products_keeps_the_reuse_of_its_operands() -> None:
    assert max(sizes("chain")) == 1


@pytest.mark.parametrize("name", TEXTS)
def test_results(name: str) -> None:
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(s).astype(np.float32) / 8 for n, s in SHAPES[name].items()}
    expected = polytc.evaluate(TEXTS[name], **arrays)
    np.testing.assert_allclose(polytc.run(TEXTS[name], **arrays), expected, rtol=1e-4, atol=1e-4)
