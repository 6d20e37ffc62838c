"""Models drop subnormal results, on all threads, and leave the caller's floating-point mode as it was."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest

import polytc
from polytc.native import parallel_regions, subnormals
from tests.graph.small_models import model_of

TINY = np.float32(1e-38)
X86 = pytest.mark.skipif(parallel_regions.here() != "x86_64", reason="only x86 is slow at subnormal numbers")

RUN = """
import numpy as np, polytc
graph = polytc.load_onnx({model!r})
x = np.full((64, 512), 1e-38, np.float32)
(y,) = graph.compile(threads={threads}).run(None, {{"x": x}})
print(y.min(), y.max())
print((x * np.float32(0.25)).max())
"""


@pytest.fixture
def model(tmp_path):
    """y = x / 4."""
    nodes = [onnx.helper.make_node("Mul", ["x", "quarter"], ["y"])]
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, {"x": (np.float32, [64, 512])}, ["y"], {"quarter": np.float32(0.25)}), path)
    return path


@pytest.mark.part(6)
@X86
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("keep", [False, True])
def test_results_of_models(model, threads: int, keep: bool) -> None:
    environment = {**os.environ, "POLYTC_SUBNORMALS": "keep" if keep else ""}
    done = subprocess.run([sys.executable, "-c", RUN.format(model=str(model), threads=threads)], env=environment,
                          capture_output=True, text=True, check=True)
    results, numpys = done.stdout.splitlines()
    quarter = str(TINY * np.float32(0.25))
    assert results == (f"{quarter} {quarter}" if keep else "0.0 0.0")
    assert numpys == quarter


def test_operators_keep_subnormal_results() -> None:
    y = polytc.run("Y[i] = X[i] / 4", X=np.full(100, TINY))
    assert (y == TINY / np.float32(4)).all()


def test_other_processors_have_no_such_lines() -> None:
    assert not subnormals.flush("aarch64") + subnormals.restore("aarch64") + subnormals.declarations("aarch64")
    assert "mxcsr" not in parallel_regions.text("aarch64")
