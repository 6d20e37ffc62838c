"""The figures of benchmarks/opencl.py for GPUs, on whatever device is here: they come, and what fails is told."""

from __future__ import annotations

import pytest

import opencl_gpu
from polytc.targets.opencl.driver import devices
from tests.opencl_here import NEEDS_OPENCL

pytestmark = NEEDS_OPENCL


def test_what_fails_is_a_line_among_the_figures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = opencl_gpu.MEMORY_BOUND["row sum"][0]
    monkeypatch.setattr(opencl_gpu, "COPY_BYTES", 1 << 16)
    monkeypatch.setattr(opencl_gpu, "ROUNDS", 2)
    monkeypatch.setattr(opencl_gpu, "SIDES", (32,))
    monkeypatch.setattr(opencl_gpu, "MEMORY_BOUND", {"broken": ("Y[i] = ", {"A": (4,)}), "row sum": (text, {"A": (30, 40)})})
    opencl_gpu.report(devices.choose(""), ["nowhere.onnx"])
    copy, product, broken, rows, model = capsys.readouterr().out.splitlines()[1:]
    assert copy.startswith("copy: ")
    assert copy.endswith("GB/s read and written")
    assert "TFLOP/s" in product
    assert broken.startswith("broken: FAILED: CompileError: E001")
    assert rows.endswith("of copying")
    assert model.startswith("nowhere.onnx: FAILED: ModelError: E602")
