"""benchmarks/rotating_sizes.py: what it takes, counts and prints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import rotating_sizes
from rotating_sizes import Times
from tests.graph.small_models import model_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Mul", ["a", "mask"], ["y"])]
    w = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    given = {"x": (np.float32, ("n", 4)), "mask": (np.float32, ("n", 1))}
    onnx.save(model_of(nodes, given, ["y"], {"w": w}), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_a_run(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--model", str(path), "--inputs", "x=*,4 mask=*,1", "--sizes", "2:30:4", "--rounds", "3"]
    assert rotating_sizes.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "7 sizes from 2 to 26" in " ".join(shown.split())
    assert rotating_sizes.main([*arguments, "--tolerance", "-1"]) == 1


def test_what_is_counted() -> None:
    times = Times(1.0, {8: [5.0, 0.3, 0.5, 0.4], 9: [4.0, 0.2, 0.2, 0.2]}, {8: [1.0, 0.2, 0.2, 0.2], 9: [1.0, 0.1, 0.1, 0.1]})
    assert times.first_round == 10.0
    assert times.warm() == {8: 0.4, 9: 0.2}
    np.testing.assert_allclose(sorted(times.extra()), [0.1, 0.1, 0.1, 0.1, 0.2, 0.3])


def test_one_round_tells_nothing(path: Path) -> None:
    with pytest.raises(SystemExit):
        rotating_sizes.main(["--model", str(path), "--inputs", "x=*,4 mask=*,1", "--sizes", "2,3", "--rounds", "1"])
