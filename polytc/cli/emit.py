"""`polytc emit`: print a stage of the compilation, or what a step of rewriting or a pass over loops left."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import polytc
from polytc import compiler
from polytc.cli import options
from polytc.cli.model_programs import Kernel, chosen, is_model, refuse_for_models
from polytc.codegen.passes import PASSES
from polytc.decisions import Alternative, Record
from polytc.options import REQUESTS, check_licence
from polytc.program.program import Program
from polytc.rewrite import table as rewrites
from polytc.rewrite.tidy import hoist

if TYPE_CHECKING:
    from polytc.compiler import Lowered


STAGES = ("program", "rewritten", "decisions", "alternatives", "scop", "deps", "schedule", "ast", "loops", "source", "asm",
          "all")
"""What can be printed besides steps and passes, in the order of the pipeline."""


STAGE_HELP = f"{', '.join(STAGES)} (up to source), a step of rewriting such as pack, or a pass over loops such as vectorize."


def _named(stage: str) -> str:
    """The name of a stage, a step or a pass. Raises BadParameter with the names there are."""
    steps, passes = (list(dict.fromkeys(x.name for x in t)) for t in ((*rewrites.steps(), hoist.STEP), PASSES))
    if stage not in (*STAGES, *steps, *passes):
        raise typer.BadParameter(f"there is no stage {stage!r}. Stages: {', '.join(STAGES)}. Steps of rewriting: "
                                 f"{', '.join(steps)}. Passes over loops: {', '.join(passes)}.")
    return stage


def emit(program: options.Source,
         stage: Annotated[str, typer.Option(callback=_named, metavar="NAME", help=STAGE_HELP)] = "source",
         target: options.Target = "cpu",
         shape: options.ImpliedShape = None, dtype: options.DType = None, attr: options.Attr = None,
         scalar: options.Scalar = None, typical: options.Typical = None,
         algebra: options.Algebra = None, fast: options.Fast = False,
         schedule: Annotated[str | None, typer.Option(metavar="FILE|WORD", help="Or min, smart, max, isl, program.")] = None,
         decisions: options.Decisions = None, machine: options.Machine = None,
         kernel: Kernel = None,
         output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file instead.")] = None) -> None:
    """Print a stage of the compilation. No device is needed."""
    if is_model(program):
        refuse_for_models(dtype, attr, scalar, schedule, decisions, machine, typical)
        printed = "\n\n".join(f"{title}\n{_of_program(made, target, stage, schedule)}" for title, made in chosen(
            program, options.shapes(shape), target, check_licence(algebra, fast), kernel))
        _write(printed, output)
        return
    text = options.read_text(program)
    target, machine = options.target_and_machine(target, machine)
    arguments: dict[str, Any] = {"shapes": options.shapes_of(text, shape), "dtypes": options.pairs(dtype, "--dtype"),
                 "attrs": options.values(attr, "--attr"), "scalars": options.values(scalar, "--scalar"),
                 "typical": options.values(typical, "--typical")}
    decided = decisions.read_text(encoding="utf-8") if decisions is not None else None
    if stage == "program":
        printed = str(polytc.build(text, **arguments))
    elif stage == "alternatives":
        ways = polytc.alternatives(text, target, decided, **arguments, schedule=schedule, algebra=algebra, fast=fast,
                                   machine=machine)
        printed = _alternatives(ways)
    else:
        recipe = schedule if schedule in REQUESTS else Path(schedule).read_text(encoding="utf-8")
        printed = _stage(polytc.lower(text, target, **arguments, schedule=recipe, algebra=algebra, fast=fast,
                                      decisions=decided, machine=machine), stage)
    _write(printed, output)


def _write(printed: str, output: Path | None) -> None:
    if output is None:
        print(printed)
    else:
        output.write_text(printed + "\n", encoding="utf-8")


def _of_program(program: Program, target: str, stage: str, schedule: str | None) -> str:
    """A stage of one kernel of a model."""
    if stage == "program":
        return str(program)
    if stage == "alternatives":
        return _alternatives(compiler.alternatives(program, target, Record()))
    return _stage(compiler.lower_program(program, target, schedule), stage)


def _alternatives(ways: Iterable[Alternative]) -> str:
    """The lines of each; apart, where one has several."""
    found = tuple(ways)
    between = "\n\n" if any(len(way.entries) > 1 for way in found) else "\n"
    return between.join(map(str, found)) or "# the record leaves nothing open"


def _stage(lowered: Lowered, stage: str) -> str:
    if stage == "asm":
        assembly = getattr(lowered.target, "assembly", None)
        if assembly is None:
            raise typer.BadParameter(f"the target {lowered.target.name!r} has no assembly; --stage source is its last stage")
        return str(assembly(lowered.source))
    how = f"# {lowered.schedule.how}\n" if lowered.schedule.how else ""
    values: dict[str, object] = {
        "program": lowered.program, "rewritten": lowered.rewritten, "decisions": lowered.decisions, "scop": lowered.scop,
        "deps": lowered.dependences,
        "schedule": f"{how}{lowered.schedule}", "loops": lowered.loops, "source": lowered.source}
    if stage == "all":
        return "\n\n".join(f"# {name}\n{value}" for name, value in values.items())
    return str(values[stage]) if stage in values else _behind(lowered, stage)


def _behind(lowered: Lowered, name: str) -> str:
    """The program behind a step of rewriting, below what it did and why; or the loops behind a pass."""
    for record in reversed(lowered.steps):
        if record.step == name:
            return "\n".join([*(f"# {line}" for line in str(record).splitlines()), str(record.program)])
    loops = dict(lowered.passes).get(name)
    if loops is None:
        raise typer.BadParameter(f"{name} is no step for {lowered.target.name!r}" if lowered.steps else
                                 f"a schedule for the program as written leaves out {name}")
    return str(loops)
