"""RNN, GRU and LSTM in all their forms against ONNX Runtime, and batch-first ones against the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import polytc

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
T, B, I, H = 5, 3, 4, 6


def arrays(op: str, directions: int, seed: int = 3) -> dict[str, np.ndarray]:
    r = np.random.default_rng(seed)
    n = GATES[op] * H

    def f(*shape: int) -> np.ndarray:
        return (r.standard_normal(shape) / 2).astype(np.float32)

    return {"X": f(T, B, I), "W": f(directions, n, I), "R": f(directions, n, H), "B": f(directions, 2 * n),
            "L": np.array([5, 2, 4], np.int32), "H0": f(directions, B, H), "C0": f(directions, B, H), "P": f(directions, 3 * H)}


def node(op: str, given: str, outputs: list[str] | None = None, **attributes: Any) -> Any:
    """given: which optional inputs the node has, of B L H0 C0 P."""
    names = ["X", "W", "R", *(n if n in given.split() else "" for n in ("B", "L", "H0", "C0", "P"))]
    while not names[-1]:
        names.pop()
    return helper.make_node(op, names[:6] if op != "LSTM" else names, outputs or ["Y", "Yh", "Yc"][:3 if op == "LSTM" else 2],
                            hidden_size=H, **attributes)


FORMS = [
    ("RNN", "B H0", {}), ("RNN", "B L", {"direction": "bidirectional", "activations": ["Relu", "Softsign"]}),
    ("RNN", "B L H0", {"direction": "reverse", "clip": 0.25}),
    ("GRU", "B", {}), ("GRU", "B L H0", {"direction": "reverse"}), ("GRU", "B L", {"direction": "bidirectional", "clip": 0.5}),
    ("GRU", "B H0", {"linear_before_reset": 1}), ("GRU", "", {"linear_before_reset": 1, "direction": "reverse"}),
    ("GRU", "", {"activations": ["HardSigmoid", "LeakyRelu"], "activation_alpha": [0.3, 0.2], "activation_beta": [0.4]}),
    ("LSTM", "", {}), ("LSTM", "B L H0 C0 P", {"direction": "bidirectional"}), ("LSTM", "B P C0", {"clip": 0.3}),
    ("LSTM", "B L", {"direction": "reverse"}), ("LSTM", "B", {"input_forget": 1}),
    ("LSTM", "B", {"activations": ["Sigmoid", "ScaledTanh", "Elu"], "activation_alpha": [0.8, 1.0], "activation_beta": [0.7]}),
    ("LSTM", "B", {"activations": ["Affine", "Tanh", "ThresholdedRelu"], "activation_alpha": [0.2, 0.1],
                   "activation_beta": [0.5]})]


@pytest.mark.part(4)
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("op", "given", "attributes"), FORMS)
def test_as_the_runtime(op: str, given: str, attributes: dict[str, Any], constant: bool, build, runtime) -> None:
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    n = node(op, given, **attributes)
    values = {k: a for k, a in arrays(op, directions).items() if k in n.input}
    stored = {k: a for k, a in values.items() if constant and k in "WRBP"}
    feeds = {k: a for k, a in values.items() if k not in stored}
    model = build([n], feeds, list(n.output), stored)
    results = polytc.load_onnx(model).compile(target="evaluate").run(None, feeds)
    for got, wanted in zip(results, runtime(model, feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.part(2)
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("op", GATES)
def test_batch_first_is_the_same_in_another_order(op: str, directions: int, build) -> None:
    direction = "bidirectional" if directions == 2 else "forward"
    values = arrays(op, directions)
    results = []
    for layout in (0, 1):
        n = node(op, "B L H0", layout=layout, direction=direction)
        feeds = {k: a.swapaxes(0, 1) if layout and k in ("X", "H0") else a for k, a in values.items() if k in n.input}
        results.append(polytc.load_onnx(build([n], feeds, list(n.output))).compile(target="evaluate").run(None, feeds))
    np.testing.assert_allclose(results[1][0], results[0][0].transpose(2, 0, 1, 3), rtol=1e-6)
    for got, wanted in zip(results[1][1:], results[0][1:], strict=True):
        np.testing.assert_allclose(got, wanted.swapaxes(0, 1), rtol=1e-6)


@pytest.mark.part(3)
@pytest.mark.parametrize("op", GATES)
def test_compiled(op: str, build, runtime) -> None:
    """Two layers in one model, of which the first gives only Y and the second only its last state."""
    a, b = arrays(op, 1), arrays(op, 1, seed=4)
    r = np.random.default_rng(5)
    w = (r.standard_normal((1, GATES[op] * H, H)) / 2).astype(np.float32)
    shape = np.array([T, B, H])
    nodes = [helper.make_node(op, ["X", "W", "R", "B"], ["Y"], hidden_size=H),
             helper.make_node("Reshape", ["Y", "shape"], ["X2"]),
             helper.make_node(op, ["X2", "W2", "R2"], ["", "Yh"], hidden_size=H, direction="reverse"),
             helper.make_node("Relu", ["Yh"], ["Z"])]
    constants = {"W": a["W"], "R": a["R"], "B": a["B"], "W2": w, "R2": b["R"], "shape": shape}
    model = build(nodes, {"X": a["X"]}, ["Z"], constants)
    got = polytc.load_onnx(model).compile(target="cpu")(a["X"])
    np.testing.assert_allclose(got, runtime(model, {"X": a["X"]})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.part(4)
@pytest.mark.parametrize(("op", "attributes"), [("RNN", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("LSTM", {})])
def test_known_weights_lie_in_panels(op: str, attributes: dict[str, Any], build, runtime) -> None:
    """A state of 48 elements: panels of 16 gates."""
    r, hidden = np.random.default_rng(6), 48
    n = GATES[op] * hidden
    shapes = (4, 2, 5), (2, n, 5), (2, n, hidden), (2, 2 * n)
    x, w, s, b = ((r.standard_normal(shape) / 3).astype(np.float32) for shape in shapes)
    model = build([helper.make_node(op, ["X", "W", "R", "B"], ["Y", "Yh"], hidden_size=hidden, direction="bidirectional",
                                    **attributes)], {"X": x}, ["Y", "Yh"], {"W": w, "R": s, "B": b})
    for target in ("evaluate", "cpu"):
        for got, wanted in zip(polytc.load_onnx(model).compile(target=target)(x), runtime(model, {"X": x}), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
