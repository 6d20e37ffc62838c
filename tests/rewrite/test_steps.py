"""The table of steps: each has a name that prints, is checked, tells why it acted, and does the same when asked again."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import compiler, rewrite, stages
from polytc.codegen.passes import PASSES
from polytc.lang import evaluate
from polytc.machine import AVX512, DEVICES
from polytc.program.program import Program
from polytc.rewrite import pipeline, table
from polytc.rewrite.consistency import consistent
from polytc.rewrite.step import Step
from polytc.rewrite.table import STEPS
from polytc.rewrite.tidy import hoist
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget

ATTENTION = """
    def attention(f32[8,1024,64] Q, f32[8,1024,64] K, f32[8,1024,64] V) -> (O) {
        S[h,i,j] += Q[h,i,d] * K[h,j,d]
        M[h,i] max=! S[h,i,j]
        E[h,i,j] = exp(S[h,i,j] - M[h,i])
        D[h,i] +=! E[h,i,j]
        O[h,i,d] +=! E[h,i,j] * V[h,j,d] / D[h,i]
    }"""
SHAPES = dict.fromkeys("QKV", (8, 1024, 64))
GPU = DEVICES["nvidia-sm90"]


def told(program: Program, machine=AVX512) -> dict[str, str]:
    """What each step says of a program."""
    return {r.step: " | ".join(map(str, r.reasons)) or r.skipped for r in pipeline.run(program, machine, STEPS)[1]}


def test_names_are_told_apart() -> None:
    for kind in ("cpu", "gpu"):
        names = [s.name for s in STEPS if kind in s.kinds]
        assert len(set(names)) == len(names), names
    assert not {hoist.STEP.name, *(s.name for s in STEPS)} & {p.name for p in PASSES}
    assert len({p.name for p in PASSES}) == len(PASSES)
    assert all(s.does and s.name.isidentifier() for s in STEPS)


def test_every_rewrite_is_in_the_table() -> None:
    """A module of rewrite/ belongs to a step, or is imported by one that does."""
    named = {m.name for m in pkgutil.walk_packages(rewrite.__path__, "polytc.rewrite.") if not m.ispkg}
    code = "import sys; from polytc.rewrite import table; print(*(m for m in sys.modules if m.startswith('polytc.rewrite')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    others = {"pipeline", "changes", "consistency", "index_checks", "unwritten_elements", "record", "tidy.axes"}
    assert named - set(loaded) <= {f"polytc.rewrite.{n}" for n in others}


def test_attention_is_told_step_by_step() -> None:
    said = told(stages.build(ATTENTION, SHAPES))
    assert said["factors"] == "S5: `/ D[h, i]` leaves the sum over j"
    assert "S1: K in panels of" in said["pack"]
    assert "of the cycles" in said["pack"]
    assert "S2: 64 partial results along j" in said["lanes"]
    assert "1024 rows in blocks of 32" in said["row_blocks"]
    assert "the second cache has" in said["row_blocks"]
    assert said["layout"] == "it has no `for` loops"
    assert set(said) == {s.name for s in STEPS if "cpu" in s.kinds}


def test_gpus_are_told_how_items_share_the_work() -> None:
    said = told(stages.build(ATTENTION, SHAPES), GPU)
    assert "one kernel, " in said["online_softmax"]
    assert "in kernels of their own" in said["online_softmax"]
    assert set(said) == {s.name for s in STEPS if "gpu" in s.kinds}
    shapes = {"A": (512, 512), "B": (512, 512), "X": (512, 4096)}
    said = told(stages.build("C[i,j] += A[i,k]*B[k,j]\nS[i] += X[i,k]", shapes), GPU)
    assert said["online_softmax"] == ""
    assert "tiles of" in said["local_tiles"]
    assert "operands in local memory" in said["local_tiles"]
    assert "reduce together" in said["local_tiles"]


@pytest.mark.parametrize(("step", "text", "shapes", "dtypes", "why"), [
    ("pack", "C[i,j] += A[i,k]*B[k,j]", {"A": (8, 300), "B": (300, 400)}, {}, "S1: not B in panels of 80 along j"),
    ("factors", "O[j] += A[i,j]*7.0", {"A": (99, 99)}, {}, "a multiplication costs nothing"),
    ("row_blocks", "S[i,j] += A[i,k]*B[k,j]\nC[i,j] += S[i,k]*D[k,j]", dict.fromkeys("ABD", (32, 32)), {},
     "not in blocks of 32 rows"),
    ("winograd", "O[m,h,w] += X[c,h+r,w+s]*W[m,c,r,s]", {"X": (2, 6, 6), "W": (2, 2, 3, 3)}, {}, "digits are worth more"),
    ("widening", "C[i,j] += f32(A[i,k])*B[k,j]", {"A": (64, 64), "B": (64, 4)}, {"A": "f16"}, "each element is used 4 times"),
    ("dot_words", "C[i,j] += i32(A[i,k])*i32(B[k,j])", {"A": (4, 64), "B": (64, 64)}, {"A": "u8", "B": "i8"},
     "B in words: each"),
    ("lanes", "C[i] += A[k,i]", {"A": (64, 64)}, {}, "not in lanes"),
    ("long_sums", "s[0] += A[k]", {"A": (10_000_000,)}, {}, "terms one after another: blocks of"),
    ("inline", "T[i] = A[i] + 1\nY[i] = T[i]*2", {"A": (9,)}, {}, "T is computed where S2 reads it"),
    ("unit_extents", "Y[i,j] = A[i,j]", {"A": (1, 9)}, {}, "S1: indices j in place of i, j"),
    ("dead_initialisation", "S[i,j] += A[i,k]*A[j,k] where j <= i\nY[i] max= S[i,j] where j <= i", {"A": (9, 9)}, {},
     "S1_init: conditions changed"),
    ("coalesce", "Y[i,j] = A[i,j]", {"A": (7, 9)}, {}, "Y seen as 63, not 7x9"),
])
def test_steps_say_why(step: str, text: str, shapes: dict, dtypes: dict, why: str) -> None:
    machine = replace(AVX512, features="+avx512vnni,+avx512vl,+avx512bw") if step == "dot_words" else AVX512
    assert why in told(stages.build(text, shapes, dtypes), machine)[step]


def test_needs_leave_steps_out() -> None:
    precise = stages.build("precise def f(A, B) -> (C) { C[i,j] += A[i,k]*B[k,j] }",
                        dict.fromkeys("AB", (64, 64)))
    said = told(precise)
    left = {n for n, text in said.items() if text.startswith("precise")}
    assert left >= {"factors", "winograd", "pack", "lanes", "long_sums"}
    looped = stages.build("def f(inout f32[n] X) { for t in 1:9 { X[t] = X[t-1]*2 } }", {"X": (9,)})
    assert told(looped)["pack"] == "it has `for` loops, or ranges in memory"


PROGRAMS = [(ATTENTION, SHAPES), ("O[m,h,w] += (X[c,h+r-1,w+s-1] else 0)*W[m,c,r,s] where h in 0:28, w in 0:28",
                                  {"X": (64, 28, 28), "W": (64, 64, 3, 3)}),
            ("C[i,j] += A[i,k]*B[k,j]", {"A": (512, 512), "B": (512, 512)}),
            ("def f(inout f32[n,9] X) { for t in 1:9 { for i in 0:9 { X[t,i] = X[t-1,i]*2 } } }", {"X": (9, 9)})]


@pytest.mark.part(2)
@pytest.mark.parametrize("machine", [AVX512, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_deciding_changes_nothing_and_is_repeated(number: int, machine) -> None:
    text, shapes = PROGRAMS[number]
    program = stages.build(text, shapes)
    for record in pipeline.run(program, machine, STEPS)[1]:
        if record.skipped:
            assert record.program is record.before
            continue
        decision, again = (record.of.decide(record.before, machine) for _ in range(2))
        assert decision == again
        assert str(record.of.applied(record.before, decision)) == str(record.program)  # a NaN in it is not equal to itself
        consistent(record.program)


def test_the_program_behind_each_step_computes_the_same() -> None:
    text = "S[i,j] += A[i,k]*B[k,j]\nE[i,j] = exp(S[i,j]/16)\nC[i,j] += E[i,k]*D[k,j]/2"
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal((40, 40)).astype("f4") for n in "ABD"}
    s = arrays["A"].astype("f8") @ arrays["B"]
    expected = np.exp(s / 16) @ arrays["D"].astype("f8") / 2
    _, records = pipeline.run(stages.build(text, {n: a.shape for n, a in arrays.items()}), AVX512, STEPS)
    for record in records:
        made = evaluate(record.program, {n: a.copy() for n, a in arrays.items()})["C"].reshape(40, 40)
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4, err_msg=record.step)


def test_a_step_that_breaks_a_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Step("breaks", "a tensor goes", lambda p, _: replace(p, tensors=p.tensors[1:]))
    monkeypatch.setattr(table, "steps", lambda: (*STEPS, broken))
    monkeypatch.setenv("POLYTC_CHECK", "1")
    with pytest.raises(AssertionError, match=r"stage 'breaks'.*is no tensor"):
        compiler.lower_program(stages.build("C[i,j] += A[i,k]*B[k,j]", {"A": (4, 5), "B": (5, 6)}))


@pytest.mark.parametrize("name", ["pack", "vectorize", "program", "rewrites"])
def test_steps_and_passes_are_dumped(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("POLYTC_DUMP", name)
    polytc.lower("C[i,j] += A[i,k]*B[k,j]", LLVMTarget(AVX512), shapes={"A": (512, 512), "B": (512, 512)})
    printed = capsys.readouterr().err
    assert printed.startswith(f"# program: {name} (")
    assert ("B_packed" in printed) == (name in ("pack", "rewrites")) or name == "vectorize"


@pytest.mark.parametrize("target", [LLVMTarget(AVX512), OpenCLTarget(GPU)], ids=["cpu", "gpu"])
def test_everything_behind_a_lowered_program_prints(target) -> None:
    lowered = polytc.lower("C[i,j] += A[i,k]*B[k,j]", target, shapes={"A": (512, 512), "B": (512, 512)})
    assert [r.step for r in lowered.steps] == [s.name for s in (*STEPS, hoist.STEP) if target.machine.kind in s.kinds]
    assert [name for name, _ in lowered.passes] == ["ast", *(p.name for p in PASSES)]
    for record in lowered.steps:
        assert str(record).startswith(record.step)
        assert str(record.program).startswith("def program")
    for _, module in lowered.passes:
        assert str(module).startswith("module program")
    assert lowered.steps[-1].program == lowered.rewritten
    assert lowered.passes[-1][1] == lowered.loops


def test_the_first_step_of_a_name_is_found() -> None:
    assert table.named("pack").name == "pack"
    with pytest.raises(StopIteration):
        table.named("poem")
