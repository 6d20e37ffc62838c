"""The tables of benchmarks/ are well-formed, their programs mean what their ONNX nodes mean, and the verdicts are right."""

from __future__ import annotations

import ctypes
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer

import polytc
from polytc.native import jit, linking
from versus import contest, machine, onnx_model, plot, report
from versus.case import Case, Goal, Set
from versus.sets import SETS
from versus.sets.conv import NETWORKS
from versus.worker import Worker

RUN = Path(__file__).parents[2] / "benchmarks" / "run.py"
TINY = {"gemm": "256x256x256 constant", "conv": "efficientnet_b0 1x1 32->8 1x1", "memory": "layernorm 16 KB",
        "ansor": "NRM N=1 256x256", "dtypes": "i8 to i32 256x256x256", "tc": "MLP3", "opencl": "softmax"}
LIMITS = machine.Limits("a processor", 1, 100.0, 10.0)


@pytest.fixture(scope="module")
def workers() -> Iterator[dict[str, Worker]]:
    made = {p: Worker(p, 1) for p in ("polytc", "onnxruntime")}
    yield made
    for w in made.values():
        w.stop()


@pytest.mark.part(2)
@pytest.mark.parametrize("table", SETS.values(), ids=SETS)
def test_table_is_well_formed(table: Set) -> None:
    assert len({c.name for c in table.cases}) == len(table.cases)
    assert {c.group for c in table.cases} == set(table.goals)
    for case in table.cases:
        program = polytc.build(case.text, {n: t.shape for n, t in case.inputs.items()},
                               {n: t.dtype for n, t in case.inputs.items()})
        assert set(program.inputs) == set(case.inputs), case.name
        assert program.outputs == tuple(case.outputs), case.name
        for name, t in case.outputs.items():
            assert (program.tensor(name).shape, program.tensor(name).dtype.numpy) == (t.shape, np.dtype(t.dtype)), case.name


@pytest.mark.parametrize("table", SETS.values(), ids=SETS)
def test_onnx_nodes_give_the_declared_shapes(table: Set) -> None:
    for case in table.cases:
        if case.onnx:
            variable = replace(case, inputs={n: replace(t, constant=False) for n, t in case.inputs.items()})
            inferred = onnx.shape_inference.infer_shapes(onnx_model.build(variable, {}), check_type=True, strict_mode=True)
            shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in inferred.graph.output}
            assert shapes == {n: t.shape for n, t in case.outputs.items()}, case.name


def test_every_set_has_a_tiny_case() -> None:
    assert set(TINY) == set(SETS)


@pytest.mark.part(4)
@pytest.mark.parametrize("table", TINY)
def test_tiny_case_agrees_with_onnxruntime(table: str, workers: dict[str, Worker]) -> None:
    result = contest.compete(table, SETS[table].case(TINY[table]), workers, seconds=0.01, limits=LIMITS)
    assert set(result.times) == {"polytc", "onnxruntime"}, result.failed
    assert result.times["polytc"].rounds >= contest.SLOW_ROUNDS


def test_wrong_results_and_failures_take_no_part() -> None:
    class Fake:
        """Answers as a worker whose library computes `result`, or cannot."""

        threads = 1

        def __init__(self, result: float | None) -> None:
            self.result = result

        def ask(self, name: str, *arguments: object) -> object:
            if name == "prepare" and self.result is None:
                return contest.Failed("no such operator")
            if name == "prepare":
                return contest.Ready([np.full(3, self.result)], 1.0)
            return 1e-3 * int(str(arguments[0])) if name == "run" else None

    case = Case("c", "", {}, {}, flops=2e6)
    fakes = {"polytc": Fake(1.0), "onnxruntime": Fake(1.0), "torch": Fake(2.0), "jax": Fake(None)}
    result = contest.compete("gemm", case, fakes, seconds=0.0, limits=LIMITS)  # type: ignore[arg-type]
    assert set(result.times) == {"polytc", "onnxruntime"}
    assert result.failed["jax"] == "no such operator"
    assert "wrong" in result.failed["torch"]
    assert result.ratio(("onnxruntime", "torch")) == pytest.approx(1.0)
    assert result.rate("polytc") == pytest.approx(2.0)
    assert result.share() == pytest.approx(0.02)


def _result(name: str, ours: float | None, theirs: float) -> contest.Result:
    times = {"openvino": contest.Timed(theirs, theirs, 5, 0.0, 1.0)}
    if ours is not None:
        times["polytc"] = contest.Timed(ours, ours, 5, 1e-7, 1.0)
    return contest.Result("gemm", name, "", 1e9, 1, ("fma", 0.93), LIMITS, times)


@pytest.mark.parametrize(("ours", "met"), [((1.0, 2.0), True), ((1.0, 2.4), False), ((2.1, 2.1), False), ((1.0, None), False)])
def test_verdict(ours: tuple[float | None, ...], met: bool) -> None:
    results = [_result(str(k), t, 2.0) for k, t in enumerate(ours)]
    verdict = report.judge(Goal(1.0, 1.15, ("openvino",)), results)
    assert verdict.met is met


def test_files_keep_cases_that_were_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    report.Run(LIMITS, {"polytc": "1"}, (_result("a", 1.0, 2.0), _result("b", 1.0, 2.0))).write(path)
    report.Run(LIMITS, {"polytc": "2"}, (_result("b", 3.0, 2.0),)).write(path)
    stored = report.read(path)
    assert [(r.case, r.ratio(("openvino",))) for r in stored.results] == [("a", 0.5), ("b", 1.5)]
    assert (stored.limits, stored.versions) == (LIMITS, {"polytc": "2"})


def test_peak_loop_does_all_its_multiply_adds() -> None:
    """From x: 3 accumulators of 5 steps of x*x each, then their sum."""
    code = linking.Code(jit.build(machine.accumulators(4, 3), *jit.host(), jit.Tuning(slp=False, vectorize=False)))
    x = np.full(4, 2.0, np.float32)
    ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.address("run"))(5, x.ctypes.data)
    assert (x == 3 * (2.0 + 5 * 4.0)).all()


def test_networks_have_their_layers() -> None:
    """As the papers count them: convolutions with weights, without the final fully connected layers."""
    layers = {name: sum(1 for _ in network()) for name, network in NETWORKS.items()}
    assert layers == {"resnet50": 53, "mobilenetv2": 52, "vgg16": 13, "efficientnet_b0": 81, "densenet121": 120}


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "ratios.svg"
    plot.draw(report.Run(LIMITS, {}, (_result("a", 1.0, 2.0), _result("b", None, 2.0))), path)
    assert "<svg" in path.read_text()


def test_plot_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(typer.BadParameter, match="pip install matplotlib"):
        plot.draw(report.Run(LIMITS, {}, ()), tmp_path / "ratios.svg")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.long
def test_command_line(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    done = run("gemm", "--only", "256x256x256 variable", "--peers", "onnxruntime", "--seconds", "0.01", "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert re.search(r"1 cases, geometric mean \d+\.\d\d \(goal 1\.0\)", done.stdout)
    assert "256x256x256 variable" in run("--show", str(path)).stdout


@pytest.mark.part(2)
@pytest.mark.parametrize("arguments", [["gem"], [], ["gemm", "--peers", "tvm"], ["gemm", "--part", "3/2"]])
def test_refused(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(RUN), *arguments])
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(RUN), run_name="__main__")
    assert done.value.code == 2
