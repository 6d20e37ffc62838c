"""benchmarks/gpu.py on bindings that have the processor behind them: each figure comes, and what fails is told."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import gpu
import gpu_cases
import gpu_devices
from tests.graph.small_models import model_of
from tests.targets.cuda.test_driver import fakes, needs_compiler  # noqa: F401

CASES = (gpu_cases.Case("broken", "Y[i] = ", {"A": (4,)}, lambda t, a: a),
         gpu_cases.Case("row sums", "Y[i] += A[i,j]", {"A": (30, 40)}, lambda t, a: t.sum(a, 1)),
         gpu_cases.Case("product", "C[i,j] += A[i,k]*B[k,j]", {"A": (8, 9), "B": (9, 7)}, lambda t, a, b: a @ b, 2 * 8 * 9 * 7))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, fakes: dict[str, Any]) -> dict[str, Any]:  # noqa: F811
    monkeypatch.setattr(gpu, "CASES", CASES)
    monkeypatch.setattr(gpu, "_torch", lambda: None)
    monkeypatch.setattr(gpu_devices, "COPY_BYTES", 1 << 16)
    return fakes


@needs_compiler
def test_figures_come_and_what_fails_is_told(small: dict[str, Any], monkeypatch: pytest.MonkeyPatch,
                                             capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (np.float32, [3, 4])}, ["y"],
                     {"w": np.ones((4, 2), np.float32)})
    onnx.save(model, tmp_path / "small.onnx")
    models = f"nowhere.onnx,{tmp_path}/small.onnx"
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--rounds", "2", "--launches", "--models", models])
    gpu.main()
    head, copying, _, titles, broken, *rest = capsys.readouterr().out.splitlines()
    assert "a processor" in head
    assert copying.endswith("GB/s read and written")
    assert "of torch" in titles
    assert broken.startswith("broken")
    assert "FAILED" in broken
    assert rest[0].startswith("row sums")
    assert "us" in rest[1]
    assert any(line.startswith("product") and "TFLOP/s" in line for line in rest)
    assert any(line.startswith("nowhere.onnx: FAILED") for line in rest)
    assert any(line.startswith("small") and "differs by" in line for line in rest)
    assert small["driver"].events == 0


def test_wrong_results_are_told() -> None:
    right = np.ones(5, np.float32)
    assert not gpu._difference([right], [right], 0)
    assert "WRONG by" in gpu._difference([right * 1.1], [right], 1e-3)
    assert "WRONG" in gpu._difference([right * np.nan], [right], 1e-3)
    assert "WRONG" in gpu._difference([right[:4]], [right], 1e-3)


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise LookupError("none here")
    monkeypatch.setitem(gpu_devices.DEVICES, "cuda", none)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    with pytest.raises(SystemExit, match="There is no GPU for the target cuda: none here"):
        gpu.main()
