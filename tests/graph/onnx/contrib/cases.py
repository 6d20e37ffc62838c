"""Single nodes of ONNX Runtime's own operators, and how they are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import polytc
from tests.graph.saturation import largest

R = np.random.default_rng(21)


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def q(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    least, most = (-largest() - 1, largest()) if dtype == np.int8 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return R.integers(least, most + 1, shape).astype(dtype)


S, U, I = np.float32(.02), np.uint8(120), np.int8(3)

TYPES = {"uint4": onnx.TensorProto.UINT4, "int4": onnx.TensorProto.INT4}
"""Of tensors whose numbers are written down as bytes."""


@dataclass(frozen=True)
class Case:
    """inputs: '' for one that is left out; stored: how many of the last are in the model. outputs: their number, or their
    names, '' for one that is not wanted. step: the largest difference of integers; error: of floats, relative to the
    largest. reference: the results, of operators that ONNX Runtime has for GPUs alone; kinds: element types of inputs that
    numpy does not have. cut: rows of caches, axis 2, that count."""

    op: str
    inputs: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int | Sequence[str] = 1
    domain: str = "com.microsoft"
    step: int = 1
    error: float = 1e-5
    stored: int = 0
    reference: Callable[..., Sequence[np.ndarray]] | None = None
    kinds: Mapping[int, str] = field(default_factory=dict)
    cut: int | None = None


def model_of(case: Case) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    names = [f"i{k}" if not isinstance(a, str) else "" for k, a in enumerate(case.inputs)]
    arrays = {n: np.asarray(a) for n, a in zip(names, case.inputs, strict=True) if n}
    first = len(names) - case.stored
    stored = [n for k, n in enumerate(names) if n and k >= first]
    outputs = [f"o{k}" for k in range(case.outputs)] if isinstance(case.outputs, int) else [*case.outputs]
    node = helper.make_node(case.op, names, outputs, domain=case.domain, **case.attributes)
    kinds = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in arrays.items()}
    special = {f"i{k}": TYPES[kind] for k, kind in case.kinds.items()}
    constants = [helper.make_tensor(n, special[n], arrays[n].shape, arrays[n].ravel().tolist()) if n in special else
                 numpy_helper.from_array(arrays[n], n) for n in stored]
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in arrays.items() if n not in stored],
        [helper.make_tensor_value_info(o, helper.np_dtype_to_tensor_dtype(np.dtype(np.float32)), None) if o == "scores" else
         helper.make_empty_tensor_value_info(o) for o in outputs if o], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)],
                             ir_version=10)
    return made, {n: a for n, a in arrays.items() if n not in stored}


def by_onnx_runtime(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(a) for a in session.run(None, dict(feeds))]


def check(case: Case) -> None:
    """polytc's results, from plain operators alone, are the expected ones."""
    made, feeds = model_of(case)
    if case.reference is not None:
        expected = [np.asarray(a) for a in case.reference(*(None if isinstance(a, str) else np.asarray(a) for a in case.inputs),
                                                          **case.attributes)]
    else:
        expected = by_onnx_runtime(made, feeds)
    model = polytc.load_onnx(made).compile(threads=1)
    found = model.run(None, feeds)
    assert model.fallbacks() == []
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if case.cut is not None and a.ndim == 4:
            a, b = a[:, :, :case.cut], b[:, :, :case.cut]
        if b.dtype.kind in "iu":
            assert a.size == 0 or np.abs(a.astype(int) - b.astype(int)).max() <= case.step
        elif b.dtype.kind == "b" or not b.size:
            np.testing.assert_array_equal(a, b)
        else:
            finite = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            np.testing.assert_allclose(a, b, rtol=0, atol=case.error * max(1.0, finite))
