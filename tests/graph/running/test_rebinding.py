"""Instances for other sizes made of one that is bound: they share memory, and nobody's results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import polytc
from polytc.graph.model import Model
from polytc.graph.running import instance
from polytc.native import aligned

R = np.random.default_rng(2)
W, B = R.normal(size=(8, 8)).astype(np.float32), R.normal(size=8).astype(np.float32)

NET = """
g (float[N, 8] x) => (float[N, 8] y, float[N, 8] z) {
    a = MatMul (x, w)  b = Softmax <axis = 0> (a)  c = MatMul (b, w)  y = Add (c, x)  z = Tanh (a)
}"""

BRANCH = """
g (float[N, 8] x, bool c) => (float[N, 8] y) {
    a = MatMul (x, w)
    b = If (c) <then_branch = t () => (float[N, 8] p) { p = Exp (a) },
                else_branch = e () => (float[N, 8] q) { q = MatMul (a, w) }>
    y = Add (b, x)
}"""


def opened(text: str, **options: Any) -> Model:
    graph = parser.parse_graph(text)
    graph.initializer.append(onnx.numpy_helper.from_array(W, "w"))
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    return polytc.load_onnx(model).compile(symbolic=True, **{"threads": 1} | options)


def net(x: np.ndarray) -> list[np.ndarray]:
    a = x.astype(np.float64) @ W
    e = np.exp(a - a.max(0))
    return [(e / e.sum(0)) @ W + x, np.tanh(a)]


def branch(x: np.ndarray, taken: bool) -> np.ndarray:
    a = x.astype(np.float64) @ W
    return (np.exp(a) if taken else a @ W) + x


def array(n: int) -> np.ndarray:
    return R.normal(size=(n, 8)).astype(np.float32)


def agree(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.fixture
def binds(monkeypatch) -> list[int]:
    """How many steps were bound one by one, a number for each instance."""
    found, original = [], instance.bind

    def bind(plan, links, codes, arena):
        found.append(len(codes))
        return original(plan, links, codes, arena)
    monkeypatch.setattr(instance, "bind", bind)
    return found


@pytest.mark.part(2)
@pytest.mark.parametrize("threads", [1, 2])
def test_only_the_first_is_bound_step_by_step(binds: list[int], threads: int) -> None:
    """Results that were given away stay as they are, and sizes that come back are right: larger, smaller, and again."""
    model, kept = opened(NET, threads=threads), []
    for n in (20, 300, 3, 47, 20, 300, 1000, 2, 3):
        x = array(n)
        found = model.run(None, {"x": x})
        kept.append((found, net(x)))
    for found, wanted in kept:
        agree(found, wanted)
    assert len(binds) == 1


def test_memory_is_shared() -> None:
    model = opened(NET)
    for n in (20, 300, 47, 200):
        model.run(None, {"x": array(n)})
    stores = {id(found._store) for _, found in model._partitioned._rebindings.items()}
    assert len(stores) == 1


def test_parts_of_the_results() -> None:
    model = opened(NET)
    for n in (20, 30, 40):
        x = array(n)
        agree(model.run(["z"], {"x": x}), net(x)[1:])
        agree(model.run(["z", "y", "z"], {"x": x}), [net(x)[k] for k in (1, 0, 1)])


def test_inputs_that_code_cannot_read_as_they_are() -> None:
    model = opened(NET)
    for n in (20, 30, 40, 30):
        x = array(2 * n)[::2]
        agree(model.run(None, {"x": x}), net(x))


def test_branches(binds: list[int]) -> None:
    model = opened(BRANCH)
    for n in (20, 31, 20, 400, 7):
        for taken in (True, False):
            x = array(n)
            agree(model.run(None, {"x": x, "c": np.array(taken)}), [branch(x, taken)])
    assert len(binds) <= 1


def test_sessions_at_once() -> None:
    """Each has memory of its own, whatever sizes the others run."""
    model = opened(NET)
    model.run(None, {"x": array(20)})

    def many(seed: int) -> None:
        session, r = model.session(), np.random.default_rng(seed)
        for _ in range(60):
            x = r.normal(size=(int(r.integers(2, 200)), 8)).astype(np.float32)
            agree(session.run(None, {"x": x}), net(x))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(many, range(4)))


def test_profiles() -> None:
    model = opened(NET)
    rows = []
    for n in (20, 30, 40):
        x = array(n)
        agree(model.run(None, {"x": x}), net(x))
        rows.append(len(model.profile({"x": x}, runs=2).kernels))
    assert rows[0] > 0
    assert len(set(rows)) == 1


@pytest.mark.parametrize("shift", [4, 1])
def test_weights_at_odd_addresses(shift: int, monkeypatch) -> None:
    """They are not copied for each size."""
    model, copies, original = opened(NET), list[int](), aligned._copied

    def copied(a: np.ndarray) -> np.ndarray:
        copies.append(a.nbytes)
        return original(a)
    monkeypatch.setattr(aligned, "_copied", copied)
    raw = np.zeros(W.nbytes + shift, np.uint8)
    odd = raw[shift:].view(np.uint8)
    odd[:] = W.reshape(-1).view(np.uint8)
    model.graph.constants["w"] = np.frombuffer(odd, np.float32).reshape(W.shape)  # type: ignore[index]
    once = 0
    for n in (20, 30, 40):
        x = array(n)
        agree(model.run(None, {"x": x}), net(x))
        once = len(copies) if n == 20 else once
    assert len(copies) == once
    assert once > 0
