"""Steps are bound with the largest weights first, and run in their own order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from polytc.codegen.target import BoundRun
from polytc.graph.plan import Array, Plan
from polytc.graph.planning import memory
from polytc.graph.running import instance
from polytc.graph.running.instance import Link, bind
from polytc.program.scalars import F32


class Added:
    """out = in + the first weight; notes down what is bound and what runs."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    def bind(self, buffers: Sequence[np.ndarray]) -> BoundRun:
        self.told.append(f"bind {self.name}")
        return BoundRun(self.run, buffers)

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        self.told.append(f"run {self.name}")
        np.add(buffers[0], buffers[1][0], out=buffers[2])


@pytest.mark.parametrize(("least", "order"), [(40, "dbac"), (1 << 20, "abcd")])
def test_the_largest_weights_are_packed_first(monkeypatch: pytest.MonkeyPatch, least: int, order: str) -> None:
    monkeypatch.setattr(instance, "OWN_MAPPING_BYTES", least)
    sizes = {"a": 1, "b": 20, "c": 2, "d": 30}
    chain = ["x", "p", "q", "r", "y"]
    types = {n: Array(F32, (1,)) for n in chain} | {n: Array(F32, (size,)) for n, size in sizes.items()}
    constants = {n: np.full(size, size, np.float32) for n, size in sizes.items()}
    plan = Plan("m", (), ("x",), ("y",), types, {}, constants, ())
    links = [Link((before, n), (after,)) for before, n, after in zip(chain, sizes, chain[1:], strict=False)]
    told: list[str] = []
    arena = memory.Arena({"p": 0, "q": 64, "r": 128}, 192)
    made = bind(plan, links, [Added(n, told) for n in sizes], arena)
    assert told == [f"bind {n}" for n in order]
    told.clear()
    (y,) = made.run({"x": np.zeros(1, np.float32)}, ["y"])
    assert y[0] == 53
    assert told == [f"run {n}" for n in sizes]
