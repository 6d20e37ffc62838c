"""Operators of other domains that a user brings as text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.errors import CompileError, ModelError
from polytc.graph import register
from polytc.graph.operators.binding import Apply
from polytc.graph.operators.table import TABLE

R = np.random.default_rng(4)
A, B = R.standard_normal((2, 3)).astype(np.float32), R.standard_normal((3, 4)).astype(np.float32)
PRODUCT = "op Product<alpha>(A, B) -> C { C[i, j] += alpha * A[i, k] * B[k, j] }"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = dict(TABLE)
    yield
    TABLE.clear()
    TABLE.update(before)


def product(build, **attributes):
    nodes = [helper.make_node("Product", ["a", "b"], ["c"], domain="com.example", **attributes),
             helper.make_node("Relu", ["c"], ["y"])]
    model = build(nodes, {"a": A, "b": B}, ["y"])
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    return model


def run(model) -> np.ndarray:
    return polytc.load_onnx(model, strict=True).compile(target="evaluate", strict=True)(A, B)


def test_a_text_is_enough(build) -> None:
    with pytest.raises(ModelError, match=r"operator com\.example::Product"):
        polytc.load_onnx(product(build, alpha=2.0))
    register("com.example", "Product", PRODUCT)
    np.testing.assert_allclose(run(product(build, alpha=2.0)), np.maximum(2 * A @ B, 0), rtol=1e-6)


def test_attributes_by_other_names(build) -> None:
    register("com.example", "Product", PRODUCT, {"alpha": "scale"})
    np.testing.assert_allclose(run(product(build, scale=3.0)), np.maximum(3 * A @ B, 0), rtol=1e-6)


def test_a_row_that_chooses_and_a_text_that_is_replaced(build) -> None:
    text = "op Product(A, B) -> C { C[i, j] += A[i, k] * B[k, j] }\nop Shifted(C) -> Y { Y[i, j] = C[i, j] + 1 }"
    register("com.example", "Product", PRODUCT)
    register("com.example", "Product", text, lambda site: (Apply("Product", (0, 1), ("c",)), Apply("Shifted", ("c",))))
    np.testing.assert_allclose(run(product(build)), np.maximum(A @ B + 1, 0), rtol=1e-6)


def test_a_text_that_is_none() -> None:
    with pytest.raises(CompileError):
        register("com.example", "Product", "op Product(A { }")
    assert "com.example::Product" not in TABLE
