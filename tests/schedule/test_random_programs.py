"""Random programs under random schedules, against the evaluator; what fails shrinks to a text that can be pasted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from polytc import errors
from polytc.lang import build
from polytc.poly import dependences, scop
from polytc.program.program import Program
from polytc.schedule import transforms
from polytc.schedule.tree import Schedule, checked
from tests.test_programs import check

INDICES = "ijkl"
SETTINGS = settings(max_examples=8, deadline=None, derandomize=True,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@st.composite
def subscripts(draw: Callable[..., object], indices: str) -> str:
    """One to three subscripts, mostly plain indices, at times a stencil, a stride or a constant offset."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        i = draw(st.sampled_from(indices))
        form = draw(st.sampled_from(["{i}", "{i}", "{i}", "{i}+{j}", "2*{i}", "2*{i}+{j}", "{i}+1"]))
        parts.append(str(form).format(i=i, j=draw(st.sampled_from(indices))))
    return ",".join(parts)


@st.composite
def programs(draw: Callable[..., object]) -> Program:
    """Two or three statements over two inputs, each reading inputs or earlier results."""
    shapes: dict[str, tuple[int, ...]] = {}
    lines: list[str] = []
    results: list[tuple[str, str]] = []
    extents = st.sampled_from([1, 2, 3, 5, 8, 9, 17])
    for n in range(draw(st.integers(1, 3))):
        terms = []
        for _ in range(draw(st.integers(1, 2))):
            if results and draw(st.booleans()):
                name, dims = draw(st.sampled_from(results))
                terms.append(f"{name}[{dims}]" if draw(st.booleans()) else f"({name}[{dims}] else 1)")
            else:
                name = f"A{len(shapes)}"
                subs = str(draw(subscripts(INDICES)))
                shapes[name] = tuple(draw(extents) for _ in subs.split(","))
                terms.append(f"{name}[{subs}]")
        value = str(draw(st.sampled_from([" + ", " * ", " - "]))).join(terms)
        value = str(draw(st.sampled_from(["{}", "max({}, 0)", "({}) * 0.5"]))).format(value)
        used = [i for i in INDICES if any(i in t for t in terms)]
        kept = draw(st.lists(st.sampled_from(used), unique=True, max_size=3))
        op = draw(st.sampled_from(["+=", "max=", "min="])) if set(kept) != set(used) else draw(st.sampled_from(["=", "+="]))
        where = f" where {used[0]} <= {used[-1]} + 2" if draw(st.integers(0, 5)) == 0 else ""
        lines.append(f"T{n}[{','.join(kept)}] {op} {value}{where}")
        if kept:
            results.append((f"T{n}", ",".join(kept)))
    text = "\n".join(lines)
    try:
        program = build(text, shapes)
    except errors.CompileError:
        assume(False)
        raise
    assume(all(t.size <= 4000 for t in program.tensors))
    note(f"{text!r}, {shapes}")
    return program


@given(programs(), st.sampled_from(["cpu", "interp"]), st.sampled_from([None, None, "isl", "program"]))
@SETTINGS
def test_every_target_and_schedule_agrees_with_the_evaluator(program: Program, target: str, schedule: str | None) -> None:
    check(program, target, schedule)


@pytest.mark.long
@given(programs(), st.sampled_from(["cpu", "interp"]), st.sampled_from([None, None, "isl", "program"]))
@settings(SETTINGS, max_examples=200)
def test_many_programs_agree_with_the_evaluator(program: Program, target: str, schedule: str | None) -> None:
    check(program, target, schedule)


@given(programs(), st.data())
@SETTINGS
def test_transformed_schedules_are_right_or_refused(program: Program, data: st.DataObject) -> None:
    right_or_refused(program, data)


@pytest.mark.long
@given(programs(), st.data())
@settings(SETTINGS, max_examples=200)
def test_many_transformed_schedules_are_right_or_refused(program: Program, data: st.DataObject) -> None:
    right_or_refused(program, data)


def right_or_refused(program: Program, data: st.DataObject) -> None:
    facts = scop.extract(program)
    deps = dependences.analyse(facts)
    schedule = checked(Schedule(facts.original), deps)
    for s in program.statements:
        if not s.ranges:
            continue
        try:
            schedule = transforms.interchange(schedule, s.name, data.draw(st.permutations(range(len(s.ranges)))), deps)
            sizes = data.draw(st.lists(st.integers(1, 5), min_size=len(s.ranges), max_size=len(s.ranges)))
            schedule = transforms.tile(schedule, s.name, sizes, deps)
        except errors.IllegalTransform as refusal:
            witness = str(refusal)
            assert "must run before" in witness
    check(program, "cpu", str(schedule))
