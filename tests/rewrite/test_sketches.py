"""What the docstrings of rewrites show is what happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from polytc import rewrite
from polytc.machine import AVX2, AVX512, DEVICES, NEON, Machine
from polytc.program.names import Names
from polytc.program.program import Program
from polytc.rewrite import index_checks
from polytc.rewrite.gpu import division, split_reduction
from polytc.rewrite.step import Step
from polytc.rewrite.table import STEPS, named
from polytc.rewrite.tidy import axes
from tests.sketches import Sketch, arrows, difference, of, sketches

MACHINES: dict[str, Machine] = {
    "avx2": AVX2, "avx512": AVX512, "neon": NEON,
    "gpu": replace(DEVICES["nvidia-sm90"], waiting_groups=False), "nvidia": DEVICES["nvidia-sm90"],
    "mali": DEVICES["mali"],
    "amx": replace(AVX512, features="+avx512vnni,+avx512bf16,+avx512vl,+amx-tile,+amx-int8,+amx-bf16"),
    "vnni": replace(AVX512, features="+avx512vnni,+avx512vl,+avx512bw"),
}
STEP_OF = {"polytc.rewrite.cpu.masked_blocks": "row_blocks", "polytc.rewrite.cpu.condition_blocks": "row_blocks",
           "polytc.rewrite.cpu.winograd.convolution": "winograd",
           "polytc.rewrite.gpu.work_groups_in_loops": "work_groups_in_loops",
           "polytc.rewrite.complex_numbers.matrix": "complex_numbers",
           "polytc.rewrite.complex_numbers.both_parts": "complex_numbers",
           "polytc.rewrite.complex_numbers.products": "complex_numbers",
           "polytc.rewrite.gpu.work_group_scans": "parallel_scans",
           "polytc.rewrite.gpu.scanned_tiles": "parallel_scans",
           "polytc.rewrite.gpu.look_back": "parallel_scans",
           "polytc.rewrite.gpu.scanned_columns": "parallel_scans",
           "polytc.rewrite.gpu.softmax.fusion": "online_softmax",
           "polytc.rewrite.digit_sums": "gathered_sums"} | {
    f"polytc.rewrite.gpu.{name}": "local_tiles"
    for name in ("local_tiles", "tiled_contraction", "matrix_tiles", "work_group_reductions", "tile_conditions",
                 "local_transpose")}
"""Modules that are parts of a step, and the step that shows what they do."""
NO_STEPS: dict[str, Callable[[Program], Program]] = {
    "polytc.rewrite.tidy.axes": lambda p: axes.exchanged(p, {"O": (0, 2, 3, 1), "X": (0, 2, 3, 1)}),
    "polytc.rewrite.gpu.split_reduction":
        lambda p: split_reduction.split(p, Names.of(p), division.own(MACHINES["gpu"]).parts)[0],
    "polytc.rewrite.gpu.scattered_parts":
        lambda p: split_reduction.split(p, Names.of(p), division.own(MACHINES["gpu"]).parts)[0],
    "polytc.rewrite.gpu.local_histograms":
        lambda p: split_reduction.split(p, Names.of(p), division.own(MACHINES["gpu"]).parts)[0],
    "polytc.rewrite.index_checks": lambda p: index_checks.check_indices(p)[0],
}
"""Rewrites that are not in the table: parts of a step by themselves, and what is asked for."""
BEHIND = {"polytc.rewrite.cpu.matrix_tiles": "dot_words", "polytc.rewrite.word_copies": "dot_words",
          "polytc.rewrite.cpu.condition_blocks": "dead_initialisation"}
"""Modules of steps for what no text says, and the step that makes it."""
SIGNATURES = {"polytc.rewrite.step"}
"""Docstrings whose arrows are no sketches."""
SKETCHES = sketches(rewrite)


def functions(value: Any) -> Iterator[Callable[..., Any]]:
    """A function, and those that it closes over."""
    yield value
    for cell in value.__closure__ or ():
        if callable(cell.cell_contents):
            yield from functions(cell.cell_contents)


def shown_in(step: Step, sketch: Sketch) -> bool:
    """Is a function of the step's in the module of the sketch, or the very one in whose docstring it stands?"""
    if sketch.place in STEP_OF:
        return step.name == STEP_OF[sketch.place]
    return any(sketch.place in (f.__module__, f"{f.__module__}.{f.__qualname__}") for f in functions(step.apply))


def behind(sketch: Sketch, program: Program) -> tuple[str, Program]:
    """The first step of the sketch that changes the program, and what it makes."""
    if sketch.place in NO_STEPS:
        return sketch.place, NO_STEPS[sketch.place](program)
    machine = MACHINES[sketch.machine or "avx512"]
    if sketch.place in BEHIND:
        program = named(BEHIND[sketch.place]).run(program, machine)
    for step in STEPS:
        if machine.kind in step.kinds and shown_in(step, sketch) and (made := step.run(program, machine)) != program:
            return step.name, made
    raise AssertionError(f"no step changes the program of {sketch}")


@pytest.mark.part(3)
@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
def test_a_sketch_shows_what_happens(sketch: Sketch) -> None:
    program = sketch.program()
    assert difference(sketch, program, behind(sketch, program)[1]) == ""


def test_every_step_has_a_sketch() -> None:
    shown = {step.name for step in STEPS for s in SKETCHES if shown_in(step, s)} & {behind(s, s.program())[0] for s in SKETCHES}
    assert [step.name for step in STEPS if step.name not in shown] == []


def test_every_arrow_belongs_to_a_sketch_that_is_checked() -> None:
    assert [place for place in arrows(rewrite) if place not in SIGNATURES] == []


@pytest.mark.parametrize(("after", "told"), [
    ("Y[i] = (A[i] + 1.0)*2.0", ""),
    ("Y[i] = (A[i] + 1.0)*2.0 where i in 0:9", ""),
    ("Y[i] = (... + 1.0)*2.0", ""),
    ("...", ""),
    ("Y[i] = (A[i] + 1.0)*3.0", "not shown: "),
    ("Y[i] = (A[i] + 1.0)*2.0 where i in 0:8", "not shown: "),
    ("T[i] = A[i] + 1.0;  Y[i] = T[i]*2.0", "not shown: "),
    ("Y[i] = (A[i] + 1.0)*2.0;  Z[i] = Y[i]", "not made: "),
    ("... ;  Z[i] = Y[i]", "not made: "),
])
def test_sketches_that_show_something_else_are_refused(after: str, told: str) -> None:
    text = f"Inlines.\n\n    T[i] = A[i] + 1;  Y[i] = T[i]*2       with A[9]\n    ->  {after}\n"
    (sketch,) = of("polytc.rewrite.tidy.inline", text)
    program = sketch.program()
    found = difference(sketch, program, behind(sketch, program)[1])
    assert found.startswith(told)
    assert bool(found) == bool(told)
