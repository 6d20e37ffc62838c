"""onnx's own node tests: each one whose operators have a binding gives the expected result or is refused for a known reason."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference.ops import op_pool_common

import polytc
from polytc.codegen.target import Target
from polytc.errors import CompileError
from polytc.graph.operators.table import TABLE
from tests import aarch64_here, cuda_here

POOL = op_pool_common.pool

KNOWN = {*TABLE, "Constant", "Shape", "Size"}

REASONS = ("the model uses opset 1 of", "element type")
"""Parts of the refusals that stand for what is not there yet."""

DRAWN = {"test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed"}
"""Expect what numpy's global generator gave when the suite was written, not what the seed gives."""

ROUNDED = {"test_dft_inverse", "test_dft_inverse_opset19"}
"""Expect the rounding errors of an FFT, 2e-7, in place of zeros, to 1e-7."""


def pooled(padded: np.ndarray, x_shape: Sequence[int], kernel: Sequence[int], strides: Sequence[int] | None,
           out_shape: Sequence[int], kind: str, pads_required: Any = None, pads: Any = None, dilations: Any = None,
           *more: Any, **named: Any) -> np.ndarray:
    """What onnx's reference gives, which looks at a window after the other: the suite spends most of its time on three images.

    Windows of neighbours in an image without padding are pooled at once, others are onnx's.
    """
    padding, steps = [n for n in (pads_required, pads) if n is not None], strides or [1] * len(kernel)
    if padded.shape != tuple(x_shape) or np.any(padding) or (dilations is not None and np.any(np.not_equal(dilations, 1))):
        given = (padded, x_shape, kernel, strides, out_shape, kind, pads_required, pads, dilations, *more)
        result: np.ndarray = POOL(*given, **named)
        return result
    axes = tuple(range(2, padded.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), axes)
    windows = windows[(slice(None), slice(None), *(slice(None, None, step) for step in steps))]
    windows = windows.reshape(*windows.shape[:padded.ndim], -1)
    assert windows.shape[2:-1] == tuple(out_shape)
    p = named.get("p", 1)
    results = {"AVG": lambda: windows.mean(-1), "MAX": lambda: windows.max(-1),
               "LPPOOL": lambda: (np.abs(windows) ** p).sum(-1) ** (1 / p)}
    return results[kind]().astype(padded.dtype)


@pytest.mark.parametrize("kind", ["AVG", "MAX", "LPPOOL"])
def test_images_are_pooled_at_once_as_onnx_does(kind: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 8)).astype(np.float32)
    for strides, out in (((2, 3), (4, 2)), (None, (7, 6))):
        given = (x, x.shape, (3, 3), strides, out, kind)
        np.testing.assert_allclose(pooled(*given, p=2), POOL(*given, p=2), rtol=1e-5)


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # the suite computes its expected values with overflows and divisions by zero
        patch.setattr(op_pool_common, "pool", pooled)
        from onnx.backend.test.loader import load_model_tests
        found = load_model_tests(kind="node")
    return [c for c in found if not c.name.endswith("_expanded") and c.name not in DRAWN | ROUNDED
            and all(n.op_type in KNOWN for n in c.model.graph.node)]


def as_array(value: Any) -> np.ndarray:
    return np.asarray(numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value)


def run(case: Any, target: str | Target) -> None:
    for inputs, outputs in case.data_sets:
        graph = polytc.load_onnx(case.model, strict=True)
        names = {v.name for v in graph.inputs}
        feeds = {v.name: as_array(a) for v, a in zip(case.model.graph.input, inputs, strict=True) if v.name in names}
        results = graph.compile(target=target, threads=1, strict=True).run(None, feeds)
        for got, wanted in zip(results, map(as_array, outputs), strict=True):
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), case.name
            rtol = max(case.rtol, 2**-6) if got.dtype.name == "bfloat16" else case.rtol  # as onnx's own runner
            np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=case.atol,
                                       err_msg=case.name)


TARGETS = [("evaluate", 4), *(pytest.param(t, 1, marks=pytest.mark.long)
                             for t in ("evaluate", "cpu", "interp", "opencl", "cuda", "arm"))]
"""And of the cases of an operator the first, the fifth, ..., or each."""


@pytest.mark.parametrize(("target", "every"), TARGETS)
def test_official_node_tests(cases: list[Any], targets: tuple[str, ...], target: str, every: int) -> None:
    made = {"cuda": cuda_here.CompiledCuda, "arm": aarch64_here.EmulatedArm}.get(target)
    missing = {"cuda": cuda_here.COMPILER is None, "arm": aarch64_here.unicorn is None}
    if missing.get(target, target not in ("evaluate", *targets)):
        pytest.skip(f"{target} does not run here")
    outcome, seen = Counter[str](), Counter[str]()
    for case in cases:
        operators = " ".join(n.op_type for n in case.model.graph.node)
        seen[operators] += 1
        if (seen[operators] - 1) % every:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                run(case, target if made is None else made())
                outcome["passed"] += 1
            except CompileError as refusal:
                outcome["refused" if any(reason in str(refusal) for reason in REASONS) else f"{case.name}: {refusal}"] += 1
    assert set(outcome) == {"passed", "refused"}
    assert outcome["passed"] >= 1210 / every, outcome
