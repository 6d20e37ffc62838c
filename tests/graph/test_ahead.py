"""Models compiled ahead of time: built with the system's C compiler and run, where there is one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.errors import ModelError
from polytc.graph import ahead
from polytc.graph.library import headers
from tests.graph.library.compiled_library import CC

N = helper.make_node


@pytest.fixture
def graph(build) -> polytc.Graph:
    """A convolution with constant weights, an activation, a view, and outputs that are an input, a constant and one another."""
    r = np.random.default_rng(3)
    constants = {"w": r.standard_normal((8, 3, 3, 3)).astype(np.float32), "k": np.arange(5, dtype=np.int32),
                 "v": r.standard_normal((8 * 64, 6)).astype(np.float32)}
    nodes = [N("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), N("HardSwish", ["c"], ["h"]), N("Flatten", ["h"], ["f"]),
             N("MatMul", ["f", "v"], ["p"]), N("Softmax", ["p"], ["y*/\n"], axis=-1), N("Identity", ["k"], ["constant"]),
             N("Identity", ["x"], ["same"]), N("Reshape", ["c", "s"], ["int"]), N("Greater", ["c", "zero"], ["bits"])]
    constants |= {"s": np.array([-1]), "zero": np.float32(0)}
    return polytc.load_onnx(build(nodes, {"x": (np.float32, [1, 3, 8, 8])}, ["y*/\n", "constant", "same", "int", "c", "bits"],
                                  constants))


def test_the_object_file_computes_what_the_model_does(graph, tmp_path: Path) -> None:
    if CC is None:
        pytest.skip("there is no C compiler")
    files = ahead.export(graph, tmp_path, name="net")
    x = np.random.default_rng(4).standard_normal((1, 3, 8, 8)).astype(np.float32)
    x.tofile(tmp_path / "x.raw")
    build = [CC, "-O1", "-Wall", "-Werror", "main.c", "net.o", "-lm", "-lpthread", "-o", "net"]
    subprocess.run(build, cwd=tmp_path, check=True)
    expected = graph.compile().run(None, {"x": x})
    for threads in ("1", "3"):
        run = ["./net", "net.weights", threads, "x.raw"]
        done = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True)
        lines = [line.split()[1:] for line in done.stdout.splitlines()]
        assert len(lines) == len(expected)
        for got, wanted in zip(lines, expected, strict=True):
            np.testing.assert_allclose([float(v) for v in got], wanted.reshape(-1)[:8], rtol=1e-6)
    files.weights.write_bytes(files.weights.read_bytes()[:-64])
    cut = subprocess.run(["./net"], cwd=tmp_path, capture_output=True, text=True)
    assert cut.returncode == 1
    assert "the weights are damaged" in cut.stderr


@pytest.mark.parametrize(("processor", "machine"), [("aarch64", 183), ("x86-64-v3", 62)])
def test_another_processor(graph, tmp_path: Path, processor: str, machine: int) -> None:
    data = ahead.export(graph, tmp_path, processor=processor, name="net").code.read_bytes()
    assert data[:4] == b"\x7fELF"
    assert int.from_bytes(data[18:20], "little") == machine


def test_names_stay_inside_of_comments(graph, tmp_path: Path) -> None:
    text = ahead.export(graph, str(tmp_path), name="2 bad */ name").header.read_text()
    assert "int m_2_bad_name_open(" in text
    assert "y*/" not in text
    assert "int32_t *constant" in text
    assert "float *m_int" in text


def test_parameters_differ() -> None:
    assert headers.parameters(["a.b", "a/b", "a_b", "int"]) == ["a_b", "a_b_2", "a_b_3", "m_int"]


def test_a_model_that_depends_on_its_data_is_refused(build, tmp_path: Path) -> None:
    graph = polytc.load_onnx(build([N("Relu", ["x"], ["r"]), N("NonZero", ["r"], ["y"])], {"x": (np.float32, [4])}, ["y"]))
    with pytest.raises(ModelError, match="NonZero") as caught:
        ahead.export(graph, tmp_path)
    assert caught.value.code == "E621"


def test_refusals(build, tmp_path: Path) -> None:
    graph = polytc.load_onnx(build([N("Relu", ["x"], ["y"])], {"x": (np.float32, ["N", 3])}, ["y"]))
    for arguments, part in (({}, "no fixed type"), ({"shapes": {"x": (2, 3)}, "processor": "z80"}, "'z80'")):
        with pytest.raises(ModelError, match=part) as caught:
            ahead.export(graph, tmp_path, **arguments)
        assert caught.value.code == "E621"
