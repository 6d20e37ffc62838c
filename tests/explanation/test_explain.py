"""What `explain` says is counted and proved, not guessed: numbers by brute force, reasons with instances."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import polytc
from polytc import compiler
from polytc.cli import app
from polytc.explanation import Explanation, explain
from polytc.explanation.report import loops
from polytc.machine import AVX512, DEVICES
from polytc.program.cardinality import instances
from polytc.schedule.loop_report import Apart
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget

SOFTMAX = "M[b] max= X[b,j]\nE[b,j] = exp(X[b,j] - M[b])\nS[b] += E[b,j]\nY[b,j] = E[b,j] / S[b]"


def explained(text: str, **options: object) -> Explanation:
    return polytc.explain(text, roofline=False, **options)


@pytest.mark.parametrize(("text", "shapes", "expected"), [
    ("C[i,j] += A[i,k]*B[k,j]", {"A": (5, 7), "B": (7, 3)}, 5 * 7 * 3),
    ("C[i,j] += A[i,k]*A[j,k] where j <= i", {"A": (9, 4)}, 45 * 4),
    ("Y[i,j] += X[i,k]*X[j,k] where j <= i, k <= j", {"X": (11, 11)}, sum(j + 1 for i in range(11) for j in range(i + 1))),
    ("Y[i] += X[i+k] where i % 2 == 0, k % 3 == 1, k in 0:10", {"X": (30,)}, 11 * 3),
    ("Y[i] += X[i,j] where j != i", {"X": (6, 8)}, 6 * 7),
    ("Y[i] += X[i,j] where 2*j <= 3*i", {"X": (6, 8)}, sum(1 for i in range(6) for j in range(8) if 2 * j <= 3 * i)),
])
def test_instances_are_counted_exactly(text: str, shapes: dict[str, tuple[int, ...]], expected: int) -> None:
    found = instances(polytc.build(text, shapes).statement("S1"))
    assert (found.value, found.exact) == (expected, True)


def test_a_triangle_of_billions_is_counted_at_once() -> None:
    program = polytc.build("C[i,j] += A[i,k]*A[j,k] where j <= i", {"A": (2000, 2600)})
    assert instances(program.statement("S1")).value == 2000 * 2001 // 2 * 2600


def test_costs_of_a_matmul() -> None:
    report = explained("C[i,j] += A[i,k]*B[k,j]", shapes={"A": (64, 128), "B": (128, 32)}).report
    assert report.written.operations.value == 2 * 64 * 128 * 32
    assert report.written.compulsory == 4 * (64 * 128 + 128 * 32 + 64 * 32)
    assert report.written.intensity == pytest.approx(2 * 64 * 128 * 32 / (4 * (64 * 128 + 128 * 32 + 64 * 32)))


def test_a_reduction_loop_says_that_it_adds_up_and_names_two_instances() -> None:
    report = explained("C[i,j] += A[i,k]*B[k,j]", shapes={"A": (64, 64), "B": (64, 64)}, schedule="program").report
    reduction = next(loop for loop, _ in loops(report.tree) if ("S1", "k") in [(s, t.strip("()")) for s, t in loop.rows])
    assert reduction.reduction
    assert str(reduction.carries) == "S1[i=0, j=0, k=0] must run before S1[i=0, j=0, k=1]"
    others = [loop for loop, _ in loops(report.tree) if loop is not reduction]
    assert others
    assert all(loop.carries is None for loop in others)


def test_an_iteration_touches_what_it_reads_and_writes() -> None:
    report = explained("C[i,j] += A[i,k]*B[k,j]", shapes={"A": (16, 24), "B": (24, 8)}, schedule="program").report
    band = next(b for loop, b in loops(report.tree) if ("S1", "k") in [(s, t.strip("()")) for s, t in loop.rows])
    assert {n: c.value for n, c in band.touched} == {"A": 1, "B": 1, "C": 1}


def test_pairs_that_cannot_share_a_loop_have_a_witness() -> None:
    report = explained("M[b] max= X[b,j]\nY[b,j] = X[b,j] - M[b]", shapes={"X": (40, 50)}, schedule="program").report
    pair = next(a for a in report.apart if (a.first, a.second) == ("S1", "S2"))
    assert isinstance(pair, Apart)
    assert pair.kinds == ("flow",)
    assert pair.shared == 0
    total = explained("T[] += X[j]\nY[j] = X[j] / T[]", shapes={"X": (50,)}, schedule="program").report
    blocked = next(a for a in total.apart if (a.first, a.second) == ("S1", "S2"))
    assert blocked.witness is not None
    assert blocked.witness.source.startswith("S1[j=")
    assert blocked.witness.sink.startswith("S2[j=")


def test_every_statement_says_how_it_uses_vectors() -> None:
    report = explained(SOFTMAX, shapes={"X": (64, 256)}).report
    names = {s.name for s in report.lowered.rewritten.statements}
    assert {v.statement for v in report.vectors} == names
    assert any(v.along for v in report.vectors)
    assert all(v.along or v.why for v in report.vectors)


@pytest.mark.parametrize("target", ["cpu", "opencl", "interp"])
def test_text_and_page_of_every_target(target: str) -> None:
    found = explained(SOFTMAX, target=target, shapes={"X": (64, 256)})
    text, page = str(found), found.html
    for title in ("Program", "Cost", "Loops", "Vectors", "Statements that depend on each other"):
        assert title in text
    assert page.startswith("<!doctype html>")
    assert page.count("<section>") >= 6
    assert "http://" not in page
    assert "https://" not in page
    assert "$" not in page.replace("$OUT", "")
    for s in found.report.lowered.rewritten.statements:
        assert f'data-s="{s.name}"' in page


def test_comparison_signs_are_escaped() -> None:
    page = explained("Y[i] = X[i] < 0 ? 0 : X[i]", shapes={"X": (64,)}).html
    assert "X[i] &lt; 0" in page
    assert "X[i] < 0" not in page


def test_what_is_computed_once_is_told_with_the_constants_that_it_follows_from() -> None:
    program = polytc.build("C[i,j] += A[i,k]*B[k,j]", {"A": (512, 512), "B": (512, 512)})
    told = "hoist                 S1_B_packed: B_packed follows from the constant B alone, and is computed once"
    for constants in ((), ("B",)):
        lowered = compiler.lower_program(replace(program, constants=constants), LLVMTarget(AVX512))
        found = explain(lowered, measure=False)
        assert [line for line in str(found).splitlines() if line.startswith("hoist ")] == [told] * len(constants)
        assert ("<b>hoist</b>" in found.html) == bool(constants)


@pytest.mark.parametrize(("text", "shape", "told"), [
    ("Y[i] = X[i] + 1", (512,), ["k0: 2 groups of 256 items"]),
    ("Y[i] = X[i] + 1", (510,), ["k0: 2 groups of 256 items, which work where (i_item < ((i_group * -256) + 510))"]),
    ("Y[i,j] = X[j,i] + 1", (128, 64), ["k0: 4 x 2 groups of 32 x 8 items"]),
    ("for t in 0:9 { T[i] = X[131071-i] + 1; X[i] = T[i] * X[i] }", (131072,), [
        "k0_0: 512 groups of 256 items; for t in 0:9", "k0_1: 512 groups of 256 items; for t in 0:9"]),
])
def test_launches_have_groups_items_and_what_guards_them(text: str, shape: tuple[int, ...], told: list[str]) -> None:
    program = f"def f(inout f32[n] X) -> (X) {{ {text} }}" if "X[i] =" in text else text
    lowered = compiler.lower_program(polytc.build(program, {"X": shape}), OpenCLTarget(DEVICES["nvidia-sm90"]))
    found = explain(lowered, measure=False)
    lines = [str(grid).split("_", 2)[2] for grid in found.report.grids]
    assert lines == told
    assert f"{lines[0]}\n" in str(found).partition("Launches\n========\n")[2]
    assert "groups of" in found.html


def test_an_op_explains_its_newest_specialisation() -> None:
    op = polytc.compile("Y[i] = X[i] + 1")
    with pytest.raises(polytc.ArgumentError, match="E401"):
        op.explain()
    op(np.ones(33, np.float32))
    assert "i in 0:33" in str(op.explain(roofline=False))
    assert "i in 0:44" in str(op.explain({"X": (44,)}, roofline=False))


def test_the_roofline_bounds_the_time() -> None:
    found = polytc.explain("C[i,j] += A[i,k]*B[k,j]", shapes={"A": (256, 256), "B": (256, 256)}, threads=1)
    bound = found.report.bound
    assert bound is not None
    assert 0 < bound.seconds == max(bound.arithmetic, bound.memory)
    assert "<h2>Roofline</h2>" in found.html
    assert "bound" in str(found)


def test_command_line(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = ["explain", "C[i,j] += A[i,k]*B[k,j]", "--shape", "A=8,8", "--shape", "B=8,8", "--no-roofline"]
    printed = CliRunner().invoke(app, arguments)
    assert printed.exit_code == 0
    assert "operations" in printed.output
    written = CliRunner().invoke(app, [*arguments, "--html", str(page)])
    assert written.exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
