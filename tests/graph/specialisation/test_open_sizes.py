"""Models compiled once for all sizes: right at every size, against onnx's evaluator, and nothing is compiled at a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import polytc
from polytc import compiler
from polytc.errors import ArgumentError
from polytc.program.program import Program

N = helper.make_node
R = np.random.default_rng(3)

Feeds = Callable[[Mapping[str, int]], dict[str, np.ndarray]]


def array(*shape: int) -> np.ndarray:
    return (R.standard_normal(shape) / 2).astype(np.float32)


def agree(model: onnx.ModelProto, feeds: dict[str, np.ndarray], got: list[np.ndarray], reference: Any) -> None:
    for mine, wanted in zip(got, reference(model, feeds), strict=True):
        assert (mine.dtype, mine.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(mine, wanted, rtol=2e-4, atol=2e-5)


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


def perceptron(build: Any) -> tuple[onnx.ModelProto, Feeds]:
    nodes = [N("MatMul", ["x", "w"], ["a"]), N("Add", ["a", "b"], ["c"]), N("Relu", ["c"], ["d"]),
             N("Gemm", ["d", "v", "u"], ["e"], transB=1), N("Softmax", ["e"], ["y"], axis=-1)]
    constants = {"w": array(8, 40), "b": array(40), "v": array(5, 40), "u": array(5)}
    model = build(nodes, {"x": (np.float32, ["batch", 8])}, ["y"], constants)
    return model, lambda s: {"x": array(s["batch"], 8)}


def attention(build: Any) -> tuple[onnx.ModelProto, Feeds]:
    """One layer of two heads, with the reshapes that exporters write, a table of positions, a causal mask made of a range."""
    nodes = [
        N("Gather", ["table", "ids"], ["e"]), N("Shape", ["ids"], ["shape"]), N("Gather", ["shape", "i0"], ["B"]),
        N("Gather", ["shape", "i1"], ["S"]), N("Slice", ["positions", "zero", "S", "zero"], ["p"]),
        N("Add", ["e", "p"], ["x"]),
        N("Concat", ["B", "S", "split"], ["heads"], axis=0), N("Concat", ["B", "S", "width"], ["flat"], axis=0)]
    for n in "qkv":
        nodes += [N("MatMul", ["x", f"w{n}"], [f"{n}1"]), N("Reshape", [f"{n}1", "heads"], [f"{n}2"]),
                  N("Transpose", [f"{n}2"], [n], perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3])]
    nodes += [
        N("Squeeze", ["S"], ["s"]), N("Range", ["z", "s", "one"], ["r"]), N("Unsqueeze", ["r", "i1"], ["column"]),
        N("LessOrEqual", ["r", "column"], ["allowed"]), N("MatMul", ["q", "k"], ["scores"]),
        N("Where", ["allowed", "scores", "low"], ["masked"]), N("Softmax", ["masked"], ["probabilities"], axis=-1),
        N("MatMul", ["probabilities", "v"], ["o"]), N("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        N("Reshape", ["o1", "flat"], ["o2"]), N("Add", ["o2", "x"], ["o3"]), N("LayerNormalization", ["o3", "g", "h"], ["y"])]
    constants = {"table": array(11, 8), "positions": array(64, 8), "i0": np.array([0]), "i1": np.array([1]),
                 "zero": np.array([0]), "split": np.array([2, 4]), "width": np.array([8]), "z": np.array(0), "one": np.array(1),
                 "low": np.float32(-1e9), "g": array(8), "h": array(8), **{f"w{n}": array(8, 8) for n in "qkv"}}
    model = build(nodes, {"ids": (np.int64, ["batch", "length"])}, ["y"], constants)
    return model, lambda s: {"ids": R.integers(0, 11, (s["batch"], s["length"]))}


def images(build: Any) -> tuple[onnx.ModelProto, Feeds]:
    """Down and up again: heights and widths are halves, and the sum at the end allows even ones only."""
    nodes = [N("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]), N("Relu", ["a"], ["c"]),
             N("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
             N("Conv", ["d", "u"], ["e"], pads=[1, 1, 1, 1]), N("Resize", ["e", "", "scales"], ["f"], mode="nearest"),
             N("Add", ["f", "c"], ["g"]), N("GlobalAveragePool", ["g"], ["y"])]
    constants = {"w": array(6, 3, 3, 3), "b": array(6), "u": array(6, 6, 3, 3), "scales": np.float32([1, 1, 2, 2])}
    model = build(nodes, {"x": (np.float32, ["n", 3, "h", "w_"])}, ["y", "g"], constants)
    return model, lambda s: {"x": array(s["n"], 3, s["h"], s["w_"])}


CASES: dict[str, tuple[Any, tuple[dict[str, int], ...]]] = {
    "perceptron": (perceptron, tuple({"batch": n} for n in (3, 2, 17, 100))),
    "attention": (attention, tuple({"batch": b, "length": s} for b, s in ((2, 12), (3, 5), (7, 33), (2, 2)))),
    "images": (images, tuple({"n": n, "h": h, "w_": w} for n, h, w in ((2, 16, 20), (3, 8, 8), (2, 34, 6)))),
}


@pytest.mark.part(20)
@pytest.mark.parametrize("name", CASES)
def test_one_compilation_serves_all_sizes(name: str, build: Any, reference: Any, compiled: list[Program]) -> None:
    case, sizes = CASES[name]
    onnx_model, feeds = case(build)
    model = polytc.load_onnx(onnx_model).compile(threads=2, symbolic=True)
    for k, each in enumerate(sizes):
        x = feeds(each)
        agree(onnx_model, x, model.run(None, x), reference)
        if k == 0:
            assert any(p.sizes for p in compiled)
            compiled.clear()
    assert compiled == []
    assert "for each set of sizes" not in model.report()
    assert f"{model._compiled.kernels.kernels} kernels for all sizes" in model.report()


@pytest.mark.part(12)
@pytest.mark.parametrize("name", CASES)
def test_a_size_of_one_has_kernels_of_its_own(name: str, build: Any, reference: Any, compiled: list[Program]) -> None:
    case, sizes = CASES[name]
    onnx_model, feeds = case(build)
    model = polytc.load_onnx(onnx_model).compile(threads=2, symbolic=True)  # as above: the same code for the other sizes
    first = next(iter(sizes[0]))
    for k, each in enumerate(sizes):
        x = feeds({**each, first: 1})
        agree(onnx_model, x, model.run(None, x), reference)
        x = feeds(each)
        agree(onnx_model, x, model.run(None, x), reference)
        if k == 0:
            compiled.clear()
    assert compiled == []


def layer(build: Any) -> onnx.ModelProto:
    nodes = [N("MatMul", ["x", "w"], ["a"]), N("Add", ["a", "b"], ["c"]), N("Relu", ["c"], ["y"])]
    return build(nodes, {"x": (np.float32, ["batch", "length", 8])}, ["y"], {"w": array(8, 40), "b": array(40)})


def test_batch_and_length_are_one_size_where_they_go_together(build: Any, reference: Any, compiled: list[Program]) -> None:
    onnx_model = layer(build)
    model = polytc.load_onnx(onnx_model).compile(threads=1, symbolic=True)
    for batch, length in ((2, 9), (3, 6), (5, 64), (2, 5)):
        x = {"x": array(batch, length, 8)}
        agree(onnx_model, x, model.run(None, x), reference)
    assert [len(p.sizes) for p in compiled if p.sizes] == [1]


def test_other_targets(build: Any, reference: Any, targets: tuple[str, ...]) -> None:
    onnx_model, feeds = perceptron(build)
    for target in ("evaluate", *(t for t in targets if t != "cpu")):
        model = polytc.load_onnx(onnx_model).compile(target=target, symbolic=True)
        for n in (2, 9, 1):
            x = feeds({"batch": n})
            agree(onnx_model, x, model.run(None, x), reference)


def test_typical_sizes_are_compiled_for_at_once(build: Any, compiled: list[Program]) -> None:
    onnx_model = layer(build)
    model = polytc.load_onnx(onnx_model).compile(symbolic=True, typical={"batch": 4, "length": 24})
    assert compiled
    compiled.clear()
    model.run(None, {"x": array(3, 40, 8)})
    assert compiled == []
    with pytest.raises(ArgumentError) as e:
        polytc.load_onnx(onnx_model).compile(symbolic=True, typical={"batch": 0})
    assert e.value.code == "E410"
    for symbolic in (True, False):
        with pytest.raises(ArgumentError, match="typical names bach, which is no size") as e:
            polytc.load_onnx(onnx_model).compile(symbolic=symbolic, typical={"bach": 4, "length": 24})
        assert "batch, length" in str(e.value)


def test_numbers_that_are_no_formulas_are_read_from_memory(build: Any, reference: Any, compiled: list[Program]) -> None:
    """The square root of a length: one compilation, and another number for each length."""
    nodes = [N("Shape", ["x"], ["s"], start=1), N("Cast", ["s"], ["f"], to=1), N("Sqrt", ["f"], ["r"]),
             N("Div", ["x", "r"], ["y"])]
    onnx_model = build(nodes, {"x": (np.float32, ["n", "length"])}, ["y"])
    model = polytc.load_onnx(onnx_model).compile(symbolic=True)
    for k, (n, length) in enumerate(((2, 9), (3, 10), (2, 16), (2, 9))):
        x = {"x": array(n, length)}
        agree(onnx_model, x, model.run(None, x), reference)
        if k == 0:
            compiled.clear()
    assert compiled == []
    assert "for each set of sizes" not in model.report()


def test_programs_that_change_with_the_size(build: Any, reference: Any) -> None:
    """A slice that ends at 10 or with the tensor, whichever comes first: kernels are used where they are right only."""
    nodes = [N("Slice", ["x", "zero", "ten"], ["a"]), N("Exp", ["a"], ["y"])]
    onnx_model = build(nodes, {"x": (np.float32, ["n", 3])}, ["y"], {"zero": np.array([0]), "ten": np.array([10])})
    model = polytc.load_onnx(onnx_model).compile(symbolic=True)
    for n in (4, 12, 7, 300, 10, 11, 2, 1):
        x = {"x": array(n, 3)}
        agree(onnx_model, x, model.run(None, x), reference)


def test_what_only_a_run_knows(build: Any, reference: Any) -> None:
    nodes = [N("NonZero", ["x"], ["i"]), N("Transpose", ["i"], ["it"]), N("GatherND", ["x", "it"], ["v"]),
             N("Exp", ["v"], ["y"])]
    onnx_model = build(nodes, {"x": (np.float32, ["n", 4])}, ["y"])
    model = polytc.load_onnx(onnx_model).compile(symbolic=True)
    for n in (2, 5, 3):
        x = {"x": np.maximum(array(n, 4), 0)}
        agree(onnx_model, x, model.run(None, x), reference)


def test_sessions_share_kernels(build: Any, reference: Any, compiled: list[Program]) -> None:
    onnx_model, feeds = perceptron(build)
    model = polytc.load_onnx(onnx_model).compile(symbolic=True)
    model.run(None, feeds({"batch": 4}))
    compiled.clear()
    x = feeds({"batch": 6})
    agree(onnx_model, x, model.session().run(None, x), reference)
    assert compiled == []


def test_a_list_of_shapes_is_compiled_at_once(build: Any, compiled: list[Program]) -> None:
    onnx_model, feeds = perceptron(build)
    model = polytc.load_onnx(onnx_model).compile(shapes=[{"x": (2, 8)}, {"x": (5, 8)}])
    assert compiled
    compiled.clear()
    for n in (2, 5):
        model.run(None, feeds({"batch": n}))
    assert compiled == []
    with pytest.raises(ArgumentError) as e:
        polytc.load_onnx(onnx_model).compile(shapes=[(2, 8)])
    assert e.value.code == "E611"
