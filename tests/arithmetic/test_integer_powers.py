"""Powers of integers, negative exponents included, are the exact value cut off and wrapped, on every target."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import polytc

BASES = (0, 1, -1, 2, -2, 3, -3, 7, -128, 127)
EXPONENTS = (0, 1, 2, 3, 5, 17, -1, -2, -3, -4, -127, -128)
TARGETS = ["evaluate", "interp", "cpu", "c", "opencl"]


def exact(a: int, b: int, dtype: np.dtype) -> int:
    if b < 0 and a == 0:
        return 0
    value = int(Fraction(a) ** b) if abs(a) > 1 and b < 0 else a ** abs(b)  # int cuts off
    bits = dtype.itemsize * 8
    return (value + 2 ** (bits - 1)) % 2 ** bits - 2 ** (bits - 1)


PAIRS = list(itertools.product(BASES, EXPONENTS))


@pytest.mark.part(10)
@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("target", TARGETS)
def test_powers(targets: tuple[str, ...], target: str, name: str) -> None:
    if target not in (*targets, "evaluate"):
        pytest.skip(f"{target} does not run here")
    dtype = np.dtype(name)
    a, b = (np.array(column, dtype) for column in zip(*PAIRS))
    expected = [exact(x, y, dtype) for x, y in PAIRS]
    assert polytc.compile("C[i] = pow(A[i], B[i])", target=target)(A=a, B=b).tolist() == expected
    for e in (-1, -2, -3):
        found = polytc.compile(f"C[i] = pow(A[i], {e})", target=target)(A=a)
        assert found.tolist() == [exact(int(x), e, dtype) for x in a]
    assert polytc.compile("C[i] = pow(2, B[i])", target=target)(B=b).tolist() == [exact(2, int(y), dtype) for y in b]


@pytest.mark.parametrize("constant", [(), ("b",), ("a", "b")])
@pytest.mark.parametrize("target", ["evaluate", "cpu"])
def test_powers_of_onnx(target: str, constant: tuple[str, ...]) -> None:
    """Computed in a run, with a known exponent, and folded."""
    given = {n: np.array(column, np.int32) for n, column in zip("ab", zip(*PAIRS))}
    inputs = [helper.make_tensor_value_info(n, onnx.TensorProto.INT32, [len(PAIRS)]) for n in "ab" if n not in constant]
    graph = helper.make_graph([helper.make_node("Pow", ["a", "b"], ["y"])], "g", inputs,
                              [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [len(PAIRS)])],
                              [numpy_helper.from_array(given[n], n) for n in constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    found = polytc.load_onnx(model).compile(target=target).run(None, {n: a for n, a in given.items() if n not in constant})[0]
    assert found.tolist() == [exact(x, y, np.dtype(np.int32)) for x, y in PAIRS]
