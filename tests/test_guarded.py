"""What tests/guarded.py finds: kernels that write or read beside their arrays."""

from __future__ import annotations

import multiprocessing as mp
import signal

import numpy as np
import pytest

from polytc.codegen import loops as L
from polytc.program.scalars import F32
from polytc.targets.llvm.target import LLVMTarget
from tests import guarded
from tests.codegen import loop_programs as P


def _beside(at: int) -> guarded.Executable:
    """x[at] = t[0] = 1, where x has four elements; t is a temporary."""
    x, t = L.Buffer("x", F32, (4,)), L.Buffer("t", F32, (4,))
    body = L.block(L.Store(t, (L.const(0),), L.Const(1.0, F32)), L.Store(x, (L.const(at),), L.Load(t, (L.const(0),), F32)))
    target = LLVMTarget()
    return target.load(target.build(target.emit(P.module("beside", (x,), ("x",), body, scratch=(t,)))), 1)


def _run(at: int, side: str) -> None:
    guarded.run(_beside(at), [np.zeros(4, np.float32)], side)


@pytest.mark.parametrize("side", ["", "start", "end"])
@pytest.mark.parametrize("at", [0, 3])
def test_what_is_inside_runs(at: int, side: str) -> None:
    x = np.zeros(4, np.float32)
    guarded.run(_beside(at), [x], side)
    assert list(np.flatnonzero(x)) == [at]


@pytest.mark.parametrize(("at", "where"), [(4, "behind"), (-1, "before"), (1000, "behind")])
def test_a_write_beside_an_array_is_found(at: int, where: str) -> None:
    with pytest.raises(guarded.Stray, match=f"4 bytes {where} argument 0"):
        _run(at, "")


@pytest.mark.part(3)
@pytest.mark.parametrize(("at", "side"), [(4, "end"), (-1, "start"), (1100, "start")])
def test_a_protected_page_ends_the_process(at: int, side: str) -> None:
    process = mp.get_context("spawn").Process(target=_run, args=(at, side))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGSEGV
