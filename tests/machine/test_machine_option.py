"""`machine=` and `--machine` take a Machine, the name of a described one, or a record: its costs decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polytc
from polytc import cli, keys
from polytc.errors import CompileError
from polytc.machine import AVX2, AVX512, DEVICES, GENERIC_CPU, Machine, record_files
from polytc.targets import registry
from polytc.targets.llvm.target import LLVMTarget

TEXT, SHAPES = "C[i,j] += A[i,k]*B[k,j]", {"A": (64, 64), "B": (64, 64)}


@pytest.fixture
def record(tmp_path: Path) -> str:
    """The processor that is here, as a file."""
    path = tmp_path / "here.toml"
    path.write_text(record_files.write(registry.target("cpu").machine))
    return str(path)


def test_a_record_of_this_processor_makes_the_same_code(record: str) -> None:
    here, told = (polytc.lower(TEXT, shapes=SHAPES, machine=m) for m in (None, record))
    assert str(told.source) == str(here.source)
    a, b = (np.random.default_rng(n).standard_normal((64, 64)).astype(np.float32) for n in (0, 1))
    for machine in (record, Path(record), record_files.load(Path(record))):
        np.testing.assert_allclose(polytc.compile(TEXT, machine=machine)(a, b), a @ b, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(polytc.Op(TEXT, machine=machine)(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_its_costs_decide() -> None:
    """Threads share work where a region costs nothing, and packing pays where copies do."""
    def parallel(machine: Machine) -> bool:
        return "parallel" in str(polytc.lower("Y[i,j] = X[i,j]*2", shapes={"X": (50, 100)}, machine=machine).loops)

    def packed(machine: Machine) -> bool:
        return "B_packed" in str(polytc.lower(TEXT, shapes={"A": (512, 512), "B": (512, 512)}, machine=machine).rewritten)
    assert not parallel(AVX2)
    assert parallel(AVX2.costing({"threads.elements": 100}))
    assert packed(AVX512)
    assert not packed(AVX512.costing({"copies.pack_block": 1e6}))


@pytest.mark.parametrize("machine", [AVX2, AVX512], ids=["avx2", "avx512"])
def test_alternatives_are_those_on_the_machine(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    """As of a target for it; the command line takes its record."""
    given, path, line = "polytc decisions 1\npack: none\nthreads: parallel=no\n", tmp_path / "machine.toml", tmp_path / "given"
    path.write_text(record_files.write(machine), encoding="utf-8")
    line.write_text(given, encoding="utf-8")
    wanted = list(map(str, polytc.alternatives(TEXT, LLVMTarget(machine), given, shapes=SHAPES)))
    assert list(map(str, polytc.alternatives(TEXT, so_far=given, shapes=SHAPES, machine=machine))) == wanted
    monkeypatch.setattr("sys.argv", ["polytc", "emit", TEXT, "--shape", "A=64,64", "--shape", "B=64,64",
                                     "--stage", "alternatives", "--decisions", str(line), "--machine", str(path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert capsys.readouterr().out.splitlines() == wanted


def test_machines_of_different_vectors_have_other_alternatives() -> None:
    given = "polytc decisions 1\npack: none\nthreads: parallel=no\n"
    one, other = (str(next(polytc.alternatives(TEXT, so_far=given, shapes=SHAPES, machine=m))) for m in (AVX2, AVX512))
    assert one != other


def test_machines_that_differ_in_a_cost_have_keys_of_their_own() -> None:
    program = polytc.build(TEXT, SHAPES)
    found = {keys.key(program, LLVMTarget(m), None)
             for m in (AVX2, AVX2.costing({"copies.pack": 3.0}), AVX2.costing({"copies.pack": 2.0}))}
    assert len(found) == 2


@pytest.mark.parametrize("target", ["opencl", "interp"])
def test_described_devices_have_names(target: str) -> None:
    low = polytc.lower(TEXT, target, shapes=SHAPES, machine="mali")
    assert low.target.machine.local_bytes == DEVICES["mali"].local_bytes
    assert low.target.name == target


def test_the_target_c_stays_plain() -> None:
    low = polytc.lower(TEXT, "c", shapes=SHAPES, machine=AVX512.costing({"copies.pack_block": 1e6}))
    assert low.target.machine.dots == ()
    assert "B_packed" not in str(low.rewritten)


@pytest.mark.parametrize(("target", "machine", "code"), [
    ("cpu", "mali", "E541"), ("opencl", GENERIC_CPU, "E541"), ("c", "mali", "E541"), ("evaluate", GENERIC_CPU, "E541"),
    ("cpu", 3, "E410"), ("cpu", "none.toml", "E540"), ("none", GENERIC_CPU, "E502")])
def test_refusals(target: str, machine: object, code: str) -> None:
    with pytest.raises(CompileError) as refusal:
        polytc.compile(TEXT, target, machine=machine)  # type: ignore[call-overload]
    assert refusal.value.code == code


COMMANDS = [["emit", "--stage", "loops"], ["explain", "--no-roofline"], ["run"], ["bench", "--seconds", "0.01"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_takes_records(command: list[str], record: str, capsys: pytest.CaptureFixture[str],
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [command[0], TEXT, "--shape", "A=16,16", "--shape", "B=16,16", "--machine", record, *command[1:]]
    monkeypatch.setattr("sys.argv", ["polytc", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    assert capsys.readouterr().out


def test_the_command_line_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
                                             ) -> None:
    path = tmp_path / "odd.toml"
    path.write_text("polytc_machine = 1\n[machine]\nkinds = 1\n")
    monkeypatch.setattr("sys.argv", ["polytc", "emit", TEXT, "--shape", "A=4,4", "--shape", "B=4,4", "--machine", str(path)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 1
    assert "did you mean 'kind'" in capsys.readouterr().err
