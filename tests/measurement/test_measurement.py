"""`polytc devices --measure`: what it writes is a machine, for which code is made and runs right."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import polytc
from polytc import cli
from polytc.machine import AVX2, record_files
from polytc.measurement import processor, programs
from polytc.measurement.findings import Finding, measured
from polytc.measurement.native_loops import Loop, fastest, seconds
from polytc.native.aligned import aligned_bytes
from polytc.targets import registry
from tests.opencl_here import NEEDS_OPENCL

HERE = registry.target("cpu").machine


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr("sys.argv", ["polytc", "devices", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


def test_a_measured_machine_makes_code_that_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "here.toml"
    assert run(monkeypatch, "--measure", "--output", str(path)) == 0
    printed = capsys.readouterr().out
    machine = record_files.load(path)
    told = dict(machine.origins)
    for field in ("traffic.memory", "accesses.scattered", "copies.pack"):
        assert field[:12] in printed
        assert told[f"costs.{field}"].startswith("measured: ")
    assert told["costs.traffic.page"].startswith("documented: "), "what was not measured keeps its origin"
    assert told["costs.accesses.miss"].startswith("guess: ")
    assert 2e8 < machine.clock < 2e10
    assert machine.costs.traffic.stream_memory < machine.costs.traffic.stream_second
    a, b = (np.random.default_rng(n).standard_normal((130, 140)).astype(np.float32) for n in (0, 1))
    op = polytc.compile("C[i,j] += A[i,k]*B[j,k]", machine=path)
    np.testing.assert_allclose(op(a, b), a @ b.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", [pytest.param("opencl", marks=NEEDS_OPENCL)])
def test_devices_are_measured(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "device.toml"
    assert run(monkeypatch, "--measure", "--target", target, "-o", str(path)) == 0
    machine = record_files.load(path)
    assert 1e-8 < machine.costs.launches.launch < 1e-2
    assert 0 <= machine.costs.launches.barrier < 1e-3
    a = np.random.default_rng(0).standard_normal((70, 80)).astype(np.float32)
    np.testing.assert_allclose(polytc.compile("Y[i] += X[i,j]", target, machine=path)(a), a.sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arguments", [["--output", "x.toml"], ["--target", "opencl"], ["--measure", "--target", "interp"],
                                       ["--measure", "--target", "cpu:1"]])
def test_wrong_usage(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, *arguments) == 2


def test_a_device_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--measure", "--target", "opencl:no such device") == 1
    told = capsys.readouterr().err
    assert "E501" in told or "E503" in told


def test_findings_become_fields() -> None:
    found = {"threads.region": 1234.567, "fma_ports": 1.96, "clock": 3.21e9, "arithmetic.elementary": 0.2, "": 7.0}
    made = measured(AVX2, [Finding(name, value, "so") for name, value in found.items()], "a machine")
    assert (made.costs.threads.region, made.fma_ports, made.clock, made.costs.arithmetic.elementary) == (1230.0, 2, 3.21e9, 1)
    assert dict(made.origins)["costs.threads.region"] == "measured: so, on a machine"
    assert record_files.read(record_files.write(made)) == made


def test_loops_take_as_long_as_what_they_do() -> None:
    """Twice the chain takes twice as long, whatever else runs here: the shortest of times in turns."""
    array = aligned_bytes(4096)

    def chain(length: int) -> Loop:
        names = ["a", *(f"b{n}" for n in range(length - 1)), "a.next"]
        return Loop((("double", "a", "1.0"),), tuple(f"%{y} = fadd double %{x}, 1.0" for x, y in pairwise(names)))
    times = [[seconds(chain(n), 20000, array) for n in (8, 16)] for _ in range(8)]
    one, two = map(min, zip(*times, strict=True))
    assert 1.5 < two / one < 2.7


def test_each_loop_is_code_that_llvm_takes() -> None:
    core = processor.core(HERE)
    for made in (processor.horizontal, processor.products, processor.gathered, processor.paired, processor.scattered):
        assert core.cycles(made(core)) > 0
    assert core.cycles(processor.moves("float", 4, core)) > 0
    assert core.cycles(processor.multiply_adds(core, 3)) > 0
    assert processor.read_cycles(core, core.small) > 0


def test_programs_are_timed() -> None:
    """A thousand times the work takes longer, on a busy machine too."""
    small, large = (programs.time_of("Y[i,j] = exp(X[i,j])", {"X": (n, 64)}, HERE) for n in (4, 4096))
    assert large > small
    assert programs.region_time(HERE) >= 0


def test_the_fastest_of_several_rounds_counts() -> None:
    calls: list[int] = []
    assert fastest(calls.append, least=0.0, rounds=3) >= 0
    assert calls == [1, 1, 1]
