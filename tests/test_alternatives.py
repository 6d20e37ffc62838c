"""The tree of alternatives: what a record leaves open, in order, made as it is asked for."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import polytc
from polytc import decisions, errors
from polytc.cli import app
from polytc.decisions import Alternative, Entry, Record
from polytc.machine import AVX512, Machine
from polytc.program.program import Program
from polytc.rewrite.step import Decision, Option, Step, independent
from polytc.schedule import automatic
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.decided_programs import PROGRAMS

HEAD = f"{decisions.HEAD} {decisions.VERSION}\n"
CPU = LLVMTarget(AVX512)
MATMUL, SHAPES = PROGRAMS["matmul"]


def ways(text: str, so_far: str = "", most: int = 99, name: str = "matmul") -> list[Alternative]:
    text, shapes = PROGRAMS[name] if not text else (text, {n: (128, 128) for n in "AB" if n in text})
    return list(itertools.islice(polytc.alternatives(text, CPU, HEAD + so_far if so_far else None, shapes=shapes), most))


@pytest.mark.parametrize(("name", "so_far", "step"), [
    ("matmul", "", "pack"), ("convolution", "", "winograd"), ("attention", "", "factors"),
    ("attention", "pack: none\n", "factors"),
    ("attention", "factors: none\n", "pack"), ("attention", "factors: none\npack: none\n", "lanes"),
    ("attention", "factors: none\npack: none\nlanes: none\n", "row_blocks"), ("bias", "pack: none\n", "fusion"),
    ("bias", "pack: none\nfusion: policy=min\n", "threads"),
    ("bias", "pack: none\nfusion: policy=min\nthreads: parallel=no\n", "tile"),
    ("heat", "", "band"), ("heat", "band S1: sizes=4,0\n", "threads")])
def test_the_first_open_decision(name: str, so_far: str, step: str) -> None:
    found = ways("", so_far, name=name)
    assert {e.step for way in found for e in way.entries} == {step}
    assert len(found) > 1
    assert len({tuple(map(str, _bare(way.entries))) for way in found}) == len(found), "each is offered once"


def _bare(entries: tuple[Entry, ...]) -> list[Entry]:
    return [Entry(e.step, e.statement, e.what, e.values) for e in entries]


@pytest.mark.parametrize(("name", "so_far"), [("matmul", ""), ("matmul", "pack: none\nthreads: parallel=yes\n"),
                                              ("convolution", "")])
def test_costs_are_seconds(name: str, so_far: str) -> None:
    """Twice the clock: half of them."""
    text, shapes = PROGRAMS[name]
    fast = LLVMTarget(replace(AVX512, clock=2 * AVX512.clock))
    slow, quick = (next(polytc.alternatives(text, target, HEAD + so_far if so_far else None, shapes=shapes))
                   for target in (CPU, fast))
    assert slow.cost is not None
    assert quick.cost == pytest.approx(slow.cost / 2)


@pytest.mark.parametrize(("name", "so_far"), [("matmul", ""), ("convolution", ""), ("bias", "pack: none\n"), ("heat", ""),
                                              ("matmul", "pack: none\nthreads: parallel=yes\n")])
def test_the_order_is_that_of_the_estimates(name: str, so_far: str) -> None:
    """Behind polytc's own."""
    costs = [way.cost for way in ways("", so_far, name=name)]
    known = [c for c in costs[1:] if c is not None]
    assert known == sorted(known)
    assert costs[0] is not None
    assert known


def test_a_record_keeps_the_lines_that_are_still_to_come() -> None:
    later = "tile S1_init: rows=i,j sizes=3,8 order=j,i\n"
    way = ways("", later, most=1)[0]
    steps = [e.step for e in way.record.entries]
    assert steps[-2:] == ["pack", "tile"]
    assert steps.index("inline") < steps.index("pack")
    while found := list(itertools.islice(polytc.alternatives(MATMUL, CPU, way.record, shapes=SHAPES), 1)):
        way = found[0]
    assert [str(e) for e in way.record.entries if e.step == "tile" and e.statement == "S1_init"] == [later.strip()]
    assert ways("", str(way.record).removeprefix(HEAD)) == [], "a whole record has no alternatives"


@pytest.mark.long
def test_combinations_are_made_as_they_are_asked_for() -> None:
    """Ten products in a chain have 9 ** 10 combinations of what may be packed; the cheapest come first."""
    names = [f"T{n}" for n in range(11)]
    text = "; ".join(f"{b}[i,j] += {a}[i,k]*B[k,j]" for a, b in itertools.pairwise(["A", *names[1:]]))
    found = ways(text, most=40)
    assert len(found) == 40
    assert len({str(way.record) for way in found}) == 40
    costs = [way.cost for way in found if way.cost is not None]
    assert costs[1:] == sorted(costs[1:])


def test_later_stages_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a later stage runs")
    monkeypatch.setattr(automatic, "schedule", never)
    assert ways("")[0].entries[0].step == "pack"
    monkeypatch.undo()
    monkeypatch.setattr("polytc.codegen.astgen.generate", never)
    assert ways("", "pack: none\n")[0].entries[0].step == "threads"


def test_what_may_be_asked(tmp_path: Path) -> None:
    for name in ("schedule", "fusion", "decisions"):
        with pytest.raises(errors.ArgumentError, match="E410"):
            polytc.alternatives(MATMUL, CPU, shapes=SHAPES, **{name: "min"})  # type: ignore[arg-type]
    with pytest.raises(errors.ArgumentError, match="E410"):
        polytc.alternatives(MATMUL, CPU, 3, shapes=SHAPES)  # type: ignore[arg-type]
    with pytest.raises(errors.CompileError, match="E709"):
        polytc.alternatives(MATMUL, CPU, HEAD + "packs: none", shapes=SHAPES)
    with pytest.raises(errors.CompileError, match="E710"):
        ways("", "pack S1: tensor=B operand=1 along=k width=32\n")
    shapes = [a for n, s in SHAPES.items() for a in ("--shape", f"{n}={','.join(map(str, s))}")]
    shapes += ["--algebra", "direct"]  # a matrix unit would be asked about first
    command, by = ["emit", MATMUL, *shapes, "--stage", "alternatives"], tmp_path / "record"
    printed = CliRunner().invoke(app, command).output.splitlines()
    by.write_text(HEAD + next(line for line in printed if "width=32" in line) + "\n", encoding="utf-8")
    assert CliRunner().invoke(app, [*command, "--decisions", str(by)]).output.startswith("outer S1_init: joins=none\n")
    told = CliRunner().invoke(app, ["emit", MATMUL, *shapes, "--stage", "decisions", "--decisions", str(by)]).output
    by.write_text(told, encoding="utf-8")
    assert CliRunner().invoke(app, [*command, "--decisions", str(by)]).output == "# the record leaves nothing open\n"


def test_open_sizes_and_described_devices() -> None:
    shapes = {"A": ("M", "K"), "B": ("K", "N")}
    assert next(polytc.alternatives(MATMUL, CPU, shapes=shapes)).entries[0].step == "pack"
    found = itertools.islice(polytc.alternatives(MATMUL, OpenCLTarget(), shapes=shapes), 500)
    assert {e.step for way in found for e in way.entries} == {"local_tiles"}


def test_a_step_of_others_without_options_is_done_or_not() -> None:
    """And one with them is offered all, the nothing too."""
    def decide(program: Program, machine: Machine) -> Decision:
        return Decision(machine, (Entry("x", "S1"),))
    plain = Step("x", "", lambda program, _: program, decide, choice=Entry)
    program = polytc.build("Y[i] = X[i]", {"X": (4,)})
    assert len(list(plain.alternatives(program, AVX512))) == 2
    costly = [[Option((), 3.0), Option((Entry("x", "S1"),), 5.0), Option((Entry("x", "S2"),), 1.0)]]
    step = Step("x", "", lambda program, _: program, decide, choice=Entry, options=independent(lambda program, machine: costly))
    assert [way.cost for way in step.alternatives(program, AVX512)] == [5.0, 1.0, 3.0]


def test_an_alternative_prints_as_lines_of_a_record() -> None:
    entries = (Entry("loop", "S1", "", (("by", "isl"),), "why"), Entry("loop", "S2", "", (("by", "text"),)))
    lines = str(Alternative(entries, 12.0, Record())).splitlines()
    assert lines == ["loop S1: by=isl  # 12 seconds, why", "loop S2: by=text  # 12 seconds"]
    assert str(Alternative(entries[1:], None, Record())) == "loop S2: by=text"
