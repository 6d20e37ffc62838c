"""Models compiled ahead of time for 64-bit Arm, run where a compiler for it and QEMU are installed."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.graph import ahead
from tests.graph.open_graphs import array, images

COMPILER = shutil.which("aarch64-linux-gnu-gcc")
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
LIBRARIES = Path("/usr/aarch64-linux-gnu")
N = helper.make_node


pytestmark = pytest.mark.skipif(
    COMPILER is None or EMULATOR is None or not LIBRARIES.exists() or platform.machine() == "aarch64",
    reason="there is no compiler for 64-bit Arm, or no emulator")


def run(folder: Path, processor: str, *arguments: str) -> list[list[str]]:
    """What the program of a model prints in the emulator: the numbers of each line."""
    command = [str(EMULATOR), "-cpu", processor, "-L", str(LIBRARIES), "./net", *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return [line.split()[1:] for line in done.stdout.splitlines()]


def compile_program(folder: Path) -> None:
    build = [str(COMPILER), "-O1", "-Wall", "-Werror", "main.c", "net.o", "-lm", "-lpthread", "-o", "net"]
    subprocess.run(build, cwd=folder, check=True)


@pytest.mark.parametrize("processor", ["cortex-a72", "max"])
def test_the_program_computes_what_the_model_does(build, tmp_path: Path, processor: str) -> None:
    r = np.random.default_rng(3)
    w, v = (r.standard_normal(shape).astype(np.float32) for shape in ((8, 3, 3, 3), (8 * 64, 6)))
    constants = {"w": w, "v": v, "scale": np.float32(0.05), "zero": np.uint8(7)}
    nodes = [N("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), N("HardSwish", ["c"], ["h"]),
             N("QuantizeLinear", ["h", "scale", "zero"], ["q"]), N("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
             N("Flatten", ["d"], ["f"]), N("MatMul", ["f", "v"], ["p"]), N("Softmax", ["p"], ["y"], axis=-1)]
    graph = polytc.load_onnx(build(nodes, {"x": (np.float32, [1, 3, 8, 8])}, ["y", "q", "c"], constants))
    ahead.export(graph, tmp_path, processor="aarch64", name="net")
    x = r.standard_normal((1, 3, 8, 8)).astype(np.float32)
    x.tofile(tmp_path / "x.raw")
    compile_program(tmp_path)
    expected = graph.compile(target="evaluate").run(None, {"x": x})
    for threads in ("1", "3"):
        for got, wanted in zip(run(tmp_path, processor, "net.weights", threads, "x.raw"), expected, strict=True):
            np.testing.assert_allclose([float(v) for v in got], wanted.reshape(-1)[:8], rtol=1e-4, atol=1e-5)


def test_open_sizes(tmp_path: Path, runtime: Callable[..., list[np.ndarray]]) -> None:
    model = images()
    ahead.export(polytc.load_onnx(model), tmp_path, {"x": ("n", 3, "h", "w")}, "aarch64", "net",
                 sizes={"n": 2, "h": (4, 30), "w": (4, 40)})
    compile_program(tmp_path)
    for sizes in ((2, 30, 40), (1, 4, 5), (2, 17, 16)):
        x = array(sizes[0], 3, *sizes[1:])
        np.save(tmp_path / "x.npy", x)
        run(tmp_path, "max", "-o", ".", "-s", ",".join(map(str, sizes)), "net.weights", "2", "x.npy")
        for k, wanted in enumerate(runtime(model, {"x": x})):
            np.testing.assert_allclose(np.load(tmp_path / f"{k}.npy"), wanted, rtol=1e-4, atol=1e-4)
