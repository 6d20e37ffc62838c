"""What the docstrings of strategies show is the schedule that is made."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import pytest

from polytc.machine import AVX512, DEVICES
from polytc.poly.dependences import analyse
from polytc.poly.scop import extract
from polytc.program.program import Program
from polytc.schedule import automatic, cpu, fusion, gpu, tiling
from polytc.schedule.tree import Schedule
from tests.schedule import nest_text
from tests.sketches import Sketch, arrows, of, sketches

T = TypeVar("T")
MACHINES = {"avx512": AVX512, "gpu": DEVICES["nvidia-sm90"]}
PACKAGES = (cpu, gpu, tiling, fusion)
NO_STRATEGIES = {"polytc.schedule.cpu.given_tiles", "polytc.schedule.cpu.tile", "polytc.schedule.fusion.cluster"}
"""What strategies decide, as values, and lines of records of decisions."""
SKETCHES = [s for package in PACKAGES for s in sketches(package)]


def scheduled(program: Program, machine: str) -> Schedule:
    scop = extract(program)
    return automatic.schedule(scop, analyse(scop), MACHINES[machine or "avx512"])


def files(compute: Callable[[], T]) -> tuple[T, set[str]]:
    """What is computed, and the files of the functions that ran."""
    ran = set[str]()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        ran.add(frame.f_code.co_filename)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        return compute(), ran
    finally:
        sys.setprofile(before)


@pytest.mark.part(5)
@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
def test_a_sketch_shows_what_happens(sketch: Sketch) -> None:
    program = sketch.program()
    made, ran = files(lambda: scheduled(program, sketch.machine))
    assert importlib.import_module(sketch.place).__file__ in ran, "the strategy was not asked"
    assert made.how.startswith(("cpu strategy", "gpu strategy"))
    assert nest_text.difference(nest_text.shown(sketch.after), nest_text.made(made, program)) == ""


def test_every_strategy_has_a_sketch() -> None:
    modules = {m.name for package in PACKAGES for m in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")}
    assert modules - NO_STRATEGIES == {s.place for s in SKETCHES}


def test_every_arrow_belongs_to_a_sketch_that_is_checked() -> None:
    assert [place for package in PACKAGES for place in arrows(package)] == []


@pytest.mark.parametrize(("after", "told"), [
    ("parallel i, j // 32, vector j % 32 { T[i,j] = X[i,j] * 2.0;  Y[i,j] = T[i,j] + 1.0 }", "not made: Y[i,j]=T[i,j]+1.0"),
    ("parallel i, j // 32 { vector j % 32 { T[i,j] = X[i,j] * 2.0 };  vector j % 32 { Y[i,j] = T[i,j] + 1.0 } }", ""),
    ("parallel i, j // 32 { vector j % 32 { ... }\nvector j % 32 { Y[i,j] = T[i,j] + ... } }", ""),
    ("parallel i, j // 32 { vector j % 32 { ... };  vector j % 32 { Y[i,j] = T[i,j] + 2.0 } }", "shown: Y[i,j]=T[i,j]+2.0"),
    ("parallel i, j // 32 { vector j % 32 { ... };  vector j % 16 { ... } }", "shown: vector j%16"),
    ("parallel i, j // 32 { vector j % 32 { ... } }", "not shown: vector j%32"),
    ("for i, j // 32 { vector j % 32 { ... };  vector j % 32 { ... } }", "shown: for i"),
    ("parallel i, j // 32 { vector j % 32 { ... };  vector j % 32 { ... } };  ...", "not made: ..."),
])
def test_sketches_that_show_something_else_are_refused(after: str, told: str) -> None:
    after = after.replace("\n", "\n        ")
    (sketch,) = of("", f"Fuses.\n\n    T[i,j] = X[i,j]*2;  Y[i,j] = T[i,j] + 1        with X[512,512]\n    ->  {after}\n")
    program = sketch.program()
    found = nest_text.difference(nest_text.shown(sketch.after), nest_text.made(scheduled(program, ""), program))
    assert found.startswith(told)
    assert bool(found) == bool(told)
