"""What code without Python finds out about a processor, feature by feature: LLVM says the same."""

from __future__ import annotations

import ctypes
import platform
from dataclasses import replace

import pytest

from polytc import machine
from polytc.native import jit, linking
from polytc.targets.llvm.standalone import processor

HERE = machine.detect(*jit.host())
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is for x86-64")


def able(text: str) -> bool:
    """What the function of a text says."""
    ask = "define i32 @ask() {\n  %able = call i1 @able()\n  %number = zext i1 %able to i32\n  ret i32 %number\n}\n"
    code = linking.Code(jit.build(text + ask, *jit.host(), jit.Tuning(slp=False, vectorize=False, level=2)))
    return bool(ctypes.CFUNCTYPE(ctypes.c_int)(code.address("ask"))())


@pytest.mark.parametrize("feature", processor._BITS)
def test_a_feature(feature: str) -> None:
    plain = replace(HERE, vector_bytes=16, features=f"+{feature}")
    assert able(processor.text(plain)) == (HERE.has(feature) and HERE.has("avx"))


def test_this_processor_runs_its_own_code() -> None:
    assert able(processor.text(HERE))
    assert able(processor.text(None))


def test_other_kinds_are_not_asked() -> None:
    assert "cpuid" not in processor.text(machine.NEON)
