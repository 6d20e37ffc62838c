"""Chains of element-wise nodes of a model are rounded at each node, as onnx defines them: bit for bit what numpy gives."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import polytc

F = np.float32
HOSTILE = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 1e30, 3e38, 1e-20, 1e20, 2.6, 12582912, 1, -1, 1 / 3],
                   F)
NUMBERS = np.array([0, -0.0, 1, -1, 1e-30, 1e30, 1e-20, 1e20, 3, 7, 0.1, 12582912, -12582912, 1 / 3], F)


def model(chain: list[tuple[str, np.ndarray | None]]) -> onnx.ModelProto:
    """x -> the operators one after another, with their constants -> y."""
    nodes, constants, value = [], [], "x"
    for k, (op, number) in enumerate(chain):
        names = [value]
        if number is not None:
            constants.append(numpy_helper.from_array(number, f"c{k}"))
            names.append(f"c{k}")
        value = f"v{k}"
        nodes.append(helper.make_node(op, names, [value]))
    graph = helper.make_graph(nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [HOSTILE.size])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected(chain: list[tuple[str, np.ndarray | None]], x: np.ndarray) -> np.ndarray:
    """Node by node in numpy."""
    with np.errstate(all="ignore"):
        for op, c in chain:
            x = {"Mul": lambda x, c: x * c, "Add": lambda x, c: x + c, "Sub": lambda x, c: x - c, "Div": lambda x, c: x / c,
                 "Neg": lambda x, c: -x, "Sqrt": lambda x, c: np.sqrt(x), "Reciprocal": lambda x, c: F(1) / x}[op](x, c)
    return x


def same(chain: list[tuple[str, np.ndarray | None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_SUBNORMALS", "keep")
    got, = polytc.load_onnx(model(chain)).compile(threads=1).run(None, {"x": HOSTILE})
    wanted = expected(chain, HOSTILE)
    np.testing.assert_array_equal(got, wanted, err_msg=str(chain))
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(wanted)[numbers], err_msg=str(chain))


@pytest.mark.parametrize("chain", [
    [("Mul", 1e-30), ("Mul", 1e-30), ("Mul", 1e30), ("Mul", 1e30)], [("Add", 12582912.0), ("Add", -12582912.0)],
    [("Add", 0.0)], [("Add", -0.0)], [("Sub", 0.0)], [("Sub", -0.0)], [("Mul", 1.0)], [("Add", 1e20), ("Sub", 1e20)],
    [("Mul", 0.1), ("Mul", 3.0)], [("Div", 3.0), ("Mul", 3.0)], [("Neg", None), ("Neg", None)],
    [("Reciprocal", None), ("Reciprocal", None)], [("Sqrt", None), ("Reciprocal", None)], [("Sub", 0.1), ("Neg", None)]])
def test_chains(chain: list[tuple[str, float | None]], monkeypatch: pytest.MonkeyPatch) -> None:
    same([*((op, None if c is None else np.array(c, F)) for op, c in chain), ("Neg", None)], monkeypatch)


def test_random_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """No product before a sum, which may be one operation."""
    rng = np.random.default_rng(5)
    for _ in range(12):
        chain: list[tuple[str, np.ndarray | None]] = []
        while len(chain) < 5:
            op = str(rng.choice(["Mul", "Add", "Sub", "Div", "Neg", "Sqrt", "Reciprocal"]))
            before = next((o for o, _ in reversed(chain) if o != "Neg"), "")
            if op not in ("Add", "Sub") or before != "Mul":
                chain.append((op, rng.choice(NUMBERS) if op in ("Mul", "Add", "Sub", "Div") else None))
        same(chain, monkeypatch)


def test_means_are_quotients() -> None:
    """Not products with a reciprocal: nine sevens have the mean 7."""
    shapes = {"x": [1, 2, 5, 5], "y": [1, 2, 3, 3], "z": [1, 2, 5, 5], "m": [1, 2, 5, 5]}
    value = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()}
    nodes = [helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3]),
             helper.make_node("AveragePool", ["x"], ["z"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
             helper.make_node("Mean", ["x", "x", "x"], ["m"])]
    graph = helper.make_graph(nodes, "means", [value["x"]], [value["y"], value["z"], value["m"]])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for seven in (F(7), F(49)):
        for got in polytc.load_onnx(made).compile(threads=1).run(None, {"x": np.full(shapes["x"], seven)}):
            np.testing.assert_array_equal(got, seven)


def test_scales_of_sums_lose_no_digits() -> None:
    """Factors behind a sum enter its weights, unless these would become too small for that."""
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((9, 8)).astype("f4"), (rng.standard_normal((3, 9)) * 1e30).astype("f4")
    factors = [F(1e-30), F(1e-30), F(1e30), F(1e30)]
    nodes, value = [helper.make_node("MatMul", ["x", "w"], ["v"])], "v"
    for k in range(len(factors)):
        nodes.append(helper.make_node("Mul", [value, f"c{k}"], [f"v{k}"]))
        value = f"v{k}"
    graph = helper.make_graph(nodes, "scaled", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(w, "w"), *(numpy_helper.from_array(np.array(f), f"c{k}")
                                                                  for k, f in enumerate(factors))])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    got, = polytc.load_onnx(made).compile(threads=1).run(None, {"x": x})
    np.testing.assert_allclose(got, x.astype("f8") @ w.astype("f8"), rtol=1e-4, atol=1e25)
