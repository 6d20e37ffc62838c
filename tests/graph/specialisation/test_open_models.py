"""Kinds of models with open sizes, each at several sizes from one compilation, against ONNX Runtime."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import polytc
from polytc import compiler
from polytc.program.program import Program
from polytc.runtime.pending import Pending

R = np.random.default_rng(7)
Sizes = Mapping[str, int]


def array(*shape: int) -> np.ndarray:
    return (R.standard_normal(shape) / 2).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """text: a graph in onnx's notation; feeds: the inputs for sizes; sizes: of the runs, of which none but the first
    compiles anything; constants: initializers."""

    text: str
    feeds: Callable[[Sizes], dict[str, np.ndarray]]
    sizes: tuple[Sizes, ...]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)


def model_of(case: Case) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]>\n{case.text}')
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in case.constants.items())
    return model


def tables(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {n: array(*s) for n, s in shapes.items()}


def sizes(names: str, *rows: tuple[int, ...]) -> tuple[dict[str, int], ...]:
    return tuple(dict(zip(names.split(), row, strict=True)) for row in rows)


CASES = {
    "convolutions": Case("""
        g (float[N, 3, H, W] x) => (y, z) {
            a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w0, b0)
            b = HardSwish (a)
            c = Conv <group = 8, pads = [1, 1, 1, 1]> (b, w1)
            d = Conv (c, w2)
            e = Add (b, d)
            z = Relu (e)
            m = GlobalAveragePool (z)
            f = Flatten (m)
            y = Gemm <transB = 1> (f, w3)
        }""", lambda s: {"x": array(s["N"], 3, s["H"], s["W"])},
        sizes("N H W", (2, 20, 24), (3, 9, 13), (5, 33, 8), (2, 4, 6)),
        tables(w0=(8, 3, 3, 3), b0=(8,), w1=(8, 1, 3, 3), w2=(8, 8, 1, 1), w3=(5, 8))),
    "pyramid": Case("""
        g (float[N, 4, H, W] x) => (y) {
            a = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
            b = AveragePool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)
            c = Conv <pads = [1, 1, 1, 1]> (a, w0)
            shape = Shape (x)
            hw = Slice (shape, two, four)
            n4 = Slice (shape, zero, two)
            all = Concat <axis = 0> (n4, hw)
            d = Resize <mode = "linear"> (c, nothing, nothing, all)
            e = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">
                (b, nothing, nothing, all)
            f = Concat <axis = 1> (d, e, x)
            p = Pad (f, pads)
            y = Slice (p, one1, big, axes)
        }""", lambda s: {"x": array(s["N"], 4, s["H"], s["W"])},
        sizes("N H W", (2, 16, 20), (3, 8, 34), (2, 40, 12)),
        {**tables(w0=(4, 4, 3, 3)), "zero": np.array([0]), "two": np.array([2]), "four": np.array([4]),
         "pads": np.array([0, 0, 1, 2, 0, 0, 2, 1]), "one1": np.array([1, 2]), "big": np.array([1 << 40, -1]),
         "axes": np.array([2, 3]), "nothing": np.zeros(0, np.float32)}),
    "cache": Case("""
        g (int64[B, S] ids, float[B, 2, P, 4] past_k, float[B, 2, P, 4] past_v, float[B, T] mask) => (y, k, v) {
            e = Gather (table, ids)
            q0 = MatMul (e, wq)
            k0 = MatMul (e, wk)
            v0 = MatMul (e, wv)
            q1 = Reshape (q0, heads)
            k1 = Reshape (k0, heads)
            v1 = Reshape (v0, heads)
            q = Transpose <perm = [0, 2, 1, 3]> (q1)
            kn = Transpose <perm = [0, 2, 1, 3]> (k1)
            vn = Transpose <perm = [0, 2, 1, 3]> (v1)
            k = Concat <axis = 2> (past_k, kn)
            v = Concat <axis = 2> (past_v, vn)
            kt = Transpose <perm = [0, 1, 3, 2]> (k)
            s0 = MatMul (q, kt)
            wide = Unsqueeze (mask, axes)
            s1 = Add (s0, wide)
            p = Softmax <axis = -1> (s1)
            o = MatMul (p, v)
            o1 = Transpose <perm = [0, 2, 1, 3]> (o)
            o2 = Reshape (o1, flat)
            y = MatMul (o2, wo)
        }""", lambda s: {"ids": R.integers(0, 9, (s["B"], s["S"])), "past_k": array(s["B"], 2, s["P"], 4),
                         "past_v": array(s["B"], 2, s["P"], 4), "mask": array(s["B"], s["P"] + s["S"])},
        sizes("B S P", (2, 3, 5), (3, 7, 24), (2, 40, 3), (4, 2, 100)),
        {**tables(table=(9, 8), wq=(8, 8), wk=(8, 8), wv=(8, 8), wo=(8, 6)), "heads": np.array([0, 0, 2, 4]),
         "flat": np.array([0, 0, 8]), "axes": np.array([1, 2])}),
    "loop": Case("""
        g (float[N, M] x, float[M, M] w, int64 count) => (y, rows) {
            go = Constant <value = bool {1}> ()
            y, rows = Loop (count, go, x) <body = step (int64 i, bool c, float[n, m] s) => (bool d, float[n, m] t, float[n] r) {
                d = Identity (c)
                u = MatMul (s, w)
                u1 = Tanh (u)
                t = Add (u1, s)
                r = ReduceSum <keepdims = 0> (t, last)
            }>
        }""", lambda s: {"x": array(s["N"], s["M"]), "w": array(s["M"], s["M"]), "count": np.array(s["k"])},
        sizes("N M k", (3, 5, 6), (7, 20, 2), (4, 9, 40)), {"last": np.array([-1])}),
    "growing": Case("""
        g (float[N, 4] x, int64 count) => (y) {
            go = Constant <value = bool {1}> ()
            y = Loop (count, go, x) <body = step (int64 i, bool c, float[n, 4] s) => (bool d, t) {
                d = Identity (c)
                m = ReduceMean <keepdims = 1> (s, zero)
                u = Exp (m)
                z = Concat <axis = 0> (s, u)
                a = Softmax <axis = 0> (z)
                t = Mul (a, z)
            }>
        }""", lambda s: {"x": array(s["N"], 4), "count": np.array(s["k"])},
        sizes("N k", (2, 30), (5, 3), (9, 40)), {"zero": np.array([0])}),
    "found": Case("""
        g (float[N, 4] x) => (y) {
            i = NonZero (x)
            t = Transpose (i)
            v = GatherND (x, t)
            e = Exp (v)
            m = ReduceMax <keepdims = 0> (e)
            y = Div (e, m)
        }""", lambda s: {"x": np.maximum(array(s["N"], 4), 0)}, sizes("N", (9,), (30,), (14,))),
    "branch": Case("""
        g (float[N, 4] x) => (y) {
            s = ReduceSum <keepdims = 0> (x)
            p = Greater (s, zero)
            y = If (p) <then_branch = up () => (a) { b = Exp (x) c = MatMul (b, w) a = Softmax <axis = 0> (c) },
                        else_branch = down () => (a) { b = MatMul (x, w) a = Sub (b, x) }>
        }""", lambda s: {"x": np.abs(array(s["N"], 4)) * (-1 if s["N"] % 2 else 1)},
        sizes("N", (8,), (7,), (20,), (31,)), {**tables(w=(4, 4)), "zero": np.float32(0)}),
    "recurrent": Case("""
        g (float[T, B, 3] x, float[1, B, 4] h) => (y, l) {
            y, l = GRU <hidden_size = 4> (x, w, r, b, , h)
        }""", lambda s: {"x": array(s["T"], s["B"], 3), "h": array(1, s["B"], 4)},
        sizes("T B", (5, 2), (9, 3), (2, 7)), {**tables(w=(1, 12, 3), r=(1, 12, 4), b=(1, 24))}),
}


def agree(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for mine, other in zip(got, wanted, strict=True):
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs whose compilation begins."""
    made: list[Program] = []
    start = compiler.start_program

    def counted(program: Program, *rest: Any, **named: Any) -> Any:
        made.append(program)
        return start(program, *rest, **named)
    monkeypatch.setattr(compiler, "start_program", counted)
    return made


@pytest.mark.part(8)
@pytest.mark.parametrize("name", CASES)
def test_one_compilation_serves_all_sizes(name: str, runtime: Any, compiled: list[Program]) -> None:
    case = CASES[name]
    onnx_model = model_of(case)
    model = polytc.load_onnx(onnx_model).compile(threads=2, symbolic=True)
    for k, each in enumerate(case.sizes):
        feeds = case.feeds(each)
        compiled.clear()
        agree(model.run(None, feeds), runtime(onnx_model, feeds))
        assert k > 0 or any(p.sizes for p in compiled)
        assert k == 0 or not compiled, [str(p) for p in compiled]


@pytest.mark.long
@pytest.mark.parametrize(("lengths", "before"), [
    ((4, 7), (6, 30)), pytest.param((1, 4), (1, 6, 30), marks=pytest.mark.long)])  # sizes of 1 have kernels of their own
def test_threads_meet_shapes_in_any_order(lengths: tuple[int, ...], before: tuple[int, ...], runtime: Any) -> None:
    """Each session has a thread; nobody gets the result of another one's sizes."""
    onnx_model = model_of(CASES["cache"])
    model = polytc.load_onnx(onnx_model).compile(threads=1, symbolic=True)
    drawn = [{"B": b, "S": s, "P": p} for b in (1, 3) for s in lengths for p in before]
    feeds = [CASES["cache"].feeds(s) for s in drawn]
    wanted = [runtime(onnx_model, f) for f in feeds]
    wrong: list[object] = []

    def work(seed: int) -> None:
        chance, session = random.Random(seed), model.session() if seed % 2 else model
        for _ in range(25):
            k = chance.randrange(len(feeds))
            try:
                agree(session.run(None, feeds[k]), wanted[k])
            except Exception as error:
                wrong.append((drawn[k], error))
    callers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


def test_code_that_is_there_does_not_wait_for_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """One session compiles for a batch of 1 while another one runs at a size for which all is there."""
    monkeypatch.setattr(compiler, "_EXECUTABLES", Pending(64))
    case = Case("""
        g (float[N, 4] x) => (y) {
            a = MatMul (x, w)
            y = Softmax <axis = -1> (a)
        }""", lambda s: {"x": array(s["N"], 4)}, (), tables(w=(4, 4)))
    model = polytc.load_onnx(model_of(case)).compile(threads=1, symbolic=True)
    model.run(None, case.feeds({"N": 2}))
    begun, go_on = threading.Event(), threading.Event()
    monkeypatch.setenv("POLYTC_CACHE", "0")
    lower = compiler.lower_program

    def slow(*given: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return lower(*given)
    monkeypatch.setattr(compiler, "lower_program", slow)
    other = threading.Thread(target=lambda: model.session().run(None, case.feeds({"N": 1})))
    other.start()
    try:
        assert begun.wait(60)
        found: list[Any] = []
        feeds = case.feeds({"N": 4})
        runner = threading.Thread(target=lambda: found.append(model.session().run(None, feeds)), daemon=True)
        runner.start()
        runner.join(30)
        assert found
    finally:
        go_on.set()
        other.join()


@pytest.mark.part(2)
@pytest.mark.parametrize("symbolic", [False, True])
def test_a_state_that_grows_in_each_round(symbolic: bool, runtime: Any) -> None:
    """More rounds than sets of shapes are compiled, from a state without elements, and none at all."""
    onnx_model = model_of(Case("""
        g (float[N, 4] x, int64 count) => (y, rows) {
            go = Constant <value = bool {1}> ()
            y, rows = Loop (count, go, empty) <body = step (int64 i, bool c, float[n, 4] s) => (bool d, t, r) {
                d = Identity (c)
                m = ReduceSum <keepdims = 1> (x, zero)
                k = Cast <to = 1> (i)
                u = Add (m, k)
                t = Concat <axis = 0> (s, u)
                r = ReduceMean <keepdims = 0> (t)
            }>
        }""", lambda s: {}, (), {"zero": np.array([0]), "empty": np.zeros((0, 4), np.float32)}))
    model = polytc.load_onnx(onnx_model).compile(threads=1, symbolic=symbolic)
    for n, count in ((3, 20), (5, 6), (2, 0), (4, 1)):
        feeds = {"x": array(n, 4), "count": np.array(count)}
        agree(model.run(None, feeds), runtime(onnx_model, feeds))


def test_groups_of_heads_beside_an_open_length() -> None:
    """Heads of queries and places that are made one axis are a product of an index and a size: no kernel for all sizes."""
    info, float32 = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Attention", ["q", "k", "v"], ["y"])], "g",
        [info(n, float32, [1, heads, "s", 16]) for n, heads in (("q", 4), ("k", 2), ("v", 2))], [info("y", float32, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=10)
    compiled = polytc.load_onnx(model).compile(threads=1, symbolic=True)
    for length in (5, 7):
        q, k, v = array(1, 4, length, 16), array(1, 2, length, 16).repeat(2, 1), array(1, 2, length, 16).repeat(2, 1)
        e = np.exp(np.einsum("bhid,bhjd->bhij", q, k) / 4)
        expected = np.einsum("bhij,bhjd->bhid", e / e.sum(-1, keepdims=True), v)
        np.testing.assert_allclose(compiled(q, k[:, ::2], v[:, ::2]), expected, rtol=1e-4, atol=1e-4)
