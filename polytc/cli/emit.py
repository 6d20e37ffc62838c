"""`polytc emit`: print a stage of the compilation."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import polytc
from polytc import compiler
from polytc.cli import options
from polytc.cli.model_programs import Kernel, chosen, is_model, refuse_for_models
from polytc.options import check_licence
from polytc.program.program import Program
from polytc.schedule import automatic

if TYPE_CHECKING:
    from polytc.compiler import Lowered


class Stage(str, Enum):
    """What can be printed, in the order of the pipeline."""

    program = "program"
    rewritten = "rewritten"
    scop = "scop"
    deps = "deps"
    schedule = "schedule"
    loops = "loops"
    source = "source"
    asm = "asm"
    all = "all"


def emit(program: options.Source,
         stage: Annotated[Stage, typer.Option(help="Which stage to print; all: all up to source.")] = Stage.source,
         target: options.Target = "cpu",
         shape: options.OpenShape = None, dtype: options.DType = None, attr: options.Attr = None, scalar: options.Scalar = None,
         algebra: options.Algebra = None, fast: options.Fast = False,
         schedule: Annotated[str | None, typer.Option(metavar="FILE|WORD", help="Or min, smart, max, isl, program.")] = None,
         kernel: Kernel = None,
         output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file instead.")] = None) -> None:
    """Print a stage of the compilation. No device is needed."""
    if is_model(program):
        refuse_for_models(dtype, attr, scalar, schedule)
        printed = "\n\n".join(f"{title}\n{_of_program(made, target, stage, schedule)}" for title, made in chosen(
            program, options.shapes(shape), target, check_licence(algebra, fast), kernel))
        _write(printed, output)
        return
    text = options.read_text(program)
    arguments: dict[str, Any] = {"shapes": options.open_shapes(shape), "dtypes": options.pairs(dtype, "--dtype"),
                 "attrs": options.values(attr, "--attr"), "scalars": options.values(scalar, "--scalar")}
    if stage is Stage.program:
        printed = str(polytc.build(text, **arguments))
    else:
        recipe = schedule if schedule in automatic.REQUESTS else Path(schedule).read_text(encoding="utf-8")
        printed = _stage(polytc.lower(text, target, **arguments, schedule=recipe, algebra=algebra, fast=fast), stage)
    _write(printed, output)


def _write(printed: str, output: Path | None) -> None:
    if output is None:
        print(printed)
    else:
        output.write_text(printed + "\n", encoding="utf-8")


def _of_program(program: Program, target: str, stage: Stage, schedule: str | None) -> str:
    """A stage of one kernel of a model."""
    if stage is Stage.program:
        return str(program)
    return _stage(compiler.lower_program(program, target, schedule), stage)


def _stage(lowered: Lowered, stage: Stage) -> str:
    if stage is Stage.asm:
        assembly = getattr(lowered.target, "assembly", None)
        if assembly is None:
            raise typer.BadParameter(f"the target {lowered.target.name!r} has no assembly; --stage source is its last stage")
        return str(assembly(lowered.source))
    how = f"# {lowered.schedule.how}\n" if lowered.schedule.how else ""
    values = {Stage.program: lowered.program, Stage.rewritten: lowered.rewritten, Stage.scop: lowered.scop,
              Stage.deps: lowered.dependences, Stage.schedule: f"{how}{lowered.schedule}", Stage.loops: lowered.loops,
              Stage.source: lowered.source}
    if stage is Stage.all:
        return "\n\n".join(f"# {name.value}\n{value}" for name, value in values.items())
    return str(values[stage])
