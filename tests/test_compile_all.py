"""Programs compiled by several processes: the same code as by one."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import polytc
from polytc import compile_all, compiler, errors
from polytc.lang import evaluate
from polytc.program.program import Program
from polytc.runtime.packages import WithPrologue
from polytc.runtime.pending import Pending
from polytc.targets.interp import InterpTarget
from tests.decided_programs import PROGRAMS
from tests.rewrite.equal import small_numbers


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_EXECUTABLES", Pending(100))


def programs() -> list[Program]:
    found = [polytc.build(text, shapes) for text, shapes in PROGRAMS.values()]
    return [*found, *(polytc.build("Y[i] = X[i]*2", {"X": (n,)}) for n in (5, 6, 7)), found[0]]


def codes(count: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], list[int], int]:
    """The object code of the programs, the numbers that were told, and how many were lowered in this process."""
    monkeypatch.setenv("POLYTC_PROCESSES", count)
    monkeypatch.setattr(compiler, "_EXECUTABLES", Pending(100))
    here, told, lower = list[str](), list[int](), compiler.lower_program

    def noted(program: Program, *rest: object) -> compiler.Lowered:
        here.append(program.name)
        return lower(program, *rest)  # type: ignore[arg-type]
    with monkeypatch.context() as m:
        m.setattr(compiler, "lower_program", noted)
        made = [f.result() for f in compile_all.start_programs(programs(), "cpu", 1, told.append)]
    return [(x.package.main.binary if isinstance(x, WithPrologue) else x.binary).code for x in made], told, len(here)


def test_several_processes_make_the_code_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, told, lowered = codes("1", monkeypatch)
    assert (sorted(told), lowered) == (list(range(14)), 13), "two programs are one"
    together, told, lowered = codes("3", monkeypatch)
    assert together == alone
    assert sorted(told) == list(range(14))
    assert 0 < lowered < 13


@pytest.mark.long
def test_what_they_compile_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_PROCESSES", "3")
    for program, code in zip(programs(), compile_all.start_programs(programs(), "cpu", 1), strict=True):
        arrays = small_numbers(program)
        expected = evaluate(program, {n: a.copy() for n, a in arrays.items()})
        buffers = {n: arrays[n].copy() if n in arrays else np.empty(program.tensor(n).shape, "f4") for n in program.arrays}
        code.result().run([buffers[n] for n in program.arrays])
        for n in program.outputs:
            np.testing.assert_allclose(buffers[n], expected[n], rtol=1e-4, atol=1e-3)


def test_what_is_known_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_PROCESSES", "3")
    few = programs()[-5:]
    first = [f.result() for f in compile_all.start_programs(few, "cpu", 1)]
    monkeypatch.setattr(compiler, "lower_program", None)
    assert [f.result() for f in compile_all.start_programs(few, "cpu", 1)] == first


@pytest.mark.long
def test_a_fork_that_fails_leaves_its_programs_to_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_PROCESSES", "3")
    lower, mine = compiler.lower_program, threading.main_thread().native_id

    def failing(program: Program, *rest: object) -> compiler.Lowered:
        if threading.get_native_id() != mine:
            raise MemoryError
        return lower(program, *rest)  # type: ignore[arg-type]
    monkeypatch.setattr(compiler, "lower_program", failing)
    assert len([f.result() for f in compile_all.start_programs(programs(), "cpu", 1)]) == 14


def test_an_error_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_PROCESSES", "3")

    def refusing(program: Program, *_: object) -> compiler.Lowered:
        raise errors.fail("E523", f"{program.name} is refused")
    monkeypatch.setattr(compiler, "lower_program", refusing)
    with pytest.raises(errors.CompileError, match="E523"):
        compile_all.start_programs(programs(), "cpu", 1)


@pytest.mark.long
def test_other_targets_and_stages_that_are_looked_at_have_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_PROCESSES", "3")
    monkeypatch.setattr(compile_all.processes, "Forks", None)
    compile_all.start_programs(programs()[:4], "cpu", 1)
    compile_all.start_programs(programs(), InterpTarget(), 1)
    monkeypatch.setenv("POLYTC_DUMP", "nothing")
    compile_all.start_programs(programs(), "cpu", 1)


@pytest.mark.parametrize("text", ["0", "many", "-1", "1.5", "1000"])
def test_a_number_of_processes_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_PROCESSES", text)
    with pytest.raises(errors.ArgumentError, match="E410: POLYTC_PROCESSES"):
        compile_all.start_programs(programs(), "cpu", 1)
