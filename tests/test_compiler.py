"""The pipeline itself: its stages print, can be dumped, name the culprit, and are run once a program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polytc import compiler, errors
from polytc.codegen import astgen, loops
from polytc.lang import build
from polytc.targets import registry

CONV = build("O[m,h,w] += (I[c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:8, w in 0:16; Y[m,h,w] = max(O[m,h,w], 0)",
             {"I": (3, 8, 16), "W": (4, 3, 3, 3)}, name="padded")
STAGES = ("rewrites", "bounds", "scop", "deps", "schedule", "ast", "loops", "source")


@pytest.mark.part(2)
@pytest.mark.parametrize("target", registry.TARGETS)
def test_every_stage_prints_for_a_padded_convolution(target: str) -> None:
    low = compiler.lower_program(CONV, target)
    assert set(low.seconds) == set(STAGES)
    entry = "polytc_padded_1(" if low.source.target == "c" else "k0"
    for value, sign in ((low.program, "def padded("), (low.rewritten, "I_pad"), (low.scop, "S1[m, h, w, c, r, s]"),
                        (low.dependences, "flow: "), (low.schedule, "domain: "), (low.loops, "kernel k0("),
                        (low.source, entry)):
        assert sign in str(value)


def test_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("POLYTC_DUMP", "scop,loops")
    monkeypatch.setenv("POLYTC_DUMP_DIR", str(tmp_path / "dump"))
    compiler.lower_program(CONV, "cpu")
    assert sorted(p.name for p in (tmp_path / "dump").iterdir()) == ["padded.loops.txt", "padded.scop.txt"]
    monkeypatch.delenv("POLYTC_DUMP_DIR")
    monkeypatch.setenv("POLYTC_DUMP", "all")
    compiler.lower_program(CONV, "cpu")
    text = capsys.readouterr().err
    assert all(f"# padded: {name} (" in text for name in STAGES)


def test_a_broken_invariant_names_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> loops.Module:
        stray = loops.Store(loops.Buffer("Z", CONV.tensors[0].dtype, (4,)), (loops.Var("nowhere"),), loops.const(1))
        return loops.Module("padded", (), (), (), (loops.Kernel("k0", (), (), stray),))

    monkeypatch.setattr(astgen, "generate", broken)
    with pytest.raises(AssertionError, match="stage 'ast' of 'padded'"):
        compiler.lower_program(CONV, "cpu")


def test_unknown_target() -> None:
    with pytest.raises(errors.TargetError, match="cpu, opencl, cuda, c, interp") as info:
        compiler.compile_program(CONV, "tpu")
    assert info.value.code == "E502"


def test_a_program_is_compiled_once() -> None:
    one, same = build("C[i] = A[i] + 3", {"A": (5,)}), build("Result[n] = input[n] + 3", {"input": (5,)}, name="other")
    other = build("C[i] = A[i] + 4", {"A": (5,)})
    assert compiler.compile_program(one, "cpu", threads=1) is compiler.compile_program(same, "cpu", threads=1)
    assert compiler.compile_program(one, "cpu", threads=1) is not compiler.compile_program(other, "cpu", threads=1)
    assert compiler.compile_program(one, "cpu", threads=1) is not compiler.compile_program(one, "cpu", threads=2)
    assert compiler.compile_program(one, "cpu", threads=1) is not compiler.compile_program(one, "interp", threads=1)


def test_coalesced_arrays_keep_their_shapes() -> None:
    program = build("Y[i,j,k] = X[i,j,k] + 1", {"X": (3, 4, 5)})
    assert compiler.lower_program(program, "cpu").loops.args[0].shape == (60,)
    x, y = np.random.rand(3, 4, 5).astype("f4"), np.zeros((3, 4, 5), "f4")
    call = compiler.compile_program(program, "cpu").bind([x, y])
    call()
    np.testing.assert_array_equal(y, x + 1)


def test_an_automatic_schedule_can_be_given_back() -> None:
    low = compiler.lower_program(CONV, "cpu")
    again = compiler.lower_program(CONV, "cpu", str(low.schedule))
    assert str(again.loops) == str(low.loops)
    written = compiler.lower_program(CONV, "cpu", str(compiler.lower_program(CONV, "cpu", "program").schedule))
    assert written.rewritten == CONV
